//! Runs a sync to its end.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use model::ResourceVersion;
use model::plan::{Answer, Decision, Event, Outcome, Plan, Question};
use statefulset::{View, conclude, decide, event};

use super::did::{Did, describe};
use super::{VERSIONS, data_of, executor, name_of, revision_json, template_of};

/// What the API server says: yes to everything, unless told otherwise.
#[derive(Clone, Debug, Default)]
pub struct Api {
    /// What comes of the actions whose description begins so.
    pub outcomes: Vec<(String, Outcome)>,
    /// Who the set is now; itself, if that is not said.
    pub live_owner: Option<Answer>,
    /// What is under a name; if that is not said, the revisions of the known versions of the template are there, and nothing else.
    pub live: HashMap<String, Answer>,
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

    /// Finds this when that name is read live.
    pub fn finding(self, name: &str, json: impl Into<String>) -> Self {
        self.answering(name, Answer::Object(Some(json.into())))
    }

    pub fn answering(mut self, name: &str, answer: Answer) -> Self {
        self.live.insert(name.to_owned(), answer);
        self
    }

    fn outcome(&self, action: &str, sent: usize) -> Outcome {
        let said = self.outcomes.iter().find(|(prefix, _)| action.starts_with(prefix));
        let done = Outcome::Done { name: Arc::from("x"), resource_version: ResourceVersion(1000 + sent as u64) };
        said.map_or(done, |(_, outcome)| outcome.clone())
    }

    fn answer(&self, question: &Question) -> Answer {
        match question {
            Question::MayAdopt(owner) => self.live_owner.clone().unwrap_or(Answer::Owner { uid: owner.uid, deleting: false }),
            Question::Live { key, .. } => self.live.get(&*key.name).cloned().unwrap_or_else(|| {
                let version = VERSIONS.into_iter().find(|version| name_of(*version) == *key.name);
                Answer::Object(version.map(|version| revision_json(&key.name, &data_of(&template_of(version)))))
            }),
        }
    }
}

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
            Decision::Look(lookup) => panic!("everything is in the view: {lookup:?}"),
            Decision::Act(plan) => act(&mut view, plan, &mut did, api),
            Decision::Conclude => {
                let (conclusion, findings) = conclude(&view);
                (did.conclusion, did.sameness) = (conclusion, findings.sameness);
                did.events.extend(did.conclusion.events.iter().map(told));
                return did;
            }
        }
    }
    panic!("the sync did not end: {did:?}");
}

fn act(view: &mut View, plan: Plan, did: &mut Did, api: &Api) {
    let before = did.batches.len();
    let outcomes = executor::carry_out::<Infallible>(&plan, |step, batch| {
        let action = describe(&step.action);
        let outcome = api.outcome(&action, did.actions.len());
        if outcome == Outcome::NotSent {
            return Ok(outcome);
        }
        did.batches.resize((before + batch).max(did.batches.len()), Vec::new());
        did.batches.last_mut().unwrap().push(action.clone());
        did.actions.push(action);
        did.events.extend(event("db", step, &outcome).as_ref().map(told));
        Ok(outcome)
    });
    let Ok(outcomes) = outcomes;
    view.absorb(&plan, outcomes);
    did.steps.extend(plan.stages.into_iter().flat_map(|stage| stage.steps));
}

fn told(event: &Event) -> String {
    format!("{} {}: {}", event.severity.as_str(), event.reason, event.message)
}
