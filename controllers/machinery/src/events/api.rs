//! Events written through the API client.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use model::plan::ApiError;

use super::EventWriter;
use crate::client::{ApiClient, CallError, Class};

impl EventWriter for ApiClient {
    async fn create(&self, namespace: &str, body: Vec<u8>) -> Result<(), ApiError> {
        send(self, Method::POST, format!("/api/v1/namespaces/{namespace}/events"), "application/json", body).await
    }

    async fn patch(&self, namespace: &str, name: &str, body: Vec<u8>) -> Result<(), ApiError> {
        let path = format!("/api/v1/namespaces/{namespace}/events/{name}");
        send(self, Method::PATCH, path, "application/strategic-merge-patch+json", body).await
    }
}

async fn send(client: &ApiClient, method: Method, path: String, content: &str, body: Vec<u8>) -> Result<(), ApiError> {
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, content).header(ACCEPT, "application/json");
    let request =
        request.body(Bytes::from(body)).map_err(|error| ApiError { code: 400, message: error.to_string(), ..ApiError::default() })?;
    client.send(request, Class::Write).await.map(|_| ()).map_err(CallError::into_error)
}
