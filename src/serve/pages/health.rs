//! The health pages.

use http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};

use super::metrics::Slis;
use super::{Asked, Listed, Pages};
use crate::serve::answer::{self, Body};
use crate::serve::health::{Checks, Probe};

/// Adds `/healthz`, which upstream has, and `/livez` and `/readyz`. As upstream's, none has pages for single checks below it.
pub(super) fn install(pages: &Pages, checks: &Checks, slis: &Slis) {
    for (path, probe) in [("/healthz", Probe::Healthz), ("/livez", Probe::Livez), ("/readyz", Probe::Readyz)] {
        let (checks, slis) = (checks.clone(), slis.clone());
        pages.add(path, Listed::Yes, move |asked| page(asked, probe, &checks, &slis));
    }
}

fn page(asked: &Asked, probe: Probe, checks: &Checks, slis: &Slis) -> Response<Body> {
    let excluded = asked.query.iter().filter(|(name, _)| name == "exclude").map(|(_, value)| value.clone()).collect();
    let report = checks.report(probe, asked.parameter("verbose").is_some(), &excluded);
    for (check, passed) in &report.asked {
        slis.observe(check, probe.as_str(), *passed);
    }
    let status = if report.healthy { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    let mut response = answer::answer(status, answer::TEXT, report.body);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
