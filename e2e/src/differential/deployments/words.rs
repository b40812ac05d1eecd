//! What a user does to a Deployment, and what happens to its ReplicaSets and pods.
#![allow(clippy::indexing_slicing, reason = "JSON that was made a few lines above; a field of it that is not there reads as null")]

use fastrand::Rng;
use serde_json::{Value, json};

use super::{Deployment, history_limit, manifest, some_deadline, some_strategy};
use crate::differential::generator::{pick, pick_cascade, words};
use crate::differential::script::{Cascade, PodState, Pods, Target, Write};
use crate::differential::snapshot::{Kind, REVISION};

words! {
    Deployment:
    100 create if |d| !d.exists,
    2 stray if |d| !d.exists && d.versions == 1,
    28 image if |d| d.exists,
    9 broken if |d| d.exists,
    4 refused if |d| d.exists && !d.paused,
    6 template if |d| d.exists,
    3 respell if |d| d.exists,
    4 hold if |d| d.exists,
    9 undo if |d| d.exists && d.versions > 1,
    4 rollback if |d| d.exists && d.versions > 1,
    14 scale if |d| d.exists,
    6 both if |d| d.exists && !d.recreate,
    6 pause if may_pause,
    20 resume if |d| d.exists && d.paused,
    5 strategy if |d| d.exists && !d.has_short_deadline(),
    4 ready if |d| d.exists,
    3 deadline if |d| d.exists,
    4 history if |d| d.exists,
    6 annotate if |d| d.exists,
    2 label if |d| d.exists,
    4 delete if |d| d.exists,
    3 release if |d| d.exists && !d.loose_set,
    8 regain if |d| d.loose_set,
    4 lose_set if |d| d.exists,
    2 forget if |d| d.exists,
    5 unready if |d| d.exists,
    5 fail if |d| d.exists,
    3 kill if |d| d.exists,
    3 stray_pod if |d| !d.loose_pods,
    3 lend if |d| d.exists && !d.loose_pods,
    8 take_back if |d| d.loose_pods,
}

/// A merge patch of the Deployment.
fn patch(d: &Deployment, patch: Value) -> Write {
    Write::Patch(Target::Named(Kind::Deployment, d.name.to_owned()), None, patch)
}

fn spec(d: &Deployment, spec: &Value) -> Write {
    patch(d, json!({"spec": spec}))
}

fn set_of(d: &Deployment, back: usize) -> Target {
    Target::SetOf(d.name.to_owned(), back)
}

fn pods(rng: &mut Rng, d: &Deployment, state: PodState) -> (String, Target) {
    let (back, count) = (usize::from(rng.u8(..4) == 0), rng.usize(1..=3));
    let whose = if back == 0 { "the newest ReplicaSet's" } else { "the one before's" };
    (format!("{count} {state:?} pods of {whose}"), Target::Pods(Pods { deployment: d.name.to_owned(), back, state, count }))
}

/// The label `app` of what has been taken away from the Deployment.
fn loose(d: &Deployment) -> String {
    format!("loose-{}", d.name)
}

fn app(value: &str) -> Value {
    json!({"metadata": {"labels": {"app": value}}})
}

fn create(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    // Of an old template there may be ReplicaSets to adopt.
    if d.versions > 1 && rng.bool() {
        d.template.version = rng.u32(1..=d.versions);
    }
    // ReplicaSets that a Deployment of another size has left have its size noted: the README says what is made of that.
    if !d.left_sets {
        d.replicas = rng.u32(0..=6);
    }
    d.exists = true;
    d.paused = !d.left_sets && rng.u8(..100) < 8;
    d.recreate = rng.u8(..100) < 25;
    d.template.hold = rng.u8(..100) < 15;
    d.held |= d.template.hold;
    d.min_ready_seconds = pick(rng, &[0, 0, 0, 0, 0, 0, 1, 3600]);
    d.deadline = some_deadline(rng, d);
    let manifest = manifest(rng, d);
    (manifest["spec"].to_string(), Write::Create(Kind::Deployment, manifest))
}

/// A ReplicaSet that the Deployment will adopt, with a template of its own or the Deployment's.
fn stray(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    let same = rng.bool();
    let mut template = d.template.clone();
    template.tier = Some(9);
    if same {
        d.template = template.clone();
    }
    d.versions += 1;
    let labels = json!({"app": d.name, "tier": "t9"});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": format!("by-hand-{}", d.name), "labels": labels},
        "spec": {"replicas": rng.u32(0..=3), "selector": {"matchLabels": labels}, "template": template.manifest(d.name)},
    });
    (format!("ReplicaSet with {} template", if same { "the same" } else { "another" }), Write::Create(Kind::ReplicaSet, set))
}

/// The patch that brings the Deployment to its template.
fn to_template(d: &Deployment) -> Value {
    json!({"template": d.template.patch(d.name)})
}

/// Another version of the image, which mostly is a new one.
fn next_version(rng: &mut Rng, d: &mut Deployment) {
    if rng.u8(..100) < 75 {
        d.versions += 1;
        d.template.version = d.versions;
    } else {
        d.template.version = rng.u32(1..=d.versions);
    }
}

fn image(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    next_version(rng, d);
    (d.template.broken, d.template.refused) = (false, false);
    (d.template.image(), spec(d, &to_template(d)))
}

fn broken(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    next_version(rng, d);
    d.template.broken = true;
    (format!("image {}", d.template.image()), spec(d, &to_template(d)))
}

/// The API server takes the Deployment, but none of its pods.
fn refused(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    next_version(rng, d);
    d.template.refused = true;
    (format!("pods of image {}", d.template.image()), spec(d, &to_template(d)))
}

fn template(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    match rng.u8(..5) {
        0..2 => d.template.tier = pick(rng, &[None, Some(1), Some(2)]),
        2..4 => d.template.note = pick(rng, &[None, Some(1), Some(2)]),
        _ => d.template.empty_affinity = !d.template.empty_affinity,
    }
    (format!("{:?}", d.template), spec(d, &to_template(d)))
}

fn respell(_: &mut Rng, d: &mut Deployment) -> (String, Write) {
    d.template.respelt = !d.template.respelt;
    (format!("the memory limit, now {}", d.template.respelt), spec(d, &to_template(d)))
}

fn hold(_: &mut Rng, d: &mut Deployment) -> (String, Write) {
    d.template.hold = !d.template.hold;
    d.held |= d.template.hold;
    (format!("pods by a finalizer, now {}", d.template.hold), spec(d, &to_template(d)))
}

fn undo(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    let back = rng.usize(1..=2);
    (format!("to the revision {back} before"), Write::Undo(d.name.to_owned(), back))
}

fn rollback(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    let to = pick(rng, &["0", "0", "1", "2", "3", "99", "x"]);
    (format!("annotation {to}"), patch(d, json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": to}}})))
}

fn scale(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    // Not to 0 while it is paused: see `may_pause`.
    d.replicas = rng.u32(u32::from(d.paused)..=6);
    let replicas = json!({"spec": {"replicas": d.replicas}});
    let part = if rng.bool() { Some("scale") } else { None };
    let write = Write::Patch(Target::Named(Kind::Deployment, d.name.to_owned()), part, replicas.clone());
    (format!("{replicas} through {}", part.unwrap_or("the object")), write)
}

fn both(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    next_version(rng, d);
    let mut change = to_template(d);
    // Its two syncs may lose the mark of the new ReplicaSet to a conflict. At 0, or when pods are recreated, nothing then rises that would
    // put it right.
    d.replicas = rng.u32(1..=6);
    change["replicas"] = json!(d.replicas);
    (format!("image {} and replicas {}", d.template.image(), d.replicas), spec(d, &change))
}

/// A paused Deployment without any pods gives those it should have to its newest old ReplicaSet. KCM may delete that one in the same sync,
/// since it looks at what it was before; here it stays, as the README says. So one that may have no pods is not paused. Nor is one with a short
/// deadline: whether it has passed is not compared where the rollout's beginning is left to chance, but it would decide here. Nor one whose pods
/// are refused: if its ReplicaSet is made when it is resumed, KCM loses the mark of that to its own first write in the sync, and nothing rises
/// that would put it right. Here both are one write, as the README says.
fn may_pause(d: &Deployment) -> bool {
    let may_have_none = d.replicas == 0 || d.recreate && d.held;
    d.exists && !d.paused && !may_have_none && !d.has_short_deadline() && !d.template.refused
}

fn pause(_: &mut Rng, d: &mut Deployment) -> (String, Write) {
    d.paused = true;
    (String::new(), spec(d, &json!({"paused": true})))
}

fn resume(_: &mut Rng, d: &mut Deployment) -> (String, Write) {
    d.paused = false;
    (String::new(), spec(d, &json!({"paused": null})))
}

fn strategy(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    if rng.u8(..100) < 30 {
        d.recreate = !d.recreate;
    }
    let strategy = some_strategy(rng, d.recreate);
    (format!("{strategy}"), spec(d, &json!({"strategy": strategy})))
}

fn ready(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    let able = [0, 1, 3600];
    let count = if d.deadline > 3600 { 3 } else { 1 + usize::from(d.deadline > 1) };
    d.min_ready_seconds = pick(rng, able.get(..count).unwrap_or_default());
    (format!("after {} s", d.min_ready_seconds), spec(d, &json!({"minReadySeconds": d.min_ready_seconds})))
}

/// Not together with the one above: KCM's first sync fails then (it writes the ReplicaSet twice), and whether the second one finds the
/// Deployment complete is chance.
fn deadline(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    d.deadline = some_deadline(rng, d);
    (format!("for progress {} s", d.deadline), spec(d, &json!({"progressDeadlineSeconds": d.deadline})))
}

fn history(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    let limit = history_limit(rng);
    (format!("of {limit}"), spec(d, &json!({"revisionHistoryLimit": limit})))
}

fn annotate(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    let cause = pick(rng, &[json!("changed"), json!("changed again"), Value::Null]);
    (format!("cause {cause}"), patch(d, json!({"metadata": {"annotations": {"example.com/cause": cause}}})))
}

/// Labels of a Deployment go nowhere.
fn label(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    let team = pick(rng, &[json!("red"), json!("blue"), Value::Null]);
    (format!("team {team}"), patch(d, json!({"metadata": {"labels": {"team": team}}})))
}

fn delete(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    // In the foreground a pod may be made anew before its ReplicaSet is seen to be deleted, and then it stays while others are held.
    let cascades = [Cascade::Background, Cascade::Orphan, Cascade::Foreground];
    let cascade = pick_cascade(rng, cascades.get(..if d.held { 2 } else { 3 }).unwrap_or_default());
    d.exists = false;
    d.left_sets = cascade == Cascade::Orphan;
    (cascade.policy().to_owned(), Write::Delete(Target::Named(Kind::Deployment, d.name.to_owned()), cascade))
}

/// A ReplicaSet stops matching the selector. Its hash is taken then: the Deployment's next ReplicaSet of the template needs another.
fn release(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    d.loose_set = true;
    let back = usize::from(rng.bool());
    (format!("ReplicaSet {back} back"), Write::Patch(set_of(d, back), None, app(&loose(d))))
}

fn regain(_: &mut Rng, d: &mut Deployment) -> (String, Write) {
    d.loose_set = false;
    ("the ReplicaSet".to_owned(), Write::Patch(Target::Labelled(Kind::ReplicaSet, "app", loose(d)), None, app(d.name)))
}

fn lose_set(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    let (back, cascade) = (rng.usize(..=1), pick_cascade(rng, &[Cascade::Background, Cascade::Orphan]));
    (format!("ReplicaSet {back} back, {}", cascade.policy()), Write::Delete(set_of(d, back), cascade))
}

/// A ReplicaSet forgets its revision, or has one that is no number.
fn forget(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    let (back, revision) = (rng.usize(..=1), pick(rng, &[Value::Null, json!("first")]));
    let change = json!({"metadata": {"annotations": {REVISION: revision}}});
    (format!("revision of ReplicaSet {back} back, now {revision}"), Write::Patch(set_of(d, back), None, change))
}

fn unready(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    let (text, pods) = pods(rng, d, PodState::Ready);
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    (text, Write::Patch(pods, Some("status"), status))
}

fn fail(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    let state = if rng.bool() { PodState::Ready } else { PodState::NotReady };
    let (text, pods) = pods(rng, d, state);
    let status = json!({"status": {"phase": "Failed", "reason": pick(rng, &["", "Evicted"])}});
    (text, Write::Patch(pods, Some("status"), status))
}

fn kill(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    let state = pick(rng, &[Some(PodState::Ready), Some(PodState::NotReady), Some(PodState::Failed)]).unwrap_or(PodState::Ready);
    let (text, pods) = pods(rng, d, state);
    (text, Write::Delete(pods, Cascade::Background))
}

/// A pod with the Deployment's labels, but no hash: nobody's.
fn stray_pod(_: &mut Rng, d: &mut Deployment) -> (String, Write) {
    d.loose_pods = true;
    let mut pod = d.template.manifest(d.name);
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(format!("alone-{}", d.name));
    (String::new(), Write::Create(Kind::Pod, pod))
}

/// Pods are taken out of their ReplicaSet, as for a look at them.
fn lend(rng: &mut Rng, d: &mut Deployment) -> (String, Write) {
    d.loose_pods = true;
    let state = if rng.bool() { PodState::Ready } else { PodState::NotReady };
    let (text, pods) = pods(rng, d, state);
    (text, Write::Patch(pods, None, app(&loose(d))))
}

fn take_back(_: &mut Rng, d: &mut Deployment) -> (String, Write) {
    d.loose_pods = false;
    ("the pods".to_owned(), Write::Patch(Target::Labelled(Kind::Pod, "app", loose(d)), None, app(d.name)))
}
