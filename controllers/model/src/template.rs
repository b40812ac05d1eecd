//! From a pod template to the body of a new pod, without reading more of it than the metadata.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fingerprint::Fingerprint;
use crate::intern::Interner;
use crate::json::{WireLabels, labels};
use crate::labels::LabelSet;
use crate::meta::OwnerRef;
use crate::plan::{NewName, NewObject};
use crate::revision;

/// What random suffixes are made of: no vowels and nothing that looks alike (upstream `k8s.io/apimachinery/pkg/util/rand`).
pub const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Characters of a random suffix.
pub const SUFFIX_LENGTH: usize = 5;
/// A generated name's prefix is cut to this (upstream `k8s.io/apiserver/pkg/storage/names`).
const MAX_PREFIX: usize = 63 - SUFFIX_LENGTH;

/// A pod template as it was read.
pub struct Template {
    raw: Box<RawValue>,
    /// Made when it is first asked for: most versions of an object never are.
    fingerprint: OnceLock<Option<Fingerprint>>,
    revision: OnceLock<Option<Fingerprint>>,
    labels: OnceLock<Arc<LabelSet>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireLabelled {
    metadata: Option<WireLabelledMeta>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireLabelledMeta {
    labels: Option<WireLabels>,
}

#[derive(Deserialize)]
struct WireTemplate<'a> {
    #[serde(borrow, default)]
    metadata: Option<TemplateMeta<'a>>,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TemplateMeta<'a> {
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    finalizers: Option<&'a RawValue>,
}

/// The body of a pod made from a template (upstream `pkg/controller/controller_utils.go` `GetPodFromTemplate`): labels, annotations
/// and finalizers of the template, its whole spec byte for byte, the owner's name as prefix, the owner as controller.
///
/// # Errors
/// When the template is not an object with the fields that a template has.
pub fn pod_from_template(template: &RawValue, owner: &OwnerRef) -> Result<NewObject, serde_json::Error> {
    let template: WireTemplate<'_> = serde_json::from_str(template.get())?;
    let metadata = template.metadata.unwrap_or_default();
    // Upstream falls back to the bare name where this is no valid prefix; for a name the API server let through it always is.
    let generate_name = format!("{}-", owner.name);
    let mut after_name = format!(r#","generateName":{}"#, serde_json::to_string(&generate_name)?);
    for (field, value) in [("labels", metadata.labels), ("annotations", metadata.annotations), ("finalizers", metadata.finalizers)] {
        if let Some(value) = value {
            after_name.extend([",\"", field, "\":", value.get()]);
        }
    }
    let reference = format!(
        r#"{{"apiVersion":"apps/v1","kind":"{}","name":{},"uid":"{}","controller":true,"blockOwnerDeletion":true}}"#,
        owner.kind.as_str(),
        serde_json::to_string(&*owner.name)?,
        owner.uid,
    );
    let spec = template.spec.map_or("{}", RawValue::get);
    after_name.extend([",\"ownerReferences\":[", &reference, "]},\"spec\":", spec, "}"]);
    let before_name = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"#.to_owned();
    Ok(NewObject { name: NewName::Generated(Arc::from(generate_name)), before_name, after_name })
}

// === impl Template ===

impl Template {
    /// A template of its own.
    pub fn new(raw: Box<RawValue>) -> Self {
        Self { raw, fingerprint: OnceLock::new(), revision: OnceLock::new(), labels: OnceLock::new() }
    }

    /// Its JSON.
    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    /// The labels of the pods made from it: read once, however many versions of an object have this template.
    ///
    /// # Errors
    /// When it is not an object with the fields that a template has.
    pub(crate) fn labels(&self, interner: &mut Interner) -> Result<Arc<LabelSet>, serde_json::Error> {
        if let Some(labels) = self.labels.get() {
            return Ok(Arc::clone(labels));
        }
        let wire: Option<WireLabelled> = serde_json::from_str(self.raw.get())?;
        let wire = wire.and_then(|template| template.metadata).and_then(|metadata| metadata.labels);
        Ok(Arc::clone(self.labels.get_or_init(|| labels(wire, interner))))
    }

    /// What tells whether another says the same, see [`Fingerprint::of_template`].
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        *self.fingerprint.get_or_init(|| Fingerprint::of_template(&self.raw))
    }

    /// Of the data of a ControllerRevision made from it, see [`revision::data`].
    pub fn revision_fingerprint(&self) -> Option<Fingerprint> {
        *self.revision.get_or_init(|| revision::data(&self.raw).map(|data| Fingerprint::of_bytes(data.get().as_bytes())))
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw.get())
    }
}

/// A number's digits as characters of [`SUFFIX_ALPHABET`] (upstream `k8s.io/apimachinery/pkg/util/rand` `SafeEncodeString`).
pub fn safe_encode(text: &str) -> String {
    let letter = |byte: u8| SUFFIX_ALPHABET.get(usize::from(byte) % SUFFIX_ALPHABET.len()).copied().unwrap_or(b'b');
    text.bytes().map(|byte| char::from(letter(byte))).collect()
}

/// A name as the API server would generate it: the prefix, cut to leave room, and the suffix.
pub fn generated_name(prefix: &str, suffix: [u8; SUFFIX_LENGTH]) -> String {
    let mut name: String = prefix.chars().take(MAX_PREFIX).collect();
    name.extend(suffix.iter().map(|byte| char::from(*byte)));
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{OwnerKind, Uid};

    fn body(template: &str) -> serde_json::Value {
        let owner = OwnerRef { kind: OwnerKind::ReplicaSet, name: Arc::from("web"), uid: Uid(1) };
        let template = RawValue::from_string(template.to_owned()).unwrap();
        serde_json::from_str(&pod_from_template(&template, &owner).unwrap().with_name("web-abcde")).unwrap()
    }

    #[test]
    fn the_pod_has_the_templates_parts_and_the_owner() {
        let pod = body(
            r#"{"metadata":{"name":"not-taken","namespace":"nor-this","labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["e/f"]},
                "spec":{"containers":[{"name":"x","fieldOfTheFuture":[1.50]}]}}"#,
        );
        assert_eq!(
            pod,
            serde_json::json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": "web-abcde", "generateName": "web-", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"],
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                        "uid": "00000000-0000-0000-0000-000000000001", "controller": true, "blockOwnerDeletion": true}],
                },
                "spec": {"containers": [{"name": "x", "fieldOfTheFuture": [1.50]}]},
            })
        );
    }

    #[test]
    fn an_empty_template_still_makes_a_body() {
        assert_eq!(body("{}")["spec"], serde_json::json!({}));
        assert_eq!(body(r#"{"metadata":null,"spec":null}"#)["metadata"]["name"], "web-abcde");
    }

    #[test]
    fn long_prefixes_are_cut_as_the_server_cuts_them() {
        let name = generated_name(&"x".repeat(100), *b"bcdfg");
        assert_eq!(name.len(), 63);
        assert!(name.ends_with("xbcdfg"));
    }
}
