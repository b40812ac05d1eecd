//! Questions to the API server: whose a token is, what a user may do, and what it publishes about clients of servers like this one.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use machinery::client::{Answer, ApiClient, CallError, Class, ClientMetrics, ClientOptions};
use serde::Deserialize;
use serde_json::json;

use super::user::User;

/// Upstream's `TokenRequestTimeout` and `ClientTimeout`.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Upstream's `DefaultAuthWebhookRetryBackoff`.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;
const STEPS: u32 = 5;
/// Upstream's `authenticationConfigMapName`, in `kube-system`.
const PUBLISHED: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/// Asks an API server.
#[derive(Clone)]
pub(crate) struct Reviewer(ApiClient);

/// What a SubjectAccessReview says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Access {
    pub(super) allowed: bool,
    pub(super) denied: bool,
    pub(super) reason: String,
}

#[derive(Deserialize)]
struct Reviewed<T> {
    status: T,
}

/// What a TokenReview says.
#[derive(Deserialize, Default)]
#[serde(default)]
struct TokenStatus {
    authenticated: bool,
    error: String,
    user: UserInfo,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct UserInfo {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

// === impl Reviewer ===

impl Reviewer {
    /// A client with a connection and a rate limit of its own, as high as upstream's: these answers are what readers wait for.
    pub(crate) fn new(config: &kube::Config, options: &ClientOptions, metrics: &ClientMetrics) -> anyhow::Result<Self> {
        let options = ClientOptions { qps: 200.0, burst: 400, ..options.clone() };
        Ok(Self(ApiClient::new(config, &options, metrics, true)?))
    }

    /// Whose the token is; `None` if the server does not know it.
    pub(super) async fn token(&self, token: &str) -> Result<Option<User>, String> {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let status: TokenStatus = self.review("/apis/authentication.k8s.io/v1/tokenreviews", &review).await?;
        if status.authenticated {
            let UserInfo { username, uid, groups, extra } = status.user;
            return Ok(Some(User { name: username, uid, groups, extra }));
        }
        if status.error.is_empty() { Ok(None) } else { Err(status.error) }
    }

    /// Whether the user may do that.
    pub(super) async fn access(&self, user: &User, verb: &str, path: &str) -> Result<Access, String> {
        let mut spec = serde_json::to_value(user).map_err(|error| error.to_string())?;
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("nonResourceAttributes".to_owned(), json!({"path": path, "verb": verb}));
        }
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        self.review("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await
    }

    /// The ConfigMap's data; `None` if there is no such ConfigMap.
    pub(crate) async fn published(&self) -> Result<Option<BTreeMap<String, String>>, CallError> {
        let Ok(request) = Request::get(PUBLISHED).body(Bytes::new()) else { return Ok(None) };
        match self.0.send(request, Class::Get).await {
            Ok(answer) => Ok(serde_json::from_slice::<ConfigMap>(&answer.body).ok().map(|map| map.data)),
            Err(CallError::Refused(error)) if error.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks, again if that may help, for ten seconds at most (upstream `pkg/util/webhook/webhook.go` `WithExponentialBackoff`). A review
    /// changes nothing, so it may be sent twice.
    async fn review<T: for<'a> Deserialize<'a>>(&self, path: &str, review: &serde_json::Value) -> Result<T, String> {
        let body = Bytes::from(review.to_string());
        let tries = async {
            let mut delay = FIRST_DELAY;
            let mut step = 1;
            loop {
                match self.post(path, body.clone()).await {
                    Err(error) if step < STEPS && may_pass(&error) => {
                        tokio::time::sleep(delay.mul_f64(1.0 + JITTER * fastrand::f64())).await;
                        delay = delay.mul_f64(FACTOR);
                        step += 1;
                    }
                    other => return other,
                }
            }
        };
        let answer = tokio::time::timeout(TIMEOUT, tries).await.map_err(|_| format!("no answer from the API server in {TIMEOUT:?}"))?;
        let answer = answer.map_err(|error| error.to_string())?;
        let reviewed: anyhow::Result<Reviewed<T>> = serde_json::from_slice(&answer.body).context("reading the API server's answer");
        reviewed.map(|reviewed| reviewed.status).map_err(|error| format!("{error:#}"))
    }

    async fn post(&self, path: &str, body: Bytes) -> Result<Answer, CallError> {
        let request = Request::builder().method(Method::POST).uri(path).header(CONTENT_TYPE, "application/json").body(body);
        match request {
            Ok(request) => self.0.send(request, Class::Write).await,
            Err(error) => Err(CallError::NotSent(model::plan::ApiError { message: error.to_string(), ..Default::default() })),
        }
    }
}

/// Upstream `DefaultShouldRetry`, and a connection that could not be made.
fn may_pass(error: &CallError) -> bool {
    match error {
        CallError::NotSent(_) | CallError::Lost(_) => true,
        CallError::Refused(error) => matches!(error.code, 429 | 500 | 504) || error.retry_after.is_some(),
    }
}
