//! What can be read: a table of paths, to which the rest of the program adds its own.

pub(crate) mod configz;
mod flags;
mod health;
pub(crate) mod inspection;
mod metrics;
mod zpages;

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use parking_lot::RwLock;

use super::Served;
use super::answer::{self, Body};

/// A request that was let in.
#[derive(Debug)]
pub(crate) struct Asked {
    /// GET most of the time.
    pub(crate) method: Method,
    /// The whole path.
    pub(crate) path: String,
    /// The query, decoded.
    pub(crate) query: Vec<(String, String)>,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body, where the method has one.
    pub(crate) body: Bytes,
}

/// Whether `/statusz` tells of a page (upstream's `Handle` and `UnlistedHandle`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// Answers for a page, quickly: other requests wait meanwhile. An answer may go on as a stream.
type Handler = Arc<dyn Fn(&Asked) -> Response<Body> + Send + Sync>;

struct Page {
    /// All that begins with it, if it ends with a slash.
    path: &'static str,
    listed: Listed,
    handler: Handler,
}

/// The pages. Clones share them; more may be added at any time.
#[derive(Clone, Default)]
pub(crate) struct Pages(Arc<RwLock<Vec<Page>>>);

// === impl Asked ===

impl Asked {
    pub(crate) fn new(request: &Parts, body: Bytes) -> Self {
        let query = request.uri.query().unwrap_or_default().as_bytes();
        Self {
            method: request.method.clone(),
            path: request.uri.path().to_owned(),
            query: form_urlencoded::parse(query).into_owned().collect(),
            headers: request.headers.clone(),
            body,
        }
    }

    /// The first value of a query parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

// === impl Pages ===

impl Pages {
    /// Adds a page, or all pages below a path that ends with a slash. The longest path that fits answers.
    pub(crate) fn add(&self, path: &'static str, listed: Listed, handler: impl Fn(&Asked) -> Response<Body> + Send + Sync + 'static) {
        self.0.write().push(Page { path, listed, handler: Arc::new(handler) });
    }

    /// The answer to a request.
    pub(crate) fn answer(&self, asked: &Asked) -> Response<Body> {
        let handler = {
            let pages = self.0.read();
            let fits = |page: &&Page| asked.path == page.path || (page.path.ends_with('/') && asked.path.starts_with(page.path));
            pages.iter().filter(fits).max_by_key(|page| page.path.len()).map(|page| Arc::clone(&page.handler))
        };
        handler.map_or_else(answer::not_found, |handler| handler(asked))
    }

    /// The first parts of all listed paths, sorted (upstream statusz `aggregatePaths`).
    fn listed(&self) -> Vec<String> {
        let pages = self.0.read();
        let first = pages.iter().filter(|page| page.listed == Listed::Yes).filter_map(|page| page.path.split('/').nth(1));
        let mut paths: Vec<_> = first.map(|first| format!("/{first}")).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }
}

/// Adds the pages that upstream's component has, and those of our own that look into it.
pub(crate) fn install(served: &Served) -> anyhow::Result<()> {
    let pages = &served.pages;
    let slis = metrics::Slis::new()?;
    health::install(pages, &served.checks, &slis);
    metrics::install(pages, &served.registry, slis, &served.options.metrics.disabled_metrics);
    configz::install(pages, &served.options);
    zpages::install(pages, &served.options.given);
    if served.options.debugging.profiling {
        flags::install(pages, &served.verbosity);
        pages.add("/debug/pprof/", Listed::No, |_| no_profile());
        pages.add("/debug/pprof", Listed::No, |_| no_profile());
    }
    served.inspection.install(pages);
    Ok(())
}

fn no_profile() -> Response<Body> {
    let reason = "there are no Go profiles of a program that is not written in Go; use perf, which needs nothing of the process";
    answer::error(StatusCode::NOT_IMPLEMENTED, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str) -> Asked {
        Asked { method: Method::GET, path: path.to_owned(), query: Vec::new(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    #[test]
    fn the_longest_path_that_fits_answers() {
        let pages = Pages::default();
        pages.add("/metrics", Listed::Yes, |_| answer::answer(StatusCode::OK, "1", ""));
        pages.add("/metrics/slis", Listed::Yes, |_| answer::answer(StatusCode::OK, "2", ""));
        pages.add("/debug/", Listed::No, |_| answer::answer(StatusCode::OK, "3", ""));
        pages.add("/debug/flags/v", Listed::No, |_| answer::answer(StatusCode::OK, "4", ""));
        for (path, page) in [("/metrics", "1"), ("/metrics/slis", "2"), ("/debug/x", "3"), ("/debug/", "3"), ("/debug/flags/v", "4")] {
            assert_eq!(pages.answer(&asked(path)).headers()["content-type"], page, "{path}");
        }
        for path in ["/debug", "/metrics/", "/metrics/slis/x", "/", "", "/healthz"] {
            assert_eq!(pages.answer(&asked(path)).status(), 404, "{path}");
        }
        assert_eq!(pages.listed(), ["/metrics"]);
    }
}
