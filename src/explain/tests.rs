//! What is told, from explanations made by hand.

mod rules;

use std::sync::Arc;
use std::time::Duration;

use machinery::expectations::{Pending, UnknownWrite};
use machinery::explain::{Explanation, Preview, Record};
use machinery::guard::Behind;
use machinery::queue::{KeyPlace, Whereabouts};
use model::plan::{Action, DEPLOYMENTS, Delete, ObjectRef, PODS, Question, REPLICASETS, Rule, Step, Wait};
use model::{ObjectKey, ResourceVersion, Time, Uid};
use serde_json::json;
use tokio::time::Instant;

use super::print::{List, Page};
use super::told::{Stance, Told, ToldList, ToldWait, summary};

const SECOND: i64 = 1_000_000_000;
/// 2027-01-15T08:00:00Z
const NOW: Time = Time(1_800_000_000 * SECOND);

fn ago(seconds: i64) -> Time {
    Time(NOW.0 - seconds * SECOND)
}

/// `shop/web`, of which nothing is known and nothing has to be done.
fn web() -> Explanation {
    Explanation {
        subject: ObjectRef {
            resource: &DEPLOYMENTS,
            key: ObjectKey::new("shop", "web"),
            uid: Uid(7),
            resource_version: ResourceVersion(71),
        },
        preview: Preview::default(),
        behind: None,
        pending: None,
        whereabouts: Whereabouts::default(),
        records: Vec::new(),
        next_victims: Vec::new(),
        // Such a moment that others come before it.
        clock: (NOW, Instant::now() + Duration::from_secs(3600)),
    }
}

fn moment(explanation: &Explanation, seconds_ago: u64) -> Instant {
    explanation.clock.1 - Duration::from_secs(seconds_ago)
}

fn waiting(waits: &[Wait]) -> Explanation {
    let preview = Preview { waits: waits.to_vec(), ..Preview::default() };
    Explanation { preview, records: vec![Record::new(waits.to_vec(), Vec::new(), None, ago(130))], ..web() }
}

fn failing(text: &str) -> Explanation {
    let mut explanation = web();
    explanation.records = vec![Record::new(Vec::new(), Vec::new(), Some(text), ago(20))];
    explanation.whereabouts.failures = 4;
    explanation.whereabouts.timer = Some(explanation.clock.1 + Duration::from_secs(40));
    explanation
}

fn delete(pod: &str) -> Step {
    let target = ObjectRef { resource: &PODS, key: ObjectKey::new("shop", pod), uid: Uid(1), resource_version: ResourceVersion(1) };
    Step { action: Action::Delete(Delete { target, at_version: true }), reason: Rule::TooManyReplicas }
}

fn told(explanation: &Explanation) -> Told {
    Told::of(explanation, Stance::Works)
}

fn rules(told: &Told) -> Vec<&str> {
    told.waits.iter().map(|wait| wait.rule.as_str()).collect()
}

fn figures(wait: &ToldWait) -> Vec<(&str, i64)> {
    wait.figures.iter().map(|figure| (figure.name.as_str(), figure.value)).collect()
}

#[test]
fn the_verdict_is_what_holds_now() {
    let acts = || {
        let mut explanation = waiting(&[]);
        explanation.preview.steps = vec![delete("web-1")];
        explanation
    };
    let asks = {
        let owner = web().subject;
        let preview = Preview { question: Some(Question::MayAdopt(owner)), ..Preview::default() };
        Explanation { preview, ..web() }
    };
    let waits = waiting(&[Wait::new(Rule::Paused)]);
    for (explanation, verdict, since) in [
        (&web(), "settled", None),
        (&acts(), "acts", None),
        (&asks, "acts", None),
        (&waits, "waits", Some("2027-01-15T07:57:50Z")),
        (&failing("no"), "failed", Some("2027-01-15T07:59:40Z")),
        // It failed, and would act now: it has not yet.
        (&Explanation { preview: acts().preview, ..failing("no") }, "failed", Some("2027-01-15T07:59:40Z")),
        // It waited when it was last looked at, and does not any more.
        (&Explanation { preview: Preview::default(), ..waiting(&[Wait::new(Rule::Paused)]) }, "settled", None),
    ] {
        let told = told(explanation);
        assert_eq!((told.verdict.as_str(), told.since.as_deref()), (verdict, since));
        assert_eq!(Told::of(explanation, Stance::StandsBy).verdict, "standby");
    }
    assert_eq!(told(&acts()).next_steps, ["delete Pod web-1 (too-many-replicas)"]);
    assert_eq!(told(&asks).next_steps, ["ask whether Deployment web still is what it was, to adopt for it"]);
}

#[test]
fn a_wait_is_told_with_all_that_is_known_of_it() {
    let quota = "pods \"web-5d\" is forbidden: exceeded quota";
    let wait = Wait::on(Rule::ReplicaFailure, "web-5d").counting(&[("new", 2), ("ready", 1)]).saying(quota).until(Some(ago(-60)));
    let told = told(&waiting(&[wait, Wait::new(Rule::ScaleDownHeld).saying("")]));
    let expected = json!({
        "rule": "replica-failure", "meaning": "A ReplicaSet cannot make or delete its pods.",
        "ends": "What the API server's answer names is mended: a quota, an admission webhook, the template.",
        "on": "web-5d", "figures": [{"name": "new", "value": 2}, {"name": "ready", "value": 1}],
        "since": "2027-01-15T07:57:50Z", "until": "2027-01-15T08:01:00Z", "detail": quota,
    });
    assert_eq!(json!(told.waits[0]), expected);
    assert_eq!(told.waits[1].detail, None, "nothing is no detail");
}

#[test]
fn a_failed_sync_waits_for_its_next_try() {
    let told = told(&failing("quota"));
    assert_eq!(rules(&told), ["sync-failed"]);
    let wait = &told.waits[0];
    assert_eq!((figures(wait), wait.detail.as_deref()), (vec![("failures", 4)], Some("quota")));
    assert_eq!((wait.since.as_deref(), wait.until.as_deref()), (Some("2027-01-15T07:59:40Z"), Some("2027-01-15T08:00:40Z")));
    assert_eq!(told.queue.failures, 4);
    assert_eq!(told.queue.next_at.as_deref(), Some("2027-01-15T08:00:40Z"));
}

#[test]
fn a_cache_that_is_behind_is_waited_for_before_anything_else() {
    let mut explanation = waiting(&[Wait::new(Rule::Paused)]);
    explanation.preview.steps = vec![delete("web-1")];
    explanation.preview.writes_status = true;
    explanation.behind = Some(Behind { resource: &REPLICASETS, version: ResourceVersion(90) });
    explanation.whereabouts.place = KeyPlace::Parked(moment(&explanation, 5));
    let told = told(&explanation);
    // What a sync would do is not told: it would be done twice.
    assert_eq!(
        (told.verdict.as_str(), rules(&told), told.next_steps.len(), told.writes_status),
        ("waits", vec!["caches-behind"], 0, false)
    );
    let wait = &told.waits[0];
    assert_eq!((wait.on.as_deref(), wait.detail.as_deref()), (Some("replicasets"), Some("until it shows version 90")));
    assert_eq!(wait.since.as_deref(), Some("2027-01-15T07:59:55Z"));
    assert_eq!(told.queue.place, "parked");
    explanation.behind = Some(Behind { resource: &REPLICASETS, version: ResourceVersion(0) });
    assert_eq!(Told::of(&explanation, Stance::Works).waits[0].detail.as_deref(), Some("until it has listed anew"));
}

#[test]
fn writes_that_have_not_been_seen_and_those_without_an_answer() {
    let mut explanation = waiting(&[Wait::new(Rule::WritesNotSeen).counting(&[("desired", 3), ("pods", 1)])]);
    let unknown = UnknownWrite { name: Arc::from("web-x2"), deleted: None, since: moment(&explanation, 9) };
    explanation.pending = Some(Pending { creations: 2, deletions: 1, unknown: vec![unknown], since: moment(&explanation, 10) });
    let told = told(&explanation);
    // Not twice: the sync counts them, too.
    assert_eq!((told.verdict.as_str(), rules(&told)), ("waits", vec!["answer-lost", "writes-not-seen"]));
    let [lost, unseen] = told.waits.as_slice() else { panic!("{told:?}") };
    assert_eq!((lost.on.as_deref(), lost.since.as_deref()), (Some("web-x2"), Some("2027-01-15T07:59:51Z")));
    assert_eq!((figures(unseen), unseen.since.as_deref()), (vec![("creations", 2), ("deletions", 1)], Some("2027-01-15T07:59:50Z")));
}

/// A rollout that is stuck, with all that a page can have.
fn stuck() -> Explanation {
    let waits = [
        Wait::on(Rule::SurgeCeiling, "web-5d").counting(&[("desired", 10), ("new", 5), ("total", 13), ("replicas+maxSurge", 13)]),
        Wait::new(Rule::ProgressDeadline).counting(&[("progressDeadlineSeconds", 600)]).until(Some(ago(-500))),
        Wait::on(Rule::ReplicaFailure, "web-5d").saying("exceeded quota: few"),
    ];
    let mut explanation = waiting(&waits);
    let acted = Record::new(Vec::new(), vec![(Rule::NewReplicaSetSize, 1)], None, ago(3600));
    explanation.records.insert(0, acted);
    explanation.records.insert(1, Record::new(Vec::new(), Vec::new(), Some("no answer"), ago(200)));
    explanation.whereabouts.timer = Some(explanation.clock.1 + Duration::from_secs(501));
    explanation.next_victims = vec![("web-5d-abc".to_owned(), "not ready".to_owned())];
    explanation
}

#[test]
fn the_page() {
    let page = Page(&told(&stuck())).to_string();
    let expected = "\
Deployment shop/web   waits for 2m10s

  surge-ceiling   on web-5d   for 2m10s
    The new ReplicaSet cannot grow: there are as many pods as replicas + maxSurge allow.
    desired 10, new 5, total 13, replicas+maxSurge 13
    Ends when: Old pods go.

  progress-deadline   for 2m10s
    The rollout has until then to progress.
    progressDeadlineSeconds 600
    Ends when: It progresses; else the condition Progressing turns to False, and nothing else changes. At 2027-01-15T08:08:20Z, in 8m20s.

  replica-failure   on web-5d   for 2m10s
    A ReplicaSet cannot make or delete its pods.
    exceeded quota: few
    Ends when: What the API server's answer names is mended: a quota, an admission webhook, the template.

Its key is idle, and looked at again in 8m21s at the latest.

Of fewer pods, these would go first:
  web-5d-abc   not ready

What its syncs came to:
  2027-01-15T07:00:00Z  acted    did new-replicaset-size 1   (1 sync in 0s)
  2027-01-15T07:56:40Z  failed   no answer   (1 sync in 0s)
  2027-01-15T07:57:50Z  waits    surge-ceiling, progress-deadline, replica-failure   (1 sync in 0s)
";
    assert_eq!(page, expected, "\n{page}");
}

#[test]
fn the_page_of_one_that_is_settled_and_of_one_on_standby() {
    assert_eq!(Page(&told(&web())).to_string(), "Deployment shop/web   settled\n\nIts key is idle.\n");
    let mut acting = web();
    acting.preview.steps = (0..12).map(|n| delete(&format!("web-{n}"))).collect();
    let page = Page(&Told::of(&acting, Stance::StandsBy)).to_string();
    let beginning =
        "Deployment shop/web   standby\n  Another replica leads. This is what this one would do and wait for.\n\nA sync would now:\n";
    assert!(page.starts_with(beginning), "{page}");
    assert!(page.contains("  delete Pod web-9 (too-many-replicas)\n  and 2 more\n"), "{page}");
}

#[test]
fn one_that_observes_waits_for_others_where_it_would_act() {
    let mut acting = web();
    acting.preview.steps = vec![delete("web-1")];
    let left = Wait::new(Rule::LeftToOthers).counting(&[("steps", 1), ("statuses", 0)]);
    acting.records = vec![Record::new(vec![left], Vec::new(), None, ago(30))];
    let told = Told::of(&acting, Stance::Observes);
    assert_eq!((told.verdict.as_str(), rules(&told)), ("waits", vec!["left-to-others"]));
    let page = Page(&told).to_string();
    let beginning = "Deployment shop/web   waits for 30s\n  This process observes: it does nothing, and tells what it would do and wait for.\n\n  \
                     left-to-others   for 30s\n";
    assert!(page.starts_with(beginning), "{page}");
    assert!(page.contains("A sync would now:\n  delete Pod web-1 (too-many-replicas)\n"), "{page}");
    // What there is to do has been done.
    let told = Told::of(&Explanation { preview: Preview::default(), ..acting }, Stance::Observes);
    assert_eq!((told.verdict.as_str(), rules(&told)), ("settled", vec![]));
}

#[test]
fn equal_steps_are_one_line_of_the_page() {
    let mut acting = web();
    acting.preview.steps = vec![delete("web-1"), delete("web-1"), delete("web-2")];
    let page = Page(&told(&acting)).to_string();
    let steps = "A sync would now:\n  delete Pod web-1 (too-many-replicas), 2 times\n  delete Pod web-2 (too-many-replicas)\n\n";
    assert!(page.contains(steps), "{page}");
}

#[test]
fn a_verdict_is_as_old_as_the_first_of_its_records_in_a_row() {
    let mut explanation = failing("quota");
    let failed = |error, at| Record::new(Vec::new(), Vec::new(), Some(error), ago(at));
    explanation.records = vec![failed("a", 900), Record::new(Vec::new(), Vec::new(), None, ago(800)), failed("b", 90), failed("c", 9)];
    let told = told(&explanation);
    assert_eq!(told.since.as_deref(), Some("2027-01-15T07:58:30Z"));
    let wait = &told.waits[0];
    assert_eq!((wait.since.as_deref(), wait.detail.as_deref()), (Some("2027-01-15T07:58:30Z"), Some("c")));
}

#[test]
fn what_is_sent_is_read_back() {
    for explanation in [web(), failing("quota"), stuck()] {
        let told = told(&explanation);
        assert_eq!(serde_json::from_str::<Told>(&json!(told).to_string()).unwrap(), told);
    }
    let bare = json!(told(&web()));
    for absent in ["since", "nextVictims"] {
        assert_eq!(bare.get(absent), None);
    }
}

#[test]
fn the_list_of_what_is_open() {
    assert_eq!(List(&ToldList { items: Vec::new() }).to_string(), "Nothing waits.\n");
    let waits = vec![Wait::new(Rule::Paused), Wait::new(Rule::PodsNotReady)];
    let items = vec![
        summary("Deployment", &ObjectKey::new("shop", "web"), &Record::new(waits, Vec::new(), None, ago(60))),
        summary("StatefulSet", &ObjectKey::new("a", "b"), &Record::new(Vec::new(), Vec::new(), Some("quota"), ago(0))),
    ];
    let list = ToldList { items };
    let expected = "\
Deployment shop/web  waits   since 2027-01-15T07:59:00Z  paused, pods-not-ready
StatefulSet a/b      failed  since 2027-01-15T08:00:00Z  quota
";
    assert_eq!(List(&list).to_string(), expected);
    assert_eq!(serde_json::from_str::<ToldList>(&json!(list).to_string()).unwrap(), list);
}
