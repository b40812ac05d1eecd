//! Events written through the API client.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use model::plan::ApiError;

use super::EventWriter;
use crate::client::{ApiClient, CallError, Class, no_answer};
use crate::fence::Fence;

/// An [`EventWriter`] over an [`ApiClient`], as long as the fence lets it: whoever may not write has nothing to tell.
#[derive(Clone, Debug)]
pub struct ApiWriter {
    client: ApiClient,
    fence: Fence,
}

// === impl ApiWriter ===

impl ApiWriter {
    /// A writer over this client.
    pub fn new(client: ApiClient, fence: Fence) -> Self {
        Self { client, fence }
    }

    async fn send(&self, method: Method, path: String, content: &str, body: Vec<u8>) -> Result<(), ApiError> {
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, content).header(ACCEPT, "application/json");
        let request =
            request.body(Bytes::from(body)).map_err(|error| ApiError { code: 400, message: error.to_string(), ..ApiError::default() })?;
        let turn = self.client.turn(request.method()).await;
        // Only now: the wait for a turn can outlast a lease.
        if !self.fence.may_write() {
            return Err(no_answer("Fenced", "the lease is not held"));
        }
        turn.send(request, Class::Write).await.map(|_| ()).map_err(CallError::into_error)
    }
}

impl EventWriter for ApiWriter {
    async fn create(&self, namespace: &str, body: Vec<u8>) -> Result<(), ApiError> {
        self.send(Method::POST, format!("/api/v1/namespaces/{namespace}/events"), "application/json", body).await
    }

    async fn patch(&self, namespace: &str, name: &str, body: Vec<u8>) -> Result<(), ApiError> {
        let path = format!("/api/v1/namespaces/{namespace}/events/{name}");
        self.send(Method::PATCH, path, "application/strategic-merge-patch+json", body).await
    }
}
