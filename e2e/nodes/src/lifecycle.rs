//! What a kubelet does next about a pod: a pure function of what the pod is, how it is to behave and what time it is.

use std::time::Duration;

use model::pod::Phase;
use tokio::time::Instant;

use crate::behaviour::{Behaviour, Fate};
use crate::pod::Pod;

/// What a kubelet remembers about a pod that has not come to rest. Times in the pod itself are whole seconds of somebody's wall clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// When it was first seen on its node.
    pub arrived: Instant,
    /// Since when it runs.
    pub running: Option<Instant>,
    /// Since when it terminates.
    pub terminating: Option<Instant>,
}

/// The next step in a pod's life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Say how it is.
    PatchStatus(Report),
    /// Delete it for good.
    Delete,
    /// Look again then.
    WaitUntil(Instant),
    /// Nothing, until something changes.
    Nothing,
}

/// What a kubelet says about a pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// Its containers are being created.
    Creating,
    /// It runs.
    Running {
        /// It is ready.
        ready: bool,
        /// So many restarts of each container.
        restarts: i32,
    },
    /// It was not taken in, for this reason.
    Rejected(Box<str>),
    /// It has ended.
    Ended(End),
}

/// How a pod has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By itself, well.
    Succeeded,
    /// By itself, badly.
    Failed,
    /// The node put it out.
    Evicted,
}

// === impl Memory ===

impl Memory {
    /// Of a pod that is seen for the first time.
    pub fn new(now: Instant) -> Self {
        Self { arrived: now, running: None, terminating: None }
    }

    /// Notes what the pod shows.
    pub fn note(&mut self, pod: &Pod, now: Instant) {
        if pod.phase == Phase::Running {
            self.running.get_or_insert(now);
        }
        if pod.deletion.is_some() {
            self.terminating.get_or_insert(now);
        }
    }
}

/// What to do next about a pod.
pub fn next(pod: &Pod, memory: &Memory, behaviour: &Behaviour, now: Instant) -> Step {
    if pod.deletion.is_some() {
        return next_of_terminating(pod, memory, behaviour, now);
    }
    match (pod.phase, memory.running) {
        (Phase::Succeeded | Phase::Failed, _) => Step::Nothing,
        (Phase::Running, since) => next_of_running(pod, since.unwrap_or(now), behaviour, now),
        _ => next_of_pending(pod, memory, behaviour, now),
    }
}

fn next_of_pending(pod: &Pod, memory: &Memory, behaviour: &Behaviour, now: Instant) -> Step {
    if let Fate::Reject(reason) = &behaviour.fate {
        return Step::PatchStatus(Report::Rejected(reason.clone()));
    }
    let start = later(memory.arrived, behaviour.start_after);
    let waits = behaviour.fate == Fate::NeverStart || start > now;
    match end_of(&behaviour.fate) {
        _ if waits && pod.started.is_none() => Step::PatchStatus(Report::Creating),
        _ if behaviour.fate == Fate::NeverStart => Step::Nothing,
        _ if waits => Step::WaitUntil(start),
        Some(end) if behaviour.run_for.is_zero() => Step::PatchStatus(Report::Ended(end)),
        _ => {
            let ready = behaviour.fate != Fate::Unready && behaviour.ready_after.is_zero();
            Step::PatchStatus(Report::Running { ready, restarts: behaviour.restarts.max(pod.restarts) })
        }
    }
}

fn next_of_running(pod: &Pod, since: Instant, behaviour: &Behaviour, now: Instant) -> Step {
    let ends = match &behaviour.fate {
        Fate::Reject(reason) => return Step::PatchStatus(Report::Rejected(reason.clone())),
        fate => end_of(fate).map(|end| (end, later(since, behaviour.run_for))),
    };
    if let Some((end, at)) = ends
        && at <= now
    {
        return Step::PatchStatus(Report::Ended(end));
    }
    let ready_at = later(since, behaviour.ready_after);
    // One that is ready stays so: its delay may have been counted by a fleet before this one.
    let ready = behaviour.fate != Fate::Unready && (pod.ready || ready_at <= now);
    let restarts = behaviour.restarts.max(pod.restarts);
    if ready != pod.ready || restarts != pod.restarts {
        return Step::PatchStatus(Report::Running { ready, restarts });
    }
    let becomes_ready = (!ready && behaviour.fate != Fate::Unready).then_some(ready_at);
    becomes_ready.into_iter().chain(ends.map(|(_, at)| at)).min().map_or(Step::Nothing, Step::WaitUntil)
}

fn next_of_terminating(pod: &Pod, memory: &Memory, behaviour: &Behaviour, now: Instant) -> Step {
    // Without a grace period it has been deleted for good already, and only its finalizers hold it.
    if behaviour.stuck_terminating || pod.deletion_grace == Some(0) {
        return Step::Nothing;
    }
    let ends = later(memory.terminating.unwrap_or(now), behaviour.stop_after.min(pod.grace()));
    if ends > now {
        Step::WaitUntil(ends)
    } else if pod.finalizers && !pod.is_finished() {
        // Whoever holds it wants to know how it ended (upstream `pkg/kubelet/status/status_manager.go` says so for every pod).
        Step::PatchStatus(Report::Ended(End::Succeeded))
    } else {
        Step::Delete
    }
}

fn end_of(fate: &Fate) -> Option<End> {
    match fate {
        Fate::Fail => Some(End::Failed),
        Fate::Succeed => Some(End::Succeeded),
        Fate::Evict => Some(End::Evicted),
        Fate::Ready | Fate::Unready | Fate::NeverStart | Fate::Reject(_) => None,
    }
}

/// A delay that nobody lives to see the end of is a year.
fn later(from: Instant, delay: Duration) -> Instant {
    const YEAR: Duration = Duration::from_hours(365 * 24);
    from + delay.min(YEAR)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use model::{ResourceVersion, Timestamp, Uid};
    use std::sync::Arc;

    /// A pod that was just bound.
    pub(crate) fn pod() -> Pod {
        Pod {
            name: "web-0".into(),
            namespace: "shop".into(),
            uid: Uid(1),
            resource_version: ResourceVersion(7),
            labels: Arc::new(std::iter::empty::<(&str, &str)>().collect()),
            behaviour: None,
            deletion: None,
            deletion_grace: None,
            node: Some("node-0".into()),
            schedulable: true,
            containers: Arc::new([("main", "web:1")].into_iter().collect()),
            started: None,
            restarts: 0,
            phase: Phase::Pending,
            ready: false,
            finalizers: false,
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn running(ready: bool) -> Pod {
        Pod { phase: Phase::Running, ready, started: Timestamp::from_seconds(1), ..pod() }
    }

    fn terminating(grace: i64) -> Pod {
        Pod { deletion: Timestamp::from_seconds(1), deletion_grace: Some(grace), ..running(true) }
    }

    /// Lives a pod's life, with every write answered at once, and returns what was written and when.
    fn live(mut pod: Pod, behaviour: &Behaviour, start: Instant) -> (Vec<(Duration, Step)>, Pod) {
        let (mut now, mut memory, mut steps) = (start, Memory::new(start), Vec::new());
        for _ in 0..20 {
            memory.note(&pod, now);
            let step = next(&pod, &memory, behaviour, now);
            match &step {
                Step::WaitUntil(at) => {
                    assert!(*at > now, "a wait must lead somewhere");
                    now = *at;
                    continue;
                }
                Step::Nothing => return (steps, pod),
                Step::Delete => {
                    steps.push((now - start, step));
                    return (steps, pod);
                }
                Step::PatchStatus(report) => show(&mut pod, report),
            }
            steps.push((now - start, step));
        }
        panic!("no end: {steps:?}");
    }

    fn show(pod: &mut Pod, report: &Report) {
        pod.started = Timestamp::from_seconds(1);
        match report {
            Report::Creating => {}
            Report::Running { ready, restarts } => (pod.phase, pod.ready, pod.restarts) = (Phase::Running, *ready, *restarts),
            Report::Ended(End::Succeeded) => (pod.phase, pod.ready) = (Phase::Succeeded, false),
            Report::Rejected(_) | Report::Ended(_) => (pod.phase, pod.ready) = (Phase::Failed, false),
        }
    }

    fn steps(pod: Pod, words: &str) -> Vec<(u64, Step)> {
        let (steps, _) = live(pod, &words.parse().unwrap(), Instant::now());
        steps.into_iter().map(|(at, step)| (at.as_secs(), step)).collect()
    }

    fn runs(ready: bool, restarts: i32) -> Step {
        Step::PatchStatus(Report::Running { ready, restarts })
    }

    fn ends(end: End) -> Step {
        Step::PatchStatus(Report::Ended(end))
    }

    #[test]
    fn an_ordinary_pod_is_ready_with_one_write() {
        assert_eq!(steps(pod(), ""), [(0, runs(true, 0))]);
        assert_eq!(steps(running(true), ""), []);
    }

    #[test]
    fn delays_are_counted_from_the_stage_before() {
        let creating = Step::PatchStatus(Report::Creating);
        assert_eq!(steps(pod(), "start-after=5s,ready-after=3s"), [(0, creating.clone()), (5, runs(false, 0)), (8, runs(true, 0))]);
        assert_eq!(steps(pod(), "never-start"), [(0, creating)]);
    }

    #[test]
    fn fates_without_and_with_a_life_before() {
        assert_eq!(steps(pod(), "fail"), [(0, ends(End::Failed))]);
        assert_eq!(steps(pod(), "succeed,run-for=9s"), [(0, runs(true, 0)), (9, ends(End::Succeeded))]);
        assert_eq!(steps(pod(), "evict,run-for=2s,ready-after=5s"), [(0, runs(false, 0)), (2, ends(End::Evicted))]);
        assert_eq!(steps(running(true), "evict"), [(0, ends(End::Evicted))]);
        let rejected = Step::PatchStatus(Report::Rejected("OutOfcpu".into()));
        assert_eq!(steps(pod(), "reject=OutOfcpu,start-after=9s"), [(0, rejected)]);
    }

    #[test]
    fn readiness_comes_and_goes_with_the_behaviour() {
        assert_eq!(steps(pod(), "unready"), [(0, runs(false, 0))]);
        assert_eq!(steps(running(true), "never-start"), [], "too late for that");
        assert_eq!(steps(running(true), "unready"), [(0, runs(false, 0))]);
        assert_eq!(steps(running(false), ""), [(0, runs(true, 0))]);
        assert_eq!(steps(running(true), "ready-after=5s"), [], "a fleet that starts again leaves ready pods alone");
    }

    #[test]
    fn restarts_only_grow() {
        assert_eq!(steps(running(true), "restarts=2"), [(0, runs(true, 2))]);
        assert_eq!(steps(Pod { restarts: 5, ..running(true) }, "restarts=2"), []);
        assert_eq!(steps(pod(), "restarts=2"), [(0, runs(true, 2))]);
    }

    #[test]
    fn a_terminating_pod_ends_within_its_grace_period() {
        assert_eq!(steps(terminating(30), ""), [(0, Step::Delete)]);
        assert_eq!(steps(terminating(30), "stop-after=5s"), [(5, Step::Delete)]);
        assert_eq!(steps(terminating(30), "stop-after=1h"), [(30, Step::Delete)]);
        assert_eq!(steps(terminating(30), "stuck-terminating"), []);
        assert_eq!(steps(terminating(0), ""), [], "only finalizers are left");
        assert_eq!(steps(Pod { phase: Phase::Failed, ..terminating(30) }, "fail"), [(0, Step::Delete)]);
        assert_eq!(steps(Pod { finalizers: true, ..terminating(30) }, ""), [(0, ends(End::Succeeded)), (0, Step::Delete)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_exactly_when_it_says() {
        let behaviour = Behaviour { stop_after: SECOND * 2, ..Behaviour::default() };
        let (pod, mut memory) = (terminating(30), Memory::new(Instant::now()));
        memory.note(&pod, Instant::now());
        tokio::time::advance(SECOND).await;
        let Step::WaitUntil(at) = next(&pod, &memory, &behaviour, Instant::now()) else { panic!("it must wait") };
        tokio::time::sleep_until(at - Duration::from_millis(1)).await;
        assert_eq!(next(&pod, &memory, &behaviour, Instant::now()), Step::WaitUntil(at), "asking again does not begin it anew");
        tokio::time::sleep_until(at).await;
        assert_eq!(next(&pod, &memory, &behaviour, Instant::now()), Step::Delete);
    }
}
