//! What holds for every set of pods.

mod support;

use std::sync::Arc;

use model::pod::Phase;
use model::rank::sort_for_deletion;
use model::{ControllerRef, Pod, Timestamp, Uid};
use proptest::prelude::*;
use support::{NOW, done, labels, owned_by, pod, set, sync, view};

fn any_pod(number: u64) -> impl Strategy<Value = Arc<Pod>> {
    let time = || prop_oneof![Just(0), Just(1), 1_799_990_000_i64..1_800_000_010];
    let phase = prop::sample::select(vec![Phase::Other, Phase::Pending, Phase::Running, Phase::Succeeded, Phase::Failed, Phase::Unknown]);
    let controller = prop_oneof![
        4 => Just(owned_by(support::SET_UID)),
        1 => Just(owned_by(Uid(99))),
        1 => Just(ControllerRef::Foreign),
        1 => Just(ControllerRef::None),
    ];
    let node = prop::option::of(0_u8..3);
    ((phase, controller, node), any::<[bool; 3]>(), (time(), time()), (0..3_i32, 0..3_i32, -2..3_i32)).prop_map(
        move |((phase, controller, node), [ready, matches, deleted], (created, changed), (restarts, init_restarts, cost))| {
            pod(number, |pod| {
                pod.phase = phase;
                pod.controller = controller.clone();
                pod.node = node.map(|node| format!("n{node}").into());
                pod.ready = ready;
                pod.created = Timestamp::from_seconds(created);
                pod.ready_changed = Timestamp::from_seconds(changed);
                pod.deletion = Timestamp::from_seconds(i64::from(deleted));
                pod.restarts = restarts;
                pod.init_restarts = init_restarts;
                pod.deletion_cost = cost;
                if !matches {
                    pod.label_set = labels(&[("app", "other")]).into();
                }
            })
        },
    )
}

fn any_pods() -> impl Strategy<Value = Vec<Arc<Pod>>> {
    (0_u64..12).prop_flat_map(|count| (0..count).map(any_pod).collect::<Vec<_>>())
}

proptest! {
    /// A sync leaves exactly the wanted number of active pods, touches nobody else's, and the next one has nothing to do.
    #[test]
    fn one_sync_reaches_the_wanted_number(pods in any_pods(), wanted in 0_i32..15) {
        let did = sync(view(&set(wanted, |_| {}), pods.clone()), None, |_| done("x"));
        let named = |verb: &str| -> Vec<String> {
            did.actions.iter().filter_map(|action| action.strip_prefix(verb)).map(|name| name.trim().to_owned()).collect()
        };
        let (adopted, released, deleted) = (named("adopt"), named("release"), named("delete"));
        for pod in &pods {
            let name = pod.name.to_string();
            let ours = pod.controller.is(support::SET_UID) || adopted.contains(&name);
            prop_assert!(ours || !deleted.contains(&name), "deleted {name}, which is not ours");
            prop_assert!(pod.controller.is_none() || !adopted.contains(&name), "adopted {name}, which has a controller");
            prop_assert!(pod.is_active() || ![&adopted, &released, &deleted].iter().any(|names| names.contains(&name)), "touched inactive {name}");
            prop_assert!(!(released.contains(&name) && deleted.contains(&name)));
        }
        let claimed = did.status()["replicas"].as_i64().unwrap();
        prop_assert_eq!(claimed - deleted.len() as i64 + did.count("create") as i64, i64::from(wanted));
    }

    /// Without times, which upstream compares in a way that is no order, any arrangement of the same pods is sorted alike.
    #[test]
    fn the_ranking_does_not_depend_on_the_order_of_the_pods(pods in any_pods(), seed in any::<u64>()) {
        let timeless: Vec<_> = pods.iter().map(|pod| { let mut pod = Pod::clone(pod); pod.created = None; pod.ready_changed = None; Arc::new(pod) }).collect();
        let sorted = sort_for_deletion(&timeless, &timeless, true, NOW);
        let mut shuffled = timeless.clone();
        shuffled.sort_by_key(|pod| pod.uid.0.wrapping_mul(u128::from(seed | 1)) % 1009);
        let shuffled = sort_for_deletion(&shuffled, &timeless, true, NOW);
        let names = |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>();
        prop_assert_eq!(names(&sorted), names(&shuffled));
    }
}
