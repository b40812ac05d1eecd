//! Reads ReplicaSets from JSON, as far as decisions need them read.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Body, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, Rollout};
use crate::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY};
use crate::error::DecodeError;
use crate::intern::{Interned, Interner};
use crate::json::{WholeMetadata, WireAnnotations, WireMeta, annotation, copied_annotations, first_json, labels};
use crate::object::{Decode, Format};
use crate::raw;
use crate::selector::{Selector, WireSelector};

/// Reads ReplicaSets from JSON, and shares between them what they have in common.
#[derive(Default)]
pub struct ReplicaSetDecoder {
    interner: Interner,
}

#[derive(Deserialize)]
struct WireReplicaSet<'a> {
    #[serde(borrow)]
    metadata: WholeMetadata<'a>,
    #[serde(borrow, default)]
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

    fn rollout(&mut self, annotations: &WireAnnotations<'_>) -> Arc<Rollout> {
        self.interner.rollout(Rollout {
            revision: annotation(annotations, REVISION),
            revision_history: annotation(annotations, REVISION_HISTORY),
            desired_replicas: annotation(annotations, DESIRED_REPLICAS),
            max_replicas: annotation(annotations, MAX_REPLICAS),
        })
    }
}

impl Decode for ReplicaSetDecoder {
    type Object = ReplicaSet;
    const FORMAT: Format = Format::Json;

    fn decode(&mut self, bytes: &[u8]) -> Result<ReplicaSet, DecodeError> {
        let wire: WireReplicaSet<'_> = first_json(bytes)?;
        let metadata = wire.metadata.text()?;
        let meta: WireMeta<'_> = serde_json::from_str(metadata.get())?;
        let (controller, foreign_controller) = meta.controller(&mut self.interner);
        let template = self.interner.template(wire.spec.template.unwrap_or(&raw::empty()));
        let (key, uid) = (meta.key(&mut self.interner)?, meta.uid()?);
        let (resource_version, created, deletion) = (meta.version(), meta.created(), meta.deletion());
        let annotations = meta.annotations.unwrap_or_default();
        let labels_of_set = labels(meta.labels, &mut self.interner);
        let mut set = ReplicaSet {
            key,
            uid,
            resource_version,
            generation: meta.generation.unwrap_or(0),
            created,
            deletion,
            controller,
            foreign_controller: foreign_controller.map(Box::new),
            rollout: self.rollout(&annotations),
            annotations: copied_annotations(&annotations, &mut self.interner),
            spec: ReplicaSetSpec {
                replicas: wire.spec.replicas.unwrap_or(1),
                min_ready_seconds: wire.spec.min_ready_seconds.unwrap_or(0),
                selector: Selector::interned(wire.spec.selector, &labels_of_set, &mut self.interner).map_err(Box::new),
                template_labels: template.labels(&mut self.interner)?,
            },
            status: wire.status.unwrap_or_default(),
            labels: labels_of_set,
            body: Body::Whole { metadata: Arc::from(metadata), template },
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
            && let Some(template) = template.fingerprint()
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
