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
    /// When it was answered.
    pub answered: String,
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
        let Self { received, user, verb, resource, key, code, version, body, .. } = self;
        let version = version.map_or_else(String::new, |version| format!(" version {version}"));
        let body: String = body.to_string().chars().take(600).collect();
        write!(f, "{received} {user} {verb} {resource} {key} {code}{version} {body}")
    }
}

impl Write {
    /// The version that the object must be of.
    fn expected(&self) -> Option<u64> {
        self.body.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    request_received_timestamp: String,
    stage_timestamp: String,
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
        answered: event.stage_timestamp,
        user: event.user.username,
        verb: event.verb,
        resource: if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") },
        key: format!("{namespace}/{name}"),
        code: event.response_status.map_or(0, |status| status.code),
        version: answer.resource_version.parse().ok(),
        body: event.request_object,
    })
}

/// The changes by `user` that have changed nothing, each with the user's last one of that kind before it. One that says of which version
/// the object is has changed nothing if the answer is of that one. Of others it is known if that version had been an answer before. For
/// deletions see [`twice`]: that somebody else has deleted an object may not be known yet.
pub fn needless<'a>(writes: &'a [Write], user: &str) -> Vec<(Option<&'a Write>, &'a Write)> {
    let mut made: HashMap<(u64, &str), Vec<&Write>> = HashMap::new();
    let mut changes: HashMap<(&str, &str, &str), Vec<&Write>> = HashMap::new();
    for write in writes.iter().filter(|write| (200..300).contains(&write.code)) {
        if let Some(version) = write.version.filter(|version| write.expected() != Some(*version)) {
            made.entry((version, &write.key)).or_default().push(write);
        }
        if write.user == user && matches!(&*write.verb, "update" | "patch") {
            changes.entry((&write.key, &write.resource, &write.verb)).or_default().push(write);
        }
    }
    let is_needless = |write: &Write| {
        let Some(version) = write.version else { return false };
        let mut makers = made.get(&(version, write.key.as_str())).into_iter().flatten();
        write.expected().map_or_else(|| makers.any(|maker| maker.answered <= write.received), |expected| expected == version)
    };
    let mut found = Vec::new();
    for changes in changes.values_mut() {
        changes.sort_by(|a, b| a.received.cmp(&b.received));
        let before = std::iter::once(None).chain(changes.iter().copied().map(Some));
        found.extend(before.zip(changes.iter().copied()).filter(|(_, write)| is_needless(write)));
    }
    found.sort_by(|(_, a), (_, b)| a.received.cmp(&b.received));
    found
}

/// The deletions by `user` of what it had deleted before, each with the one before.
pub fn twice<'a>(writes: &'a [Write], user: &str) -> Vec<(&'a Write, &'a Write)> {
    let is_meant = |write: &&Write| write.user == user && write.verb == "delete" && (200..300).contains(&write.code);
    let mut deletions: Vec<_> = writes.iter().filter(is_meant).collect();
    deletions.sort_by(|a, b| a.received.cmp(&b.received));
    let mut last = HashMap::new();
    let mut found = Vec::new();
    for write in deletions {
        let Some(uid) = write.body.pointer("/preconditions/uid").and_then(serde_json::Value::as_str) else { continue };
        found.extend(last.insert(uid, write).map(|first| (first, write)));
    }
    found
}

/// The writes by `user` that no server takes: what was asked for can never be.
pub fn impossible<'a>(writes: &'a [Write], user: &str) -> Vec<&'a Write> {
    writes.iter().filter(|write| write.user == user && matches!(write.code, 400 | 401 | 405 | 406 | 413 | 415 | 422)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write that came at this second, was answered in the next one, and said of which version the object was, if not 0.
    fn line(second: u32, user: &str, verb: &str, code: u16, versions: [u32; 2]) -> String {
        let [expected, version] = versions;
        let body = if expected > 0 { format!(r#"{{"metadata":{{"resourceVersion":"{expected}"}}}}"#) } else { "{}".to_owned() };
        let after = second + 1;
        format!(
            r#"{{"requestReceivedTimestamp":"2026-01-01T00:00:{second:02}.000000Z","stageTimestamp":"2026-01-01T00:00:{after:02}.000000Z","verb":"{verb}","user":{{"username":"{user}"}},"objectRef":{{"resource":"pods","namespace":"n","name":"p"}},"requestObject":{body},"responseStatus":{{"code":{code}}},"responseObject":{{"metadata":{{"name":"p","resourceVersion":"{version}"}}}}}}"#
        )
    }

    #[test]
    fn a_write_that_makes_no_version_is_needless() {
        let lines = [
            line(1, "us", "create", 201, [0, 5]),
            line(10, "us", "patch", 200, [0, 6]),
            line(20, "node", "patch", 200, [0, 7]),
            line(22, "us", "patch", 200, [0, 7]),
            line(30, "us", "update", 409, [7, 7]),
            line(31, "us", "update", 422, [7, 7]),
            line(32, "us", "update", 200, [7, 7]),
            line(40, "us", "update", 200, [7, 8]),
            line(50, "us", "patch", 200, [0, 8]),
        ];
        let writes = parse(&format!("{}\n{{half", lines.join("\n"))).unwrap();
        let second = |write: &Write| write.received.get(17..19).unwrap().to_owned();
        let found: Vec<_> =
            needless(&writes, "us").iter().map(|(before, write)| (before.map(second).unwrap_or_default(), second(write))).collect();
        let expected = [("10", "22"), ("", "32"), ("22", "50")].map(|(before, write)| (before.to_owned(), write.to_owned()));
        assert_eq!(found, expected);
        assert_eq!(impossible(&writes, "us").len(), 1);
    }

    #[test]
    fn deletions_are_told_apart_by_the_uid_that_they_ask_for() {
        let delete = |second: u32, user: &str, code: u16, uid: &str| {
            line(second, user, "delete", code, [0, 1])
                .replace(r#""requestObject":{}"#, &format!(r#""requestObject":{{"preconditions":{{"uid":"{uid}"}}}}"#))
        };
        let lines = [
            delete(5, "us", 200, "a"),
            delete(1, "us", 409, "a"),
            delete(2, "us", 200, "a"),
            delete(3, "us", 200, "b"),
            delete(4, "gc", 200, "b"),
        ];
        let writes = parse(&(lines.join("\n") + "\n")).unwrap();
        let found = twice(&writes, "us");
        assert_eq!(found.len(), 1);
        assert!(found[0].0.received.contains(":02.") && found[0].1.received.contains(":05."));
    }

    #[test]
    fn of_two_at_once_the_one_that_knew_the_version_before_has_made_the_next() {
        let lines = [line(1, "node", "patch", 200, [0, 9]), line(1, "us", "update", 200, [8, 9]), line(1, "us", "patch", 200, [0, 9])];
        let writes = parse(&(lines.join("\n") + "\n")).unwrap();
        assert!(needless(&writes, "us").is_empty());
    }
}
