//! What chance decides in KCM, or is told by ours alone.
//!
//! KCM adds the set as the owner of a claim (`whenDeleted: Delete`) after the claim was made, and looks at its cache for that. With `Parallel` it does
//! so twice in one sync for a pod that is Pending: whether the cache has followed meanwhile decides between `SuccessfulUpdate`, `FailedUpdate` and
//! nothing. Here the claim is owned from the start, and nothing is updated.
//!
//! `RecreatingFailedPod`, `RecreatingTerminatedPod` and `RolloutStalled` are told here only, as the README says.

use serde_json::Value;

use crate::differential::snapshot::text;

const OURS_ALONE: [&str; 3] = ["RecreatingFailedPod", "RecreatingTerminatedPod", "RolloutStalled"];

/// Whether updates of the set's pods are told of by chance.
pub(in crate::differential) fn updates_by_chance(set: &Value) -> bool {
    let has_claims = set.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array).is_some_and(|templates| !templates.is_empty());
    let goes_with_set = text(set, "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted") == "Delete";
    has_claims && goes_with_set && text(set, "/spec/podManagementPolicy") == "Parallel"
}

/// Whether both sides must have told this of a StatefulSet, or neither.
pub(in crate::differential) fn is_compared(reason: &str, updates_by_chance: bool) -> bool {
    match reason {
        "SuccessfulUpdate" | "FailedUpdate" => !updates_by_chance,
        _ => !OURS_ALONE.contains(&reason),
    }
}

/// Puts a pod's claims in the order of their names. What follows them keeps its place.
pub(in crate::differential) fn order_claims(pod: &mut Value) {
    let volumes = pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut);
    let claims = volumes.map(Vec::as_mut_slice).unwrap_or_default();
    let count = claims.iter().take_while(|volume| volume.get("persistentVolumeClaim").is_some()).count();
    if let Some(claims) = claims.get_mut(..count) {
        claims.sort_by_key(|claim| text(claim, "/name").to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_put_in_order_and_nothing_else() {
        let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        let scratch = json!({"name": "a", "emptyDir": {}});
        let mut pod = json!({"spec": {"volumes": [claim("logs"), claim("data"), scratch, claim("b")]}});
        order_claims(&mut pod);
        assert_eq!(pod, json!({"spec": {"volumes": [claim("data"), claim("logs"), scratch, claim("b")]}}));
    }

    #[test]
    fn only_where_the_set_owns_claims_late_updates_are_told_by_chance() {
        let set = |policy: &str, when_deleted: &str| {
            json!({"spec": {
                "podManagementPolicy": policy, "volumeClaimTemplates": [{}], "persistentVolumeClaimRetentionPolicy": {"whenDeleted": when_deleted},
            }})
        };
        assert!(updates_by_chance(&set("Parallel", "Delete")));
        assert!(!updates_by_chance(&set("Parallel", "Retain")));
        assert!(!updates_by_chance(&set("OrderedReady", "Delete")));
        assert!(!updates_by_chance(&json!({"spec": {"podManagementPolicy": "Parallel"}})));
        assert!(is_compared("SuccessfulUpdate", false) && !is_compared("SuccessfulUpdate", true));
        assert!(is_compared("SuccessfulCreate", true) && !is_compared("RolloutStalled", false));
    }
}
