//! Rights as data: those that roles grant, those that the API server says were used, and those that it missed.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

/// A verb on a resource, wherever.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub(crate) group: String,
    /// With its subresource: `pods/finalizers`.
    pub(crate) resource: String,
    pub(crate) verb: String,
    /// Of resources whose rules are to name objects, the name; of others, and of what has none before it is made, empty.
    pub(crate) name: String,
}

/// What the API server did with a request of somebody whom we follow.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) user: String,
    /// What it took to be let through to the resource.
    pub(crate) right: Right,
    /// The right that was missed, if one was.
    pub(crate) missed: Option<Right>,
    pub(crate) text: String,
}

/// Reads an audit log as it grows.
pub(crate) struct Follower {
    file: PathBuf,
    read: u64,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.group.is_empty() { "" } else { "/" };
        write!(f, "{} {}{slash}{} {}", self.verb, self.group, self.resource, self.name)
    }
}

// === impl Right ===

impl Right {
    pub(crate) fn new(group: &str, resource: &str, verb: &str) -> Self {
        Self { group: group.to_owned(), resource: resource.to_owned(), verb: verb.to_owned(), name: String::new() }
    }

    fn named(self, name: &str) -> Self {
        let is_named = matches!(&*self.resource, "leases" | "configmaps" | "serviceaccounts/token");
        let is_new = self.verb == "create" && !self.resource.contains('/');
        Self { name: if is_named && !is_new { name.to_owned() } else { String::new() }, ..self }
    }

    /// The rights of a role's rules.
    pub(crate) fn of_rules(rules: &Value) -> BTreeSet<Self> {
        let texts = |rule: &Value, field: &str| -> Vec<String> {
            rule[field].as_array().into_iter().flatten().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
        };
        let mut rights = BTreeSet::new();
        for rule in rules.as_array().into_iter().flatten() {
            let names = if rule["resourceNames"].is_array() { texts(rule, "resourceNames") } else { vec![String::new()] };
            for group in texts(rule, "apiGroups") {
                for resource in texts(rule, "resources") {
                    for verb in texts(rule, "verbs") {
                        rights.extend(names.iter().map(|name| Self { name: name.clone(), ..Self::new(&group, &resource, &verb) }));
                    }
                }
            }
        }
        rights
    }

    /// The rule that grants it.
    pub(crate) fn rule(&self) -> Value {
        let names: Vec<_> = Some(&self.name).filter(|name| !name.is_empty()).into_iter().collect();
        json!({"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb], "resourceNames": names})
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    user: User,
    object_ref: Option<Reference>,
    response_status: Option<Answer>,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
    #[serde(rename = "requestURI")]
    uri: String,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Reference {
    api_group: String,
    resource: String,
    subresource: String,
    name: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    message: String,
}

// === impl Follower ===

impl Follower {
    /// Follows from now on.
    pub(crate) fn new(file: PathBuf) -> Result<Self> {
        let read = std::fs::metadata(&file).with_context(|| file.display().to_string())?.len();
        Ok(Self { file, read })
    }

    /// What has been answered since the last call.
    pub(crate) fn next(&mut self) -> Result<Vec<Request>> {
        let mut file = File::open(&self.file)?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut lines = BufReader::new(file);
        let mut requests = Vec::new();
        loop {
            let mut line = String::new();
            let length = lines.read_line(&mut line)?;
            // The last line may be half written.
            if !line.ends_with('\n') {
                return Ok(requests);
            }
            self.read += u64::try_from(length)?;
            let event: Event = serde_json::from_str(&line).with_context(|| line.clone())?;
            requests.extend(read(event)?);
        }
    }
}

fn read(event: Event) -> Result<Option<Request>> {
    let counted = if event.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
    let Some(reference) = event.object_ref.filter(|_| event.stage == counted) else { return Ok(None) };
    let mut resource = reference.resource.clone();
    if !reference.subresource.is_empty() {
        resource = format!("{resource}/{}", reference.subresource);
    }
    let right = Right::new(&reference.api_group, &resource, &event.verb).named(&reference.name);
    let answer = event.response_status.unwrap_or(Answer { code: 0, message: String::new() });
    let is_forbidden = event.annotations.get("authorization.k8s.io/decision").is_some_and(|decision| decision == "forbid");
    let missed = match answer.code {
        403 if is_forbidden => Some(right.clone()),
        // The admission plugin OwnerReferencesPermissionEnforcement.
        403 if answer.message.contains("on a resource you can't delete") => {
            Some(Right::new(&reference.api_group, &reference.resource, "delete"))
        }
        403 if answer.message.contains("a resource you can't set finalizers on") => Some(finalizers(&reference)?),
        _ => None,
    };
    let text = format!("{} {} {}: {} {}", event.user.username, event.verb, event.uri, answer.code, answer.message);
    Ok(Some(Request { user: event.user.username, right, missed, text }))
}

/// The owners' finalizers, which the refusal does not name; by the names that the objects of [`features`](crate::features) have.
fn finalizers(owned: &Reference) -> Result<Right> {
    let (group, owners) = match (&*owned.resource, &*owned.name) {
        ("replicasets", _) => ("apps", "deployments"),
        ("controllerrevisions", _) | ("persistentvolumeclaims", "data-db-0") => ("apps", "statefulsets"),
        ("pods", name) if name.starts_with("db-") => ("apps", "statefulsets"),
        ("pods", _) => ("apps", "replicasets"),
        ("persistentvolumeclaims", _) => ("", "pods"),
        (resource, name) => bail!("who owns {resource} {name}?"),
    };
    Ok(Right::new(group, &format!("{owners}/finalizers"), "update"))
}
