//! `/flagz` and `/statusz`: text for people, and kinds of `config.k8s.io` for programs (upstream apiserver `pkg/server/flagz`,
//! `pkg/server/statusz`).

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use http::header::{ACCEPT, HeaderValue, WARNING};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{Asked, Listed, Pages};
use crate::serve::answer::{self, Body};

const NAME: &str = "workloads-controller-manager";
const GROUP: &str = "config.k8s.io";

/// What a client would like to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json { version: &'static str },
}

/// Since when the process runs.
#[derive(Clone, Copy)]
struct Started(SystemTime);

pub(super) fn install(pages: &Pages, flags: &BTreeMap<String, String>) {
    let flags = flags.clone();
    pages.add("/flagz", Listed::Yes, move |asked| {
        let lines = flags.iter().map(|(flag, value)| format!("{flag}={value}\n"));
        page(asked, "Flagz", || lines.collect(), || json!({"flags": flags}))
    });
    let (started, all) = (Started(SystemTime::now()), pages.clone());
    pages.add("/statusz", Listed::No, move |asked| {
        let paths = all.listed();
        page(asked, "Statusz", || started.text(&paths), || started.json(&paths))
    });
}

fn page(asked: &Asked, kind: &str, text: impl FnOnce() -> String, body: impl FnOnce() -> Value) -> Response<Body> {
    let accept = asked.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match negotiate(accept, kind) {
        Some(Form::Text) => answer::text(format!(
            "\n{NAME} {}\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for \
             debugging purposes only.\n{}",
            kind.to_ascii_lowercase(),
            text()
        )),
        Some(Form::Json { version }) => {
            let mut object = json!({"kind": kind, "apiVersion": format!("{GROUP}/{version}"), "metadata": {"name": NAME}});
            if let (Some(object), Value::Object(body)) = (object.as_object_mut(), body()) {
                object.extend(body);
            }
            let content_type = format!("application/json;g={GROUP};v={version};as={kind}");
            let mut response = answer::answer(StatusCode::OK, &content_type, format!("{object}\n"));
            if version == "v1alpha1" {
                let warning = format!(
                    "299 - \"This version of the {} endpoint is deprecated. Please use a newer version.\"",
                    kind.to_ascii_lowercase()
                );
                if let Ok(warning) = HeaderValue::from_str(&warning) {
                    response.headers_mut().insert(WARNING, warning);
                }
            }
            response
        }
        None => {
            let message = "only the following media types are accepted: application/json, text/plain";
            answer::refusal(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, false)
        }
    }
}

/// The first form in the header that can be had. Upstream sorts by `q` first, which no client of these pages says.
fn negotiate(accept: &str, kind: &str) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    accept.split(',').find_map(|form| {
        let mut parts = form.split(';').map(str::trim);
        match parts.next()? {
            "*/*" | "text/*" | "text/plain" => Some(Form::Text),
            "application/json" | "application/*" => {
                let parameters: BTreeMap<_, _> = parts.filter_map(|part| part.split_once('=')).collect();
                let version = match parameters.get("v") {
                    Some(&"v1beta1") => "v1beta1",
                    Some(&"v1alpha1") => "v1alpha1",
                    _ => return None,
                };
                let right = parameters.get("g") == Some(&GROUP) && parameters.get("as") == Some(&kind);
                right.then_some(Form::Json { version })
            }
            _ => None,
        }
    })
}

// === impl Started ===

impl Started {
    fn up(self) -> Duration {
        self.0.elapsed().unwrap_or_default()
    }

    fn text(self, paths: &[String]) -> String {
        let up = self.up().as_secs();
        format!(
            "\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nRust version: {}\nBinary version: {}\n\nPaths: {}\n",
            self.timestamp(),
            up / 3600,
            up / 60 % 60,
            up % 60,
            env!("CARGO_PKG_RUST_VERSION"),
            env!("CARGO_PKG_VERSION"),
            paths.join(" ")
        )
    }

    /// Upstream's fields but for `goVersion`, which it requires and which says here that there is no Go.
    fn json(self, paths: &[String]) -> Value {
        json!({
            "startTime": self.timestamp(),
            "uptimeSeconds": self.up().as_secs(),
            "goVersion": "none",
            "binaryVersion": env!("CARGO_PKG_VERSION"),
            "paths": paths,
        })
    }

    fn timestamp(self) -> String {
        let seconds = self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        jiff::Timestamp::from_second(i64::try_from(seconds).unwrap_or_default()).map(|time| time.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_negotiated_as_upstream() {
        let json = |version| Some(Form::Json { version });
        for (accept, form) in [
            ("", Some(Form::Text)),
            ("*/*", Some(Form::Text)),
            ("text/plain;charset=utf-8", Some(Form::Text)),
            ("application/json", None),
            ("text/html", None),
            ("text/html, */*;q=0.1", Some(Form::Text)),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Statusz", json("v1beta1")),
            ("application/json; g=config.k8s.io; v=v1alpha1; as=Statusz", json("v1alpha1")),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz", None),
            ("application/json;v=v2;g=config.k8s.io;as=Statusz", None),
        ] {
            assert_eq!(negotiate(accept, "Statusz"), form, "{accept:?}");
        }
    }
}
