//! How a rollout goes: the condition Progressing and the look at a rollout that may be stuck (upstream's tables of `progress_test.go`,
//! `TestDeploymentComplete`, `TestDeploymentProgressing` and `TestDeploymentTimedOut` are among these).
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, and so do its helpers")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use deployment::View;
use model::{ReplicaSet, Time};
use serde_json::{Value, json};
use support::{Api, Did, GATES, NOW, ago, both, condition, set, sync, web};

const WORDS: [&str; 3] = ["has successfully progressed.", "is progressing.", "has timed out progressing."];

/// Replicas, updated, ready and available ones.
type Counts = (i32, i32, i32, i32);

/// A Deployment with a deadline of a minute, whose status has these counts.
fn deployment(counts: Counts) -> Value {
    let (replicas, updated, ready, available) = counts;
    json!({"spec": {"progressDeadlineSeconds": 60}, "status": {"replicas": replicas, "updatedReplicas": updated, "readyReplicas": ready,
        "availableReplicas": available, "unavailableReplicas": 0, "terminatingReplicas": 0}})
}

fn progressing(status: &str, reason: &str, seconds_ago: i64) -> Value {
    json!({"status": {"conditions": [condition("Available", "False", "MinimumReplicasUnavailable", 500),
        condition("Progressing", status, reason, seconds_ago)]}})
}

/// A new ReplicaSet of full size and an old one at zero, whose statuses come to these counts.
fn sets(size: i32, counts: Counts) -> [Arc<ReplicaSet>; 2] {
    let (replicas, updated, ready, available) = counts;
    let old = json!({"status": {"replicas": replicas - updated, "readyReplicas": 0, "availableReplicas": 0, "terminatingReplicas": 0}});
    let new = json!({"status": {"replicas": updated, "readyReplicas": ready, "availableReplicas": available, "terminatingReplicas": 0}});
    [set(1, 0, old), set(2, size, new)]
}

fn rolled(size: i32, change: Value, counts: Counts) -> Did {
    at(NOW, size, change, counts)
}

fn at(now: Time, size: i32, change: Value, counts: Counts) -> Did {
    sync(View::new(web(2, size, change), sets(size, counts).into(), GATES, now), &Api::yes())
}

/// Status and reason of the condition after the sync.
fn after(size: i32, change: Value, counts: Counts) -> Value {
    let before = change["status"]["conditions"][1].clone();
    let did = rolled(size, change, counts);
    let condition = if did.conclusion.status.is_some() { did.condition("Progressing") } else { before };
    if condition.is_null() { Value::Null } else { json!([condition["status"], condition["reason"]]) }
}

#[test]
fn a_rollout_is_complete_when_all_is_new_and_available_and_nothing_else_is_left() {
    for (size, counts, complete) in [
        (5, (5, 5, 5, 4), false),
        (5, (5, 5, 5, 3), false),
        (5, (5, 5, 5, 5), true),
        (5, (5, 4, 5, 5), false),
        (1, (2, 1, 1, 1), false),
        (1, (1, 1, 1, 0), false),
        (0, (0, 0, 0, 0), true),
    ] {
        let reason = after(size, both(deployment((0, 0, 0, 0)), progressing("True", "ReplicaSetUpdated", 5)), counts);
        assert_eq!(reason[1] == "NewReplicaSetAvailable", complete, "{size} {counts:?}: {reason}");
    }
}

#[test]
fn dep_34_a_rollout_that_was_scaled_down_meanwhile_completes() {
    // From 10 to 1: more counted than wanted for a while, then exactly that.
    let shrinking = both(deployment((10, 6, 10, 10)), progressing("True", "ReplicaSetUpdated", 5));
    assert_eq!(after(1, shrinking, (3, 3, 3, 3)), json!(["True", "ReplicaSetUpdated"]), "old ones went");
    let shrinking = both(deployment((3, 3, 3, 3)), progressing("True", "ReplicaSetUpdated", 5));
    assert_eq!(after(1, shrinking, (1, 1, 1, 1)), json!(["True", "NewReplicaSetAvailable"]));
}

#[test]
fn progress_is_more_new_ones_fewer_old_ones_more_ready_or_more_available() {
    for (before, now, progresses) in [
        ((10, 4, 4, 4), (10, 6, 4, 4), true),
        ((10, 4, 4, 4), (10, 4, 4, 4), false),
        ((10, 4, 6, 6), (8, 4, 6, 6), true),
        ((10, 7, 3, 3), (10, 6, 3, 3), false),
        ((10, 4, 7, 7), (8, 8, 5, 5), true),
        ((10, 10, 9, 8), (10, 10, 10, 8), true),
        ((10, 10, 10, 9), (10, 10, 10, 10), true),
        ((10, 4, 7, 7), (10, 4, 6, 6), false),
    ] {
        let is = after(12, both(deployment(before), progressing("True", "NewReplicaSetCreated", 5)), now);
        let expected = if progresses { "ReplicaSetUpdated" } else { "NewReplicaSetCreated" };
        assert_eq!(is[1], expected, "{before:?} to {now:?}");
    }
}

#[test]
fn upstreams_table_of_the_rollout_status() {
    let updated = || progressing("True", "ReplicaSetUpdated", 500);
    let timed_out = || progressing("False", "ProgressDeadlineExceeded", 500);
    let none = || json!({"status": {"conditions": []}});
    for (size, before, conditions, now, expected) in [
        (3, (3, 3, 3, 3), progressing("True", "NewReplicaSetAvailable", 500), (3, 3, 3, 3), json!(["True", "NewReplicaSetAvailable"])),
        (3, (2, 2, 2, 2), updated(), (3, 2, 3, 3), json!(["True", "ReplicaSetUpdated"])),
        (3, (2, 2, 2, 2), timed_out(), (3, 2, 3, 3), json!(["True", "ReplicaSetUpdated"])),
        (3, (2, 2, 2, 2), none(), (3, 2, 3, 3), json!(["True", "ReplicaSetUpdated"])),
        (3, (3, 3, 3, 3), updated(), (3, 3, 3, 3), json!(["True", "NewReplicaSetAvailable"])),
        (3, (3, 3, 3, 3), timed_out(), (3, 3, 3, 3), json!(["True", "NewReplicaSetAvailable"])),
        (3, (3, 3, 3, 3), none(), (3, 3, 3, 3), json!(["True", "NewReplicaSetAvailable"])),
        (3, (2, 2, 2, 2), updated(), (2, 2, 2, 2), json!(["False", "ProgressDeadlineExceeded"])),
        (3, (2, 2, 2, 2), timed_out(), (2, 2, 2, 2), json!(["False", "ProgressDeadlineExceeded"])),
    ] {
        assert_eq!(after(size, both(deployment(before), conditions.clone()), now), expected, "{conditions} {before:?} to {now:?}");
    }
}

#[test]
fn without_a_deadline_the_condition_goes() {
    for no_deadline in [json!(null), json!(i32::MAX)] {
        let change = both(
            both(deployment((2, 2, 2, 2)), progressing("True", "ReplicaSetUpdated", 5)),
            json!({"spec": {"progressDeadlineSeconds": no_deadline}}),
        );
        let did = rolled(3, change, (3, 2, 3, 3));
        assert_eq!(did.condition("Progressing"), json!(null));
        assert_eq!(did.conclusion.requeue_after, None);
    }
}

#[test]
fn progress_renews_the_condition_and_keeps_since_when_it_holds() {
    let now = "2027-01-15T08:00:00Z";
    for (status, since) in [("True", ago(40)), ("False", now.to_owned()), ("Unknown", now.to_owned())] {
        let did = rolled(3, both(deployment((2, 2, 2, 2)), progressing(status, "ReplicaSetUpdated", 40)), (3, 3, 2, 2));
        let expected = json!({"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
            "message": "ReplicaSet \"web-2\" is progressing.", "lastUpdateTime": now, "lastTransitionTime": since});
        assert_eq!(did.condition("Progressing"), expected);
        assert_eq!(did.status()["conditions"].as_array().unwrap().last().unwrap()["type"], "Progressing");
    }
}

#[test]
fn completion_and_failure_have_upstreams_words() {
    let said =
        |status, reason, counts| rolled(3, both(deployment((2, 2, 2, 2)), progressing(status, reason, 500)), counts).said("Progressing");
    let of = |words: &str| format!("ReplicaSet \"web-2\" {words}");
    assert_eq!(said("True", "ReplicaSetUpdated", (3, 3, 3, 3)), json!(["True", "NewReplicaSetAvailable", of(WORDS[0])]));
    assert_eq!(said("True", "NewReplicaSetCreated", (2, 2, 2, 2)), json!(["False", "ProgressDeadlineExceeded", of(WORDS[2])]));

    // Recreate, before there is a new one.
    let waiting = both(both(deployment((2, 0, 0, 0)), support::recreate()), progressing("True", "ReplicaSetUpdated", 5));
    let stopped = set(1, 0, json!({"status": {"replicas": 1, "terminatingReplicas": 1}}));
    let did = sync(View::new(web(2, 3, waiting), vec![stopped], GATES, NOW), &Api::yes());
    assert_eq!(did.condition("Progressing")["message"], format!("Deployment \"web\" {}", WORDS[1]));
}

#[test]
fn a_complete_rollout_is_not_judged_again_while_only_its_size_changes() {
    let complete = || progressing("True", "NewReplicaSetAvailable", 5000);
    assert_eq!(after(5, both(deployment((3, 3, 3, 3)), complete()), (4, 4, 3, 3)), json!(["True", "NewReplicaSetAvailable"]));
    assert_eq!(after(5, both(deployment((3, 3, 3, 3)), complete()), (3, 3, 0, 0)), json!(["True", "NewReplicaSetAvailable"]));
    // With old pods about it is a rollout.
    assert_eq!(after(5, both(deployment((3, 3, 3, 3)), complete()), (5, 4, 3, 3)), json!(["True", "ReplicaSetUpdated"]));
    // Which does not time out before its progress has been seen once.
    assert_eq!(after(5, both(deployment((4, 3, 3, 3)), complete()), (4, 3, 3, 3)), json!(["True", "NewReplicaSetAvailable"]));
}

#[test]
fn the_deadline_counts_from_the_last_update() {
    for (seconds_ago, timed_out) in [(59, false), (60, false), (61, true), (5000, true)] {
        let is = after(3, both(deployment((2, 2, 2, 2)), progressing("True", "ReplicaSetUpdated", seconds_ago)), (2, 2, 2, 2));
        assert_eq!(is[1] == "ProgressDeadlineExceeded", timed_out, "{seconds_ago}");
    }
    let timeless = json!({"status": {"conditions": [condition("Available", "False", "MinimumReplicasUnavailable", 5),
        {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}]}});
    assert_eq!(
        after(3, both(deployment((2, 2, 2, 2)), timeless), (2, 2, 2, 2))[1],
        "ProgressDeadlineExceeded",
        "Go's zero time is long ago"
    );
}

#[test]
fn dep_12_a_single_replica_that_never_starts_fails_after_the_deadline_although_it_counts_as_available() {
    // 1 of 1 may be unavailable, so that the Deployment is available; its rollout is stuck all the same.
    let lenient = support::rolling(0, 1);
    let status = both(
        deployment((1, 1, 0, 0)),
        json!({"status": {"conditions": [condition("Available", "True", "MinimumReplicasAvailable", 500),
        condition("Progressing", "True", "NewReplicaSetCreated", 61)]}}),
    );
    let did = rolled(1, both(status, lenient), (1, 1, 0, 0));
    assert_eq!(did.condition("Available")["status"], "True");
    assert_eq!(did.condition("Progressing")["reason"], "ProgressDeadlineExceeded");
}

#[test]
fn dep_13_scaled_up_after_completion_a_broken_image_does_not_fail() {
    // Parity: the deadline is of rollouts, and this one was complete at zero.
    let at_zero = both(deployment((0, 0, 0, 0)), progressing("True", "NewReplicaSetAvailable", 5000));
    let did = rolled(1, at_zero, (1, 1, 0, 0));
    assert_eq!(did.condition("Progressing")["reason"], "NewReplicaSetAvailable");
}

/// When the key comes back, after a sync that has nothing to write.
fn requeued(now: Time, size: i32, change: Value, counts: Counts) -> Option<Duration> {
    let (_, _, _, available) = counts;
    let settled = both(change, json!({"status": {"unavailableReplicas": size - available}}));
    let did = at(now, size, settled, counts);
    assert!(did.conclusion.status.is_none(), "{did:?}");
    did.conclusion.requeue_after
}

#[test]
fn a_rollout_that_may_be_stuck_is_looked_at_when_its_deadline_ends() {
    let updated = || progressing("True", "ReplicaSetUpdated", 30);
    let stuck = |conditions| both(deployment((3, 3, 1, 1)), conditions);
    let seconds = |millis| Some(Duration::from_millis(millis));
    for (seconds_later, expected) in [(0, 31_000), (29, 2_000), (30, 1_000)] {
        assert_eq!(requeued(NOW.plus_seconds(seconds_later), 3, stuck(updated()), (3, 3, 1, 1)), seconds(expected));
    }
    // Upstream: less than a second left, so by rate limit and at once. Here a second more, as it always is.
    let almost = Time(NOW.0 + 29_500_000_000);
    assert_eq!(requeued(almost, 3, stuck(updated()), (3, 3, 1, 1)), seconds(1_500));
    // After the deadline it has failed, which is written.
    assert!(at(NOW.plus_seconds(31), 3, stuck(updated()), (3, 3, 1, 1)).conclusion.status.is_some());
}

#[test]
fn what_cannot_be_stuck_is_not_looked_at_again() {
    let available = json!({"status": {"conditions": [condition("Available", "False", "MinimumReplicasUnavailable", 500)]}});
    let no_deadline = json!({"spec": {"progressDeadlineSeconds": null}});
    let infinite = json!({"spec": {"progressDeadlineSeconds": i32::MAX}});
    for deadline in [no_deadline, infinite] {
        assert_eq!(requeued(NOW, 4, both(both(deployment((3, 3, 2, 2)), available.clone()), deadline), (3, 3, 2, 2)), None);
    }
    let failed = progressing("False", "ProgressDeadlineExceeded", 500);
    assert_eq!(requeued(NOW, 3, both(deployment((3, 3, 0, 0)), failed), (3, 3, 0, 0)), None);
    let complete = json!({"status": {"conditions": [condition("Available", "True", "MinimumReplicasAvailable", 500),
        condition("Progressing", "True", "NewReplicaSetAvailable", 500)]}});
    assert_eq!(requeued(NOW, 3, both(deployment((3, 3, 3, 3)), complete), (3, 3, 3, 3)), None);
}

#[test]
fn a_sync_that_writes_needs_no_look() {
    let did = rolled(3, both(deployment((2, 2, 1, 1)), progressing("True", "ReplicaSetUpdated", 30)), (3, 3, 1, 1));
    assert!(did.conclusion.status.is_some() && did.conclusion.requeue_after.is_none());
}

#[test]
fn a_change_of_size_or_a_pause_judges_no_progress() {
    let resized = support::sized(9, 9);
    let one = set(2, 3, both(resized, json!({"status": {"availableReplicas": 0}})));
    let late = both(deployment((3, 3, 3, 0)), progressing("True", "ReplicaSetUpdated", 500));
    let did = sync(View::new(web(2, 3, late), vec![one], GATES, NOW), &Api::yes());
    assert_eq!((did.condition("Progressing")["reason"].clone(), did.conclusion.requeue_after), (json!("ReplicaSetUpdated"), None));
}
