//! Writes in an audit log that says which version came of each.

use std::collections::HashMap;
use std::fmt;

use anyhow::{Context as _, Result};
use serde::Deserialize;

/// An audit policy: of writes of workloads and what they make the answers are logged, and what deletions ask for; of everything else that
/// it happened. Reads are left out.
pub const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
- level: None
  verbs: [get, list, watch]
- level: RequestResponse
  resources:
  - {group: apps}
  - {group: '', resources: [pods, pods/status, persistentvolumeclaims]}
- level: Metadata
";

/// One write that was answered.
#[derive(Debug, Clone)]
pub struct Write {
    /// When it came, as RFC 3339 with microseconds: times of one server compare as text.
    pub received: String,
    /// The user's name.
    pub user: String,
    /// `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// `pods`, `pods/status`.
    pub resource: String,
    /// Namespace and name.
    pub key: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// The version of the object in the answer.
    pub version: Option<u64>,
    /// What was asked for, if it was logged.
    pub body: serde_json::Value,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { received, user, verb, resource, key, code, version, body } = self;
        let version = version.map_or_else(String::new, |version| format!(" version {version}"));
        let body: String = body.to_string().chars().take(600).collect();
        write!(f, "{received} {user} {verb} {resource} {key} {code}{version} {body}")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    request_received_timestamp: String,
    verb: String,
    user: User,
    #[serde(default)]
    object_ref: Reference,
    response_status: Option<Status>,
    response_object: Option<Answer>,
    #[serde(default)]
    request_object: serde_json::Value,
}

#[derive(Deserialize)]
struct User {
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
struct Status {
    #[serde(default)]
    code: u16,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
}

/// The writes in a log, in its order. Its last line may be half written.
pub fn parse(log: &str) -> Result<Vec<Write>> {
    let complete = log.rfind('\n').map_or("", |end| log.get(..end).unwrap_or_default());
    complete.lines().map(|line| read(line).with_context(|| format!("line {line}"))).collect()
}

fn read(line: &str) -> Result<Write> {
    let event: Event = serde_json::from_str(line)?;
    let Reference { resource, subresource, namespace, name } = event.object_ref;
    let answer = event.response_object.map(|answer| answer.metadata).unwrap_or_default();
    // A create's name may be the server's.
    let name = if name.is_empty() { answer.name } else { name };
    Ok(Write {
        received: event.request_received_timestamp,
        user: event.user.username,
        verb: event.verb,
        resource: if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") },
        key: format!("{namespace}/{name}"),
        code: event.response_status.map_or(0, |status| status.code),
        version: answer.resource_version.parse().ok(),
        body: event.request_object,
    })
}

/// The writes by `user` that have changed nothing: whose answer has a version that the answer to an earlier write has. Each with that one.
pub fn needless<'a>(writes: &'a [Write], user: &str) -> Vec<(&'a Write, &'a Write)> {
    let mut ordered: Vec<_> = writes.iter().filter(|write| (200..300).contains(&write.code)).collect();
    ordered.sort_by(|a, b| a.received.cmp(&b.received));
    let mut made: HashMap<(u64, &str), &Write> = HashMap::new();
    let mut needless = Vec::new();
    for write in ordered {
        let Some(version) = write.version else { continue };
        match made.get(&(version, write.key.as_str())) {
            Some(first) if write.user == user => needless.push((*first, write)),
            Some(_) => {}
            None => drop(made.insert((version, write.key.as_str()), write)),
        }
    }
    needless
}

/// The writes by `user` that no server takes: what was asked for can never be.
pub fn impossible<'a>(writes: &'a [Write], user: &str) -> Vec<&'a Write> {
    writes.iter().filter(|write| write.user == user && matches!(write.code, 400 | 401 | 405 | 406 | 413 | 415 | 422)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: u32, user: &str, verb: &str, code: u16, version: u32) -> String {
        format!(
            r#"{{"requestReceivedTimestamp":"2026-01-01T00:00:{second:02}.000000Z","verb":"{verb}","user":{{"username":"{user}"}},"objectRef":{{"resource":"pods","namespace":"n","name":"p"}},"responseStatus":{{"code":{code}}},"responseObject":{{"metadata":{{"name":"p","resourceVersion":"{version}"}}}}}}"#
        )
    }

    #[test]
    fn a_write_that_makes_no_version_is_needless() {
        let log = [
            line(1, "us", "create", 201, 5),
            line(3, "us", "patch", 200, 6),
            line(2, "node", "patch", 200, 7),
            line(4, "us", "delete", 200, 7),
            line(5, "node", "patch", 200, 7),
            line(6, "us", "update", 409, 7),
            line(7, "us", "update", 422, 7),
            line(8, "us", "patch", 200, 6) + "\n",
            "{half".to_owned(),
        ];
        let writes = parse(&log.join("\n").replace("\n\n", "\n")).unwrap();
        let found: Vec<_> = needless(&writes, "us").iter().map(|(_, write)| write.received.get(17..19).unwrap().to_owned()).collect();
        assert_eq!(found, ["04", "08"]);
        assert_eq!(impossible(&writes, "us").len(), 1);
    }
}
