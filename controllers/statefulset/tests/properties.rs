//! What holds for every history of a StatefulSet: whatever users and nodes do, whatever becomes of our requests, however late we see it.
//! See `world/bounds.rs` for what is promised when.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, and so do its helpers")]

mod support;
mod world;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;
use statefulset::Gates;
use world::World;
use world::drive::Fate;
use world::environment::{Kubelet, User};
use world::server::{KINDS, Kind};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Op {
    User(User),
    Kubelet(Kubelet, u8),
    CollectGarbage,
    Sync(Vec<Fate>),
    Deliver(Kind, usize),
    Pass(i64),
    Restart,
    Calm(u8),
}

/// What stays the same all the time.
#[derive(Clone, Debug)]
struct Given {
    replicas: i32,
    parallel: bool,
    claims: bool,
    /// Whether claims go with the set, and with pods that are scaled away.
    retain: (bool, bool),
    strategy: u8,
    limit: u8,
    history: Option<u32>,
    gates: Gates,
    /// How many calm rounds there were before.
    age: u8,
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
    prop_oneof![3 => Just(Vec::new()), 2 => vec(fate, 1..6)]
}

fn any_user() -> impl Strategy<Value = User> {
    let number = || 0_u8..16;
    let orphaned = prop_oneof![Just(Kind::Pod), Just(Kind::Revision)];
    prop_oneof![
        8 => (0_u8..4).prop_map(User::SetTemplate),
        5 => (0_u8..6).prop_map(User::Scale),
        1 => (0_u8..3).prop_map(User::Start),
        3 => (0_u8..4).prop_map(User::Partition),
        2 => number().prop_map(User::MaxUnavailable),
        2 => number().prop_map(User::Strategy),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(with_set, when_scaled)| User::Retain(with_set, when_scaled)),
        1 => any::<bool>().prop_map(User::SetMinReady),
        1 => (0_u8..3).prop_map(User::Annotate),
        2 => number().prop_map(User::DeletePod),
        1 => prop_oneof![number().prop_map(User::DeleteClaim), number().prop_map(User::Seize), number().prop_map(User::DeleteRevision)],
        1 => prop_oneof![(orphaned, number()).prop_map(|(kind, which)| User::Orphan(kind, which)), number().prop_map(User::Unlabel)],
        1 => any::<bool>().prop_map(User::Anew),
    ]
}

fn any_kubelet() -> impl Strategy<Value = Kubelet> {
    prop_oneof![
        10 => Just(Kubelet::Ready),
        2 => Just(Kubelet::Unready),
        1 => Just(Kubelet::Failed),
        4 => Just(Kubelet::Ended),
        1 => Just(Kubelet::Lost),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => any_user().prop_map(Op::User),
        10 => (any_kubelet(), any::<u8>()).prop_map(|(what, which)| Op::Kubelet(what, which)),
        1 => Just(Op::CollectGarbage),
        14 => any_fates().prop_map(Op::Sync),
        12 => (prop::sample::select(KINDS.to_vec()), 1_usize..9).prop_map(|(kind, count)| Op::Deliver(kind, count)),
        2 => (1_i64..5).prop_map(Op::Pass),
        1 => Just(Op::Restart),
        4 => (1_u8..5).prop_map(Op::Calm),
    ]
}

/// A rollout that nobody disturbs, seen late.
fn any_quiet_op() -> impl Strategy<Value = Op> {
    let death = prop_oneof![6 => Just(vec![]), 1 => Just(vec![Fate::DeathAfter]), 1 => Just(vec![Fate::Fine, Fate::DeathBefore])];
    let user = prop_oneof![2 => (0_u8..4).prop_map(User::SetTemplate), 1 => (0_u8..4).prop_map(User::Partition)];
    let kubelet = prop_oneof![2 => Just(Kubelet::Ready), 1 => Just(Kubelet::Ended)];
    prop_oneof![
        2 => user.prop_map(Op::User),
        8 => (kubelet, any::<u8>()).prop_map(|(what, which)| Op::Kubelet(what, which)),
        10 => death.prop_map(Op::Sync),
        10 => (prop::sample::select(KINDS.to_vec()), 1_usize..5).prop_map(|(kind, count)| Op::Deliver(kind, count)),
        1 => Just(Op::Restart),
    ]
}

fn any_given() -> impl Strategy<Value = Given> {
    let gates = (any::<bool>(), prop_oneof![3 => Just(true), 1 => Just(false)]).prop_map(|(max_unavailable, recreate)| Gates {
        max_unavailable,
        recreate,
        semantic_comparison: true,
    });
    let claims = (any::<bool>(), any::<(bool, bool)>());
    (0..5_i32, any::<bool>(), claims, any::<[u8; 2]>(), option::of(0_u32..3), gates, 0_u8..9).prop_map(
        |(replicas, parallel, (claims, retain), [strategy, limit], history, gates, age)| Given {
            replicas,
            parallel,
            claims,
            retain,
            strategy,
            limit,
            history,
            gates,
            age,
        },
    )
}

fn begin(given: &Given) -> World {
    let policy = if given.parallel { "Parallel" } else { "OrderedReady" };
    let mut spec = json!({"podManagementPolicy": policy, "revisionHistoryLimit": given.history});
    if given.claims {
        support::merge(&mut spec, support::claiming(&["data"])["spec"].clone());
    }
    let mut world = World::new(given.gates, given.replicas, json!({"spec": spec}));
    world.user(User::Strategy(given.strategy));
    world.user(User::MaxUnavailable(given.limit));
    world.user(User::Retain(given.retain.0, given.retain.1));
    for _ in 0..given.age {
        world.calm_round();
    }
    world
}

fn happen(world: &mut World, op: &Op) {
    match op {
        Op::User(user) => world.user(*user),
        Op::Kubelet(what, which) => world.kubelet(*what, *which),
        Op::CollectGarbage => world.collect_garbage(),
        Op::Sync(fates) => world.sync(fates),
        Op::Deliver(kind, count) => world.deliver(*kind, *count),
        Op::Pass(seconds) => world.server.pass(*seconds),
        Op::Restart => world.restart(),
        Op::Calm(rounds) => (0..*rounds).for_each(|_| world.calm_round()),
    }
    world.rest();
}

fn live_through(mut world: World, ops: &[Op]) -> Result<(), TestCaseError> {
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
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn every_promise_is_kept_and_in_the_end_all_is_settled(given in any_given(), ops in vec(any_op(), 1..80)) {
        live_through(begin(&given), &ops)?;
    }

    #[test]
    fn a_rollout_keeps_all_but_max_unavailable_pods_available(given in any_given(), ops in vec(any_quiet_op(), 1..80)) {
        live_through(begin(&Given { strategy: 0, replicas: given.replicas + 1, age: 12, ..given }), &ops)?;
    }
}
