//! Conditions, as the statuses of all workloads have them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A condition of a workload's status.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// `type`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the controller last found it so, RFC 3339; only a Deployment's conditions have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
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

/// The condition of that type.
pub fn find<'a>(conditions: &'a [Condition], r#type: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.r#type == r#type)
}
