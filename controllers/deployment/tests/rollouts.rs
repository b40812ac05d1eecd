//! Whole rollouts, in a world with ReplicaSets and pods.

mod support;
mod world;

use serde_json::{Value, json};
use support::rolling;
use world::World;
use world::drive::Fate;
use world::environment::{Kubelet, User};
use world::server::Kind;

/// A Deployment of that size that has rolled version 0 out.
fn settled(replicas: i32, change: Value) -> World {
    let mut world = World::new(replicas, change);
    settle(&mut world);
    world
}

fn settle(world: &mut World) {
    let settled = world.settle();
    assert!(settled.is_ok() && world.broken.is_none(), "{:?} {settled:?}\n{}", world.broken, world.story.join("\n"));
}

fn roll_out(world: &mut World, version: u8) {
    world.user(User::SetTemplate(version));
    settle(world);
}

/// Everything but the pods: they stay as they are.
fn sync_all(world: &mut World) {
    world.deliver_all();
    world.sync_deployment(&[]);
    world.deliver_all();
    for name in world.set_names() {
        world.sync_set(&name, &[]);
        world.deliver_all();
    }
    assert_eq!(world.broken, None, "{}", world.story.join("\n"));
}

fn pods_of(world: &World, version: u8) -> Vec<String> {
    let Some(set) = world.set_of(version) else { return Vec::new() };
    world.pod_names().into_iter().filter(|pod| pod.starts_with(&set)).collect()
}

/// Size and pods of the ReplicaSets of these versions.
fn sizes(world: &World) -> Vec<(i64, i64)> {
    world.sizes().into_iter().map(|(_, size, active)| (size, active)).collect()
}

fn counts(world: &World) -> [i64; 3] {
    ["replicas", "updatedReplicas", "availableReplicas"].map(|field| world.status()[field].as_i64().unwrap_or(0))
}

/// Tries every fate at every request of a rollout of version 1.
fn with_every_fate(before: &World, fates: &[Fate], user: User) {
    for fate in fates {
        for number in 1.. {
            let mut world = before.clone();
            world.fate_of = Some((before.requests + number, *fate));
            world.user(user);
            roll_out(&mut world, 1);
            if world.requests < before.requests + number {
                assert!(number > 10, "there is more to a rollout than {number} requests");
                break;
            }
        }
    }
}

#[test]
fn whatever_becomes_of_any_one_request_a_rollout_completes() {
    let fates = [Fate::Refused, Fate::AnswerLost, Fate::RequestLost, Fate::NameTaken, Fate::DeathBefore, Fate::DeathAfter];
    let change = support::both(rolling(1, 1), json!({"spec": {"progressDeadlineSeconds": 60, "revisionHistoryLimit": 0}}));
    with_every_fate(&settled(2, change), &fates, User::Scale(3));
}

#[test]
fn whatever_becomes_of_any_one_request_recreate_completes() {
    with_every_fate(&settled(2, support::recreate()), &[Fate::Refused, Fate::AnswerLost, Fate::DeathAfter], User::SetMinReady(true));
}

#[test]
fn dep_06_dep_07_recreate_waits_for_pods_that_terminate_and_not_for_finished_ones() {
    let mut world = settled(2, support::recreate());
    world.kubelet(Kubelet::Failed, 0);
    sync_all(&mut world);
    world.good_kubelets();
    world.user(User::SetTemplate(1));
    for _ in 0..4 {
        sync_all(&mut world);
        assert_eq!(sizes(&world), [(0, 0)], "no new ReplicaSet while pods of the old one are there");
    }
    assert_eq!(world.pod_names().len(), 3, "two terminate, one has failed");
    world.kubelet(Kubelet::Ended, 0);
    sync_all(&mut world);
    assert_eq!(sizes(&world), [(0, 0)], "one is left");
    world.kubelet(Kubelet::Ended, 0);
    sync_all(&mut world);
    assert_eq!(sizes(&world), [(0, 0), (2, 2)]);
    settle(&mut world);
}

#[test]
fn dep_09_recreate_does_not_serialise_a_pod_that_was_deleted() {
    let mut world = settled(1, support::recreate());
    world.user(User::DeletePod(0));
    sync_all(&mut world);
    assert_eq!((sizes(&world), world.pod_names().len()), (vec![(1, 1)], 2), "its ReplicaSet replaces it while it terminates");
}

#[test]
fn dep_10_pods_that_terminate_make_room_for_new_ones() {
    // Parity with the only policy there is: 15, of which 4 may come on top and 3 may be missing; old pods take their time to end.
    let mut world = settled(15, rolling("25%", "25%"));
    world.user(User::SetTemplate(1));
    sync_all(&mut world);
    assert_eq!(sizes(&world), [(12, 12), (4, 4)]);
    sync_all(&mut world);
    assert_eq!(sizes(&world), [(12, 12), (7, 7)], "7 new ones while 3 old ones terminate");
    assert_eq!(world.pod_names().len(), 22);
    sync_all(&mut world);
    assert_eq!(world.status()["terminatingReplicas"], 3);
    settle(&mut world);
}

#[test]
fn dep_16_a_change_of_size_that_was_interrupted_ends_in_proportion() {
    for fate in [Fate::Refused, Fate::AnswerLost, Fate::RequestLost, Fate::DeathBefore, Fate::DeathAfter] {
        let mut world = settled(10, rolling(0, 4));
        world.user(User::SetTemplate(1));
        world.calm_round();
        sync_all(&mut world);
        assert_eq!(sizes(&world), [(6, 6), (4, 4)]);
        world.user(User::Scale(20));
        world.deliver_all();
        world.sync_deployment(&[Fate::Fine, fate]);
        world.restart();
        sync_all(&mut world);
        assert_eq!(sizes(&world), [(12, 12), (8, 8)], "{fate:?}");
        settle(&mut world);
    }
}

#[test]
fn dep_24_undoing_a_broken_rollout_keeps_the_healthy_pod() {
    let mut world = settled(1, rolling("50%", "10%"));
    let healthy = pods_of(&world, 0);
    world.user(User::SetTemplate(1));
    for _ in 0..4 {
        sync_all(&mut world);
    }
    assert_eq!(sizes(&world), [(1, 1), (1, 1)], "the new one never gets ready");
    world.user(User::SetTemplate(0));
    settle(&mut world);
    assert_eq!(pods_of(&world, 0), healthy);
}

#[test]
fn dep_25_a_paused_deployment_scales_without_a_pod_of_the_new_template() {
    let mut world = settled(3, rolling(2, 0));
    world.user(User::Pause(true));
    world.user(User::SetTemplate(1));
    world.user(User::Scale(5));
    for _ in 0..4 {
        sync_all(&mut world);
    }
    assert_eq!(sizes(&world), [(5, 5)]);
    world.user(User::Pause(false));
    settle(&mut world);
    assert_eq!(sizes(&world), [(0, 0), (5, 5)]);
}

#[test]
fn dep_27_every_undo_raises_the_revision_and_keeps_the_earlier_ones() {
    let mut world = settled(1, rolling(1, 0));
    for version in [1, 0, 1, 0] {
        roll_out(&mut world, version);
    }
    let notes = |version| {
        let set = world.set_of(version).unwrap();
        ["revision", "revision-history"].map(|key| world.annotation(&set, key).unwrap())
    };
    assert_eq!((notes(0), notes(1)), (["5", "1,3"].map(String::from), ["4", "2"].map(String::from)));
}

#[test]
fn dep_27_undo_by_annotation_finds_what_was_rolled_back_before() {
    let mut world = settled(1, rolling(1, 0));
    roll_out(&mut world, 1);
    for (revision, version) in [(0, 0), (0, 1), (3, 0)] {
        world.user(User::RollBack(revision));
        settle(&mut world);
        assert_eq!(pods_of(&world, version).len(), 1, "to {revision}");
        assert!(world.deployment()["metadata"]["annotations"].get("deprecated.deployment.rollback.to").is_none());
    }
}

#[test]
fn dep_28_the_history_keeps_the_highest_revisions_after_a_rollback() {
    let mut world = settled(1, support::both(rolling(1, 0), json!({"spec": {"revisionHistoryLimit": 2}})));
    for version in [1, 2, 0, 3, 4] {
        roll_out(&mut world, version);
    }
    let kept: Vec<_> = (0..5).filter(|version| world.set_of(*version).is_some()).collect();
    assert_eq!(kept, [0, 3, 4]);
}

#[test]
fn dep_30_at_zero_the_history_is_cleaned_as_well() {
    let mut world = settled(1, json!({"spec": {"revisionHistoryLimit": 2}}));
    world.user(User::Scale(0));
    for version in 1..=5 {
        roll_out(&mut world, version);
    }
    assert_eq!(sizes(&world), [(0, 0); 3]);
}

#[test]
fn dep_33_a_surge_shows_upstreams_numbers_at_every_step() {
    let mut world = settled(4, rolling("25%", "25%"));
    world.user(User::SetTemplate(1));
    // Replicas, updated and available ones, each time when the ReplicaSets have told what the last step came to: one comes and one goes, one
    // comes, two go, two come, the last one goes.
    for (step, expected) in [[4, 0, 4], [4, 1, 4], [5, 2, 5], [3, 2, 3], [5, 4, 5], [4, 4, 4]].into_iter().enumerate() {
        world.calm_round();
        assert_eq!(counts(&world), expected, "step {step}");
        for name in world.set_names() {
            world.sync_set(&name, &[]);
        }
    }
    settle(&mut world);
}

#[test]
fn dep_34_scaled_from_ten_to_one_in_the_middle_a_rollout_completes() {
    let mut world = settled(10, support::both(rolling("25%", "25%"), json!({"spec": {"progressDeadlineSeconds": 60}})));
    world.user(User::SetTemplate(1));
    world.calm_round();
    sync_all(&mut world);
    assert!(world.sizes().iter().all(|(_, size, _)| *size > 1), "{:?}", world.sizes());
    world.user(User::Scale(1));
    settle(&mut world);
    assert_eq!(sizes(&world), [(0, 0), (1, 1)]);
}

#[test]
fn dep_37_after_a_conflict_what_is_written_comes_from_what_is_there() {
    let mut world = settled(4, rolling(1, 1));
    let set = world.set_of(0).unwrap();
    // Somebody else writes to the ReplicaSet, which our process has not seen when it scales.
    world.user(User::Mislead(0));
    world.user(User::Scale(6));
    world.deliver(Kind::Deployment, 1);
    world.sync_deployment(&[]);
    assert_eq!(sizes(&world), [(4, 4)], "refused");
    sync_all(&mut world);
    let notes = ["desired-replicas", "max-replicas"].map(|key| world.annotation(&set, key).unwrap());
    assert_eq!((sizes(&world), notes), (vec![(6, 6)], ["6", "7"].map(String::from)));
}

#[test]
fn dep_02_dep_03_names_that_are_taken_cost_one_create_and_one_status_each() {
    let mut world = settled(1, rolling(1, 0));
    world.user(User::SetTemplate(1));
    world.deliver_all();
    for count in 1..=3 {
        let before = world.requests;
        world.sync_deployment(&[Fate::NameTaken]);
        world.deliver_all();
        assert_eq!(world.requests, before + 3, "a create, a look at who has the name, a status");
        assert_eq!(world.status()["collisionCount"], count);
    }
    // While the status cannot be written the name stays the same.
    let before = world.server.log.len();
    for _ in 0..3 {
        world.sync_deployment(&[Fate::NameTaken, Fate::Fine, Fate::Refused]);
        world.deliver_all();
    }
    assert_eq!(world.server.log.len(), before + 1, "one more name was taken, and nothing else happened");
    settle(&mut world);
}
