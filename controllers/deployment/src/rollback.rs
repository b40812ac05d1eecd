//! The annotation that asks for an earlier template (upstream `pkg/controller/deployment/rollback.go`). `kubectl rollout undo` does without it.

use model::annotations::{ROLLBACK_TO, is_copied};
use model::fingerprint::POD_TEMPLATE_HASH;
use model::plan::{Action, Answer, Edit, Event, Question, Rule, Step, SyncError};
use model::raw::{self, Fields};
use serde_json::value::{RawValue, to_raw_value};

use crate::events::{normal, warning};
use crate::member::Member;
use crate::sync::{Stop, Sync, done, failed};

const ANNOTATIONS: &[&str] = &["metadata", "annotations"];
const TEMPLATE: &[&str] = &["spec", "template"];
const NOT_FOUND: &str = "DeploymentRollbackRevisionNotFound";

// === impl Sync ===

impl Sync<'_> {
    /// Upstream `getRollbackTo`: what is no number is ignored.
    pub(crate) fn rollback_to(&self) -> Option<i64> {
        self.deployment.rollback_to.as_deref().and_then(|revision| revision.parse().ok())
    }

    /// Upstream `rollback`. However it ends, the annotation goes.
    pub(crate) fn rollback(&mut self, revision: i64) -> Result<(), Stop> {
        self.sync_or_create()?;
        let revision = if revision == 0 { self.last_revision() } else { revision };
        if revision == 0 {
            self.events.push(warning(NOT_FOUND, "Unable to find last revision.".to_owned()));
            return self.clear();
        }
        let Some(target) = self.all().find(|member| member.revision() == Some(revision)).cloned() else {
            self.events.push(warning(NOT_FOUND, "Unable to find the revision to rollback to.".to_owned()));
            return self.clear();
        };
        let name = &self.deployment.key.name;
        // Not only the new one: an old one may be its twin.
        if target.set().is_none_or(|set| set.template_fingerprint() == self.deployment.spec.template.fingerprint()) {
            let message = format!("The rollback revision contains the same template as current deployment {name:?}");
            self.events.push(warning("DeploymentRollbackTemplateUnchanged", message));
            return self.clear();
        }
        let news = normal("DeploymentRollback", format!("Rolled back deployment {name:?} to revision {revision}"));
        let template = self.template_of(&target)?;
        let annotations = self.annotations_of(&target).map_err(|error| failed(format!("metadata.annotations: {error}")))?;
        self.edit(vec![(TEMPLATE, template), (ANNOTATIONS, annotations)], Some(news))
    }

    /// The second highest revision (upstream `LastRevision`).
    fn last_revision(&self) -> i64 {
        let (mut highest, mut second) = (0, 0);
        for revision in self.all().filter_map(Member::revision) {
            if revision >= highest {
                (highest, second) = (revision, highest);
            } else if revision > second {
                second = revision;
            }
        }
        second
    }

    /// The ReplicaSet's template without the hash label: read live, since one at zero is not held whole.
    fn template_of(&mut self, target: &Member) -> Result<Box<RawValue>, Stop> {
        let question = Question::Live { resource: &model::plan::REPLICASETS, key: target.key.clone() };
        let json = match self.ask(question)? {
            Answer::Object(Some(json)) => json,
            Answer::Failed(error) => return Err(Stop::Failed(SyncError(error.to_string()))),
            Answer::Object(None) | Answer::Owner { .. } => return Err(failed(format!("ReplicaSet {} is gone", target.key))),
        };
        let template = || -> Result<_, serde_json::Error> {
            let set: Box<RawValue> = serde_json::from_str(json)?;
            let template = raw::get(&set, TEMPLATE)?.unwrap_or(RawValue::NULL);
            raw::without(template, &["metadata", "labels", POD_TEMPLATE_HASH])
        };
        template().map_err(|error| failed(format!("ReplicaSet {}: spec.template: {error}", target.key)))
    }

    /// Our own of those that are never handed on, and the ReplicaSet's of the others (upstream `SetDeploymentAnnotationsTo`).
    fn annotations_of(&self, target: &Member) -> Result<Box<RawValue>, serde_json::Error> {
        let own = raw::get(&self.deployment.metadata, &["annotations"])?.unwrap_or(RawValue::NULL);
        let mut fields: Fields<'_> = raw::fields(own)?;
        fields.retain(|key, _| !is_copied(key) && key != ROLLBACK_TO);
        let theirs = target.set().map(|set| set.annotations.iter().map(|(key, value)| Ok((key, to_raw_value(value)?))));
        let theirs: Vec<_> = theirs.into_iter().flatten().collect::<Result<_, serde_json::Error>>()?;
        fields.extend(theirs.iter().map(|(key, value)| ((*key).into(), &**value)));
        to_raw_value(&fields)
    }

    fn clear(&mut self) -> Result<(), Stop> {
        let own = raw::get(&self.deployment.metadata, &["annotations"]);
        let left = own.and_then(|own| raw::without(own.unwrap_or(RawValue::NULL), &[ROLLBACK_TO]));
        let left = left.map_err(|error| failed(format!("metadata.annotations: {error}")))?;
        self.edit(vec![(ANNOTATIONS, left)], None)
    }

    /// Writes the Deployment. Its status is left to the next sync, which sees the Deployment as it is now.
    fn edit(&mut self, fields: Vec<(&'static [&'static str], Box<RawValue>)>, news: Option<Event>) -> Result<(), Stop> {
        let edit = Edit { target: self.deployment.reference(), fields, news };
        let outcomes = self.act(vec![Step { action: Action::Edit(edit), reason: Rule::RollbackRequested }])?;
        done(outcomes.first()).map_err(Stop::Failed)?;
        self.status.clone_from(&self.deployment.status);
        self.revision.clone_from(&self.deployment.revision);
        Ok(())
    }
}
