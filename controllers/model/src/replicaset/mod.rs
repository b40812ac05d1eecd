//! The ReplicaSet as its controller and its Deployment's read it: the template and the metadata stay raw JSON, so that fields newer than
//! this program survive every write. Those of a ReplicaSet at zero, of which every Deployment has up to ten, are not kept.

mod decode;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::decode::ReplicaSetDecoder;
use crate::annotations::Annotations;
use crate::condition::{self, Condition};
use crate::fingerprint::Fingerprint;
use crate::json::{is_default, null_is_default};
use crate::labels::{LabelSet, Labels};
use crate::meta::{ControllerRef, ObjectKey, OwnerKind, OwnerRef, ResourceVersion, Timestamp, Uid};
use crate::object::Object;
use crate::ownership::Claimable;
use crate::plan::{ObjectRef, REPLICASETS};
use crate::selector::{Selector, SelectorError};
use crate::template::Template;

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
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`.
    pub deletion: Option<Timestamp>,
    /// The controlling owner.
    pub controller: ControllerRef,
    /// `metadata.labels`.
    pub labels: Arc<LabelSet>,
    /// What its Deployment has noted on it.
    pub rollout: Arc<Rollout>,
    /// The annotations that a Deployment hands on, and takes back on a rollback.
    pub annotations: Arc<Annotations>,
    /// `spec`, but for the template.
    pub spec: ReplicaSetSpec,
    /// `status`.
    pub status: ReplicaSetStatus,
    /// What a write of it, or of its pods, is made of.
    pub body: Body,
    /// The controlling owner's UID if it is of a kind that we do not run, see [`Self::controller_uid`].
    foreign_controller: Option<Box<Uid>>,
}

/// The parts of a ReplicaSet that are copied, never read.
#[derive(Clone, Debug)]
pub enum Body {
    /// All of them.
    Whole {
        /// The whole `metadata` but managedFields, as it was read.
        metadata: Arc<RawValue>,
        /// `spec.template`, as it was read.
        template: Arc<Template>,
    },
    /// No pods are wanted (`spec.replicas`), there are none (`status.replicas`, `status.terminatingReplicas`) and the status speaks of
    /// this generation: none will be made of this version of the object, and hardly a status written. Whoever needs the object reads it live.
    AtZero {
        /// Tells whether another template is the same.
        template: Fingerprint,
    },
}

/// The annotations by which a Deployment keeps its books on its ReplicaSets, as text: it never touches one that it cannot read
/// (upstream `pkg/controller/deployment/util/deployment_util.go` `SetNewReplicaSetAnnotations`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Rollout {
    /// `deployment.kubernetes.io/revision`.
    pub revision: Option<Box<str>>,
    /// `deployment.kubernetes.io/revision-history`.
    pub revision_history: Option<Box<str>>,
    /// `deployment.kubernetes.io/desired-replicas`.
    pub desired_replicas: Option<Box<str>>,
    /// `deployment.kubernetes.io/max-replicas`.
    pub max_replicas: Option<Box<str>>,
}

/// `spec` of a ReplicaSet.
#[derive(Debug)]
pub struct ReplicaSetSpec {
    /// `replicas`; the API server always fills it in.
    pub replicas: i32,
    /// `minReadySeconds`.
    pub min_ready_seconds: i32,
    /// `selector`, or why it cannot be used.
    pub selector: Result<Selector, Box<SelectorError>>,
    /// `template.metadata.labels`.
    pub template_labels: Arc<LabelSet>,
}

/// `status` of a ReplicaSet. Fields we do not know are carried along.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// Active pods.
    pub replicas: i32,
    /// Active pods that carry every label of the template.
    #[serde(skip_serializing_if = "is_default")]
    pub fully_labeled_replicas: i32,
    /// Ready pods.
    #[serde(skip_serializing_if = "is_default")]
    pub ready_replicas: i32,
    /// Pods ready for at least minReadySeconds.
    #[serde(skip_serializing_if = "is_default")]
    pub available_replicas: i32,
    /// Terminating pods; absent while the gate `DeploymentReplicaSetTerminatingReplicas` is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// The generation this status speaks of.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Conditions, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

// === impl ReplicaSet ===

impl ReplicaSet {
    /// The owner that its pods name.
    pub fn as_owner(&self) -> Arc<OwnerRef> {
        Arc::new(OwnerRef { kind: OwnerKind::ReplicaSet, name: self.key.name.clone(), uid: self.uid })
    }

    /// The controlling owner's UID, of whatever kind it is: ReplicaSets that share it rank their pods together.
    pub fn controller_uid(&self) -> Option<Uid> {
        match &self.controller {
            ControllerRef::None => None,
            ControllerRef::Owner(owner) => Some(owner.uid).filter(|uid| *uid != Uid::NONE),
            ControllerRef::Foreign => self.foreign_controller.as_deref().copied(),
        }
    }

    /// The whole `metadata` but managedFields, if it is kept.
    pub fn metadata(&self) -> Option<&Arc<RawValue>> {
        match &self.body {
            Body::Whole { metadata, .. } => Some(metadata),
            Body::AtZero { .. } => None,
        }
    }

    /// `spec.template`, if it is kept.
    pub fn template(&self) -> Option<&RawValue> {
        match &self.body {
            Body::Whole { template, .. } => Some(template.raw()),
            Body::AtZero { .. } => None,
        }
    }

    /// What tells whether another template says the same, see [`Fingerprint::of_template`].
    pub fn template_fingerprint(&self) -> Option<Fingerprint> {
        match &self.body {
            Body::Whole { template, .. } => template.fingerprint(),
            Body::AtZero { template } => Some(*template),
        }
    }
}

impl Claimable for ReplicaSet {
    fn is_deleting(&self) -> bool {
        self.deletion.is_some()
    }

    fn reference(&self) -> ObjectRef {
        ObjectRef { resource: &REPLICASETS, key: self.key.clone(), uid: self.uid, resource_version: self.resource_version }
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
        &*self.labels
    }
}

// === impl ReplicaSetStatus ===

impl ReplicaSetStatus {
    /// The condition of that type.
    pub fn condition(&self, r#type: &str) -> Option<&Condition> {
        condition::find(&self.conditions, r#type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::DecodeError;
    use crate::object::Decode;

    const WEB: &str = r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web","namespace":"shop","uid":"6d9f8a3e-0000-4000-8000-00000000002a",
        "resourceVersion":"71","generation":3,"labels":{"app":"web"},"annotations":{"note":"a \u0026 b"},"newField":{"z":1,"a":2},
        "managedFields":[{"manager":"kubectl"}],
        "ownerReferences":[{"kind":"Other","name":"x","uid":"y"},{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"6d9f8a3e-0000-4000-8000-000000000001","controller":true}]},
        "spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"newer":true,"containers":[]}}},
        "status":{"replicas":1,"observedGeneration":2,"conditions":[{"type":"ReplicaFailure","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"FailedCreate","extra":5}],"newCount":9}}"#;

    fn decode(json: &str) -> Result<ReplicaSet, DecodeError> {
        ReplicaSetDecoder::new().decode(json.as_bytes())
    }

    #[test]
    fn reads_what_decisions_need_and_keeps_the_rest_raw() {
        let set = decode(WEB).unwrap();
        assert_eq!(set.key.to_string(), "shop/web");
        assert_eq!(set.uid.to_string(), "6d9f8a3e-0000-4000-8000-00000000002a");
        assert_eq!((set.resource_version.0, set.generation, set.spec.replicas), (71, 3, 2));
        assert_eq!(&*set.controller.owner().unwrap().name, "web");
        assert_eq!(set.template().unwrap().get(), r#"{"metadata":{"labels":{"app":"web"}},"spec":{"newer":true,"containers":[]}}"#);
        assert_eq!(set.spec.template_labels.get("app"), Some("web"));
        let metadata = set.metadata().unwrap().get();
        assert!(metadata.contains(r#""newField":{"z":1,"a":2}"#));
        assert!(metadata.contains(r"a \u0026 b"));
        assert!(!metadata.contains("managedFields"));
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

    /// What it says at zero, with other values for some of the deciding counts.
    fn at_zero(replicas: i32, status: &str) -> ReplicaSet {
        let json = format!(
            r#"{{"metadata":{{"name":"web-1","namespace":"shop","uid":"6d9f8a3e-0000-4000-8000-00000000002a","generation":3,
            "creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"web","pod-template-hash":"1"}},
            "annotations":{{"deployment.kubernetes.io/revision":"7","deployment.kubernetes.io/desired-replicas":"10","note":"x"}}}},
            "spec":{{"replicas":{replicas},"selector":{{"matchLabels":{{"app":"web","pod-template-hash":"1"}}}},
            "template":{{"metadata":{{"labels":{{"app":"web","pod-template-hash":"1"}}}},"spec":{{"containers":[]}}}}}},"status":{status}}}"#
        );
        decode(&json).unwrap()
    }

    #[test]
    fn at_rest_at_zero_only_what_decisions_read_is_kept() {
        let set = at_zero(0, r#"{"replicas":0,"observedGeneration":3}"#);
        assert!(set.template().is_none() && set.metadata().is_none());
        let template = r#"{"spec":{"containers":[]},"metadata":{"labels":{"app":"web"}}}"#.to_owned();
        let expected = Fingerprint::of_template(&RawValue::from_string(template).unwrap());
        assert!(matches!(set.body, Body::AtZero { template } if Some(template) == expected), "{set:?}");
        assert_eq!((set.rollout.revision.as_deref(), set.rollout.desired_replicas.as_deref()), (Some("7"), Some("10")));
        assert_eq!((set.spec.template_labels.get("pod-template-hash"), set.created), (Some("1"), Timestamp::parse("2026-01-01T00:00:00Z")));
        assert!(set.spec.selector.as_ref().is_ok_and(|selector| selector.matches(set.labels())));
        assert!(Arc::ptr_eq(&set.labels, &set.spec.template_labels));
    }

    #[test]
    fn whatever_still_has_something_to_come_is_kept_whole() {
        for (replicas, status) in [
            (1, r#"{"replicas":0,"observedGeneration":3}"#),
            (0, r#"{"replicas":1,"observedGeneration":3}"#),
            (0, r#"{"replicas":0,"terminatingReplicas":2,"observedGeneration":3}"#),
            (0, r#"{"replicas":0,"observedGeneration":2}"#),
        ] {
            assert!(at_zero(replicas, status).template().is_some(), "{replicas} {status}");
        }
    }

    #[test]
    fn a_controller_of_any_kind_has_a_uid() {
        let foreign = WEB.replace(r#""kind":"Deployment""#, r#""kind":"Rollout""#);
        for (json, foreign) in [(WEB, false), (foreign.as_str(), true)] {
            let set = decode(json).unwrap();
            assert_eq!(set.controller == ControllerRef::Foreign, foreign);
            assert_eq!(set.controller_uid(), Uid::parse("6d9f8a3e-0000-4000-8000-000000000001"));
        }
    }
}
