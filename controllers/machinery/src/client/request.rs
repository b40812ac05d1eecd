//! One request, sent once: what came of it, and whether it may have had an effect.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, DATE, HeaderName};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::capture_connection;
use kube::client::Body;
use model::plan::ApiError;
use tokio::time::Instant;

use super::answer;

/// A yes.
#[derive(Clone, Debug)]
pub struct Answer {
    /// 200, 201, 202.
    pub status: StatusCode,
    /// The form of the body, `;stream=watch` and other parameters included. Not always the form that was asked for.
    pub content_type: String,
    /// What the clock of whoever answered says, as HTTP writes it; empty if it does not.
    pub date: String,
    /// The body.
    pub body: Bytes,
}

/// Anything else, by what it says about the request's effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CallError {
    /// It never left this process: certainly no effect.
    NotSent(ApiError),
    /// The server said no: no effect.
    Refused(ApiError),
    /// It was sent, and what came back does not say what became of it.
    Lost(ApiError),
}

/// An answer whose body is read as it comes.
#[derive(Debug)]
pub struct Streaming {
    /// As [`Answer::content_type`].
    pub content_type: String,
    body: Body,
}

/// What an exchange came to, and what the metrics want to know of it.
pub(super) struct Exchange<T> {
    pub(super) result: Result<T, CallError>,
    /// The status, if there was one.
    pub(super) status: Option<StatusCode>,
    /// Bytes of the answer's body.
    pub(super) size: usize,
}

/// Sends a request and reads its answer, all within `limit`.
pub(super) async fn exchange(client: &kube::Client, request: Request<Bytes>, limit: Duration, max_body: usize) -> Exchange<Answer> {
    let ends = Instant::now() + limit;
    let read_only = request.method().is_safe();
    let response = match head(client, request, ends).await {
        Ok(response) => response,
        Err(error) => return Exchange { result: Err(error), status: None, size: 0 },
    };
    let (parts, body) = response.into_parts();
    let status = Some(parts.status);
    let body = match tokio::time::timeout_at(ends, collect(body, max_body)).await.unwrap_or_else(|_| Err(late())) {
        Ok(body) => body,
        // Without the text a refusal is still a refusal.
        Err(_) if !parts.status.is_success() => Bytes::new(),
        Err(error) => return Exchange { result: Err(CallError::Lost(error)), status, size: 0 },
    };
    let size = body.len();
    let result = if parts.status.is_success() {
        Ok(Answer { status: parts.status, content_type: text(&parts.headers, CONTENT_TYPE), date: text(&parts.headers, DATE), body })
    } else {
        Err(refusal(parts.status, &parts.headers, &body, read_only))
    };
    Exchange { result, status, size }
}

/// Sends a request and hands out the answer's body unread, if it is a yes.
pub(super) async fn open(client: &kube::Client, request: Request<Bytes>, limit: Duration, max_body: usize) -> Exchange<Streaming> {
    let ends = Instant::now() + limit;
    let response = match head(client, request, ends).await {
        Ok(response) => response,
        Err(error) => return Exchange { result: Err(error), status: None, size: 0 },
    };
    let (parts, body) = response.into_parts();
    let status = Some(parts.status);
    if parts.status.is_success() {
        return Exchange { result: Ok(Streaming { content_type: text(&parts.headers, CONTENT_TYPE), body }), status, size: 0 };
    }
    let body = tokio::time::timeout_at(ends, collect(body, max_body)).await.unwrap_or_else(|_| Err(late())).unwrap_or_default();
    Exchange { result: Err(refusal(parts.status, &parts.headers, &body, true)), status, size: body.len() }
}

async fn head(client: &kube::Client, request: Request<Bytes>, ends: Instant) -> Result<Response<Body>, CallError> {
    let mut request = request.map(Body::from);
    let connection = capture_connection(&mut request);
    let failure = match tokio::time::timeout_at(ends, client.send(request)).await {
        Ok(Ok(response)) => return Ok(response),
        Ok(Err(error)) => Some(error),
        Err(_) => None,
    };
    // hyper notes the connection just before it hands the request over: no connection, nothing sent. A request that hyper calls
    // canceled was handed back unsent.
    let had_connection = connection.connection_metadata().is_some();
    let sent = had_connection && !failure.as_ref().is_some_and(|error| was_canceled(error));
    let error = failure.map_or_else(late, |error| no_answer("NoAnswer", &chain(&error)));
    Err(if sent { CallError::Lost(error) } else { CallError::NotSent(error) })
}

async fn collect(mut body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| no_answer("AnswerLost", &chain(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if collected.len() + data.len() > limit {
            return Err(no_answer(TOO_LARGE, &format!("the answer is larger than {limit} bytes")));
        }
        collected.extend_from_slice(&data);
    }
    Ok(collected.freeze())
}

fn text(headers: &HeaderMap, name: HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8], read_only: bool) -> CallError {
    let error = answer::api_error(status, headers, body);
    if !read_only && answer::effect_is_open(&error) { CallError::Lost(error) } else { CallError::Refused(error) }
}

/// The reason of an answer that was not read because of its size.
const TOO_LARGE: &str = "AnswerTooLarge";

fn late() -> ApiError {
    no_answer("DeadlineExceeded", "the request's deadline has passed")
}

pub(crate) fn no_answer(reason: &str, message: &str) -> ApiError {
    ApiError { code: 0, reason: reason.to_owned(), message: message.to_owned(), namespace_terminating: false, retry_after: None }
}

fn was_canceled(error: &(dyn StdError + 'static)) -> bool {
    causes(error).filter_map(|cause| cause.downcast_ref::<hyper::Error>()).any(hyper::Error::is_canceled)
}

/// The whole story in one line: hyper's outermost error is only "client error (Connect)".
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error) {
        let part = cause.to_string();
        // kube repeats its source's text in its own.
        if !text.ends_with(&part) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&part);
        }
    }
    text
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| (*error).source())
}

// === impl CallError ===

impl CallError {
    /// What was said, whatever it means for the effect.
    pub fn error(&self) -> &ApiError {
        match self {
            Self::NotSent(error) | Self::Refused(error) | Self::Lost(error) => error,
        }
    }

    /// As [`CallError::error`], owned.
    pub fn into_error(self) -> ApiError {
        match self {
            Self::NotSent(error) | Self::Refused(error) | Self::Lost(error) => error,
        }
    }

    /// Whether the answer was larger than its class allows.
    pub fn is_too_large(&self) -> bool {
        self.error().code == 0 && self.error().reason == TOO_LARGE
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.error(), f)
    }
}

impl StdError for CallError {}

// === impl Streaming ===

impl Streaming {
    /// The next piece of the body; `None` at its end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<Bytes, ApiError>> {
        loop {
            match self.body.frame().await? {
                Ok(frame) => {
                    // Trailers say nothing that we read.
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
                Err(error) => return Some(Err(no_answer("AnswerLost", &chain(&error)))),
            }
        }
    }
}
