//! Pod templates, as points in a small space.

use serde_json::{Value, json};

use super::generator::without_nulls;
use super::script::BAD_IMAGE;
use super::snapshot::HOLD;

/// What makes a pod template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Template {
    pub(super) version: u32,
    /// An image that never starts.
    pub(super) broken: bool,
    /// A priority class that does not exist: admission refuses the pods.
    pub(super) refused: bool,
    /// The label `tier`.
    pub(super) tier: Option<u32>,
    /// The annotation `note`.
    pub(super) note: Option<u32>,
    /// The same amount of memory, written in another way: no change.
    pub(super) respelt: bool,
    /// `affinity: {}`: a change, although it says nothing.
    pub(super) empty_affinity: bool,
    /// A finalizer on the pods.
    pub(super) hold: bool,
}

impl Template {
    pub(super) fn image(&self) -> String {
        if self.broken { format!("registry.example{BAD_IMAGE}{}", self.version) } else { format!("registry.example/app:{}", self.version) }
    }

    /// A merge patch that leads here from any other of these templates.
    pub(super) fn patch(&self, app: &str) -> Value {
        let tier = self.tier.map(|tier| format!("t{tier}"));
        let note = self.note.map(|note| format!("note {note}: a < b && c"));
        let memory = if self.respelt { "1073741824" } else { "1Gi" };
        let container = json!({
            "name": "main", "image": self.image(), "resources": {"limits": {"memory": memory}},
            "env": [{"name": "VERSION", "value": self.version.to_string()}, {"name": "SIZE", "value": "1Gi"}],
        });
        json!({
            "metadata": {
                "labels": {"app": app, "tier": tier},
                "annotations": {"note": note},
                "finalizers": self.hold.then_some([HOLD]),
            },
            "spec": {
                "terminationGracePeriodSeconds": 0, "containers": [container],
                "priorityClassName": self.refused.then_some("missing"),
                "affinity": self.empty_affinity.then_some(json!({})),
            },
        })
    }

    /// The template itself: the patch without what it takes away.
    pub(super) fn manifest(&self, app: &str) -> Value {
        without_nulls(self.patch(app))
    }
}
