//! What the new ReplicaSet is told of its Deployment, and the Deployment of it: annotations and revisions
//! (upstream `pkg/controller/deployment/util` `SetNewReplicaSetAnnotations`, `pkg/controller/deployment/sync.go` `getNewReplicaSet`).

use model::Deployment;
use model::annotations::{Annotations, REVISION, REVISION_HISTORY};
use model::plan::{Action, Patch, Rule, Step};
use model::replicaset::Rollout;
use serde_json::{Map, Value, json};

use crate::conditions::{FOUND_NEW_REPLICA_SET, PROGRESSING};
use crate::member::Member;
use crate::sync::{Stop, Sync, done};

/// Upstream `maxRevHistoryLengthInChars`.
const MAX_HISTORY_LENGTH: usize = 2000;

// === impl Sync ===

impl Sync<'_> {
    /// Brings the notes on the new ReplicaSet up to date, if there is one, and takes its revision over.
    pub(crate) fn sync_revision(&mut self) -> Result<(), Stop> {
        let Some(mut new) = self.new.clone() else { return Ok(()) };
        let changes = changes(self.deployment, &new, self.next_revision());
        if !changes.is_empty() {
            let step = changes.step(&new);
            let outcomes = self.act(vec![step])?;
            new.resource_version = done(outcomes.first()).map_err(Stop::Failed)?;
            changes.apply(&mut new.rollout);
        }
        self.revision = Some(new.rollout.revision.clone().unwrap_or_default());
        if self.deployment.spec.progress_deadline().is_some() && self.status.condition(PROGRESSING).is_none() {
            self.note(PROGRESSING, "True", FOUND_NEW_REPLICA_SET, format!("Found new replica set {:?}", new.key.name));
        }
        self.new = Some(new);
        Ok(())
    }

    /// The revision that a new ReplicaSet has at least.
    pub(crate) fn next_revision(&self) -> i64 {
        self.old.iter().filter_map(Member::revision).max().unwrap_or(0).max(0).saturating_add(1)
    }
}

/// What has to be written to the new ReplicaSet.
#[derive(Debug, Default, PartialEq)]
struct Changes {
    /// Annotations of the Deployment that it does not have.
    copied: Vec<(String, String)>,
    revision: Option<String>,
    history: Option<String>,
    min_ready_seconds: Option<i32>,
}

fn changes(deployment: &Deployment, new: &Member, next_revision: i64) -> Changes {
    let Some(set) = new.set() else { return Changes::default() };
    let wanted = deployment.spec.min_ready_seconds;
    let min_ready_seconds = (set.spec.min_ready_seconds != wanted).then_some(wanted);
    let copied = missing(&deployment.annotations, &set.annotations);
    let Some(revision) = Some(new.rollout.revision.as_deref().unwrap_or_default()).filter(|text| text.is_empty() || number(text).is_some())
    else {
        // Parity: a revision that is no number is left alone, and is no reason to write the other annotations; another one takes them along.
        return if min_ready_seconds.is_some() { Changes { copied, min_ready_seconds, ..Changes::default() } } else { Changes::default() };
    };
    if number(revision).unwrap_or(0) >= next_revision {
        return Changes { copied, min_ready_seconds, ..Changes::default() };
    }
    let history = new.rollout.revision.as_ref().and_then(|before| appended(new.rollout.revision_history.as_deref(), before));
    Changes { copied, revision: Some(next_revision.to_string()), history, min_ready_seconds }
}

/// The annotations of the Deployment that the ReplicaSet does not have, or has otherwise.
fn missing(of: &Annotations, at: &Annotations) -> Vec<(String, String)> {
    of.iter().filter(|(key, value)| at.get(key) != Some(value)).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The revision history with one more entry, without the oldest if it gets too long; `None` if even that does not make it fit.
fn appended(history: Option<&str>, revision: &str) -> Option<String> {
    let history = history.unwrap_or_default();
    if history.is_empty() || history.starts_with(',') {
        return Some(revision.to_owned());
    }
    let mut kept = history.split(',').peekable();
    let mut length = history.len() + revision.len() + 1;
    while length > MAX_HISTORY_LENGTH
        && let Some(oldest) = kept.next()
    {
        length -= (oldest.len() + 1).min(length);
    }
    (length <= MAX_HISTORY_LENGTH).then(|| kept.chain([revision]).collect::<Vec<_>>().join(","))
}

/// Go's `strconv.ParseInt`.
fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}

// === impl Changes ===

impl Changes {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn step(&self, new: &Member) -> Step {
        let mut body = Map::new();
        let mut annotations: Map<_, _> = self.copied.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        annotations.extend(self.revision.as_ref().map(|revision| (REVISION.to_owned(), json!(revision))));
        annotations.extend(self.history.as_ref().map(|history| (REVISION_HISTORY.to_owned(), json!(history))));
        if !annotations.is_empty() {
            body.insert("metadata".to_owned(), json!({"annotations": annotations}));
        }
        if let Some(seconds) = self.min_ready_seconds {
            body.insert("spec".to_owned(), json!({"minReadySeconds": seconds}));
        }
        let patch = Patch { target: new.reference(), body: Value::Object(body), news: None };
        Step { action: Action::Patch(patch), reason: Rule::NotesOutOfDate }
    }

    fn apply(self, rollout: &mut Rollout) {
        if let Some(revision) = self.revision {
            rollout.revision = Some(revision.into());
        }
        if let Some(history) = self.history {
            rollout.revision_history = Some(history.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_drops_its_oldest_entries_and_never_grows_beyond_its_limit() {
        assert_eq!(appended(None, "1"), Some("1".to_owned()));
        assert_eq!(appended(Some(""), "1"), Some("1".to_owned()));
        assert_eq!(appended(Some("1,2"), "3"), Some("1,2,3".to_owned()));
        let long = vec!["1234"; 400].join(",");
        assert_eq!(long.len(), 1999);
        let next = appended(Some(&long), "567").unwrap();
        assert_eq!((next.len(), next.ends_with(",1234,567")), (1998, true));
        assert_eq!(appended(Some("1"), &"9".repeat(2001)), None);
        assert_eq!(appended(Some("1"), &"9".repeat(2000)), Some("9".repeat(2000)));
    }
}
