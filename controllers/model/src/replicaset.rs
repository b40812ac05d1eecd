//! The ReplicaSet as its controller reads it: the template and the metadata stay raw JSON, so that fields newer than
//! this program survive every write.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::DecodeError;
use crate::labels::{LabelSet, Labels};
use crate::meta::{ControllerRef, ObjectKey, OwnerKind, OwnerRef, ResourceVersion, Timestamp, Uid, identity};
use crate::object::{Decode, Format, Object};
use crate::plan::{ObjectRef, REPLICASETS};
use crate::selector::{Selector, SelectorError, WireSelector};

/// An `apps/v1` ReplicaSet.
#[derive(Debug)]
pub struct ReplicaSet {
    /// `metadata.namespace` and `metadata.name`.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.deletionTimestamp`.
    pub deletion: Option<Timestamp>,
    /// The controlling owner.
    pub controller: ControllerRef,
    /// The controlling owner's UID, of whatever kind it is: ReplicaSets that share it rank their pods together.
    pub controller_uid: Option<Uid>,
    /// `metadata.labels`.
    pub labels: LabelSet,
    /// The whole `metadata` but managedFields, as it was read.
    pub metadata: Arc<RawValue>,
    /// `spec`.
    pub spec: ReplicaSetSpec,
    /// `status`.
    pub status: ReplicaSetStatus,
}

/// `spec` of a ReplicaSet.
#[derive(Debug)]
pub struct ReplicaSetSpec {
    /// `replicas`; the API server always fills it in.
    pub replicas: i32,
    /// `minReadySeconds`.
    pub min_ready_seconds: i32,
    /// `selector`, or why it cannot be used.
    pub selector: Result<Selector, SelectorError>,
    /// `template`, as it was read.
    pub template: Arc<RawValue>,
    /// `template.metadata.labels`.
    pub template_labels: LabelSet,
}

/// `status` of a ReplicaSet. Fields we do not know are carried along.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// Active pods.
    pub replicas: i32,
    /// Active pods that carry every label of the template.
    #[serde(skip_serializing_if = "is_zero")]
    pub fully_labeled_replicas: i32,
    /// Ready pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    /// Pods ready for at least minReadySeconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i32,
    /// Terminating pods; absent while the gate `DeploymentReplicaSetTerminatingReplicas` is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The generation this status speaks of.
    #[serde(skip_serializing_if = "is_zero_i64")]
    pub observed_generation: i64,
    /// Conditions, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub conditions: Vec<Condition>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// A condition of a workload's status.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// `type`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When `status` last changed, RFC 3339.
    pub last_transition_time: Option<String>,
    /// A word for programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// Reads ReplicaSets from JSON.
#[derive(Debug, Default)]
pub struct ReplicaSetDecoder;

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct WireReplicaSet<'a> {
    #[serde(borrow)]
    metadata: BTreeMap<Cow<'a, str>, &'a RawValue>,
    #[serde(default)]
    spec: WireSpec<'a>,
    #[serde(default)]
    status: Option<ReplicaSetStatus>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec<'a> {
    replicas: Option<i32>,
    min_ready_seconds: Option<i32>,
    selector: Option<WireSelector>,
    #[serde(borrow)]
    template: Option<&'a RawValue>,
}

/// The fields of `metadata` that decisions read.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireMeta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    generation: Option<i64>,
    #[serde(borrow)]
    deletion_timestamp: Option<Cow<'a, str>>,
    labels: Option<BTreeMap<String, String>>,
    #[serde(borrow)]
    owner_references: Option<Vec<WireOwner<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireOwner<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    controller: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireTemplate {
    metadata: Option<WireTemplateMeta>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireTemplateMeta {
    labels: Option<BTreeMap<String, String>>,
}

// === impl ReplicaSet ===

impl ReplicaSet {
    /// This ReplicaSet as a reference.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef { resource: &REPLICASETS, key: self.key.clone(), uid: self.uid, resource_version: self.resource_version }
    }

    /// The owner that its pods name.
    pub fn as_owner(&self) -> Arc<OwnerRef> {
        Arc::new(OwnerRef { kind: OwnerKind::ReplicaSet, name: self.key.name.clone(), uid: self.uid })
    }
}

impl Object for ReplicaSet {
    fn namespace(&self) -> &Arc<str> {
        &self.key.namespace
    }

    fn name(&self) -> &str {
        &self.key.name
    }

    fn uid(&self) -> Uid {
        self.uid
    }

    fn resource_version(&self) -> ResourceVersion {
        self.resource_version
    }

    fn controller(&self) -> &ControllerRef {
        &self.controller
    }

    fn labels(&self) -> &dyn Labels {
        &self.labels
    }
}

// === impl ReplicaSetDecoder ===

impl Decode for ReplicaSetDecoder {
    type Object = ReplicaSet;
    const FORMAT: Format = Format::Json;

    fn decode(&mut self, raw: &[u8]) -> Result<ReplicaSet, DecodeError> {
        let wire: WireReplicaSet<'_> = serde_json::from_slice(raw)?;
        let metadata = whole_metadata(wire.metadata)?;
        let meta: WireMeta<'_> = serde_json::from_str(metadata.get())?;
        for (field, value) in [("name", &meta.name), ("namespace", &meta.namespace)] {
            if value.is_empty() {
                return Err(identity(field, value));
            }
        }
        let uid = Uid::parse(&meta.uid).ok_or_else(|| identity("uid", &meta.uid))?;
        let owner = controlling(meta.owner_references.as_deref().unwrap_or_default());
        let template = wire.spec.template.map_or("{}", RawValue::get);
        let labels = serde_json::from_str::<Option<WireTemplate>>(template)?.and_then(|t| t.metadata).and_then(|m| m.labels);
        Ok(ReplicaSet {
            key: ObjectKey::new(&*meta.namespace, &*meta.name),
            uid,
            resource_version: ResourceVersion::parse(&meta.resource_version),
            generation: meta.generation.unwrap_or(0),
            deletion: meta.deletion_timestamp.as_deref().and_then(Timestamp::parse),
            controller: owner.map_or(ControllerRef::None, controller_ref),
            controller_uid: owner.and_then(|owner| Uid::parse(&owner.uid)),
            labels: meta.labels.unwrap_or_default().iter().collect(),
            spec: ReplicaSetSpec {
                replicas: wire.spec.replicas.unwrap_or(1),
                min_ready_seconds: wire.spec.min_ready_seconds.unwrap_or(0),
                selector: Selector::from_wire(wire.spec.selector),
                template: raw_value(template.to_owned())?,
                template_labels: labels.unwrap_or_default().iter().collect(),
            },
            status: wire.status.unwrap_or_default(),
            metadata,
        })
    }
}

/// `metadata` without managedFields, every other field byte for byte.
fn whole_metadata(mut fields: BTreeMap<Cow<'_, str>, &RawValue>) -> Result<Arc<RawValue>, DecodeError> {
    fields.remove("managedFields");
    raw_value(serde_json::to_string(&fields)?)
}

fn raw_value(json: String) -> Result<Arc<RawValue>, DecodeError> {
    Ok(Arc::from(RawValue::from_string(json)?))
}

/// Upstream `k8s.io/apimachinery/pkg/apis/meta/v1` `GetControllerOf`: the first reference that says so.
fn controlling<'a, 'b>(owners: &'a [WireOwner<'b>]) -> Option<&'a WireOwner<'b>> {
    owners.iter().find(|owner| owner.controller == Some(true))
}

fn controller_ref(owner: &WireOwner<'_>) -> ControllerRef {
    match OwnerKind::from_kind(&owner.kind) {
        Some(kind) => ControllerRef::Owner(Arc::new(OwnerRef {
            kind,
            name: Arc::from(&*owner.name),
            uid: Uid::parse(&owner.uid).unwrap_or(Uid::NONE),
        })),
        None => ControllerRef::Foreign,
    }
}

// === impl ReplicaSetStatus ===

impl ReplicaSetStatus {
    /// The condition of that type.
    pub fn condition(&self, r#type: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.r#type == r#type)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references to skip_serializing_if")]
fn is_zero(value: &i32) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references to skip_serializing_if")]
fn is_zero_i64(value: &i64) -> bool {
    *value == 0
}

fn null_is_empty<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web","namespace":"shop","uid":"6d9f8a3e-0000-4000-8000-00000000002a",
        "resourceVersion":"71","generation":3,"labels":{"app":"web"},"annotations":{"note":"a \u0026 b"},"newField":{"z":1,"a":2},
        "managedFields":[{"manager":"kubectl"}],
        "ownerReferences":[{"kind":"Other","name":"x","uid":"y"},{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"6d9f8a3e-0000-4000-8000-000000000001","controller":true}]},
        "spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"newer":true,"containers":[]}}},
        "status":{"replicas":1,"observedGeneration":2,"conditions":[{"type":"ReplicaFailure","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"FailedCreate","extra":5}],"newCount":9}}"#;

    fn decode(json: &str) -> Result<ReplicaSet, DecodeError> {
        ReplicaSetDecoder.decode(json.as_bytes())
    }

    #[test]
    fn reads_what_decisions_need_and_keeps_the_rest_raw() {
        let set = decode(WEB).unwrap();
        assert_eq!(set.key.to_string(), "shop/web");
        assert_eq!(set.uid.to_string(), "6d9f8a3e-0000-4000-8000-00000000002a");
        assert_eq!((set.resource_version.0, set.generation, set.spec.replicas), (71, 3, 2));
        assert_eq!(&*set.controller.owner().unwrap().name, "web");
        assert_eq!(set.spec.template.get(), r#"{"metadata":{"labels":{"app":"web"}},"spec":{"newer":true,"containers":[]}}"#);
        assert_eq!(set.spec.template_labels.get("app"), Some("web"));
        assert!(set.metadata.get().contains(r#""newField":{"z":1,"a":2}"#));
        assert!(set.metadata.get().contains(r"a \u0026 b"));
        assert!(!set.metadata.get().contains("managedFields"));
    }

    #[test]
    fn a_status_goes_back_with_the_fields_it_came_with() {
        let status = decode(WEB).unwrap().status;
        let again: serde_json::Value = serde_json::to_value(&status).unwrap();
        let before: serde_json::Value = serde_json::from_str(WEB).unwrap();
        assert_eq!(again, before["status"]);
    }

    #[test]
    fn odd_objects_are_borne_and_nameless_ones_refused() {
        let bare = r#"{"metadata":{"name":"a","namespace":"b","uid":"6d9f8a3e-0000-4000-8000-00000000002a"},"spec":{"template":null},"status":null}"#;
        assert_eq!(decode(bare).unwrap().spec.selector, Ok(Selector::Nothing));
        let nulls = bare.replace("\"status\":null", "\"status\":{\"conditions\":null}");
        assert!(decode(&nulls).unwrap().status.conditions.is_empty());
        let error = decode(&bare.replace("6d9f", "6D9F")).unwrap_err().to_string();
        assert!(error.contains("metadata.uid"), "{error}");
    }
}
