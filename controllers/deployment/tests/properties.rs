//! What holds for every history of a Deployment: whatever users and nodes do, whatever becomes of our requests, however late we see it.
//! See `world/bounds.rs` for what is promised when.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, and so do its helpers")]

mod support;
mod world;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;
use world::World;
use world::drive::Fate;
use world::environment::{Kubelet, User};
use world::server::{KINDS, Kind};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Op {
    User(User),
    Kubelet(Kubelet, u8),
    SyncDeployment(Vec<Fate>),
    SyncSet(u8, Vec<Fate>),
    Deliver(Kind, usize),
    Pass(i64),
    Restart,
    Calm(u8),
}

/// What stays the same all the time.
#[derive(Clone, Debug)]
struct Given {
    replicas: i32,
    fenceposts: u8,
    recreate: bool,
    deadline: Option<u32>,
    history: Option<u32>,
}

fn any_fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        20 => Just(Fate::Fine),
        1 => Just(Fate::Refused),
        1 => Just(Fate::AnswerLost),
        1 => Just(Fate::RequestLost),
        1 => Just(Fate::NameTaken),
        1 => Just(Fate::DeathBefore),
        1 => Just(Fate::DeathAfter),
    ];
    prop_oneof![3 => Just(Vec::new()), 2 => vec(fate, 1..5)]
}

fn any_user() -> impl Strategy<Value = User> {
    let number = || 0_u8..16;
    prop_oneof![
        6 => (0_u8..4).prop_map(User::SetTemplate),
        5 => (0_u8..7).prop_map(User::Scale),
        2 => any::<bool>().prop_map(User::Pause),
        1 => Just(User::Recreate),
        3 => number().prop_map(User::Roll),
        1 => any::<bool>().prop_map(User::SetMinReady),
        1 => (0_u8..3).prop_map(User::Annotate),
        1 => (0_u8..5).prop_map(User::RollBack),
        2 => prop_oneof![number().prop_map(User::Orphan), number().prop_map(User::Mislead)],
        2 => number().prop_map(User::DeletePod),
    ]
}

fn any_kubelet() -> impl Strategy<Value = Kubelet> {
    prop_oneof![
        8 => Just(Kubelet::Ready),
        2 => Just(Kubelet::Unready),
        1 => Just(Kubelet::Failed),
        4 => Just(Kubelet::Ended),
        1 => Just(Kubelet::Lost),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => any_user().prop_map(Op::User),
        8 => (any_kubelet(), any::<u8>()).prop_map(|(what, which)| Op::Kubelet(what, which)),
        8 => any_fates().prop_map(Op::SyncDeployment),
        8 => (any::<u8>(), any_fates()).prop_map(|(which, fates)| Op::SyncSet(which, fates)),
        10 => (prop::sample::select(KINDS.to_vec()), 1_usize..9).prop_map(|(kind, count)| Op::Deliver(kind, count)),
        2 => (1_i64..40).prop_map(Op::Pass),
        1 => Just(Op::Restart),
        3 => (1_u8..4).prop_map(Op::Calm),
    ]
}

fn any_given() -> impl Strategy<Value = Given> {
    let recreate = prop_oneof![4 => Just(false), 1 => Just(true)];
    (0..6_i32, any::<u8>(), recreate, option::of(20_u32..60), option::of(0_u32..3))
        .prop_map(|(replicas, fenceposts, recreate, deadline, history)| Given { replicas, fenceposts, recreate, deadline, history })
}

fn begin(given: &Given) -> World {
    let spec = json!({"progressDeadlineSeconds": given.deadline, "revisionHistoryLimit": given.history});
    let mut world = World::new(given.replicas, json!({"spec": spec}));
    world.user(if given.recreate { User::Recreate } else { User::Roll(given.fenceposts) });
    world
}

fn happen(world: &mut World, op: &Op) {
    match op {
        Op::User(user) => world.user(*user),
        Op::Kubelet(what, which) => world.kubelet(*what, *which),
        Op::SyncDeployment(fates) => world.sync_deployment(fates),
        Op::SyncSet(which, fates) => {
            let names: Vec<_> = world.cache.sets.keys().cloned().collect();
            if let Some(name) = names.get(*which as usize % names.len().max(1)) {
                world.sync_set(name, fates);
            }
        }
        Op::Deliver(kind, count) => world.deliver(*kind, *count),
        Op::Pass(seconds) => world.server.pass(*seconds),
        Op::Restart => world.restart(),
        Op::Calm(rounds) => (0..*rounds).for_each(|_| world.calm_round()),
    }
    world.rest();
}

fn live_through(given: &Given, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut world = begin(given);
    for op in ops {
        happen(&mut world, op);
        if world.broken.is_some() {
            break;
        }
    }
    let settled = if world.broken.is_none() { world.settle() } else { Ok(()) };
    let fault = world.broken.take().or(settled.err());
    prop_assert!(fault.is_none(), "{}\n{}", fault.unwrap(), world.story.join("\n"));
    Ok(())
}

/// Few enough for every run of the tests; whoever hunts asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn every_promise_is_kept_at_every_revision_and_in_the_end_all_is_settled(given in any_given(), ops in vec(any_op(), 1..80)) {
        live_through(&given, &ops)?;
    }
}
