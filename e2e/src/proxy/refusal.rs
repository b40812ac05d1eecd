//! Errors as an API server says them.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use model::protobuf::write::{self, Writer};
use serde_json::json;

use super::body::Body;
use super::frames::Format;

/// An error answer: a `Status` object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: String,
    /// The text for humans.
    pub message: String,
    /// Seconds that the client shall wait, in the header and in the details.
    pub retry_after: Option<u32>,
    /// JSON with line breaks and indentation, whatever was accepted, as the API server writes for some clients.
    pub pretty: bool,
}

// === impl Refusal ===

impl Refusal {
    /// Any error.
    pub fn new(code: u16, reason: &str, message: &str) -> Self {
        Self { code, reason: reason.to_owned(), message: message.to_owned(), retry_after: None, pretty: false }
    }

    /// 403 Forbidden.
    pub fn forbidden() -> Self {
        Self::new(403, "Forbidden", "forbidden by a fault")
    }

    /// 409 Conflict: the object has been changed.
    pub fn conflict() -> Self {
        Self::new(409, "Conflict", "Operation cannot be fulfilled: the object has been modified")
    }

    /// 409 `AlreadyExists`.
    pub fn already_exists() -> Self {
        Self::new(409, "AlreadyExists", "object already exists")
    }

    /// 410 Expired: the resourceVersion is too old.
    pub fn expired() -> Self {
        Self::new(410, "Expired", "too old resource version")
    }

    /// 429: the server is busy.
    pub fn too_many_requests() -> Self {
        Self::new(429, "TooManyRequests", "the server has received too many requests and has asked us to try again later")
    }

    /// 500.
    pub fn internal() -> Self {
        Self::new(500, "InternalError", "Internal error occurred: a fault")
    }

    /// 503.
    pub fn unavailable() -> Self {
        Self::new(503, "ServiceUnavailable", "the server is currently unable to handle the request")
    }

    /// 504: the server gave up, the request may have been carried out.
    pub fn timeout() -> Self {
        Self::new(
            504,
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        )
    }

    /// With a wait that the client shall keep.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// As JSON with line breaks, whatever the client accepts.
    #[must_use]
    pub fn pretty(mut self) -> Self {
        self.pretty = true;
        self
    }

    /// The answer to a request with these headers.
    pub(super) fn answer(&self, request: &HeaderMap) -> Response<Body> {
        let format = if self.pretty { Format::Json } else { accepted(request, false) };
        let body = match format {
            Format::Json if self.pretty => format!("{:#}", self.json()).into_bytes(),
            Format::Json => self.json().to_string().into_bytes(),
            Format::Protobuf => self.protobuf(),
        };
        let mut response = Response::new(Body::full(body.into()));
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, format.content_type(false));
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    /// The bytes of an ERROR event.
    pub(super) fn event(&self, format: Format) -> Bytes {
        match format {
            Format::Json => format!("{}\n", json!({"type": "ERROR", "object": self.json()})).into(),
            Format::Protobuf => write::frame(&write::watch_event("ERROR", &self.protobuf())).into(),
        }
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message, "reason": self.reason,
            "details": {"retryAfterSeconds": self.retry_after.unwrap_or_default()}, "code": self.code,
        })
    }

    /// Field numbers of `meta/v1` `Status`.
    fn protobuf(&self) -> Vec<u8> {
        let details = Writer::new().text(1, "").text(2, "").text(3, "").varint(5, u64::from(self.retry_after.unwrap_or_default()));
        let status = Writer::new()
            .message(1, &Writer::new())
            .text(2, "Failure")
            .text(3, &self.message)
            .text(4, &self.reason)
            .message(5, &details)
            .varint(6, u64::from(self.code));
        write::envelope("v1", "Status", &status.into_bytes())
    }
}

/// The form that the client wants. Errors to a request for a partial object are JSON whatever it is.
pub(super) fn accepted(request: &HeaderMap, watch: bool) -> Format {
    let first = request.get(ACCEPT).and_then(|accept| accept.to_str().ok()).and_then(|accept| accept.split(',').next());
    match first {
        Some(accept) if accept.contains("protobuf") && (watch || !accept.contains("as=")) => Format::Protobuf,
        _ => Format::Json,
    }
}
