//! Which revision the set is at, and which it is on its way to (upstream `stateful_set_control.go` `getStatefulSetRevisions`).

use std::sync::Arc;

use model::plan::{Action, Answer, CONTROLLERREVISIONS, Create, NewName, NewObject, Outcome, Question, Rule, Step, SyncError};
use model::revision::{self, HASH_LABEL};
use model::{ControllerRevision, ObjectKey, StatefulSet, raw};
use serde_json::json;
use serde_json::value::RawValue;

use crate::sync::{Stop, Sync, done, failed};
use crate::view::Sameness;

/// The names of the two revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Revisions {
    /// What pods below the partition are made from.
    pub(crate) current: Arc<str>,
    /// What all others are made from.
    pub(crate) update: Arc<str>,
}

// === impl Sync ===

impl<'v> Sync<'v> {
    /// Decides on both revisions, and makes a new one if the template is none that was there before.
    pub(crate) fn decide_revisions(&mut self) -> Result<Revisions, Stop> {
        let update = self.update_revision()?;
        let current = self.revisions.iter().find(|revision| *revision.name == *self.set.status.current_revision);
        let current = current.map_or_else(|| update.clone(), |revision| Arc::from(&*revision.name));
        Ok(Revisions { current, update })
    }

    fn update_revision(&mut self) -> Result<Arc<str>, Stop> {
        let fingerprint = self.set.spec.template.revision_fingerprint().ok_or_else(unreadable)?;
        let last = self.revisions.last().cloned();
        let equal = self.revisions.iter().rfind(|revision| revision.data == fingerprint).cloned();
        match (last, equal) {
            (Some(last), Some(equal)) if last.uid == equal.uid => Ok(Arc::from(&*last.name)),
            (Some(last), Some(equal)) => self.roll_back(&equal, next(&last)?),
            (Some(last), None) if self.is_same(&last)? => Ok(Arc::from(&*last.name)),
            (last, _) => self.create_revision(last.map_or(Ok(1), |last| next(&last))?),
        }
    }

    /// The template is an earlier one: that becomes the last (upstream `UpdateControllerRevision`).
    fn roll_back(&mut self, to: &ControllerRevision, revision: i64) -> Result<Arc<str>, Stop> {
        let action = self.patch(to.reference(), json!({"revision": revision}));
        done(self.act_once(Step { action, reason: Rule::RolledBack })?).map_err(Stop::Failed)?;
        Ok(Arc::from(&*to.name))
    }

    /// Whether the last revision means the same template in another spelling, as those of earlier releases do (upstream
    /// `setMatchesLatestExistingRevision`). Revisions are not held whole: its data are read live, once a generation.
    fn is_same(&mut self, last: &ControllerRevision) -> Result<bool, Stop> {
        if !self.view.gates.semantic_comparison {
            return Ok(false);
        }
        let sameness = Sameness { generation: self.set.generation, revision: last.resource_version };
        let is_same = self.view.known_same == Some(sameness) || {
            let data = self.live_data(&last.name)?.ok_or_else(|| gone(&last.name))?;
            revision::is_same(data, self.set.spec.template.raw())
        };
        self.sameness = is_same.then_some(sameness);
        Ok(is_same)
    }

    /// `data` of a revision, if it is there.
    pub(crate) fn live_data(&mut self, name: &str) -> Result<Option<&'v RawValue>, Stop> {
        let key = ObjectKey { namespace: self.set.key.namespace.clone(), name: Arc::from(name) };
        let json = match self.ask(Question::Live { resource: &CONTROLLERREVISIONS, key })? {
            Answer::Object(Some(json)) => json,
            Answer::Object(None) => return Ok(None),
            Answer::Failed(error) => return Err(Stop::Failed(SyncError(error.to_string()))),
            Answer::Owner { .. } => return Err(failed("the question was not asked".to_owned())),
        };
        let data = serde_json::from_str(json).and_then(|object: &RawValue| raw::get(object, &["data"]));
        data.map(|data| Some(data.unwrap_or(RawValue::NULL))).map_err(|error| failed(format!("ControllerRevision {name}: data: {error}")))
    }

    /// Under the first name that is free, or has these data already (upstream `CreateControllerRevision`).
    fn create_revision(&mut self, revision: i64) -> Result<Arc<str>, Stop> {
        let data = revision::data(self.set.spec.template.raw()).ok_or_else(unreadable)?;
        let label = revision::hash(data.get(), Some(self.collision_count));
        loop {
            let hash = revision::hash(data.get(), Some(self.collision_count));
            let name: Arc<str> = revision::name(&self.set.key.name, &hash).into();
            let step = create(self.set, &name, &label, &data, revision)
                .map_err(|error| failed(format!("spec.template or metadata.annotations: {error}")))?;
            match self.act_once(step)? {
                Outcome::Failed(error) if error.is_already_exists() => {
                    let found = self.live_data(&name)?.ok_or_else(|| gone(&name))?;
                    if found.get() == data.get() {
                        return Ok(name);
                    }
                    self.collision_count = self.collision_count.wrapping_add(1);
                }
                outcome => return done(outcome).map(|()| name).map_err(Stop::Failed),
            }
        }
    }
}

/// Upstream `nextRevision`.
fn next(last: &ControllerRevision) -> Result<i64, Stop> {
    last.revision.checked_add(1).ok_or_else(|| failed(format!("ControllerRevision {}: there is no number after {}", last.name, i64::MAX)))
}

fn unreadable() -> Stop {
    failed("spec.template cannot be made a revision of".to_owned())
}

fn gone(name: &str) -> Stop {
    failed(format!("ControllerRevision {name} is gone"))
}

/// Upstream `newRevision`.
fn create(set: &StatefulSet, name: &Arc<str>, hash: &str, data: &RawValue, revision: i64) -> Result<Step, serde_json::Error> {
    let labels = raw::get(set.spec.template.raw(), &["metadata", "labels"])?.unwrap_or(RawValue::NULL);
    let labels = raw::with_text(labels, &[HASH_LABEL], hash)?;
    let annotations = raw::get(&set.metadata, &["annotations"])?.unwrap_or(RawValue::NULL);
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": &*set.key.name, "uid": set.uid.to_string(),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    // The name comes first, and is the only thing that is left open.
    let rest = [
        r#","namespace":"#,
        &serde_json::to_string(&*set.key.namespace)?,
        r#","labels":"#,
        labels.get(),
        r#","annotations":"#,
        annotations.get(),
        r#","ownerReferences":"#,
        &owner.to_string(),
        r#"},"data":"#,
        data.get(),
        r#","revision":"#,
        &revision.to_string(),
        "}",
    ];
    let body = NewObject {
        name: NewName::Given(name.clone()),
        before_name: r#"{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"#.to_owned(),
        after_name: rest.concat(),
    };
    let namespace = set.key.namespace.clone();
    let create = Create { resource: &CONTROLLERREVISIONS, namespace, owner: Some(set.as_owner()), body: Arc::new(body), news: None };
    Ok(Step { action: Action::Create(create), reason: Rule::NewTemplate })
}
