//! Counting the requests that reached the API servers.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// Requests are logged when they are answered, without their bodies; watches when they start.
pub(super) const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
";

/// What happened, as far as counts go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKind {
    /// The user's name, [`SERVICE_ACCOUNT_USER`](super::SERVICE_ACCOUNT_USER) for ours.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// `pods`; empty for what is no resource.
    pub resource: String,
    /// `status`; empty for the object itself.
    pub subresource: String,
    /// The HTTP status of the answer.
    pub code: u16,
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, verb, resource, subresource, code } = self;
        let slash = if subresource.is_empty() { "" } else { "/" };
        write!(f, "{user} {verb} {resource}{slash}{subresource} {code}")
    }
}

/// One answered request.
#[derive(Debug, Clone)]
pub struct AuditedRequest {
    /// What happened.
    pub kind: RequestKind,
    /// The namespace; empty where there is none.
    pub namespace: String,
    /// The object's name; for a create with a server-made name, empty.
    pub name: String,
    /// Path and query.
    pub uri: String,
    /// The client program, as it calls itself.
    pub user_agent: String,
}

/// The audit logs of all API servers. A request is logged a moment after its client has the answer: wait for a count, don't just read it.
#[derive(Debug, Clone)]
pub struct AuditLog {
    files: Vec<PathBuf>,
}

impl AuditLog {
    pub(super) fn new(files: Vec<PathBuf>) -> Self {
        Self { files }
    }

    /// All requests so far that have been answered, and the watches that have started; per server in the order of their answers.
    pub fn requests(&self) -> Result<Vec<AuditedRequest>> {
        let mut requests = Vec::new();
        for file in &self.files {
            // A server that has not been asked anything has no log.
            let text = if file.exists() { fs::read_to_string(file)? } else { String::new() };
            requests.extend(parse(&text).with_context(|| format!("read {}", file.display()))?);
        }
        Ok(requests)
    }

    /// How many requests of each kind there were.
    pub fn counts(&self) -> Result<BTreeMap<RequestKind, usize>> {
        let mut counts = BTreeMap::new();
        for request in self.requests()? {
            *counts.entry(request.kind).or_default() += 1;
        }
        Ok(counts)
    }

    /// How many requests `which` accepts.
    pub fn count(&self, which: impl Fn(&AuditedRequest) -> bool) -> Result<usize> {
        Ok(self.requests()?.iter().filter(|request| which(request)).count())
    }

    /// The files, one per API server.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    user: EventUser,
    #[serde(default)]
    object_ref: Reference,
    response_status: Option<Answer>,
    #[serde(default)]
    user_agent: String,
    #[serde(rename = "requestURI")]
    uri: String,
}

#[derive(Deserialize)]
struct EventUser {
    /// Missing where credentials were refused.
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reference {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    code: u16,
}

fn parse(log: &str) -> Result<Vec<AuditedRequest>> {
    let mut requests = Vec::new();
    // The last line may be half written.
    let complete = log.rfind('\n').map_or("", |end| log.get(..end).unwrap_or_default());
    for line in complete.lines() {
        let event: Event = serde_json::from_str(line).with_context(|| format!("line {line}"))?;
        // A watch has a start, refused or not, and perhaps later an end; everything else has only an end.
        let counted = if event.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        if event.stage == counted || event.stage == "Panic" {
            requests.push(AuditedRequest {
                kind: RequestKind {
                    user: event.user.username,
                    verb: event.verb,
                    resource: event.object_ref.resource,
                    subresource: event.object_ref.subresource,
                    code: event.response_status.map_or(0, |answer| answer.code),
                },
                namespace: event.object_ref.namespace,
                name: event.object_ref.name,
                uri: event.uri,
                user_agent: event.user_agent,
            });
        }
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_a_watch_once_and_ignores_half_a_line() {
        let event = |verb: &str, stage: &str, code: u16| {
            format!(
                r#"{{"stage":"{stage}","requestURI":"/x","verb":"{verb}","user":{{"username":"u"}},"objectRef":{{"resource":"pods"}},"responseStatus":{{"metadata":{{}},"code":{code}}}}}"#
            )
        };
        let log = [
            event("watch", "ResponseStarted", 200),
            event("watch", "ResponseComplete", 200),
            event("watch", "ResponseStarted", 403),
            event("watch", "ResponseComplete", 403),
            event("create", "ResponseComplete", 201),
            event("create", "ResponseComplete", 201).split_off(1),
        ];
        let kinds: Vec<_> = parse(&log.join("\n")).unwrap().iter().map(|request| request.kind.to_string()).collect();
        assert_eq!(kinds, ["u watch pods 200", "u watch pods 403", "u create pods 201"]);
    }
}
