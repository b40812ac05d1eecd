//! Whoever does not go on says why, and whoever is done does not say that there is something to wait for.

use model::Deployment;
use model::plan::{Conclusion, Plan};
use serde_json::Value;

use super::World;

// === impl World ===

impl World {
    /// What a sync waits for that has done something, or nothing.
    pub(super) fn look_at_waits(&mut self, web: &Deployment, conclusion: &Conclusion, has_acted: bool) {
        self.waits.clone_from(&conclusion.waits);
        let status = conclusion.status.as_ref().map_or_else(
            || serde_json::to_value(&web.status).unwrap(),
            |update| serde_json::from_str::<Value>(update.status.get()).unwrap(),
        );
        let count = |field: &str| status[field].as_i64().unwrap_or(0);
        let wanted = i64::from(web.spec.replicas);
        let is_complete = ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|field| count(field) == wanted);
        let goes_on = has_acted || conclusion.error.is_some();
        if !is_complete && !goes_on && conclusion.waits.is_empty() && web.deletion.is_none() {
            self.broken.get_or_insert(format!("nothing says what the Deployment waits for: {status}"));
        }
    }
}

/// Whether there is something to be carried out.
pub(super) fn acts(plan: &Plan) -> bool {
    plan.stages.iter().any(|stage| !stage.steps.is_empty())
}
