//! Revisions beyond the history limit (upstream `truncateHistory`).

mod support;

use std::sync::Arc;

use model::ControllerRevision;
use model::plan::{Action, Answer, Rule};
use serde_json::{Value, json};
use support::{Api, all_well, api_error, both, db, name_of, parallel, pod, refused, revision, strategy, sync, view, well, with_revisions};

fn limit(limit: impl Into<Value>) -> Value {
    json!({"spec": {"revisionHistoryLimit": limit.into()}})
}

fn revisions(versions: impl IntoIterator<Item = u32>) -> Vec<Arc<ControllerRevision>> {
    versions.into_iter().map(|version| revision(version, version.into(), |_| {})).collect()
}

#[test]
fn the_oldest_beyond_the_limit_go() {
    let settled = |change: Value| db(7, 1, both(json!({"status": {"currentRevision": name_of(7)}}), change));
    for (change, expected) in
        [(limit(10), 0), (limit(6), 0), (limit(5), 1), (limit(4), 2), (limit(0), 6), (limit(-1), 0), (limit(Value::Null), 0)]
    {
        let did = sync(with_revisions(view(&settled(change.clone()), [well(0, 7)]), revisions((1..=7).rev())), &Api::yes());
        let deletes: Vec<_> = (1..=expected).map(|version| format!("delete revision {version}")).collect();
        assert_eq!((&did.actions, did.error()), (&deletes, None), "{change}");
        assert!(did.steps.iter().all(|step| step.reason == Rule::RevisionHistoryLimit) && did.events.is_empty());
    }
    // By number, not by age.
    let odd = [revision(1, 5, |_| {}), revision(2, 4, |_| {}), revision(7, 9, |_| {})];
    let did = sync(with_revisions(view(&settled(limit(1)), [well(0, 7)]), odd), &Api::yes());
    assert_eq!(did.actions, ["delete revision 2"]);
    let Action::Delete(delete) = &did.steps[0].action else { panic!("{did:?}") };
    assert_eq!(delete.target.uid, support::revision_uid(2));
}

#[test]
fn what_is_named_anywhere_stays() {
    // By the status, by the template, and by pods, condemned and terminating ones too.
    let set = db(7, 2, both(both(strategy("OnDelete"), parallel()), both(limit(0), json!({"status": {"currentRevision": name_of(3)}}))));
    let pods = [well(0, 1), well(1, 7), pod(8, 2, support::terminating)];
    let did = sync(with_revisions(view(&set, pods), revisions(1..=7)), &Api::yes());
    assert_eq!(did.actions, ["delete revision 4", "delete revision 5", "delete revision 6"]);
    // What was current when the sync began stays until the next.
    let did = sync(with_revisions(view(&db(7, 1, limit(0)), [well(0, 7)]), revisions([1, 7])), &Api::yes());
    assert!(did.did_nothing());
    assert_eq!(did.revisions(), ["revision 7", "revision 7"]);
    // A revision that is new is not one of those that were there.
    let did = sync(with_revisions(view(&db(7, 0, limit(1)), []), revisions([2, 3, 4])), &Api::yes());
    assert_eq!(did.actions, ["create revision 7", "delete revision 2", "delete revision 3"]);
}

#[test]
fn a_revision_that_was_raised_stays() {
    let set = db(1, 0, both(limit(0), json!({"status": {"currentRevision": name_of(3)}})));
    let did = sync(with_revisions(view(&set, []), revisions(1..=3)), &Api::yes());
    assert_eq!(did.actions, ["raise revision 1 to 4", "delete revision 2"]);
}

#[test]
fn sts_12_it_is_kept_short_after_a_failed_sync_too() {
    let set = |change: Value| db(7, 1, both(both(limit(1), json!({"status": {"currentRevision": name_of(7)}})), change));
    let did = sync(with_revisions(view(&set(json!({})), []), revisions(1..=7)), &Api::yes().to("create db-0", refused(403, "Forbidden")));
    assert_eq!(did.actions.len(), 6);
    assert_eq!(
        (did.actions[0].as_str(), did.actions[5].as_str(), did.error()),
        ("create db-0", "delete revision 5", Some("Forbidden for a test"))
    );
    let did = sync(with_revisions(view(&set(strategy("Odd")), []), revisions(1..=7)), &Api::yes());
    assert_eq!((did.actions.len(), did.error().is_some()), (5, true));
    let did = sync(with_revisions(view(&set(support::deleting()), []), revisions(1..=7)), &Api::yes());
    assert_eq!((did.actions.len(), did.error()), (5, None));
}

#[test]
fn what_the_status_names_stays_when_nothing_could_be_decided() {
    let set = db(9, 2, both(limit(0), json!({"status": {"currentRevision": name_of(1), "updateRevision": name_of(3)}})));
    let unreadable = || Api::yes().answering(&name_of(4), Answer::Failed(api_error(503, "ServiceUnavailable")));
    for api in [unreadable(), Api::yes().to("create revision 9", refused(403, "Forbidden"))] {
        let did = sync(with_revisions(view(&set, [well(0, 2)]), revisions(1..=4)), &api);
        let deletes: Vec<_> = did.actions.iter().filter(|action| action.starts_with("delete")).collect();
        assert_eq!(deletes, ["delete revision 4"]);
        assert!(did.error().is_some() && did.conclusion.status.is_none());
    }
}

#[test]
fn a_delete_that_fails_is_the_syncs_error_and_ends_it() {
    let set = db(7, 1, both(limit(2), json!({"status": {"currentRevision": name_of(7)}})));
    let view = || with_revisions(view(&set, all_well(0..1, 7)), revisions(1..=7));
    let did = sync(view(), &Api::yes().to("delete revision 2", refused(500, "InternalError")));
    assert_eq!(
        (did.actions.as_slice(), did.error()),
        (["delete revision 1", "delete revision 2"].map(str::to_owned).as_slice(), Some("InternalError for a test"))
    );
    assert_eq!(did.counts(), [1; 5], "the status is written");
    // What is not there any more, or another one by now, is as good as deleted.
    for refusal in [refused(404, "NotFound"), refused(409, "Conflict")] {
        let did = sync(view(), &Api::yes().to("delete", refusal));
        assert_eq!((did.actions.len(), did.error()), (4, None));
    }
    // What went wrong before it comes first.
    let set = db(7, 1, both(limit(2), json!({"status": {"currentRevision": name_of(7)}})));
    let failing = Api::yes().to("create", refused(403, "Forbidden")).to("delete", refused(500, "InternalError"));
    let did = sync(with_revisions(support::view(&set, []), revisions(1..=7)), &failing);
    assert_eq!((did.actions.len(), did.error()), (2, Some("Forbidden for a test")));
}

#[test]
fn revisions_of_others_are_not_touched() {
    let foreign = revision(1, 1, |revision| revision.controller = model::ControllerRef::Foreign);
    let unlabelled = revision(2, 2, |revision| revision.label_set = support::labels(&[]).into());
    let set = db(7, 1, both(limit(0), json!({"status": {"currentRevision": name_of(7)}})));
    let did = sync(with_revisions(view(&set, [well(0, 7)]), [foreign, unlabelled, revision(7, 7, |_| {})]), &Api::yes());
    assert!(did.did_nothing());
}
