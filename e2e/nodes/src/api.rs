//! Requests of the fleet and of the scheduler.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use machinery::client::{Answer, ApiClient, CallError, Class};
use model::ResourceVersion;
use model::plan::ApiError;
use serde::Deserialize;

/// The ways to change an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    Create,
    MergePatch,
    /// Lists merge by their keys, as a kubelet wants it for conditions.
    StrategicPatch,
    Delete,
}

/// Nobody needs the whole object back.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Sends one change.
pub(crate) async fn send(client: &ApiClient, verb: Verb, path: &str, body: String) -> Result<Answer, CallError> {
    client.send(request(verb, path, body)?, Class::Write).await
}

/// As [`send`], for an object that may be there already. Whether it was made now.
pub(crate) async fn create(client: &ApiClient, path: &str, body: String) -> Result<bool, CallError> {
    match send(client, Verb::Create, path, body).await {
        Ok(_) => Ok(true),
        Err(error) if error.error().code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Deletes an object that may be gone already; `body` is `DeleteOptions`.
pub(crate) async fn delete(client: &ApiClient, path: &str, body: String) -> Result<(), CallError> {
    match send(client, Verb::Delete, path, body).await {
        Err(error) if error.error().code != 404 => Err(error),
        _ => Ok(()),
    }
}

/// The version that a change has led to; unknown if the answer does not say.
pub(crate) fn version(answer: &Answer) -> ResourceVersion {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        #[serde(default)]
        resource_version: String,
    }
    let object = serde_json::from_slice::<Object>(&answer.body);
    object.map_or_else(|_| ResourceVersion::default(), |object| ResourceVersion::parse(&object.metadata.resource_version))
}

fn request(verb: Verb, path: &str, body: String) -> Result<Request<Bytes>, CallError> {
    let (method, content_type) = match verb {
        Verb::Create => (Method::POST, "application/json"),
        Verb::MergePatch => (Method::PATCH, "application/merge-patch+json"),
        Verb::StrategicPatch => (Method::PATCH, "application/strategic-merge-patch+json"),
        Verb::Delete => (Method::DELETE, "application/json"),
    };
    let builder = Request::builder().method(method).uri(path).header(CONTENT_TYPE, content_type).header(ACCEPT, METADATA_ONLY);
    builder.body(body.into()).map_err(|error| {
        let message = error.to_string();
        CallError::NotSent(ApiError { code: 0, reason: "BadRequest".to_owned(), message, namespace_terminating: false, retry_after: None })
    })
}
