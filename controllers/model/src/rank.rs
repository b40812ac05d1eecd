//! Which pods go first when there are too many.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use crate::meta::{Time, Timestamp};
use crate::pod::{Phase, Pod};

/// Sorts so that the pods to be deleted first stand first (upstream `pkg/controller/controller_utils.go` `ActivePodsWithRanks.Less`).
///
/// `related` are the active pods of all ReplicaSets under the same owner: of two pods, the one with more of them on its node goes first.
/// Pods that upstream leaves in no particular order are ordered by UID, so that the same input has one answer.
pub fn sort_for_deletion(pods: &[Arc<Pod>], related: &[Arc<Pod>], by_cost: bool, now: Time) -> Vec<Arc<Pod>> {
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| pod.is_active()) {
        *on_node.entry(pod.node.as_deref().unwrap_or_default()).or_default() += 1;
    }
    let rank = |pod: &Pod| on_node.get(pod.node.as_deref().unwrap_or_default()).copied().unwrap_or(0);
    merge_sort(pods, &|a, b| compare(a, b, (rank(a), rank(b)), by_cost, now).then_with(|| a.uid.cmp(&b.uid)))
}

/// What [`sort_for_deletion`] looks at, for people, in its order of weight.
pub fn describe_rank(pod: &Pod, related: &[Arc<Pod>], now: Time) -> String {
    let node = match &pod.node {
        None => "on no node".to_owned(),
        Some(node) => {
            let beside = related.iter().filter(|other| other.is_active() && other.node == pod.node).count();
            format!("on {node} with {beside} of its kind")
        }
    };
    let ready = match (pod.ready, pod.ready_changed) {
        (true, Some(since)) => format!("ready for {} s", now.nanos_since(since.time()) / 1_000_000_000),
        (true, None) => "ready".to_owned(),
        (false, _) => "not ready".to_owned(),
    };
    format!("{node}, {:?}, {ready}, deletion cost {}, {} restarts", pod.phase, pod.deletion_cost, pod.restarts)
}

/// Upstream's comparator is no total order: of two pods of one age class the UID decides, unless their times are equal, when the
/// restarts do; three such pods can form a circle. The standard library's sorts may panic on that, this one does not.
fn merge_sort(pods: &[Arc<Pod>], order: &impl Fn(&Pod, &Pod) -> Ordering) -> Vec<Arc<Pod>> {
    if pods.len() < 2 {
        return pods.to_vec();
    }
    let (left, right) = pods.split_at(pods.len() / 2);
    let mut left = merge_sort(left, order).into_iter().peekable();
    let mut right = merge_sort(right, order).into_iter().peekable();
    let mut merged = Vec::with_capacity(pods.len());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        merged.extend(if order(a, b).is_le() { left.next() } else { right.next() });
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

fn compare(a: &Pod, b: &Pod, (rank_a, rank_b): (usize, usize), by_cost: bool, now: Time) -> Ordering {
    let cost = |pod: &Pod| if by_cost { pod.deletion_cost } else { 0 };
    a.node
        .is_some()
        .cmp(&b.node.is_some())
        .then_with(|| phase_order(a.phase).cmp(&phase_order(b.phase)))
        .then_with(|| a.ready.cmp(&b.ready))
        .then_with(|| cost(a).cmp(&cost(b)))
        .then_with(|| rank_b.cmp(&rank_a))
        .then_with(|| if a.ready && b.ready { younger_first((a, a.ready_changed), (b, b.ready_changed), now) } else { Ordering::Equal })
        .then_with(|| b.restarts.cmp(&a.restarts))
        .then_with(|| b.init_restarts.cmp(&a.init_restarts))
        .then_with(|| younger_first((a, a.created), (b, b.created), now))
}

/// Upstream `podPhaseToOrdinal`: what it does not list counts as pending.
fn phase_order(phase: Phase) -> u8 {
    match phase {
        Phase::Unknown => 1,
        Phase::Running => 2,
        Phase::Other | Phase::Pending | Phase::Succeeded | Phase::Failed => 0,
    }
}

/// Times are compared on a logarithmic scale, so that pods of about the same age go in no order an attacker could rely on.
fn younger_first((a, time_a): (&Pod, Option<Timestamp>), (b, time_b): (&Pod, Option<Timestamp>), now: Time) -> Ordering {
    match (time_a, time_b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(time_a), Some(time_b)) if time_a == time_b => Ordering::Equal,
        (Some(time_a), Some(time_b)) => log_age(time_a, now).cmp(&log_age(time_b, now)).then_with(|| a.uid.cmp(&b.uid)),
    }
}

/// Upstream `logarithmicRankDiff`: the whole part of log2 of the age in nanoseconds, as a float64 has it.
fn log_age(time: Timestamp, now: Time) -> i64 {
    match now.nanos_since(time.time()) {
        age if age > 0 => (age as f64).log2() as i64,
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::LabelSet;
    use crate::meta::{ControllerRef, ResourceVersion, Uid};
    use crate::pod::OwnLabels;

    const NOW: Time = Time(2_000_000_000_000_000_000);

    fn pod(uid: u128, change: impl FnOnce(&mut Pod)) -> Arc<Pod> {
        let mut pod = Pod {
            name: format!("p-{uid}").into(),
            namespace: Arc::from("ns"),
            uid: Uid(uid),
            resource_version: ResourceVersion(1),
            label_set: Arc::new(LabelSet::from_iter::<[(&str, &str); 0]>([])),
            controller: ControllerRef::None,
            node: Some(Arc::from("n")),
            created: ago(100),
            deletion: None,
            ready_changed: ago(100),
            claims: None,
            restarts: 0,
            init_restarts: 0,
            deletion_cost: 0,
            phase: Phase::Running,
            ready: true,
            own_labels: OwnLabels::default(),
        };
        change(&mut pod);
        Arc::new(pod)
    }

    fn ago(seconds: i64) -> Option<Timestamp> {
        Timestamp::from_seconds(NOW.0 / 1_000_000_000 - seconds)
    }

    fn first(pods: [Arc<Pod>; 2], by_cost: bool) -> u128 {
        let related = [pod(90, |pod| pod.node = Some(Arc::from("crowded"))), pod(91, |pod| pod.node = Some(Arc::from("crowded")))];
        let there = sort_for_deletion(&pods, &related, by_cost, NOW)[0].uid.0;
        let [a, b] = pods;
        let back = sort_for_deletion(&[b, a], &related, by_cost, NOW)[0].uid.0;
        assert_eq!(there, back, "the order of the input must not matter");
        there
    }

    /// bug-cases RS-10. In each row the pod with UID 2 goes before the pod with UID 1; where nothing but the row's rule differs, UID 1 would go first.
    #[test]
    fn rs_10_each_rule_decides_before_the_ones_below_it() {
        type Change = fn(&mut Pod);
        let rows: [(&str, Change, Change); 12] = [
            ("unassigned first", |p| p.node = None, |p| p.phase = Phase::Pending),
            (
                "pending before unknown",
                |p| p.phase = Phase::Pending,
                |p| {
                    p.phase = Phase::Unknown;
                    p.ready = false;
                },
            ),
            ("unknown before running", |p| p.phase = Phase::Unknown, |p| p.ready = false),
            ("an unlisted phase ranks like pending", |p| p.phase = Phase::Other, |p| p.phase = Phase::Running),
            ("not ready before ready", |p| p.ready = false, |p| p.deletion_cost = -5),
            ("lower cost first", |p| p.deletion_cost = -1, |p| p.node = Some(Arc::from("crowded"))),
            ("more related pods on the node first", |p| p.node = Some(Arc::from("crowded")), |p| p.ready_changed = ago(1)),
            ("no ready time before any", |p| p.ready_changed = None, |p| p.ready_changed = ago(1)),
            (
                "shorter ready before longer",
                |p| p.ready_changed = ago(10),
                |p| {
                    p.ready_changed = ago(100);
                    p.restarts = 9;
                },
            ),
            (
                "more restarts first",
                |p| p.restarts = 3,
                |p| {
                    p.restarts = 2;
                    p.init_restarts = 9;
                },
            ),
            ("then more restarts of restartable init containers", |p| p.init_restarts = 3, |p| p.created = ago(1)),
            ("younger before older", |p| p.created = ago(10), |p| p.created = ago(100)),
        ];
        for (rule, goes, stays) in rows {
            assert_eq!(first([pod(1, stays), pod(2, goes)], true), 2, "{rule}");
        }
    }

    #[test]
    fn times_of_one_class_are_told_apart_by_uid_alone() {
        assert_eq!(first([pod(1, |p| p.ready_changed = ago(100)), pod(2, |p| p.ready_changed = ago(99))], true), 1);
        assert_eq!(first([pod(1, |p| p.created = ago(100)), pod(2, |p| p.created = ago(99))], true), 1);
        // Times that have not come yet are one class too.
        assert_eq!(first([pod(1, |p| p.created = ago(-5)), pod(2, |p| p.created = ago(-500))], true), 1);
    }

    #[test]
    fn the_cost_counts_only_with_its_gate() {
        let pods = || [pod(1, |_| {}), pod(2, |p| p.deletion_cost = -1)];
        assert_eq!((first(pods(), true), first(pods(), false)), (2, 1));
    }

    #[test]
    fn a_circle_in_upstreams_order_does_no_harm() {
        // 1 < 2 and 2 < 3 by UID, 3 < 1 by restarts.
        let circle = [pod(1, |_| {}), pod(2, |p| p.ready_changed = ago(99)), pod(3, |p| p.restarts = 1)];
        let many: Vec<_> = circle.iter().cycle().take(300).cloned().collect();
        assert_eq!(sort_for_deletion(&many, &[], true, NOW).len(), 300);
    }
}
