//! Answers, and the forms that upstream gives them.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

/// What is sent, at once or as it comes.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Go's name for text.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
/// JSON.
pub(crate) const JSON: &str = "application/json";

/// An answer of one piece.
pub(crate) fn answer(status: StatusCode, content_type: &str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    // Upstream's filter `WithCacheControl`.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Text, with 200.
pub(crate) fn text(body: impl Into<Bytes>) -> Response<Body> {
    answer(StatusCode::OK, TEXT, body)
}

/// JSON, with 200.
pub(crate) fn json_page(body: &Value) -> Response<Body> {
    answer(StatusCode::OK, JSON, format!("{body:#}\n"))
}

/// Go's `http.Error`.
pub(crate) fn error(status: StatusCode, message: &str) -> Response<Body> {
    let mut response = answer(status, TEXT, format!("{message}\n"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Go's `http.NotFound`.
pub(crate) fn not_found() -> Response<Body> {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// A `Status`, as API servers refuse (upstream `pkg/endpoints/handlers/responsewriters`).
pub(crate) fn refusal(code: StatusCode, reason: &str, message: &str, details: bool) -> Response<Body> {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    if details && let Some(status) = status.as_object_mut() {
        status.insert("details".to_owned(), json!({}));
    }
    let mut response = answer(code, JSON, format!("{status}\n"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Upstream's answer when too much is being worked on (`pkg/server/filters/maxinflight.go` `tooManyRequests`).
pub(crate) fn too_many() -> Response<Body> {
    let mut response = error(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.");
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
