//! Where KCM's own conditions depend on which of its controllers is first.
//!
//! Progressing: a sync that sees counts rise writes `ReplicaSetUpdated`. Between two syncs of the Deployment controller the ReplicaSet controller makes one
//! step or several, so a rise is seen, or an old ReplicaSet has shrunk by then and the sums are what they were. `NewReplicaSetCreated`, too,
//! may be missing: it is written with the version of the Deployment in the cache, and lost for good to a conflict with the sync before.
//! Where neither has come, the last rollout's `NewReplicaSetAvailable` stays, and the name of that one's ReplicaSet.
//!
//! `ReplicaFailure`: the text stays that of the ReplicaSet which was first seen to fail, also when another fails in its place.

use serde_json::Value;

use super::newest::new_set;
use crate::differential::settled::SOON;
use crate::differential::snapshot::{Snapshot, annotation, number, text};

/// An old ReplicaSet that became the newest again has it.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";

/// Gives what KCM writes by chance one name. `copy` is the Deployment to be masked.
pub(in crate::differential) fn mask(snapshot: &Snapshot, deployment: &Value, copy: &mut Value) {
    let conditions = copy.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        match text(condition, "/type") {
            "Progressing" => progressing(snapshot, deployment, condition),
            "ReplicaFailure" => drop(condition.as_object_mut().map(|fields| fields.remove("message"))),
            _ => {}
        }
    }
}

fn progressing(snapshot: &Snapshot, deployment: &Value, condition: &mut Value) {
    let Some(chance) = chance(deployment, new_set(snapshot, deployment)) else { return };
    // What has not been said to have begun is never late.
    let late = number(deployment, "/spec/progressDeadlineSeconds") <= SOON;
    let begun = match text(condition, "/reason") {
        "NewReplicaSetCreated" | "ReplicaSetUpdated" | "NewReplicaSetAvailable" => true,
        "ProgressDeadlineExceeded" => late,
        _ => false,
    };
    let Some(fields) = condition.as_object_mut().filter(|_| begun) else { return };
    fields.remove("message");
    if chance == Chance::Reason {
        fields.insert("reason".to_owned(), Value::from("(begun)"));
        if late {
            fields.remove("status");
        }
    }
}

/// What is left to chance.
#[derive(PartialEq, Eq)]
enum Chance {
    /// Only which ReplicaSet is named.
    Name,
    Reason,
}

fn chance(deployment: &Value, newest: Option<&Value>) -> Option<Chance> {
    let count = |pointer: &str| number(deployment, pointer);
    let [wanted, all, updated] = ["/spec/replicas", "/status/replicas", "/status/updatedReplicas"].map(count);
    let complete = wanted == all && wanted == updated && wanted == count("/status/availableReplicas");
    let unmarked = newest.is_none_or(|newest| annotation(newest, REVISION_HISTORY).is_some());
    let recreates = text(deployment, "/spec/strategy/type") == "Recreate";
    if complete {
        return (unmarked || recreates).then_some(Chance::Name);
    }
    // While an old ReplicaSet still has pods, a rise of ready ones is always seen.
    let risen = newest.is_some_and(|newest| number(newest, "/status/readyReplicas") > 0) && all != updated;
    (unmarked || recreates || !risen).then_some(Chance::Reason)
}
