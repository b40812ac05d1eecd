//! The node as the scheduler sees it.

use std::sync::Arc;

use model::labels::{LabelSet, Labels};
use model::plan::Resource;
use model::{ControllerRef, Decode, DecodeError, Format, Object, ResourceVersion, Uid};
use serde::Deserialize;

/// Nodes, as paths name them.
pub static NODES: Resource = Resource { group: "", version: "v1", plural: "nodes", kind: "Node" };

/// A node.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// It takes new pods: the condition `Ready` is `True` and it is not cordoned (`spec.unschedulable`).
    pub open: bool,
    /// `status.allocatable.pods`.
    pub capacity: u32,
    /// The empty namespace, which the store wants to borrow.
    namespace: Arc<str>,
    labels: LabelSet,
}

/// Reads nodes. They are few and change rarely, so JSON will do, and serde does the work.
#[derive(Debug, Default)]
pub struct NodeDecoder;

#[derive(Deserialize)]
struct WireNode {
    metadata: WireMetadata,
    #[serde(default)]
    spec: WireSpec,
    #[serde(default)]
    status: WireStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMetadata {
    name: Arc<str>,
    uid: String,
    resource_version: String,
}

#[derive(Deserialize, Default)]
struct WireSpec {
    #[serde(default)]
    unschedulable: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireStatus {
    allocatable: WireAllocatable,
    conditions: Vec<WireCondition>,
}

#[derive(Deserialize, Default)]
struct WireAllocatable {
    #[serde(default)]
    pods: String,
}

#[derive(Deserialize)]
struct WireCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

static NO_CONTROLLER: ControllerRef = ControllerRef::None;

// === impl Node ===

impl Object for Node {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn uid(&self) -> Uid {
        self.uid
    }

    fn resource_version(&self) -> ResourceVersion {
        self.resource_version
    }

    fn controller(&self) -> &ControllerRef {
        &NO_CONTROLLER
    }

    /// Nothing here asks for a node's labels.
    fn labels(&self) -> &dyn Labels {
        &self.labels
    }
}

// === impl NodeDecoder ===

impl Decode for NodeDecoder {
    type Object = Node;
    const FORMAT: Format = Format::Json;

    fn decode(&mut self, raw: &[u8]) -> Result<Node, DecodeError> {
        let node: WireNode = model::first_json(raw)?;
        let uid = Uid::parse(&node.metadata.uid).ok_or(DecodeError::Identity { field: "uid", value: node.metadata.uid })?;
        let ready = node.status.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True");
        Ok(Node {
            name: node.metadata.name,
            uid,
            resource_version: ResourceVersion::parse(&node.metadata.resource_version),
            open: ready && !node.spec.unschedulable,
            capacity: count(&node.status.allocatable.pods),
            namespace: Arc::default(),
            labels: std::iter::empty::<(&str, &str)>().collect(),
        })
    }
}

/// A whole quantity, as the API server spells it: 1000 is `1k`. Anything else is no room.
fn count(quantity: &str) -> u32 {
    let (digits, factor) = match quantity.strip_suffix('k') {
        Some(digits) => (digits, 1000),
        None => (quantity, 1),
    };
    digits.parse::<u32>().ok().and_then(|number| number.checked_mul(factor)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(spec: &serde_json::Value, ready: &str, pods: &str) -> Node {
        let node = json!({
            "metadata": {"name": "node-0", "uid": "00000000-0000-0000-0000-00000000000a", "resourceVersion": "3", "labels": {"a": "b"}},
            "spec": spec,
            "status": {
                "allocatable": {"cpu": "8", "pods": pods},
                "conditions": [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": ready}],
            },
        });
        NodeDecoder.decode(node.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn only_a_ready_node_that_is_not_cordoned_is_open() {
        assert!(node(&json!({}), "True", "110").open);
        assert!(!node(&json!({"unschedulable": true}), "True", "110").open);
        assert!(!node(&json!({}), "Unknown", "110").open);
    }

    #[test]
    fn capacity_is_a_quantity() {
        for (quantity, want) in [("110", 110), ("1k", 1000), ("", 0), ("1.5", 0), ("9999999k", 0)] {
            assert_eq!(node(&json!({}), "True", quantity).capacity, want, "{quantity}");
        }
    }

    #[test]
    fn a_node_without_status_has_no_room() {
        let raw = br#"{"metadata":{"name":"n","uid":"00000000-0000-0000-0000-00000000000a","resourceVersion":"1"}}"#;
        let node = NodeDecoder.decode(raw).unwrap();
        assert_eq!((node.open, node.capacity), (false, 0));
    }
}
