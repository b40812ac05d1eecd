//! `meta/v1` Status: the API server's way to say no.

use std::time::Duration;

use serde::Deserialize;

use crate::error::DecodeError;
use crate::plan::ApiError;
use crate::protobuf::{Envelope, Reader};

/// What is read of a Status, in either form.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    message: Option<String>,
    reason: Option<String>,
    details: Option<Details>,
    code: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    causes: Option<Vec<Cause>>,
    retry_after_seconds: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: Option<String>,
}

/// The cause of a 403 to a create in a namespace that is being deleted (upstream `k8s.io/api/core/v1` `NamespaceTerminatingCause`).
const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";

/// No more of a body that is not a Status is shown.
const TEXT_LIMIT: usize = 1024;

/// Reads the JSON of a Status. `http_code` is the answer's code, for a Status that has none.
///
/// # Errors
/// When the bytes are not the JSON of an object.
pub fn from_json(http_code: u16, body: &[u8]) -> Result<ApiError, DecodeError> {
    Ok(serde_json::from_slice::<Status>(body)?.into_error(http_code))
}

/// Reads the protobuf of a Status in its envelope, as it stands in an error's body and in an `ERROR` event.
///
/// # Errors
/// When the bytes are no enveloped Status.
pub fn from_protobuf(http_code: u16, body: &[u8]) -> Result<ApiError, DecodeError> {
    Ok(Status::read(Envelope::open(body)?.raw)?.into_error(http_code))
}

/// Makes the best of an answer that is no Status: proxies and unknown paths answer with plain text.
pub fn from_text(http_code: u16, body: &[u8]) -> ApiError {
    let text = String::from_utf8_lossy(body.get(..TEXT_LIMIT).unwrap_or(body));
    Status { message: Some(text.trim().to_owned()), ..Status::default() }.into_error(http_code)
}

// === impl Status ===

impl Status {
    fn read(raw: &[u8]) -> Result<Self, DecodeError> {
        let mut status = Self::default();
        for field in Reader::new(raw) {
            let field = field?;
            match field.number {
                3 => status.message = Some(field.text()?.to_owned()),
                4 => status.reason = Some(field.text()?.to_owned()),
                5 => status.details.get_or_insert_default().read(field.message()?)?,
                6 => status.code = Some(field.int32()?),
                _ => {}
            }
        }
        Ok(status)
    }

    fn into_error(self, http_code: u16) -> ApiError {
        let code = self.code.and_then(|code| u16::try_from(code).ok()).filter(|code| *code != 0).unwrap_or(http_code);
        let reason = self.reason.unwrap_or_default();
        let message = match self.message {
            Some(message) if !message.is_empty() => message,
            _ if !reason.is_empty() => reason.clone(),
            _ => format!("HTTP {code}"),
        };
        let details = self.details.unwrap_or_default();
        let seconds = details.retry_after_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        ApiError {
            code,
            reason,
            message,
            namespace_terminating: details
                .causes
                .is_some_and(|causes| causes.iter().any(|cause| cause.reason.as_deref() == Some(NAMESPACE_TERMINATING))),
            retry_after: seconds.filter(|seconds| *seconds != 0).map(Duration::from_secs),
        }
    }
}

// === impl Details ===

impl Details {
    fn read(&mut self, message: Reader<'_>) -> Result<(), DecodeError> {
        for field in message {
            let field = field?;
            match field.number {
                4 => {
                    let mut cause = Cause::default();
                    for field in field.message()? {
                        let field = field?;
                        if field.number == 1 {
                            cause.reason = Some(field.text()?.to_owned());
                        }
                    }
                    self.causes.get_or_insert_default().push(cause);
                }
                5 => self.retry_after_seconds = Some(field.int32()?),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::write::{self, Writer};
    use serde_json::json;

    /// The same Status in both forms, which must read alike.
    fn both(status: &serde_json::Value) -> ApiError {
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        let mut details = Writer::new().text(1, "").text(2, "").text(3, "");
        for cause in status["details"]["causes"].as_array().into_iter().flatten() {
            let cause = Writer::new().text(1, cause["reason"].as_str().unwrap()).text(2, "is being terminated").text(3, "");
            details = details.message(4, &cause);
        }
        details = details.varint(5, status["details"]["retryAfterSeconds"].as_i64().unwrap_or(0) as u64);
        let raw = Writer::new()
            .message(1, &Writer::new())
            .text(2, "Failure")
            .text(3, &text("message"))
            .text(4, &text("reason"))
            .message(5, &details)
            .varint(6, status["code"].as_i64().unwrap_or(0) as u64)
            .into_bytes();
        let protobuf = from_protobuf(500, &write::envelope("v1", "Status", &raw)).unwrap();
        let json = from_json(500, status.to_string().as_bytes()).unwrap();
        assert_eq!(json, protobuf, "{status}");
        json
    }

    #[test]
    fn the_parts_are_found() {
        let error = both(&json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "pods is forbidden",
            "details": {"causes": [{"reason": "Other"}, {"reason": "NamespaceTerminating"}], "retryAfterSeconds": 3}
        }));
        assert_eq!((error.code, error.reason.as_str(), error.message.as_str()), (403, "Forbidden", "pods is forbidden"));
        assert!(error.namespace_terminating);
        assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
    }

    #[test]
    fn rs_19_an_empty_message_is_replaced_by_the_best_there_is() {
        assert_eq!(both(&json!({"code": 504, "reason": "Timeout", "message": ""})).message, "Timeout");
        assert_eq!(both(&json!({"code": 504})).message, "HTTP 504");
        assert_eq!(both(&json!({})).message, "HTTP 500");
        assert_eq!(both(&json!({"details": {"retryAfterSeconds": -1}})).retry_after, None);
    }

    #[test]
    fn null_stands_for_absent() {
        let error = from_json(404, br#"{"message":null,"reason":null,"details":{"causes":null},"code":null}"#).unwrap();
        assert_eq!((error.code, error.message.as_str()), (404, "HTTP 404"));
    }

    #[test]
    fn text_is_taken_as_it_is() {
        assert_eq!(from_text(404, b"404 page not found\n").message, "404 page not found");
        assert_eq!(from_text(502, b"").message, "HTTP 502");
        assert_eq!(from_text(502, &[b'x'; 5000]).message.len(), TEXT_LIMIT);
    }
}
