//! What makes a pod that of its ordinal (upstream `stateful_set_utils.go` `newStatefulSetPod`, `identityMatches`, `storageMatches`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::labels::Labels as _;
use model::plan::{NewName, NewObject};
use model::pod::{Claim, POD_INDEX_LABEL, POD_NAME_LABEL};
use model::raw::{self, Fields};
use model::statefulset::REVISION_LABEL;
use model::template::pod_from_template;
use model::{Pod, StatefulSet};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

/// Whether a pod is called and labelled as the one with that ordinal is. Neither its index label nor its revision is looked at.
pub(crate) fn identity_matches(set: &StatefulSet, pod: &Pod, ordinal: i32) -> bool {
    *pod.name == *set.pod_name(ordinal) && pod.get(POD_NAME_LABEL) == Some(&*pod.name)
}

/// Whether each claim template's claim is mounted under the template's name.
pub(crate) fn storage_matches(set: &StatefulSet, pod: &Pod, ordinal: i32) -> bool {
    let mounts = pod.claims.as_deref().unwrap_or_default();
    set.spec.claim_templates.iter().all(|template| {
        let mount = mounts.iter().find_map(|mount| match mount {
            Claim::Conventional(volume) => (*volume == template.name).then(|| format!("{volume}-{}", pod.name)),
            Claim::Literal { volume, claim } => (*volume == template.name).then(|| claim.to_string()),
        });
        mount.is_some_and(|claim| claim == set.claim_name(template, ordinal))
    })
}

/// The patch that gives a pod its labels back.
pub(crate) fn identity_patch(set: &StatefulSet, ordinal: i32) -> serde_json::Value {
    json!({"metadata": {"labels": {POD_NAME_LABEL: set.pod_name(ordinal), POD_INDEX_LABEL: ordinal.to_string()}}})
}

/// A template, read once for all the pods that are made from it.
#[derive(Debug)]
pub(crate) struct PodTemplate<'a> {
    set: &'a StatefulSet,
    metadata: Fields<'a>,
    labels: Fields<'a>,
    spec: Fields<'a>,
    /// Those that no claim stands behind.
    volumes: Vec<&'a RawValue>,
}

// === impl PodTemplate ===

impl<'a> PodTemplate<'a> {
    /// # Errors
    /// When the template is not an object with the fields that a template has.
    pub(crate) fn read(set: &'a StatefulSet, template: &'a RawValue) -> Result<Self, serde_json::Error> {
        let part = |object: &Fields<'a>, field: &str| object.get(field).copied().unwrap_or(RawValue::NULL);
        let template = raw::fields(template)?;
        let metadata = raw::fields(part(&template, "metadata"))?;
        let labels = raw::fields(part(&metadata, "labels"))?;
        let spec = raw::fields(part(&template, "spec"))?;
        let mut volumes: Vec<&RawValue> = serde_json::from_str::<Option<_>>(part(&spec, "volumes").get())?.unwrap_or_default();
        volumes.retain(|volume| !is_claimed(set, volume));
        Ok(Self { set, metadata, labels, spec, volumes })
    }

    /// The body of the pod with that ordinal, of that revision.
    ///
    /// # Errors
    /// When the template's parts are not what they should be.
    pub(crate) fn pod(&self, ordinal: i32, revision: &str) -> Result<NewObject, serde_json::Error> {
        let name = self.set.pod_name(ordinal);
        let [quoted, index, revision] = [&*name, &ordinal.to_string(), revision].map(to_raw_value);
        let [quoted, index, revision] = [quoted?, index?, revision?];
        let mut labels = self.labels.clone();
        labels.extend([(POD_NAME_LABEL, &*quoted), (POD_INDEX_LABEL, &index), (REVISION_LABEL, &revision)].map(borrowed));
        let (labels, volumes) = (to_raw_value(&labels)?, to_raw_value(&self.volumes_of(ordinal)?)?);
        let mut metadata = self.metadata.clone();
        metadata.extend([("labels", &*labels)].map(borrowed));
        let subdomain = to_raw_value(&*self.set.spec.service_name)?;
        let mut spec = self.spec.clone();
        // The template's own makes no difference, even where the set has no service.
        spec.remove("subdomain");
        spec.extend([("hostname", &*quoted)].map(borrowed));
        spec.extend((!self.set.spec.service_name.is_empty()).then(|| borrowed(("subdomain", &*subdomain))));
        spec.extend((!self.set.spec.claim_templates.is_empty()).then(|| borrowed(("volumes", &*volumes))));
        let template = to_raw_value(&BTreeMap::from([("metadata", metadata), ("spec", spec)]))?;
        let body = pod_from_template(&template, &self.set.as_owner())?;
        Ok(NewObject { name: NewName::Given(Arc::from(name)), ..body })
    }

    /// The claims' volumes, and those of the template that have other names (upstream `updateStorage`).
    fn volumes_of(&self, ordinal: i32) -> Result<Vec<Cow<'a, RawValue>>, serde_json::Error> {
        let claims = self.set.spec.claim_templates.iter().map(|template| {
            let claim = self.set.claim_name(template, ordinal);
            to_raw_value(&json!({"name": &*template.name, "persistentVolumeClaim": {"claimName": claim}})).map(Cow::Owned)
        });
        claims.chain(self.volumes.iter().map(|volume| Ok(Cow::Borrowed(*volume)))).collect()
    }
}

fn borrowed<'f>((field, value): (&'static str, &'f RawValue)) -> (Cow<'f, str>, &'f RawValue) {
    (Cow::Borrowed(field), value)
}

/// Whether a claim template's volume takes the place of this one.
fn is_claimed(set: &StatefulSet, volume: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    let named: Result<Named<'_>, _> = serde_json::from_str(volume.get());
    named.is_ok_and(|volume| set.spec.claim_templates.iter().any(|template| *template.name == *volume.name))
}
