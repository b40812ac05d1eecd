//! A ReplicaSet for a template that none has (upstream `pkg/controller/deployment/sync.go` `getNewReplicaSet`).

use std::sync::Arc;

use model::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use model::deployment::Strategy;
use model::fingerprint::POD_TEMPLATE_HASH;
use model::plan::{Action, Answer, ApiError, Create, NewName, NewObject, Outcome, Question, REPLICASETS, Rule, Step, SyncError, Wait};
use model::replicaset::Rollout;
use model::template::safe_encode;
use model::{Decode as _, Deployment, Fingerprint, ObjectKey, ReplicaSet, ReplicaSetDecoder, raw};
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::conditions::{NEW_REPLICA_SET_CREATED, PROGRESSING, REPLICA_SET_CREATE_ERROR};
use crate::events::{create_error, scaled};
use crate::fenceposts::{Fenceposts, surge};
use crate::member::Member;
use crate::sync::{Stop, Sync, done, failed};

/// The longest name the API server takes (upstream `DNS1123SubdomainMaxLength`).
const MAX_NAME: usize = 253;

// === impl Sync ===

impl Sync<'_> {
    /// [`Self::sync_revision`], and a new ReplicaSet if there is none.
    pub(crate) fn sync_or_create(&mut self) -> Result<(), Stop> {
        if self.new.is_some() {
            return self.sync_revision();
        }
        let revision = self.next_revision().to_string();
        let replicas = self.new_replicas(0).map_err(failed)?;
        let fingerprint = self.deployment.spec.template.fingerprint().ok_or_else(|| failed("no template".to_owned()))?;
        let hash = template_hash(fingerprint, self.status.collision_count);
        let key = ObjectKey { namespace: self.deployment.key.namespace.clone(), name: name(&self.deployment.key.name, &hash) };
        let rollout = self.rollout(&revision);
        let step = create(self.deployment, &key, &hash, replicas, &rollout)
            .map_err(|error| failed(format!("spec.template or spec.selector: {error}")))?;
        match self.act(vec![step])?.first() {
            Some(Outcome::Done { resource_version, .. }) => {
                self.new = Some(Member::made(key.clone(), *resource_version, replicas, rollout));
                if self.deployment.spec.progress_deadline().is_some() {
                    self.note(PROGRESSING, "True", NEW_REPLICA_SET_CREATED, format!("Created new replica set {:?}", key.name));
                }
            }
            Some(Outcome::Failed(error)) if error.is_already_exists() => self.resolve_collision(key, error)?,
            Some(Outcome::Failed(error)) if error.namespace_terminating => {
                self.waits.push(Wait::new(Rule::NamespaceTerminating));
                return Err(Stop::Quietly);
            }
            Some(Outcome::Failed(error) | Outcome::Unknown(error)) => {
                if self.deployment.spec.progress_deadline().is_some() {
                    self.note(PROGRESSING, "False", REPLICA_SET_CREATE_ERROR, create_error(&key.name, error));
                }
                return Err(Stop::Failed(SyncError(error.to_string())));
            }
            other => return Err(done(other).map_or_else(Stop::Failed, |_| Stop::Quietly)),
        }
        self.revision = Some(revision.into());
        Ok(())
    }

    /// The size of a new ReplicaSet that has so many replicas now (upstream `NewRSNewReplicas`).
    pub(crate) fn new_replicas(&self, have: i32) -> Result<i32, String> {
        let wanted = self.deployment.spec.replicas;
        let Strategy::RollingUpdate { max_surge, .. } = &self.deployment.spec.strategy else { return Ok(wanted) };
        let most = wanted.saturating_add(surge(max_surge, wanted)?);
        let total: i32 = self.all().map(|member| member.replicas).sum();
        Ok(if total >= most { have } else { have + (most - total).min(wanted - have) })
    }

    /// The notes on a ReplicaSet of the Deployment's present size.
    pub(crate) fn rollout(&self, revision: &str) -> Rollout {
        let spec = &self.deployment.spec;
        let most = spec.replicas.saturating_add(Fenceposts::of(spec).max_surge);
        Rollout {
            revision: Some(revision.into()),
            revision_history: None,
            desired_replicas: Some(spec.replicas.to_string().into()),
            max_replicas: Some(most.to_string().into()),
        }
    }

    /// The name is taken: by our own ReplicaSet, which the cache does not show yet, or by another one. Upstream looks into its cache; a live
    /// read knows at once.
    fn resolve_collision(&mut self, key: ObjectKey, taken: &ApiError) -> Result<(), Stop> {
        let found = match self.ask(Question::Live { resource: &REPLICASETS, key })? {
            Answer::Object(Some(json)) => json,
            Answer::Failed(error) => return Err(Stop::Failed(SyncError(error.to_string()))),
            Answer::Object(None) | Answer::Owner { .. } => return Err(Stop::Failed(SyncError(taken.to_string()))),
        };
        match ReplicaSetDecoder::new().decode(found.as_bytes()) {
            Ok(set) if self.is_ours(&set) => {
                self.new = Some(Member::read(Arc::new(set)));
                Ok(())
            }
            _ => {
                self.status.collision_count = Some(self.status.collision_count.unwrap_or(0).saturating_add(1));
                Err(Stop::Failed(SyncError(taken.to_string())))
            }
        }
    }

    fn is_ours(&self, set: &ReplicaSet) -> bool {
        let template = set.template_fingerprint();
        set.controller.is(self.deployment.uid) && template.is_some() && template == self.deployment.spec.template.fingerprint()
    }
}

/// What tells the Deployment's ReplicaSets apart. It need not be upstream's hash, which changes with every release: nobody compares them.
/// The same template and collision count always give the same one.
fn template_hash(template: Fingerprint, collision_count: Option<i32>) -> String {
    let mut hash = Sha256::new();
    hash.update(template.as_bytes());
    hash.update(collision_count.unwrap_or(0).to_be_bytes());
    let digest = hash.finalize();
    let number = digest.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    safe_encode(&number.to_string())
}

/// Upstream `generateReplicaSetName`.
fn name(deployment: &str, hash: &str) -> Arc<str> {
    let room = MAX_NAME - 1 - hash.len();
    let deployment = deployment.get(..room).unwrap_or(deployment);
    Arc::from(format!("{deployment}-{hash}"))
}

fn create(deployment: &Deployment, key: &ObjectKey, hash: &str, replicas: i32, rollout: &Rollout) -> Result<Step, serde_json::Error> {
    let template = raw::with_text(deployment.spec.template.raw(), &["metadata", "labels", POD_TEMPLATE_HASH], hash)?;
    let selector = raw::with_text(&deployment.spec.raw_selector, &["matchLabels", POD_TEMPLATE_HASH], hash)?;
    let mut annotations: serde_json::Map<_, _> = deployment.annotations.iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    let notes = [(REVISION, &rollout.revision), (DESIRED_REPLICAS, &rollout.desired_replicas), (MAX_REPLICAS, &rollout.max_replicas)];
    annotations.extend(notes.into_iter().map(|(key, value)| (key.to_owned(), json!(value))));
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "Deployment", "name": &*deployment.key.name, "uid": deployment.uid.to_string(),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let labels = raw::get(&template, &["metadata", "labels"])?.unwrap_or(RawValue::NULL);
    // The name comes first, and is the only thing that is left open.
    let rest = [
        r#","namespace":"#,
        &serde_json::to_string(&*key.namespace)?,
        r#","labels":"#,
        labels.get(),
        r#","annotations":"#,
        &serde_json::to_string(&annotations)?,
        r#","ownerReferences":"#,
        &owner.to_string(),
        r#"},"spec":{"replicas":"#,
        &replicas.to_string(),
        r#","minReadySeconds":"#,
        &deployment.spec.min_ready_seconds.to_string(),
        r#","selector":"#,
        selector.get(),
        r#","template":"#,
        template.get(),
        "}}",
    ];
    let body = NewObject {
        name: NewName::Given(key.name.clone()),
        before_name: r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"#.to_owned(),
        after_name: rest.concat(),
    };
    let news = (replicas > 0).then(|| scaled(&key.name, 0, replicas));
    let create =
        Create { resource: &REPLICASETS, namespace: key.namespace.clone(), owner: Some(deployment.as_owner()), body: Arc::new(body), news };
    Ok(Step { action: Action::Create(create), reason: Rule::NewTemplate })
}
