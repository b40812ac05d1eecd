//! What a user does to a StatefulSet, and what happens to its pods and claims.
#![allow(clippy::indexing_slicing, reason = "JSON that was made a few lines above; a field of it that is not there reads as null")]

use fastrand::Rng;
use serde_json::{Value, json};

use super::{CLAIMS, Set, history_limit, manifest, some_limit, some_partition, some_strategy};
use crate::differential::generator::{pick, pick_cascade, without_nulls, words};
use crate::differential::script::{Cascade, Target, Write};
use crate::differential::snapshot::Kind;
use crate::differential::template::Template;

words! {
    Set:
    100 create if |s| !s.exists,
    8 stray if |s| !s.exists && s.versions == 1 && s.claims == 0,
    26 image if |s| s.exists,
    9 broken if |s| s.exists,
    3 refused if |s| s.exists && !s.parallel,
    6 template if |s| s.exists,
    3 respell if |s| s.exists,
    4 hold if |s| s.exists && !s.claims_go() && !s.several,
    11 back if |s| s.exists && !s.earlier.is_empty(),
    16 scale if |s| s.exists,
    6 both if |s| s.exists,
    8 partition if |s| s.exists && !s.on_delete,
    5 strategy if |s| s.exists,
    5 limit if |s| s.exists && !s.on_delete,
    5 retention if |s| s.exists && s.claims > 0,
    5 start if |s| s.exists,
    4 ready if |s| s.exists,
    3 history if |s| s.exists,
    3 annotate if |s| s.exists,
    7 fail if |s| s.exists && !s.fears_the_unready(),
    4 succeed if |s| s.exists && !s.fears_the_unready(),
    6 unready if |s| s.exists && !s.fears_the_unready(),
    7 kill if |s| s.exists,
    3 fail_all if |s| s.exists && s.parallel,
    3 unready_all if |s| s.exists && s.parallel,
    6 lose_claim if |s| s.exists && s.claims > 0 && !s.loose,
    3 stray_beyond if |s| s.exists && s.claims == 0,
    4 lend if |s| s.exists && !s.parallel && !s.loose,
    12 take_back if |s| s.loose,
    5 delete if |s| s.exists,
}

/// A merge patch of the StatefulSet's specification.
fn spec(s: &Set, spec: &Value) -> Write {
    Write::Patch(Target::Named(Kind::StatefulSet, s.name.to_owned()), None, json!({"spec": spec}))
}

/// Mostly one that is wanted.
fn ordinal(rng: &mut Rng, s: &Set) -> u32 {
    let beyond = u32::from(s.replicas == 0 || rng.u8(..100) < 10);
    s.start + rng.u32(..s.replicas + beyond)
}

fn pod(s: &Set, ordinal: u32) -> String {
    format!("{}-{ordinal}", s.name)
}

/// One pod. Two at once are left to chance.
fn some_pod(rng: &mut Rng, s: &Set) -> (String, Target) {
    let pod = pod(s, ordinal(rng, s));
    (pod.clone(), Target::Named(Kind::Pod, pod))
}

fn create(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    // Of an old template there may be a revision to adopt.
    if !s.earlier.is_empty() && rng.bool() {
        s.template = pick(rng, &s.earlier);
    }
    s.exists = true;
    s.replicas = rng.u32(0..=5);
    s.start = pick(rng, &[0, 0, 0, 1, 3]);
    // A pod that is out of reach keeps its name.
    s.parallel = !s.loose && rng.u8(..100) < 40;
    s.template.refused &= !s.parallel;
    s.on_delete = rng.u8(..100) < 15;
    let has_pods = s.left || s.bare || s.loose;
    s.claims = if has_pods { s.claims } else { pick(rng, &[0, 0, 1, 1, 2]) };
    s.held &= has_pods;
    s.delete_when_deleted = rng.u8(..100) < 40;
    s.delete_when_scaled = rng.u8(..100) < 40 && !s.held;
    s.several = !s.parallel && !s.claims_go() && if has_pods { s.several } else { rng.u8(..100) < 30 };
    s.template.hold = s.several || rng.u8(..100) < 20 && !s.claims_go();
    s.held |= s.template.hold;
    s.min_ready_seconds = some_seconds(rng, s);
    let manifest = manifest(rng, s);
    s.left = false;
    (manifest["spec"].to_string(), Write::Create(Kind::StatefulSet, manifest))
}

/// A pod that the StatefulSet will adopt, or a namesake that is none of its.
fn stray(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    s.bare = true;
    let name = pick(rng, &[pod(s, 0), pod(s, 1), pod(s, 4), format!("{}-x", s.name)]);
    by_hand(s, &name)
}

/// One that is adopted to be scaled away.
fn stray_beyond(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let name = pod(s, s.start + s.replicas + rng.u32(0..=1));
    by_hand(s, &name)
}

fn by_hand(s: &Set, name: &str) -> (String, Write) {
    let mut pod = without_nulls(s.template());
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    (format!("pod {name}"), Write::Create(Kind::Pod, pod))
}

/// To the template that the set has now.
fn change(s: &mut Set, to: Template) -> Value {
    if !s.earlier.contains(&s.template) {
        s.earlier.push(s.template.clone());
    }
    s.template = to;
    json!({"template": s.template()})
}

/// Another version of the image, which mostly is a new one.
fn next_version(rng: &mut Rng, s: &mut Set) -> Template {
    if rng.u8(..100) < 75 {
        s.versions += 1;
    }
    let version = if rng.u8(..100) < 75 { s.versions } else { rng.u32(1..=s.versions) };
    Template { version, broken: false, refused: false, ..s.template.clone() }
}

fn image(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let to = next_version(rng, s);
    let patch = change(s, to);
    (s.template.image(), spec(s, &patch))
}

fn broken(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let to = Template { broken: true, ..next_version(rng, s) };
    let patch = change(s, to);
    (s.template.image(), spec(s, &patch))
}

/// The API server takes the StatefulSet, but none of its pods.
fn refused(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let to = Template { refused: true, ..next_version(rng, s) };
    let patch = change(s, to);
    (format!("pods of {}", s.template.image()), spec(s, &patch))
}

fn template(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let mut to = s.template.clone();
    match rng.u8(..5) {
        0..2 => to.tier = pick(rng, &[None, Some(1), Some(2)]),
        2..4 => to.note = pick(rng, &[None, Some(1), Some(2)]),
        _ => to.empty_affinity = !to.empty_affinity,
    }
    let patch = change(s, to);
    (format!("{:?}", s.template), spec(s, &patch))
}

fn respell(_: &mut Rng, s: &mut Set) -> (String, Write) {
    let to = Template { respelt: !s.template.respelt, ..s.template.clone() };
    let patch = change(s, to);
    (format!("the memory limit, now {}", s.template.respelt), spec(s, &patch))
}

fn hold(_: &mut Rng, s: &mut Set) -> (String, Write) {
    let to = Template { hold: !s.template.hold, ..s.template.clone() };
    let patch = change(s, to);
    s.held |= s.template.hold;
    (format!("pods by a finalizer, now {}", s.template.hold), spec(s, &patch))
}

/// Back to a template that it has had: that one's revision becomes the last again.
fn back(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let mut to = pick(rng, &s.earlier);
    to.hold = s.several || to.hold && !s.claims_go();
    to.refused &= !s.parallel;
    s.held |= to.hold;
    let patch = change(s, to);
    (format!("to {:?}", s.template), spec(s, &patch))
}

fn scale(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    s.replicas = rng.u32(0..=5);
    let replicas = json!({"spec": {"replicas": s.replicas}});
    let part = if rng.bool() { Some("scale") } else { None };
    let write = Write::Patch(Target::Named(Kind::StatefulSet, s.name.to_owned()), part, replicas.clone());
    (format!("{replicas} through {}", part.unwrap_or("the object")), write)
}

fn both(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let to = next_version(rng, s);
    let mut patch = change(s, to);
    s.replicas = rng.u32(0..=5);
    patch["replicas"] = json!(s.replicas);
    (format!("{} and replicas {}", s.template.image(), s.replicas), spec(s, &patch))
}

fn partition(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let partition = some_partition(rng, s);
    (format!("{partition}"), spec(s, &json!({"updateStrategy": {"rollingUpdate": {"partition": partition}}})))
}

fn strategy(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    s.on_delete = !s.on_delete;
    let strategy = some_strategy(rng, s);
    (format!("{strategy}"), spec(s, &json!({"updateStrategy": strategy})))
}

fn limit(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let limit = some_limit(rng, s);
    (format!("maxUnavailable {limit}"), spec(s, &json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": limit}}})))
}

fn retention(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    s.delete_when_deleted = rng.bool();
    s.delete_when_scaled = rng.bool() && !s.held && !s.several && s.min_ready_seconds <= 1;
    let policy = s.retention();
    (format!("{policy}"), spec(s, &json!({"persistentVolumeClaimRetentionPolicy": policy})))
}

fn start(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    s.start = rng.u32(0..=4);
    let ordinals = if s.start == 0 { Value::Null } else { json!({"start": s.start}) };
    (format!("ordinals {ordinals}"), spec(s, &json!({"ordinals": ordinals})))
}

/// The last is one in which no pod becomes available.
fn some_seconds(rng: &mut Rng, s: &Set) -> u32 {
    let able = [0, 0, 0, 0, 0, 0, 1, 3600];
    pick(rng, able.get(..if s.fears_the_unready() { 7 } else { 8 }).unwrap_or_default())
}

fn ready(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    s.min_ready_seconds = some_seconds(rng, s);
    (format!("after {} s", s.min_ready_seconds), spec(s, &json!({"minReadySeconds": s.min_ready_seconds})))
}

fn history(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let limit = history_limit(rng);
    (format!("of {limit}"), spec(s, &json!({"revisionHistoryLimit": limit})))
}

/// Revisions that are made from then on have it.
fn annotate(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let cause = pick(rng, &[json!("changed"), json!("changed <again>"), Value::Null]);
    let patch = json!({"metadata": {"annotations": {"example.com/cause": cause}}});
    (format!("cause {cause}"), Write::Patch(Target::Named(Kind::StatefulSet, s.name.to_owned()), None, patch))
}

fn status(rng: &mut Rng, s: &Set, status: &Value) -> (String, Write) {
    let (text, pod) = some_pod(rng, s);
    (text, Write::Patch(pod, Some("status"), json!({"status": status})))
}

/// Sometimes it forgets to say that it is not ready any more.
fn ended(rng: &mut Rng, phase: &str) -> Value {
    let conditions = json!([{"type": "Ready", "status": "False"}]);
    if rng.u8(..100) < 20 { json!({"phase": phase}) } else { json!({"phase": phase, "conditions": conditions}) }
}

fn end(rng: &mut Rng, s: &Set, phase: &str) -> (String, Write) {
    let (pod, ended) = (pod(s, ordinal(rng, s)), ended(rng, phase));
    (pod.clone(), Write::Patch(Target::Replaceable(pod), Some("status"), json!({"status": ended})))
}

fn fail(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    end(rng, s, "Failed")
}

fn succeed(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    end(rng, s, "Succeeded")
}

fn unready(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    status(rng, s, &json!({"conditions": [{"type": "Ready", "status": "False"}]}))
}

/// The pods of a `Parallel` set have no regard to each other.
fn all(s: &Set, status: &Value) -> (String, Write) {
    let pods = Target::Labelled(Kind::Pod, "app", s.name.to_owned());
    (String::new(), Write::Patch(pods, Some("status"), json!({"status": status})))
}

fn fail_all(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let ended = ended(rng, "Failed");
    all(s, &ended)
}

fn unready_all(_: &mut Rng, s: &mut Set) -> (String, Write) {
    all(s, &json!({"conditions": [{"type": "Ready", "status": "False"}]}))
}

fn kill(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let (text, pod) = some_pod(rng, s);
    (text, Write::Delete(pod, Cascade::Background))
}

/// It comes back with the pod's successor.
fn lose_claim(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let pod = pod(s, ordinal(rng, s));
    let claim = format!("{}-{pod}", pick(rng, CLAIMS.get(..s.claims).unwrap_or_default()));
    (claim.clone(), Write::Delete(Target::ClaimOf(pod, claim), Cascade::Background))
}

/// The label `app` of what has been taken away from the StatefulSet.
fn loose(s: &Set) -> String {
    format!("loose-{}", s.name)
}

fn app(value: &str) -> Value {
    json!({"metadata": {"labels": {"app": value}}})
}

/// A pod is taken out of its set, as for a look at it. There can be no other of its name.
fn lend(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    s.loose = true;
    let (text, pod) = some_pod(rng, s);
    (text, Write::Patch(pod, None, app(&loose(s))))
}

fn take_back(_: &mut Rng, s: &mut Set) -> (String, Write) {
    s.loose = false;
    ("the pod".to_owned(), Write::Patch(Target::Labelled(Kind::Pod, "app", loose(s)), None, app(s.name)))
}

fn delete(rng: &mut Rng, s: &mut Set) -> (String, Write) {
    let cascades = [Cascade::Background, Cascade::Orphan, Cascade::Foreground];
    let cascade = pick_cascade(rng, cascades.get(..if s.held { 2 } else { 3 }).unwrap_or_default());
    s.exists = false;
    s.left = cascade == Cascade::Orphan;
    s.bare &= s.left;
    (cascade.policy().to_owned(), Write::Delete(Target::Named(Kind::StatefulSet, s.name.to_owned()), cascade))
}
