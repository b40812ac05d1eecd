//! The Deployment as its controller reads it: template, selector and metadata stay raw JSON besides what is read of them, so that fields
//! newer than this program survive every write.

mod decode;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use self::decode::DeploymentDecoder;
use crate::annotations::Annotations;
use crate::condition::{self, Condition};
use crate::int_or_percent::IntOrPercent;
use crate::json::{is_default, null_is_default};
use crate::labels::{Labels, NoLabels};
use crate::meta::{ControllerRef, ObjectKey, OwnerKind, OwnerRef, ResourceVersion, Timestamp, Uid};
use crate::object::Object;
use crate::plan::{DEPLOYMENTS, ObjectRef};
use crate::selector::{Selector, SelectorError};
use crate::template::Template;

/// An `apps/v1` Deployment.
#[derive(Debug)]
pub struct Deployment {
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
    /// The annotations that are handed on to its ReplicaSets.
    pub annotations: Arc<Annotations>,
    /// `deployment.kubernetes.io/revision`.
    pub revision: Option<Box<str>>,
    /// `deprecated.deployment.rollback.to`.
    pub rollback_to: Option<Box<str>>,
    /// The whole `metadata` but managedFields, as it was read.
    pub metadata: Arc<RawValue>,
    /// `spec`.
    pub spec: DeploymentSpec,
    /// `status`.
    pub status: DeploymentStatus,
}

/// `spec` of a Deployment.
#[derive(Debug)]
pub struct DeploymentSpec {
    /// `replicas`; the API server always fills it in.
    pub replicas: i32,
    /// `selector`, or why it cannot be used.
    pub selector: Result<Selector, Box<SelectorError>>,
    /// `selector` as it was read.
    pub raw_selector: Box<RawValue>,
    /// `template`.
    pub template: Arc<Template>,
    /// `strategy`.
    pub strategy: Strategy,
    /// `minReadySeconds`.
    pub min_ready_seconds: i32,
    /// `revisionHistoryLimit`; absent keeps all.
    pub revision_history_limit: Option<i32>,
    /// `paused`.
    pub paused: bool,
    /// `progressDeadlineSeconds`; absent is none.
    pub progress_deadline_seconds: Option<i32>,
}

/// `spec.strategy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// `RollingUpdate`.
    RollingUpdate {
        /// `rollingUpdate.maxSurge`.
        max_surge: IntOrPercent,
        /// `rollingUpdate.maxUnavailable`.
        max_unavailable: IntOrPercent,
    },
    /// `Recreate`.
    Recreate,
    /// A type that we do not know.
    Unknown(Box<str>),
}

/// `status` of a Deployment. Fields we do not know are carried along.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// The generation this status speaks of.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Pods of all ReplicaSets.
    #[serde(skip_serializing_if = "is_default")]
    pub replicas: i32,
    /// Pods of the new ReplicaSet.
    #[serde(skip_serializing_if = "is_default")]
    pub updated_replicas: i32,
    /// Ready pods.
    #[serde(skip_serializing_if = "is_default")]
    pub ready_replicas: i32,
    /// Pods ready for at least minReadySeconds.
    #[serde(skip_serializing_if = "is_default")]
    pub available_replicas: i32,
    /// Pods that are wanted and not available.
    #[serde(skip_serializing_if = "is_default")]
    pub unavailable_replicas: i32,
    /// Terminating pods; absent while the gate `DeploymentReplicaSetTerminatingReplicas` is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i32>,
    /// Conditions, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
    /// How often the name of a new ReplicaSet was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// What stands for "none" in the fields that had no way to say so (upstream `HasProgressDeadline`, `HasRevisionHistoryLimit`).
const UNLIMITED: i32 = i32::MAX;

// === impl Deployment ===

impl Deployment {
    /// This Deployment as a reference.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef { resource: &DEPLOYMENTS, key: self.key.clone(), uid: self.uid, resource_version: self.resource_version }
    }

    /// The owner that its ReplicaSets name.
    pub fn as_owner(&self) -> Arc<OwnerRef> {
        Arc::new(OwnerRef { kind: OwnerKind::Deployment, name: self.key.name.clone(), uid: self.uid })
    }
}

impl Object for Deployment {
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

    /// Nobody asks who controls a Deployment.
    fn controller(&self) -> &ControllerRef {
        &ControllerRef::Foreign
    }

    /// Nobody selects Deployments.
    fn labels(&self) -> &dyn Labels {
        &NoLabels
    }
}

// === impl DeploymentSpec ===

impl DeploymentSpec {
    /// Seconds without progress after which a rollout has failed, if there are such.
    pub fn progress_deadline(&self) -> Option<i32> {
        self.progress_deadline_seconds.filter(|seconds| *seconds != UNLIMITED)
    }

    /// How many old ReplicaSets are kept, if not all.
    pub fn history_limit(&self) -> Option<i32> {
        self.revision_history_limit.filter(|limit| *limit != UNLIMITED)
    }
}

// === impl DeploymentStatus ===

impl DeploymentStatus {
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

    const WEB: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","uid":"6d9f8a3e-0000-4000-8000-00000000002a",
        "resourceVersion":"71","generation":3,"newField":1.50,"managedFields":[{}],"annotations":{"deployment.kubernetes.io/revision":"4","note":"a",
        "kubectl.kubernetes.io/last-applied-configuration":"{}","deprecated.deployment.rollback.to":"2"}},
        "spec":{"replicas":2,"paused":true,"minReadySeconds":5,"revisionHistoryLimit":10,"progressDeadlineSeconds":600,"selector":{"matchLabels":{"app":"web"},"new":1},
        "template":{"metadata":{"labels":{"app":"web"}},"spec":{"newer":1.50}},"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}}},
        "status":{"replicas":1,"observedGeneration":2,"collisionCount":0,"conditions":[{"type":"Available","status":"True","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z","extra":5}],"newCount":9}}"#;

    fn decode(json: &str) -> Result<Deployment, DecodeError> {
        DeploymentDecoder::new().decode(json.as_bytes())
    }

    #[test]
    fn reads_what_decisions_need_and_keeps_the_rest_raw() {
        let web = decode(WEB).unwrap();
        assert_eq!((web.key.to_string().as_str(), web.resource_version.0, web.generation, web.spec.replicas), ("shop/web", 71, 3, 2));
        assert_eq!(
            web.spec.strategy,
            Strategy::RollingUpdate { max_surge: IntOrPercent::Percent(25), max_unavailable: IntOrPercent::Int(1) }
        );
        assert_eq!(web.spec.template.raw().get(), r#"{"metadata":{"labels":{"app":"web"}},"spec":{"newer":1.50}}"#);
        assert_eq!(web.annotations.iter().collect::<Vec<_>>(), [("note", "a")]);
        assert_eq!((web.revision.as_deref(), web.rollback_to.as_deref()), (Some("4"), Some("2")));
        assert_eq!((web.spec.progress_deadline(), web.spec.history_limit(), web.spec.paused), (Some(600), Some(10), true));
        let metadata = web.metadata.get();
        assert!(metadata.contains(r#""newField":1.50"#) && metadata.contains("last-applied") && !metadata.contains("managedFields"));
    }

    #[test]
    fn a_status_goes_back_with_the_fields_it_came_with() {
        let again = serde_json::to_value(decode(WEB).unwrap().status).unwrap();
        let before: serde_json::Value = serde_json::from_str(WEB).unwrap();
        assert_eq!(again, before["status"]);
    }

    #[test]
    fn the_largest_number_stands_for_no_limit() {
        let web = decode(&WEB.replace(":600", ":2147483647").replace(":10,", ":2147483647,")).unwrap();
        assert_eq!((web.spec.progress_deadline(), web.spec.history_limit()), (None, None));
    }

    #[test]
    fn odd_objects_are_borne() {
        let bare = r#"{"metadata":{"name":"a","namespace":"b","uid":"6d9f8a3e-0000-4000-8000-00000000002a"},"spec":null,"status":null}"#;
        assert_eq!(decode(bare).unwrap().spec.selector, Ok(Selector::Nothing));
        for (strategy, expected) in [
            (r#"{"type":"Recreate","rollingUpdate":null}"#, Strategy::Recreate),
            (r#"{"type":"Later"}"#, Strategy::Unknown("Later".into())),
            ("null", Strategy::Unknown("".into())),
            (
                r#"{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"1","maxUnavailable":"x%"}}"#,
                Strategy::RollingUpdate {
                    max_surge: IntOrPercent::Invalid("1".into()),
                    max_unavailable: IntOrPercent::Invalid("x%".into()),
                },
            ),
            (
                r#"{"type":"RollingUpdate"}"#,
                Strategy::RollingUpdate { max_surge: IntOrPercent::Int(0), max_unavailable: IntOrPercent::Int(0) },
            ),
        ] {
            let json = bare.replace("\"spec\":null", &format!("\"spec\":{{\"strategy\":{strategy}}}"));
            assert_eq!(decode(&json).unwrap().spec.strategy, expected, "{strategy}");
        }
    }
}
