//! Whole rollouts, in a world with pods, claims and revisions.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking, and so do its helpers")]

mod support;
mod world;

use serde_json::{Value, json};
use statefulset::Gates;
use support::{GATES, both, claiming, max_unavailable, parallel, partition, strategy};
use world::World;
use world::drive::Fate;
use world::environment::User;
use world::server::Kind;

/// A set of that size that runs version 0 of the template.
fn settled(gates: Gates, replicas: i32, change: Value) -> World {
    let mut world = World::new(gates, replicas, change);
    come_to_rest(&mut world);
    world
}

/// Calm rounds, until there is nothing more to do.
fn come_to_rest(world: &mut World) {
    for _ in 0..100 {
        let before = world.server.log.len();
        world.calm_round();
        world.calm_round();
        assert_eq!(world.broken, None, "{}", world.story.join("\n"));
        if world.server.log.len() == before {
            return;
        }
    }
    panic!("no rest\n{}", world.story.join("\n"));
}

/// What was done to pods and revisions since, in short.
fn done(world: &World, since: usize) -> Vec<String> {
    let actions = world.story[since..].iter().filter_map(|line| line.strip_prefix("  ")?.split_once(" ("));
    actions.map(|(action, _)| action.to_owned()).filter(|action| !action.starts_with("status") && !action.starts_with(' ')).collect()
}

/// What comes of something that a user does.
fn after(world: &mut World, user: User) -> Vec<String> {
    let since = world.story.len();
    world.user(user);
    come_to_rest(world);
    done(world, since)
}

fn status(world: &World) -> [String; 2] {
    ["currentRevision", "updateRevision"].map(|field| support::did::short(world.db()["status"][field].as_str().unwrap()))
}

#[test]
fn in_order_pods_come_up_from_the_lowest_and_are_replaced_from_the_highest() {
    let mut world = World::new(GATES, 3, claiming(&["data"]));
    come_to_rest(&mut world);
    let expected =
        ["create revision 1", "create data-db-0", "create db-0", "create data-db-1", "create db-1", "create data-db-2", "create db-2"];
    assert_eq!(done(&world, 0), expected);
    let expected = ["create revision 2", "delete db-2", "create db-2", "delete db-1", "create db-1", "delete db-0", "create db-0"];
    assert_eq!(after(&mut world, User::SetTemplate(1)), expected);
    assert_eq!(status(&world), ["revision 2", "revision 2"]);
    assert_eq!(after(&mut world, User::Scale(1)), ["delete db-2", "delete db-1"]);
    assert_eq!(after(&mut world, User::Scale(2)), ["create db-1"], "with the claim that was kept");
    assert_eq!(after(&mut world, User::Start(1)), ["create db-2", "delete db-0"]);
}

#[test]
fn a_canary_and_then_all() {
    let mut world = settled(GATES, 3, partition(2));
    assert_eq!(after(&mut world, User::SetTemplate(1)), ["create revision 2", "delete db-2", "create db-2"]);
    assert_eq!(status(&world), ["revision 1", "revision 2"]);
    // One that is lost below the partition comes back as it was.
    let since = world.story.len();
    world.server.remove(Kind::Pod, "db-0").unwrap();
    come_to_rest(&mut world);
    assert_eq!(done(&world, since), ["create db-0"]);
    assert_eq!(after(&mut world, User::Partition(0)), ["delete db-1", "create db-1", "delete db-0", "create db-0"]);
    assert_eq!(status(&world), ["revision 2", "revision 2"]);
}

#[test]
fn several_at_once() {
    let mut world = settled(GATES, 4, max_unavailable(2));
    let expected = [
        "create revision 2",
        "delete db-3",
        "delete db-2",
        "create db-2",
        "create db-3",
        "delete db-1",
        "delete db-0",
        "create db-0",
        "create db-1",
    ];
    assert_eq!(after(&mut world, User::SetTemplate(1)), expected);
    let mut world = settled(GATES, 4, both(parallel(), max_unavailable(2)));
    assert_eq!(after(&mut world, User::SetTemplate(1)), expected);
    let mut world = settled(Gates { max_unavailable: false, ..GATES }, 2, both(parallel(), max_unavailable(2)));
    assert_eq!(after(&mut world, User::SetTemplate(1)), ["create revision 2", "delete db-1", "create db-1", "delete db-0", "create db-0"]);
}

#[test]
fn back_to_the_revision_of_before() {
    let mut world = settled(GATES, 1, json!({}));
    after(&mut world, User::SetTemplate(1));
    assert_eq!(after(&mut world, User::SetTemplate(0)), ["raise revision 1 to 3", "delete db-0", "create db-0"]);
    assert_eq!(status(&world), ["revision 1", "revision 1"]);
    assert_eq!(world.server.names(Kind::Revision).len(), 2);
}

#[test]
fn recreate_stops_all_before_it_starts_any() {
    for policy in [json!({}), parallel()] {
        let mut world = settled(Gates { recreate: true, ..GATES }, 2, both(strategy("Recreate"), policy));
        assert_eq!(world.db()["status"].get("conditions"), None);
        let did = after(&mut world, User::SetTemplate(1));
        assert_eq!(did, ["create revision 2", "delete db-0", "delete db-1", "create db-0", "create db-1"]);
        let conditions = world.db()["status"]["conditions"].as_array().unwrap().clone();
        assert_eq!((conditions.len(), &conditions[0]["reason"]), (1, &json!("RecreateCompleted")));
        let said = ["Deleting old revision pods", "Waiting for new-revision pods to be created", "All pods recreated successfully"];
        let at = said.map(|text| world.story.iter().position(|line| line.contains(text)).unwrap());
        assert!(at.is_sorted());
    }
}

#[test]
fn sts_01_recreate_gets_a_set_unstuck() {
    let mut world = settled(Gates { recreate: true, ..GATES }, 2, json!({}));
    world.user(User::SetTemplate(1));
    for _ in 0..4 {
        // The new pod never comes up.
        world.deliver_all();
        world.sync(&[]);
        world.collect_garbage();
        for name in world.server.names(Kind::Pod) {
            if world.server.get(Kind::Pod, &name).unwrap()["metadata"].get("deletionTimestamp").is_some() {
                world.server.remove(Kind::Pod, &name).unwrap();
            }
        }
    }
    let since = world.story.len();
    world.user(User::SetTemplate(2));
    for _ in 0..4 {
        world.deliver_all();
        world.sync(&[]);
    }
    assert_eq!(done(&world, since), ["create revision 3"], "it waits for the broken pod");
    world.user(User::Strategy(4));
    come_to_rest(&mut world);
    assert_eq!(done(&world, since)[1..], ["delete db-0", "delete db-1", "create db-0", "create db-1"]);
    assert_eq!(status(&world), ["revision 3", "revision 3"]);
}

#[test]
fn sts_09_what_a_webhook_makes_of_a_pod_restarts_nothing() {
    let mut world = settled(GATES, 2, json!({}));
    for name in world.server.names(Kind::Pod) {
        world
            .server
            .update(Kind::Pod, &name, |pod| {
                pod["metadata"]["annotations"] = json!({"injected": "yes"});
                pod["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "sidecar"}));
                pod["spec"]["containers"][0]["image"] = json!("mirror/db:v1");
            })
            .unwrap();
    }
    let before = world.server.log.len();
    come_to_rest(&mut world);
    assert_eq!(world.server.log.len(), before);
}

#[test]
fn sts_12_fifty_templates_whose_pods_are_refused_leave_a_short_history() {
    let mut world = settled(GATES, 0, json!({"spec": {"revisionHistoryLimit": 3}}));
    world.user(User::Scale(1));
    for round in 0..50_u32 {
        let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": format!("db:x{round}")}]}}}});
        world.server.update(Kind::Set, "db", |set| support::merge(set, image)).unwrap();
        world.deliver_all();
        // The revision is made, the pod is not.
        world.sync(&[Fate::Fine, Fate::Refused]);
        world.deliver_all();
        assert!(world.server.names(Kind::Revision).len() <= 6, "{:?}", world.server.names(Kind::Revision));
    }
    assert_eq!(world.broken, None);
    assert!(world.story.iter().filter(|line| line.contains("failed: ")).count() >= 50, "{}", world.story.join("\n"));
}

#[test]
fn sts_25_a_set_with_one_more_claim_template_replaces_its_pods_once() {
    for gates in [GATES, Gates { max_unavailable: false, ..GATES }] {
        for policy in [json!({}), parallel()] {
            let mut world = settled(gates, 2, both(claiming(&["data"]), policy));
            let did = after(&mut world, User::Anew(true));
            let replaced = |at| [format!("delete db-{at}"), format!("create more1-db-{at}"), format!("create db-{at}")];
            let expected = ["adopt revision 1", "adopt db-0", "adopt db-1"].map(str::to_owned);
            let expected: Vec<_> = expected.into_iter().chain(replaced(1)).chain(replaced(0)).collect();
            assert_eq!(did, expected);
        }
    }
}

#[test]
fn sts_49_a_set_that_is_made_anew_restarts_nothing() {
    for policy in [json!({}), parallel()] {
        let mut world = settled(GATES, 2, both(claiming(&["data"]), policy));
        assert_eq!(after(&mut world, User::Anew(false)), ["adopt revision 1", "adopt db-0", "adopt db-1"]);
    }
}

#[test]
fn claims_go_with_pods_that_are_scaled_away_and_come_anew() {
    let mut world = settled(GATES, 2, support::retention("Delete", "Delete"));
    assert_eq!(after(&mut world, User::Scale(1)), ["reown data-db-1 to Pod db-1", "delete db-1"]);
    assert_eq!(world.server.names(Kind::Claim), ["data-db-0"]);
    assert_eq!(after(&mut world, User::Scale(2)), ["create data-db-1", "create db-1"]);
}

#[test]
fn a_pod_waits_for_the_claims_of_its_predecessor_to_go() {
    let mut world = settled(GATES, 2, support::retention("Retain", "Delete"));
    world.user(User::Scale(1));
    // The pod is gone, and the collector has not come yet.
    for _ in 0..2 {
        world.deliver_all();
        world.sync(&[]);
    }
    world.server.remove(Kind::Pod, "db-1").unwrap();
    world.user(User::Scale(2));
    world.deliver_all();
    let since = world.story.len();
    world.sync(&[]);
    assert_eq!(done(&world, since), [""; 0]);
    assert_eq!(world.failed, None);
    world.collect_garbage();
    come_to_rest(&mut world);
    assert_eq!(done(&world, since), ["create data-db-1", "create db-1"]);
}

#[test]
fn whatever_becomes_of_a_request_the_rollout_settles() {
    let fates = [Fate::Refused, Fate::AnswerLost, Fate::RequestLost, Fate::NameTaken, Fate::DeathBefore, Fate::DeathAfter];
    for policy in [json!({}), parallel()] {
        let before = settled(GATES, 2, both(claiming(&["data"]), policy));
        for fate in fates {
            for at in 0..4 {
                for again in [1, 6] {
                    let mut world = before.clone();
                    world.user(User::SetTemplate(1));
                    world.user(User::Scale(3));
                    let mut sent = vec![Fate::Fine; at];
                    sent.extend(vec![fate; again]);
                    for _ in 0..3 {
                        world.deliver_all();
                        world.sync(&sent);
                        world.good_kubelets();
                    }
                    let settled = world.settle();
                    assert!(settled.is_ok() && world.broken.is_none(), "{fate:?} {at} {again}: {settled:?}\n{}", world.story.join("\n"));
                }
            }
        }
    }
}
