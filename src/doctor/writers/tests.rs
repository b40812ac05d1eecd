//! What evidence proves.

use super::*;
use ControllerName::{Deployment, ReplicaSet, StatefulSet};

const SECOND: i64 = 1_000_000_000;
const NOW: Time = Time(1_800_000_000 * SECOND);

fn ago(seconds: i64) -> Time {
    Time(NOW.0 - seconds * SECOND)
}

fn ours() -> Ours {
    let lease = ("kube-system".to_owned(), OUR_MANAGER.to_owned());
    Ours { controllers: vec![Deployment, ReplicaSet, StatefulSet], lease: Some(lease) }
}

fn pod(line: &str) -> ManagerPod {
    ManagerPod { name: "kcm-a".to_owned(), node: "a".to_owned(), state: PodState::Ready, flags: ManagerFlags::parse(line.split(' ')) }
}

fn lease(acquired: i64, renewed: i64) -> ManagerLease {
    ManagerLease {
        holder: "a_1".to_owned(),
        renewal: String::new(),
        renewed: Some(ago(renewed)),
        acquired: Some(ago(acquired)),
        duration: Duration::from_secs(15),
    }
}

fn write(controller: ControllerName, manager: &str, seconds_ago: i64) -> StatusWrite {
    let at = ago(seconds_ago).timestamp().unwrap();
    StatusWrite { controller, manager: manager.to_owned(), at, object: "ns/web".to_owned() }
}

fn upstreams(seconds_ago: i64) -> Vec<StatusWrite> {
    vec![write(ReplicaSet, "kube-controller-manager", seconds_ago)]
}

/// How many proofs and doubts there are.
fn judged(pods: Vec<ManagerPod>, lease: Option<ManagerLease>, writes: Vec<StatusWrite>) -> (usize, usize) {
    let evidence = Evidence { now: NOW, pods: Ok(pods), lease: Ok(lease), writes: Ok(writes) };
    let judgement = evidence.judge(&ours());
    (judgement.proofs.len(), judgement.doubts.len())
}

#[test]
fn nothing_is_seen_where_there_is_nothing() {
    assert_eq!(judged(vec![], None, vec![]), (0, 0));
    assert_eq!(judged(vec![], None, vec![write(Deployment, OUR_MANAGER, 1), write(Deployment, "kubectl", 1)]), (0, 0));
}

#[test]
fn a_live_pods_flags_say_what_it_runs() {
    const OFF: &str = "kcm --controllers=*,-deployment-controller,-replicaset-controller,-statefulset-controller";
    assert_eq!(judged(vec![pod("kcm")], None, vec![]), (1, 0));
    assert_eq!(judged(vec![pod("kcm --controllers=*,-deployment-controller")], None, vec![]), (1, 0));
    assert_eq!(judged(vec![pod(OFF)], Some(lease(100, 2)), vec![]), (0, 0));
    // One node has the old flags still.
    assert_eq!(judged(vec![pod(OFF), pod("kcm")], Some(lease(100, 2)), vec![]), (1, 0));
    assert_eq!(judged(vec![ManagerPod { state: PodState::Ended, ..pod("kcm") }], None, vec![]), (0, 0));
    let unready = |line| vec![ManagerPod { state: PodState::Unready, ..pod(line) }];
    assert_eq!(judged(unready("kcm"), None, vec![]), (0, 0));
    // The holder is on that node: what else should it be?
    assert_eq!(judged(unready("kcm"), Some(lease(100, 2)), vec![]), (1, 0));
    assert_eq!(judged(unready(OFF), Some(lease(100, 2)), vec![]), (0, 0));
    assert_eq!(judged(unready(OFF), Some(ManagerLease { holder: "b_1".to_owned(), ..lease(100, 2) }), vec![]), (0, 1));
    assert_eq!(judged(vec![pod("kcm --enable-leader-migration")], None, vec![]), (0, 1));
    let mut subset = ours();
    subset.controllers = vec![StatefulSet];
    let off = pod("kcm --controllers=*,-statefulset-controller");
    let evidence = Evidence { now: NOW, pods: Ok(vec![off]), lease: Ok(None), writes: Ok(vec![]) };
    assert_eq!(evidence.judge(&subset).proofs, Vec::<String>::new());
}

#[test]
fn a_lease_proves_what_its_holder_wrote_since_it_holds_it() {
    assert_eq!(judged(vec![], Some(lease(100, 2)), upstreams(50)), (1, 0));
    // Its predecessor's, with other flags.
    assert_eq!(judged(vec![], Some(lease(100, 2)), upstreams(101)), (0, 1));
    assert_eq!(judged(vec![], Some(lease(100, 2)), upstreams(99)), (0, 1));
    // It has just ended, or has been stopped.
    assert_eq!(judged(vec![], Some(lease(100, 16)), upstreams(50)), (0, 1));
    assert_eq!(judged(vec![], Some(lease(10_000, 5_000)), upstreams(5_000)), (0, 0));
    assert_eq!(judged(vec![], Some(ManagerLease { holder: String::new(), ..lease(100, 0) }), vec![]), (0, 0));
    // Controllers that do not run here are nobody's business.
    let mut subset = ours();
    subset.controllers = vec![StatefulSet];
    let evidence = Evidence { now: NOW, pods: Ok(vec![]), lease: Ok(Some(lease(100, 2))), writes: Ok(upstreams(50)) };
    assert_eq!(evidence.judge(&subset).proofs.len(), 0);
}

#[test]
fn who_competes_for_the_same_lease_is_no_other_writer() {
    let mut ours = ours();
    ours.lease = Some(ManagerLease::default_name());
    let evidence = Evidence { now: NOW, pods: Ok(vec![pod("kcm")]), lease: Ok(Some(lease(100, 2))), writes: Ok(upstreams(50)) };
    let judgement = evidence.judge(&ours);
    assert_eq!((judgement.proofs.len(), judgement.doubts.len(), judgement.notes.len()), (0, 0, 1));
    // Not without leader election: then it works whoever leads.
    let evidence = Evidence { pods: Ok(vec![pod("kcm --leader-elect=false")]), ..evidence };
    assert_eq!(evidence.judge(&ours).proofs.len(), 1);
    ours.lease = None;
    assert_eq!(Evidence { pods: Ok(vec![pod("kcm")]), ..evidence }.judge(&ours).proofs.len(), 2);
}

#[test]
fn what_cannot_be_seen_is_a_doubt() {
    let no = || "no".to_owned();
    let evidence = Evidence { now: NOW, pods: Err(no()), lease: Err(no()), writes: Err(no()) };
    let judgement = evidence.judge(&ours());
    assert_eq!((judgement.proofs.len(), judgement.doubts.len()), (0, 2));
}

#[test]
fn who_takes_part_in_no_election_is_seen_by_what_it_goes_on_writing() {
    let at = |seconds_ago: i64, lease, pods| Evidence { now: NOW, pods: Ok(pods), lease: Ok(lease), writes: Ok(upstreams(seconds_ago)) };
    let goes_on = |first: &Evidence, later: i64| first.goes_on(&at(later, None, vec![]), &ours()).is_some();
    assert!(goes_on(&at(10, None, vec![]), 1));
    // The same write is no sign of life, and an old one is nobody's.
    assert!(!goes_on(&at(10, None, vec![]), 10));
    assert!(!goes_on(&at(70, None, vec![]), 1));
    // Others are judged by what is known of them.
    assert!(!goes_on(&at(10, Some(lease(100, 2)), vec![]), 1));
    assert!(!goes_on(&at(10, None, vec![pod("kcm")]), 1));
    assert!(at(10, Some(lease(100, 20)), vec![ManagerPod { state: PodState::Ended, ..pod("kcm") }]).is_unseen(&ours()));
    let competing = Ours { lease: Some(ManagerLease::default_name()), ..ours() };
    assert_eq!(at(10, None, vec![]).goes_on(&at(1, None, vec![]), &competing), None);
}

#[test]
fn the_date_of_an_answer_is_read() {
    assert_eq!(look::date("Fri, 15 Jan 2027 08:00:00 GMT"), Some(NOW));
    assert_eq!(look::date(""), None);
}

#[test]
fn of_writes_at_one_time_the_same_is_told_in_any_order() {
    let named = |controller, object: &str| StatusWrite { object: object.to_owned(), ..write(controller, "kube-controller-manager", 5) };
    let writes = vec![named(Deployment, "ns/web"), named(ReplicaSet, "ns/web-1"), named(StatefulSet, "ns/db")];
    for turn in 0..writes.len() {
        let mut writes = writes.clone();
        writes.rotate_left(turn);
        let evidence = Evidence { now: NOW, pods: Ok(vec![]), lease: Ok(None), writes: Ok(writes) };
        assert_eq!(evidence.latest_write(&ours()).unwrap().object, "ns/web-1");
    }
}
