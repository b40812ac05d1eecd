//! Who may read what: the privileged group, the paths that are open to everybody, and what the API server says (upstream apiserver
//! `pkg/server/options/authorization.go` `toAuthorizer`).

use std::time::Duration;

use super::cache::Cache;
use super::reviews::{Access, Reviewer};
use super::user::User;
use crate::options::AuthorizationOptions;

/// Decisions that are remembered.
const DECISIONS: usize = 1024;
/// What is longer is not remembered (upstream `plugin/pkg/authorizer/webhook/webhook.go` `shouldCache`).
const LONGEST_KEY: usize = 10_000;

/// Says who may read what.
#[derive(Clone)]
pub(crate) struct Authorization {
    open: OpenPaths,
    reviews: Option<Reviews>,
}

/// What is decided about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Go on.
    Allow,
    /// No, and why, if that is known.
    Forbid(String),
    /// Nobody could be asked.
    Failed(String),
}

/// Paths that need no permission (upstream `pkg/authorization/path/path.go`).
#[derive(Clone, Debug)]
struct OpenPaths {
    exact: Vec<String>,
    prefixes: Vec<String>,
}

#[derive(Clone)]
struct Reviews {
    reviewer: Reviewer,
    cache: Cache<String, Access>,
    allowed: Duration,
    forbidden: Duration,
}

// === impl Authorization ===

impl Authorization {
    /// Without a reviewer only the exceptions work.
    pub(crate) fn new(options: &AuthorizationOptions, reviewer: Option<Reviewer>) -> Self {
        let reviews = reviewer.map(|reviewer| Reviews {
            reviewer,
            cache: Cache::new(DECISIONS),
            allowed: options.authorization_webhook_cache_authorized_ttl,
            forbidden: options.authorization_webhook_cache_unauthorized_ttl,
        });
        Self { open: OpenPaths::new(&options.authorization_always_allow_paths), reviews }
    }

    /// Whether the user may do that.
    pub(crate) async fn decide(&self, user: &User, verb: &str, path: &str) -> Decision {
        if user.is_master() || self.open.contains(path) {
            return Decision::Allow;
        }
        match &self.reviews {
            Some(reviews) => reviews.decide(user, verb, path).await,
            None => Decision::Forbid(String::new()),
        }
    }
}

// === impl OpenPaths ===

impl OpenPaths {
    fn new(paths: &[String]) -> Self {
        let paths = paths.iter().map(|path| path.strip_prefix('/').unwrap_or(path));
        let (prefixes, exact): (Vec<_>, Vec<_>) = paths.partition(|path| path.ends_with('*'));
        let prefixes = prefixes.into_iter().map(|prefix| prefix.trim_end_matches('*').to_owned()).collect();
        Self { exact: exact.into_iter().map(str::to_owned).collect(), prefixes }
    }

    fn contains(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        self.exact.iter().any(|open| open == path) || self.prefixes.iter().any(|prefix| path.starts_with(prefix.as_str()))
    }
}

// === impl Reviews ===

impl Reviews {
    /// Upstream `WebhookAuthorizer.Authorize`.
    async fn decide(&self, user: &User, verb: &str, path: &str) -> Decision {
        let key = match serde_json::to_string(&(user, verb, path)) {
            Ok(key) => key,
            Err(error) => return Decision::Failed(error.to_string()),
        };
        let access = if key.len() > LONGEST_KEY {
            self.reviewer.access(user, verb, path).await
        } else {
            let (reviewer, user, verb, path) = (self.reviewer.clone(), user.clone(), verb.to_owned(), path.to_owned());
            let ask = move || async move { reviewer.access(&user, &verb, &path).await };
            let (allowed, forbidden) = (self.allowed, self.forbidden);
            self.cache.get(key, ask, move |access| if access.allowed { allowed } else { forbidden }).await
        };
        match access {
            Ok(access) if access.denied && access.allowed => {
                Decision::Failed("webhook subject access review returned both allow and deny response".to_owned())
            }
            Ok(access) if access.allowed => Decision::Allow,
            Ok(access) => Decision::Forbid(access.reason),
            Err(error) => Decision::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_paths_are_exact_or_prefixes() {
        let paths = ["/healthz", "metrics/*", "/"].map(str::to_owned);
        let open = OpenPaths::new(&paths);
        for (path, is_open) in [
            ("/healthz", true),
            ("/healthz/ping", false),
            ("/healthzz", false),
            ("/metrics/slis", true),
            ("/metrics", false),
            ("/", true),
            ("", true),
            ("/configz", false),
        ] {
            assert_eq!(open.contains(path), is_open, "{path}");
        }
        assert!(OpenPaths::new(&["*".to_owned()]).contains("/anything"));
    }
}
