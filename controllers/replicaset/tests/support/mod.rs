//! Builders of objects, and a sync without IO: each action is answered by a closure.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "support of tests, which fail by panicking")]

use std::sync::Arc;

use model::labels::LabelSet;
use model::object::Decode;
use model::plan::{Action, Answer, ApiError, Conclusion, Decision, Lookup, NewName, Outcome, Outcomes, Plan, Question};
use model::pod::{OwnLabels, Phase};
use model::replicaset::ReplicaSetDecoder;
use model::{ControllerRef, OwnerKind, OwnerRef, Pod, ReplicaSet, ResourceVersion, Time, Timestamp, Uid};
use replicaset::{Gates, View, conclude, decide};
use serde_json::{Value, json};

pub const NOW: Time = Time(1_800_000_000_000_000_000);
pub const GATES: Gates = Gates { pod_deletion_cost: true, terminating_replicas: true };
pub const SET_UID: Uid = Uid(0x6d9f_8a3e_0000_4000_8000_0000_0000_002a);

/// A ReplicaSet `shop/web` with selector and template label `app=web`; `change` edits its JSON.
pub fn set(replicas: i32, change: impl FnOnce(&mut Value)) -> Arc<ReplicaSet> {
    let mut json = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": SET_UID.to_string(), "resourceVersion": "7", "generation": 1},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}},
        "status": {"replicas": 0},
    });
    change(&mut json);
    Arc::new(ReplicaSetDecoder::new().decode(json.to_string().as_bytes()).unwrap())
}

/// A running, ready pod of that set, on node `n`, an hour old; `change` edits it.
pub fn pod(number: u64, change: impl FnOnce(&mut Pod)) -> Arc<Pod> {
    let hour_ago = Timestamp::from_seconds(NOW.0 / 1_000_000_000 - 3600);
    let mut pod = Pod {
        name: format!("web-{number:05}").into(),
        namespace: Arc::from("shop"),
        uid: Uid(u128::from(number)),
        resource_version: ResourceVersion(100 + number),
        label_set: Arc::new(labels(&[("app", "web")])),
        controller: owned_by(SET_UID),
        node: Some(Arc::from("n")),
        created: hour_ago,
        deletion: None,
        ready_changed: hour_ago,
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

pub fn pods(numbers: std::ops::Range<u64>) -> Vec<Arc<Pod>> {
    numbers.map(|number| pod(number, |_| {})).collect()
}

pub fn labels(pairs: &[(&str, &str)]) -> LabelSet {
    pairs.iter().copied().collect()
}

pub fn owned_by(uid: Uid) -> ControllerRef {
    ControllerRef::Owner(Arc::new(OwnerRef { kind: OwnerKind::ReplicaSet, name: Arc::from("web"), uid }))
}

pub fn api_error(code: u16, reason: &str) -> ApiError {
    ApiError { code, reason: reason.to_owned(), message: format!("{reason} for a test"), ..ApiError::default() }
}

pub fn done(name: &str) -> Outcome {
    Outcome::Done { name: Arc::from(name), resource_version: ResourceVersion(1000) }
}

/// What a sync did, in short: `create 3`, `delete web-00001`, `adopt …`, `release …`.
#[derive(Debug, Default)]
pub struct Did {
    pub actions: Vec<String>,
    pub asked: Vec<Question>,
    pub lookups: usize,
    pub conclusion: Conclusion,
}

impl Did {
    pub fn count(&self, verb: &str) -> usize {
        self.actions.iter().filter(|action| action.starts_with(verb)).count()
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(self.conclusion.status.as_ref().expect("a status").status.get()).unwrap()
    }
}

/// Runs a sync to its end. `api` answers every action; the live owner is the one in the view unless `live` says otherwise.
pub fn sync(mut view: View, live: Option<&Answer>, mut api: impl FnMut(&Action) -> Outcome) -> Did {
    let mut did = Did::default();
    for _ in 0..10 {
        match decide(&view, NOW) {
            Decision::Ask(question) => {
                let Question::MayAdopt(owner) = &question else { panic!("{question:?}") };
                view.answer(live.unwrap_or(&Answer::Owner { uid: owner.uid, deleting: false }));
                did.asked.push(question);
            }
            Decision::Look(lookup) => {
                assert_eq!(lookup, Lookup::RelatedPods);
                did.lookups += 1;
                view.relate(view.pods.clone());
            }
            Decision::Act(plan) => {
                let outcomes = carry_out(&plan, &mut did.actions, &mut api);
                view.absorb(&plan, &outcomes);
            }
            Decision::Conclude => {
                did.conclusion = conclude(&view, NOW);
                return did;
            }
        }
    }
    panic!("the sync did not end");
}

fn prefix(name: &NewName) -> &str {
    match name {
        NewName::Generated(prefix) => prefix,
        NewName::Given(name) => panic!("pods' names are generated: {name}"),
    }
}

fn carry_out(plan: &Plan, actions: &mut Vec<String>, api: &mut impl FnMut(&Action) -> Outcome) -> Outcomes {
    let stages = plan.stages.iter().map(|stage| {
        let outcomes = stage.steps.iter().map(|step| {
            actions.push(match &step.action {
                Action::Create(create) => format!("create {}", prefix(&create.body.name)),
                Action::Delete(delete) => format!("delete {}", delete.target.key.name),
                Action::Own(own) => format!("{:?} {}", own.change, own.target.key.name).to_lowercase(),
                Action::Patch(_) | Action::Edit(_) | Action::Reown(_) => panic!("a ReplicaSet's sync changes no fields: {step:?}"),
            });
            api(&step.action)
        });
        outcomes.collect()
    });
    Outcomes(stages.collect())
}

pub fn view(set: &Arc<ReplicaSet>, pods: Vec<Arc<Pod>>) -> View {
    View::new(set.clone(), pods, true, GATES)
}
