//! The claims of a set's pods (upstream `stateful_pod_control.go` `createPersistentVolumeClaims`, `PodClaimIsStale`,
//! `stateful_set_utils.go` `getPersistentVolumeClaims`).

use std::sync::Arc;

use model::plan::{Action, Create, NewName, NewObject, Owner, PERSISTENTVOLUMECLAIMS, PODS, Rule, STATEFULSETS, Step, Wait};
use model::statefulset::ClaimTemplate;
use model::{PersistentVolumeClaim, StatefulSet, Uid, raw};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::job::Job;
use crate::retention;
use crate::sync::Sync;

// === impl Sync ===

impl Sync<'_> {
    /// Has the claims made that the pod with that ordinal lacks. One that is on its way out is waited for.
    pub(crate) fn add_missing_claims(&mut self, job: &mut Job, ordinal: i32) {
        for template in &*self.set.spec.claim_templates {
            let name = self.set.claim_name(template, ordinal);
            match self.view.claims.get(&name) {
                Some(claim) if claim.deletion.is_some() => {
                    self.waits.push(Wait::on(Rule::ClaimTerminating, &name));
                    job.errors.push(format!("pvc {name} is being deleted"));
                }
                Some(_) => {}
                None => match create(self.set, template, &name) {
                    Ok(step) => job.tries.push(step),
                    Err(error) => job.errors.push(format!("spec.volumeClaimTemplates: {}: {error}", template.name)),
                },
            }
        }
    }

    /// A claim of the ordinal that is still an earlier pod's, which it is about to follow: no pod may be given it.
    pub(crate) fn stale_claim(&self, ordinal: i32) -> Option<&Arc<PersistentVolumeClaim>> {
        let set = self.set;
        if !set.spec.retention_policy.delete_when_scaled {
            return None;
        }
        let pod = Owner { resource: &PODS, name: Arc::from(set.pod_name(ordinal)), uid: Uid::NONE };
        let mut claims = set.spec.claim_templates.iter().filter_map(|template| self.view.claims.get(&set.claim_name(template, ordinal)));
        claims.find(|claim| claim.owners().iter().any(|owner| retention::names(owner, &pod)))
    }
}

/// A claim as its template has it, with the labels that the set selects by, and, where claims go with their set, owned by it from the
/// start (upstream adds the owner once its cache shows the claim, which is too late for a set that is deleted at once).
fn create(set: &StatefulSet, template: &ClaimTemplate, name: &str) -> Result<Step, serde_json::Error> {
    let mut metadata = raw::get(&template.raw, &["metadata"])?.unwrap_or(RawValue::NULL).to_owned();
    metadata = raw::without(&metadata, &["name"])?;
    metadata = raw::with_text(&metadata, &["namespace"], &set.key.namespace)?;
    for (label, value) in set.spec.match_labels.iter() {
        metadata = raw::with_text(&metadata, &["labels", label], value)?;
    }
    if set.spec.retention_policy.delete_with_set {
        let owner = json!([{
            "apiVersion": STATEFULSETS.api_version(), "kind": STATEFULSETS.kind, "name": &*set.key.name, "uid": set.uid.to_string(),
            "controller": true, "blockOwnerDeletion": true,
        }]);
        metadata = raw::with(&metadata, &["ownerReferences"], &to_raw_value(&owner)?)?;
    }
    // What is behind the brace of metadata comes behind the name.
    let metadata = metadata.get().strip_prefix('{').unwrap_or("}").to_owned();
    let mut rest = raw::fields(&template.raw)?;
    rest.retain(|field, _| !matches!(&**field, "apiVersion" | "kind" | "metadata" | "status"));
    let mut after_name = format!(",{metadata}");
    for (field, value) in rest {
        after_name.extend([",", &serde_json::to_string(&field)?, ":", value.get()]);
    }
    after_name.push('}');
    let body = NewObject {
        name: NewName::Given(Arc::from(name)),
        before_name: r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"#.to_owned(),
        after_name,
    };
    let namespace = set.key.namespace.clone();
    let create = Create { resource: &PERSISTENTVOLUMECLAIMS, namespace, owner: None, body: Arc::new(body), news: None };
    Ok(Step { action: Action::Create(create), reason: Rule::ClaimMissing })
}
