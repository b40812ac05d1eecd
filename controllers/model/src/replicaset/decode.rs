//! Reads ReplicaSets from JSON, as far as decisions need them read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Body, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, Rollout};
use crate::error::DecodeError;
use crate::fingerprint::Fingerprint;
use crate::intern::{Interned, Interner};
use crate::labels::LabelSet;
use crate::meta::{ControllerRef, ObjectKey, ResourceVersion, Timestamp, Uid, identity};
use crate::object::{Decode, Format};
use crate::selector::{Selector, WireSelector};

/// Reads ReplicaSets from JSON, and shares between them what they have in common.
#[derive(Default)]
pub struct ReplicaSetDecoder {
    interner: Interner,
}

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
    creation_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    deletion_timestamp: Option<Cow<'a, str>>,
    labels: Option<WireLabels>,
    #[serde(borrow)]
    annotations: Option<WireAnnotations<'a>>,
    #[serde(borrow)]
    owner_references: Option<Vec<WireOwner<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireAnnotations<'a> {
    #[serde(borrow, rename = "deployment.kubernetes.io/revision")]
    revision: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "deployment.kubernetes.io/desired-replicas")]
    desired_replicas: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "deployment.kubernetes.io/revision-history")]
    revision_history: Option<Cow<'a, str>>,
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
    labels: Option<WireLabels>,
}

type WireLabels = BTreeMap<String, String>;

// === impl ReplicaSetDecoder ===

impl ReplicaSetDecoder {
    /// A decoder that shares nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much it shares.
    pub fn interned(&self) -> Interned {
        self.interner.interned()
    }

    fn labels(&mut self, labels: Option<WireLabels>) -> Arc<LabelSet> {
        let labels = labels.unwrap_or_default();
        self.interner.label_set(&mut labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect())
    }

    fn rollout(&mut self, annotations: Option<WireAnnotations<'_>>) -> Arc<Rollout> {
        let WireAnnotations { revision, desired_replicas, revision_history } = annotations.unwrap_or_default();
        let own = |text: Option<Cow<'_, str>>| text.map(|text| Box::from(&*text));
        self.interner.rollout(Rollout {
            revision: own(revision),
            desired_replicas: own(desired_replicas),
            revision_history: own(revision_history),
        })
    }
}

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
        let uid = Uid::parse(&meta.uid).filter(|uid| *uid != Uid::NONE).ok_or_else(|| identity("uid", &meta.uid))?;
        let owner = controlling(meta.owner_references.as_deref().unwrap_or_default());
        let controller = owner.map_or(ControllerRef::None, |owner| self.interner.controller_ref(&owner.kind, &owner.name, &owner.uid));
        let foreign_controller = owner.filter(|_| controller == ControllerRef::Foreign).and_then(|owner| Uid::parse(&owner.uid));
        let template = wire.spec.template.map_or("{}", RawValue::get);
        let template_labels = serde_json::from_str::<Option<WireTemplate>>(template)?.and_then(|t| t.metadata).and_then(|m| m.labels);
        let labels = self.labels(meta.labels);
        let mut set = ReplicaSet {
            key: ObjectKey { namespace: self.interner.string(&meta.namespace), name: Arc::from(&*meta.name) },
            uid,
            resource_version: ResourceVersion::parse(&meta.resource_version),
            generation: meta.generation.unwrap_or(0),
            created: meta.creation_timestamp.as_deref().and_then(Timestamp::parse),
            deletion: meta.deletion_timestamp.as_deref().and_then(Timestamp::parse),
            controller,
            foreign_controller: foreign_controller.map(Box::new),
            rollout: self.rollout(meta.annotations),
            spec: ReplicaSetSpec {
                replicas: wire.spec.replicas.unwrap_or(1),
                min_ready_seconds: wire.spec.min_ready_seconds.unwrap_or(0),
                selector: Selector::interned(wire.spec.selector, &labels, &mut self.interner).map_err(Box::new),
                template_labels: self.labels(template_labels),
            },
            status: wire.status.unwrap_or_default(),
            labels,
            body: Body::Whole { metadata: Arc::from(metadata), template: Arc::from(raw_value(template.to_owned())?) },
        };
        set.let_go();
        Ok(set)
    }
}

// === impl ReplicaSet ===

impl ReplicaSet {
    /// Leaves of a body that nothing is going to be made of what tells whether it is another's.
    fn let_go(&mut self) {
        if let Body::Whole { template, .. } = &self.body
            && self.is_at_rest_at_zero()
            && let Some(template) = Fingerprint::of_template(template)
        {
            self.body = Body::AtZero { template };
        }
    }

    /// No pods are wanted, there are none, and the status says so already.
    fn is_at_rest_at_zero(&self) -> bool {
        let status = &self.status;
        let none = [self.spec.replicas, status.replicas, status.terminating_replicas.unwrap_or(0)].iter().all(|count| *count == 0);
        none && status.observed_generation >= self.generation
    }
}

/// `metadata` without managedFields, every other field byte for byte.
fn whole_metadata(mut fields: BTreeMap<Cow<'_, str>, &RawValue>) -> Result<Box<RawValue>, DecodeError> {
    fields.remove("managedFields");
    raw_value(serde_json::to_string(&fields)?)
}

fn raw_value(json: String) -> Result<Box<RawValue>, DecodeError> {
    Ok(RawValue::from_string(json)?)
}

/// Upstream `k8s.io/apimachinery/pkg/apis/meta/v1` `GetControllerOf`: the first reference that says so.
fn controlling<'a, 'b>(owners: &'a [WireOwner<'b>]) -> Option<&'a WireOwner<'b>> {
    owners.iter().find(|owner| owner.controller == Some(true))
}
