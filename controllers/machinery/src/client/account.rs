//! Requests in the name of a service account, by tokens that are asked for and renewed (upstream `controller-manager/pkg/clientbuilder`
//! `DynamicControllerClientBuilder`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request};
use model::plan::ApiError;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{ApiClient, CallError, Class};
use crate::clock::Clock;
use crate::source::Backoff;

/// In whose name requests are made. Clones share the token.
#[derive(Clone, Debug)]
pub struct Identity {
    token: watch::Receiver<Option<HeaderValue>>,
    doubt: Arc<Notify>,
}

/// The task that keeps an [`Identity`]'s token fresh.
#[derive(Debug)]
pub struct TokenKeeper {
    client: ApiClient,
    namespace: &'static str,
    account: &'static str,
    token: watch::Sender<Option<HeaderValue>>,
    doubt: Arc<Notify>,
    clock: Clock,
    backoff: Backoff,
}

/// What is asked for (upstream `defaultExpirationSeconds`).
const LIFETIME: Duration = Duration::from_hours(1);
/// A token is renewed when so much of its life is over.
const RENEWED_AFTER: f64 = 0.8;
/// No server is asked more often, whatever lifetime it gives.
const LEAST: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct TokenRequest {
    spec: Spec,
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    expiration_seconds: Option<u64>,
}

#[derive(Deserialize)]
struct Status {
    token: String,
}

/// An identity, and the task without which it never gets a token. `client` has the right to create the account and tokens for it.
pub fn service_account(
    client: ApiClient,
    namespace: &'static str,
    account: &'static str,
    clock: Clock,
    seed: u64,
) -> (Identity, TokenKeeper) {
    let (token, reader) = watch::channel(None);
    let doubt = Arc::new(Notify::new());
    let identity = Identity { token: reader, doubt: Arc::clone(&doubt) };
    (identity, TokenKeeper { client, namespace, account, token, doubt, clock, backoff: Backoff::new(seed) })
}

// === impl Identity ===

impl Identity {
    /// The Authorization header; waits for the first token. `None` once nobody renews it any more.
    pub(super) async fn header(&self) -> Option<HeaderValue> {
        self.token.clone().wait_for(Option::is_some).await.ok().and_then(|token| token.clone())
    }

    /// The server does not know this token any more: its account was made anew, or the key that had signed it was replaced. Another one is
    /// asked for at once (client-go `transport/token_source.go` `ResetTokenOlderThan`).
    pub(super) fn refused(&self, used: &HeaderValue) {
        if self.token.borrow().as_ref() == Some(used) {
            self.doubt.notify_one();
        }
    }
}

#[cfg(test)]
impl Identity {
    /// Waits for another token than the one that was seen last.
    pub(super) async fn changed(&mut self) {
        self.token.mark_unchanged();
        self.token.changed().await.unwrap();
    }
}

// === impl TokenKeeper ===

impl TokenKeeper {
    /// Asks for tokens until told to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        let work = async {
            loop {
                let asked = Instant::now();
                match self.ask().await {
                    Ok((token, lifetime)) => {
                        debug!(account = self.account, ?lifetime, "Got a token");
                        self.token.send_replace(Some(token));
                        let renewal = tokio::time::sleep_until(asked + lifetime.mul_f64(RENEWED_AFTER).max(LEAST));
                        tokio::select! {
                            () = renewal => {}
                            () = self.doubt.notified() => tokio::time::sleep_until(asked + LEAST).await,
                        }
                    }
                    Err(error) => {
                        warn!(account = self.account, %error, "Cannot get a token for a controller's service account");
                        tokio::time::sleep(self.backoff.delay(self.clock.now())).await;
                    }
                }
            }
        };
        let _: Option<std::convert::Infallible> = stop.run_until_cancelled(work).await;
    }

    /// A token, and how long it is good for. An account that is not there is made first (upstream `getOrCreateServiceAccount`).
    async fn ask(&self) -> Result<(HeaderValue, Duration), ApiError> {
        let wanted = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": LIFETIME.as_secs()},
        });
        let accounts = format!("/api/v1/namespaces/{}/serviceaccounts", self.namespace);
        let tokens = format!("{accounts}/{}/token", self.account);
        let answer = match self.post(&tokens, &wanted).await {
            Err(error) if error.is_not_found() => {
                let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": self.account}});
                match self.post(&accounts, &account).await {
                    // Another replica was faster.
                    Err(error) if !error.is_already_exists() => return Err(error),
                    _ => self.post(&tokens, &wanted).await?,
                }
            }
            answer => answer?,
        };
        let unusable = |message: String| ApiError { message, ..ApiError::default() };
        let read: TokenRequest = serde_json::from_slice(&answer).map_err(|error| unusable(format!("TokenRequest: {error}")))?;
        let mut header = HeaderValue::from_str(&format!("Bearer {}", read.status.token)).map_err(|error| unusable(error.to_string()))?;
        header.set_sensitive(true);
        Ok((header, read.spec.expiration_seconds.map_or(LIFETIME, Duration::from_secs)))
    }

    async fn post(&self, path: &str, body: &serde_json::Value) -> Result<Bytes, ApiError> {
        let request = Request::builder().method(Method::POST).uri(path).header(CONTENT_TYPE, "application/json");
        let request = request.body(Bytes::from(body.to_string()));
        let request = request.map_err(|error| ApiError { message: error.to_string(), ..ApiError::default() })?;
        self.client.send(request, Class::Write).await.map(|answer| answer.body).map_err(CallError::into_error)
    }
}
