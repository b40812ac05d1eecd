//! Builders of objects, and a sync without IO: every action is answered by a script.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "support of tests, which fail by panicking"
)]

pub mod did;

use std::collections::HashSet;
use std::sync::Arc;

use deployment::{Gates, View, conclude, decide, event};
use model::plan::{Action, Answer, ApiError, Decision, Event, Lookup, OnError, Outcome, Outcomes, Plan, Question};
use model::{Decode as _, Deployment, DeploymentDecoder, ReplicaSet, ReplicaSetDecoder, ResourceVersion, Time, Timestamp, Uid};
use serde_json::{Value, json};

pub use self::did::Did;

/// 2027-01-15T08:00:00Z
pub const NOW: Time = Time(1_800_000_000_000_000_000);
pub const GATES: Gates = Gates { terminating_replicas: true };
pub const WEB_UID: Uid = Uid(0x6d9f_8a3e_0000_4000_8000_0000_0000_0001);
/// The version that the Deployment was read at.
pub const WEB_VERSION: ResourceVersion = ResourceVersion(71);

/// The Deployment `shop/web` with that version of the template. It is of generation 3, observed, and rolls with neither surge nor a pod
/// that may be unavailable, which upstream makes one. `change` is merged into it.
pub fn web(template: u32, replicas: i32, change: Value) -> Arc<Deployment> {
    decode_web(&web_json(template, replicas, change))
}

pub fn web_json(template: u32, replicas: i32, change: Value) -> Value {
    let mut json = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": WEB_UID.to_string(), "resourceVersion": WEB_VERSION.to_string(), "generation": 3,
            "annotations": {"deployment.kubernetes.io/revision": template.to_string()}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template_of(template, &json!({})),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
        "status": {"observedGeneration": 3},
    });
    merge(&mut json, change);
    json
}

pub fn decode_web(json: &Value) -> Arc<Deployment> {
    Arc::new(DeploymentDecoder::new().decode(json.to_string().as_bytes()).unwrap())
}

/// The ReplicaSet `shop/web-<template>` of that Deployment: made in that minute of an hour, of that revision, all of its pods available.
/// Nothing is noted of the Deployment's size. `change` is merged into it.
pub fn set(template: u32, replicas: i32, change: Value) -> Arc<ReplicaSet> {
    let labels = json!({"pod-template-hash": format!("h{template}")});
    let mut json = json!({
        "metadata": {"name": format!("web-{template}"), "namespace": "shop", "uid": set_uid(template).to_string(), "generation": 1,
            "resourceVersion": set_version(template).to_string(), "creationTimestamp": format!("2026-05-20T00:{template:02}:00Z"),
            "labels": {"app": "web", "pod-template-hash": format!("h{template}")},
            "annotations": {"deployment.kubernetes.io/revision": template.to_string()},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": WEB_UID.to_string(), "controller": true}]},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web", "pod-template-hash": format!("h{template}")}},
            "template": template_of(template, &labels)},
        "status": {"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas, "observedGeneration": 1},
    });
    merge(&mut json, change);
    decode_set(&json)
}

pub fn decode_set(json: &Value) -> Arc<ReplicaSet> {
    Arc::new(ReplicaSetDecoder::new().decode(json.to_string().as_bytes()).unwrap())
}

pub fn set_uid(template: u32) -> Uid {
    Uid(0x6d9f_8a3e_0000_4000_8000_0000_0001_0000 + u128::from(template))
}

pub fn set_version(template: u32) -> u64 {
    100 + u64::from(template)
}

/// The template of that version; with other labels, it is the same one as its ReplicaSet has it.
pub fn template_of(version: u32, labels: &Value) -> Value {
    let mut template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": format!("web:v{version}")}]}});
    merge(&mut template["metadata"]["labels"], labels.clone());
    template
}

/// What is noted on a ReplicaSet of a Deployment of that size.
pub fn sized(desired: i32, max: i32) -> Value {
    let desired = desired.to_string();
    let max = max.to_string();
    json!({"metadata": {"annotations": {"deployment.kubernetes.io/desired-replicas": desired, "deployment.kubernetes.io/max-replicas": max}}})
}

/// So many pods of a ReplicaSet are available.
pub fn available(count: i32) -> Value {
    json!({"status": {"readyReplicas": count, "availableReplicas": count}})
}

/// maxSurge and maxUnavailable.
pub fn rolling(surge: impl Into<Value>, unavailable: impl Into<Value>) -> Value {
    json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": surge.into(), "maxUnavailable": unavailable.into()}}}})
}

pub fn recreate() -> Value {
    json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}})
}

/// Two changes as one.
pub fn both(mut one: Value, other: Value) -> Value {
    merge_keeping_nulls(&mut one, other);
    one
}

/// RFC 7386.
pub fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (field, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(&field);
        } else {
            merge(&mut target[field], value);
        }
    }
}

fn merge_keeping_nulls(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (field, value) in patch {
                merge_keeping_nulls(target.entry(field).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}

/// A condition as a Deployment has it, last updated so many seconds ago.
pub fn condition(r#type: &str, status: &str, reason: &str, seconds_ago: i64) -> Value {
    json!({"type": r#type, "status": status, "reason": reason, "message": "before", "lastUpdateTime": ago(seconds_ago),
        "lastTransitionTime": ago(seconds_ago)})
}

pub fn ago(seconds: i64) -> String {
    Timestamp::from_seconds(NOW.0 / 1_000_000_000 - seconds).unwrap().to_string()
}

pub fn api_error(code: u16, reason: &str) -> ApiError {
    ApiError { code, reason: reason.to_owned(), message: format!("{reason} for a test"), ..ApiError::default() }
}

pub fn refused(code: u16, reason: &str) -> Outcome {
    Outcome::Failed(api_error(code, reason))
}

pub fn view(deployment: &Arc<Deployment>, sets: impl IntoIterator<Item = Arc<ReplicaSet>>) -> View {
    View::new(deployment.clone(), sets.into_iter().collect(), GATES, NOW)
}

/// What the API server and the stores say: yes to everything, unless told otherwise.
#[derive(Clone, Debug, Default)]
pub struct Api {
    /// What comes of the actions whose description begins so.
    pub outcomes: Vec<(String, Outcome)>,
    /// Who the Deployment is now; itself, if that is not said.
    pub live_owner: Option<Answer>,
    /// What is under the name that is asked about; nothing, if that is not said.
    pub live_object: Option<Answer>,
    /// ReplicaSets with pods that have not finished.
    pub unfinished: HashSet<Uid>,
}

// === impl Api ===

impl Api {
    pub fn yes() -> Self {
        Self::default()
    }

    /// Says this to every action whose description begins so.
    pub fn to(mut self, action: &str, outcome: Outcome) -> Self {
        self.outcomes.push((action.to_owned(), outcome));
        self
    }

    /// Finds this when it is read live.
    pub fn finding(mut self, json: &Value) -> Self {
        self.live_object = Some(Answer::Object(Some(json.to_string())));
        self
    }

    fn outcome(&self, action: &str, sent: usize) -> Outcome {
        let said = self.outcomes.iter().find(|(prefix, _)| action.starts_with(prefix));
        let done = Outcome::Done { name: Arc::from("x"), resource_version: ResourceVersion(1000 + sent as u64) };
        said.map_or(done, |(_, outcome)| outcome.clone())
    }

    fn answer(&self, question: &Question) -> Answer {
        let (said, otherwise) = match question {
            Question::MayAdopt(owner) => (&self.live_owner, Answer::Owner { uid: owner.uid, deleting: false }),
            Question::Live { .. } => (&self.live_object, Answer::Object(None)),
        };
        said.clone().unwrap_or(otherwise)
    }
}

/// Runs a sync to its end.
pub fn sync(mut view: View, api: &Api) -> Did {
    let mut did = Did::default();
    for _ in 0..16 {
        let decision = decide(&view);
        assert_eq!(format!("{decision:?}"), format!("{:?}", decide(&view)), "the same view gives the same plan");
        match decision {
            Decision::Ask(question) => {
                view.answer(api.answer(&question));
                did.asked.push(question);
            }
            Decision::Look(lookup) => {
                assert_eq!(lookup, Lookup::UnfinishedPods);
                did.lookups += 1;
                view.take_unfinished(api.unfinished.clone());
            }
            Decision::Act(plan) => {
                let outcomes = carry_out(&plan, &mut did, api);
                view.absorb(&plan, outcomes);
                did.steps.extend(plan.stages.into_iter().flat_map(|stage| stage.steps));
            }
            Decision::Conclude => {
                did.conclusion = conclude(&view);
                did.events.extend(did.conclusion.events.iter().map(told));
                return did;
            }
        }
    }
    panic!("the sync did not end: {did:?}");
}

/// As the executor does it: one by one, and after a failure the rest is not sent, unless the stage says to go on.
fn carry_out(plan: &Plan, did: &mut Did, api: &Api) -> Outcomes {
    let stages = plan.stages.iter().map(|stage| {
        let mut failed = false;
        let outcomes = stage.steps.iter().map(|step| {
            if failed && stage.on_error != OnError::GoOn {
                return Outcome::NotSent;
            }
            let action = describe(&step.action);
            let outcome = api.outcome(&action, did.actions.len());
            failed |= !outcome.is_done();
            did.actions.push(action);
            did.events.extend(event(step, &outcome).as_ref().map(told));
            outcome
        });
        outcomes.collect()
    });
    Outcomes(stages.collect())
}

/// An action in short: `create web-x`, `scale web-1 to 3`, `patch web-1`, `delete web-1`, `adopt web-1`, `release web-1`, `edit web`.
pub fn describe(action: &Action) -> String {
    let name = action.target().map(|target| &*target.key.name);
    let name = name.unwrap_or_else(|| did::given_name(action));
    match action {
        Action::Create(_) => format!("create {name}"),
        Action::Delete(_) => format!("delete {name}"),
        Action::Own(own) => format!("{:?} {name}", own.change).to_lowercase(),
        Action::Patch(patch) => match patch.body["spec"].get("replicas") {
            Some(size) => format!("scale {name} to {size}"),
            None => format!("patch {name}"),
        },
        Action::Edit(_) | Action::Reown(_) => format!("edit {name}"),
    }
}

fn told(event: &Event) -> String {
    format!("{} {}: {}", event.severity.as_str(), event.reason, event.message)
}
