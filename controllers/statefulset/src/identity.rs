//! What makes a pod that of its ordinal (upstream `stateful_set_utils.go` `newStatefulSetPod`, `identityMatches`, `storageMatches`).

use std::sync::Arc;

use model::labels::Labels as _;
use model::plan::{NewName, NewObject};
use model::pod::{Claim, POD_INDEX_LABEL, POD_NAME_LABEL};
use model::statefulset::REVISION_LABEL;
use model::template::pod_from_template;
use model::{Pod, StatefulSet, raw};
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

/// The body of the pod with that ordinal, made from the template of that revision.
///
/// # Errors
/// When the template is not an object with the fields that a template has.
pub(crate) fn new_pod(set: &StatefulSet, template: &RawValue, ordinal: i32, revision: &str) -> Result<NewObject, serde_json::Error> {
    let name = set.pod_name(ordinal);
    let index = ordinal.to_string();
    let mut template = template.to_owned();
    for (label, value) in [(POD_NAME_LABEL, name.as_str()), (POD_INDEX_LABEL, &index), (REVISION_LABEL, revision)] {
        template = raw::with_text(&template, &["metadata", "labels", label], value)?;
    }
    template = raw::with_text(&template, &["spec", "hostname"], &name)?;
    template = match &*set.spec.service_name {
        "" => raw::without(&template, &["spec", "subdomain"])?,
        service => raw::with_text(&template, &["spec", "subdomain"], service)?,
    };
    if !set.spec.claim_templates.is_empty() {
        let current = raw::get(&template, &["spec", "volumes"])?.unwrap_or(RawValue::NULL);
        let volumes = volumes(set, ordinal, current)?;
        template = raw::with(&template, &["spec", "volumes"], &volumes)?;
    }
    let body = pod_from_template(&template, &set.as_owner())?;
    Ok(NewObject { name: NewName::Given(Arc::from(name)), ..body })
}

/// The claims' volumes, and those of the template that have other names (upstream `updateStorage`).
fn volumes(set: &StatefulSet, ordinal: i32, current: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    let templates = &set.spec.claim_templates;
    let claims = templates.iter().map(|template| {
        to_raw_value(&json!({"name": &*template.name, "persistentVolumeClaim": {"claimName": set.claim_name(template, ordinal)}}))
    });
    let mut volumes = claims.collect::<Result<Vec<_>, _>>()?;
    for volume in serde_json::from_str::<Option<Vec<&RawValue>>>(current.get())?.unwrap_or_default() {
        let name: Option<String> = raw::get(volume, &["name"])?.map(|name| serde_json::from_str(name.get())).transpose()?;
        if !templates.iter().any(|template| name.as_deref() == Some(&*template.name)) {
            volumes.push(volume.to_owned());
        }
    }
    to_raw_value(&volumes)
}
