//! What an answer that is not a yes says.
//!
//! The server chooses the form: 401, 403, 404 and 422 come as protobuf if that was asked for, but errors about
//! `PartialObjectMetadata` and 406 are JSON whatever was asked for, and an unknown path or a proxy answers in plain text. So the
//! answer's own Content-Type decides.

use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use model::plan::ApiError;
use model::status;

/// The form of a body, by its Content-Type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// `application/json`
    Json,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
    /// Anything else.
    Other,
}

/// Reads a refusal. The `Retry-After` header goes before what the Status says.
pub(super) fn api_error(http: StatusCode, headers: &HeaderMap, body: &[u8]) -> ApiError {
    let code = http.as_u16();
    let form = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map_or(Form::Other, Form::of);
    let read = match form {
        Form::Json => status::from_json(code, body),
        Form::Protobuf => status::from_protobuf(code, body),
        Form::Other => Ok(status::from_text(code, body)),
    };
    // A body that is not what its Content-Type says still came with a code.
    let mut error = read.unwrap_or_else(|_| status::from_text(code, body));
    if let Some(seconds) = retry_after(headers) {
        error.retry_after = Some(seconds);
    }
    error
}

/// The header in seconds, the only form that client-go reads (`rest/with_retry.go` `retryAfterSeconds`).
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Whether a write that was answered so may have had its effect all the same.
///
/// 502 and 504 are said by somebody who stopped waiting. 500 is a failed admission webhook as a rule, which comes before the effect; but
/// storage that stopped answering in the middle of a commit is a 500 too, and only its text tells.
pub(super) fn effect_is_open(error: &ApiError) -> bool {
    const WEBHOOK: &[&str] = &["failed calling webhook", "failed to call webhook", "admission webhook"];
    const STORAGE: &[&str] =
        &["etcdserver:", "rpc error:", "context deadline exceeded", "context canceled", "transport is closing", "unexpected EOF"];
    let says = |words: &[&str]| words.iter().any(|word| error.message.contains(word));
    match error.code {
        502 | 504 => true,
        // No Status, so not the API server: a gateway says 503 after it has sent the request on.
        500.. if error.reason.is_empty() => true,
        500 => error.reason == "ServerTimeout" || (says(STORAGE) && !says(WEBHOOK)),
        _ => false,
    }
}

// === impl Form ===

impl Form {
    pub(crate) fn of(content_type: &str) -> Self {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        if media.eq_ignore_ascii_case("application/json") {
            Self::Json
        } else if media.eq_ignore_ascii_case("application/vnd.kubernetes.protobuf") {
            Self::Protobuf
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use model::protobuf::write::{self, Writer};

    fn headers(content_type: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers
    }

    #[test]
    fn protobuf_status_is_read_though_json_was_expected() {
        let raw = Writer::new().text(2, "Failure").text(3, "pods is forbidden").text(4, "Forbidden").varint(6, 403).into_bytes();
        let body = write::envelope("v1", "Status", &raw);
        let error = api_error(StatusCode::FORBIDDEN, &headers("application/vnd.kubernetes.protobuf"), &body);
        assert_eq!((error.code, &*error.reason, &*error.message), (403, "Forbidden", "pods is forbidden"));
    }

    #[test]
    fn json_status_is_read_though_protobuf_was_asked_for() {
        let body = br#"{"kind":"Status","message":"only the following media types are accepted","reason":"NotAcceptable","code":406}"#;
        let error = api_error(StatusCode::NOT_ACCEPTABLE, &headers("application/json; charset=utf-8"), body);
        assert_eq!((error.code, &*error.reason), (406, "NotAcceptable"));
    }

    #[test]
    fn plain_text_and_lies_keep_the_http_status() {
        let error = api_error(StatusCode::NOT_FOUND, &headers("text/plain; charset=utf-8"), b"404 page not found\n");
        assert_eq!((error.code, &*error.message), (404, "404 page not found"));
        assert!(error.is_not_found());
        let error = api_error(StatusCode::BAD_GATEWAY, &headers("application/json"), b"<html>");
        assert_eq!((error.code, &*error.message), (502, "<html>"));
        let error = api_error(StatusCode::UNAUTHORIZED, &HeaderMap::new(), b"");
        assert_eq!(error.code, 401);
    }

    #[test]
    fn retry_after_header_goes_first() {
        let mut headers = headers("application/json");
        headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
        let body = br#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":1}}"#;
        assert_eq!(api_error(StatusCode::TOO_MANY_REQUESTS, &headers, body).retry_after, Some(Duration::from_secs(7)));
        headers.insert(RETRY_AFTER, HeaderValue::from_static("Wed, 21 Oct 2015 07:28:00 GMT"));
        assert_eq!(api_error(StatusCode::TOO_MANY_REQUESTS, &headers, body).retry_after, Some(Duration::from_secs(1)));
    }

    #[test]
    fn only_answers_that_may_follow_an_effect_leave_it_open() {
        let error = |code, reason: &str, message: &str| ApiError {
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            namespace_terminating: false,
            retry_after: None,
        };
        assert!(effect_is_open(&error(504, "Timeout", "request did not complete within requested timeout")));
        assert!(effect_is_open(&error(502, "", "bad gateway")));
        assert!(effect_is_open(&error(503, "", "upstream connect error or disconnect/reset before headers")));
        assert!(effect_is_open(&error(500, "InternalError", "etcdserver: request timed out")));
        assert!(effect_is_open(&error(500, "ServerTimeout", "The POST operation could not be completed at this time")));
        let webhook =
            "Internal error occurred: failed calling webhook \"a\": failed to call webhook: Post \"b\": context deadline exceeded";
        assert!(!effect_is_open(&error(500, "InternalError", webhook)));
        assert!(!effect_is_open(&error(429, "TooManyRequests", "etcdserver: too many requests")));
        assert!(!effect_is_open(&error(409, "AlreadyExists", "exists")));
        assert!(!effect_is_open(&error(503, "ServiceUnavailable", "apiserver is shutting down")));
    }
}
