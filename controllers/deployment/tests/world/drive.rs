//! Runs the syncs of both controllers, request by request, as the executor does.

use std::collections::HashSet;

use deployment::Gates;
use model::deployment::Strategy;
use model::plan::{
    Action, Answer, ApiError, Conclusion, Create, Decision, Delete, IfRefused, Lookup, NewName, OnError, Outcome, Outcomes, Plan, Question,
    Rule, StatusUpdate, Step,
};
use model::{ResourceVersion, Uid};
use serde_json::{Value, json};

use super::server::{KINDS, Kind, Server, error, kind_of, version_of};
use super::truth::{Have, Wanted};
use super::waits::acts;
use super::{WEB, World};
use crate::support::describe;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Fine,
    /// Refused, without an effect.
    Refused,
    /// It had its effect, and the answer was lost.
    AnswerLost,
    /// It never arrived.
    RequestLost,
    /// Somebody else makes an object of the name that is to be created.
    NameTaken,
    /// The process dies before it is sent.
    DeathBefore,
    /// The process dies when it has had its effect.
    DeathAfter,
}

/// The process has died.
struct Dead;

enum Reply {
    Done(u64),
    Refused(ApiError),
    Lost(ApiError),
}

const GATES: Gates = Gates { terminating_replicas: true };
const MAX_ROUNDS: usize = 16;
/// How often the executor sends a create or a delete whose answers are lost.
const TRIES: usize = 4;

// === impl World ===

impl World {
    /// A sync of the Deployment, unless the stores have not seen its last one's writes.
    pub fn sync_deployment(&mut self, fates: &[Fate]) {
        if self.is_behind(WEB) {
            return;
        }
        let Some(web) = self.cache.deployments.get(WEB).cloned() else { return };
        self.bounds.deployment_sync(&self.server, &self.cache);
        self.tell(format!("sync of the Deployment {fates:?}"));
        self.fates = fates.iter().copied().collect();
        let claimable = self.cache.sets.values().filter(|set| set.controller.is(web.uid) || set.controller.is_none());
        let mut view = deployment::View::new(web.clone(), claimable.cloned().collect(), GATES, self.server.now);
        let mut has_acted = false;
        for _ in 0..MAX_ROUNDS {
            let decision = deployment::decide(&view);
            let went_on = match decision {
                Decision::Ask(question) => self.ask(&question).map(|answer| view.answer(answer)),
                Decision::Look(lookup) => {
                    assert_eq!(lookup, Lookup::UnfinishedPods);
                    let pods = self.cache.pods.values().filter(|pod| !pod.is_finished());
                    let owners: HashSet<Uid> = pods.filter_map(|pod| Some(pod.controller.owner()?.uid)).collect();
                    view.take_unfinished(view.candidates.iter().map(|set| set.uid).filter(|uid| owners.contains(uid)).collect());
                    Ok(())
                }
                Decision::Act(plan) => {
                    has_acted |= acts(&plan);
                    self.look_at_recreate(&plan, web.spec.strategy == Strategy::Recreate);
                    self.carry_out(WEB, &plan).map(|outcomes| view.absorb(&plan, outcomes))
                }
                Decision::Conclude => {
                    let conclusion = deployment::conclude(&view);
                    self.look_at_waits(&web, &conclusion, has_acted);
                    if self.finish(WEB, conclusion).is_err() {
                        self.restart();
                    }
                    return;
                }
            };
            if went_on.is_err() {
                return self.restart();
            }
        }
        self.broken.get_or_insert("a sync of the Deployment did not end".to_owned());
    }

    /// A sync of a ReplicaSet, likewise.
    pub fn sync_set(&mut self, name: &str, fates: &[Fate]) {
        if self.is_behind(name) {
            return;
        }
        let Some(set) = self.cache.sets.get(name).cloned() else { return };
        self.tell(format!("sync of {name} {fates:?}"));
        self.fates = fates.iter().copied().collect();
        let gates = replicaset::Gates { pod_deletion_cost: true, terminating_replicas: GATES.terminating_replicas };
        let claimable = self.cache.pods.values().filter(|pod| pod.controller.is(set.uid) || pod.controller.is_none());
        let mut view = replicaset::View::new(set.clone(), claimable.cloned().collect(), true, gates);
        let now = self.server.now;
        for _ in 0..MAX_ROUNDS {
            let went_on = match replicaset::decide(&view, now) {
                Decision::Ask(question) => self.ask(&question).map(|answer| view.answer(&answer)),
                Decision::Look(lookup) => {
                    assert_eq!(lookup, Lookup::RelatedPods);
                    view.relate(self.cache.related(&set));
                    Ok(())
                }
                Decision::Act(plan) => self.carry_out(name, &plan).map(|outcomes| view.absorb(&plan, &outcomes)),
                Decision::Conclude => {
                    let conclusion = replicaset::conclude(&view, now);
                    if self.finish(name, conclusion).is_err() {
                        self.restart();
                    }
                    return;
                }
            };
            if went_on.is_err() {
                return self.restart();
            }
        }
        self.broken.get_or_insert(format!("a sync of {name} did not end"));
    }

    fn is_behind(&self, owner: &str) -> bool {
        let written = self.guard.get(owner);
        written.is_some_and(|written| KINDS.iter().any(|kind| self.cache.reached(*kind) < written.get(kind).copied().unwrap_or(0)))
    }

    fn carry_out(&mut self, owner: &str, plan: &Plan) -> Result<Outcomes, Dead> {
        let mut outcomes = Outcomes::default();
        for stage in &plan.stages {
            let mut failed = false;
            let mut of_stage = Vec::new();
            for step in &stage.steps {
                let skipped = failed && stage.on_error != OnError::GoOn;
                let outcome = if skipped { Outcome::NotSent } else { self.act(owner, step)? };
                failed |= !outcome.is_done();
                of_stage.push(outcome);
            }
            outcomes.0.push(of_stage);
        }
        Ok(outcomes)
    }

    fn act(&mut self, owner: &str, step: &Step) -> Result<Outcome, Dead> {
        let action = &step.action;
        let (name, reply) = match action {
            Action::Create(create) => {
                let kind = kind_of(create.resource);
                let name = match &create.body.name {
                    NewName::Given(name) => name.to_string(),
                    NewName::Generated(prefix) => {
                        self.names_drawn += 1;
                        format!("{prefix}{:03}", self.names_drawn)
                    }
                };
                self.tell(format!("  create {name} ({:?})", step.reason));
                self.take_name(kind, &name);
                let reply = self.create(kind, &name, create)?;
                (name, reply)
            }
            Action::Delete(delete) => {
                self.tell(format!("  {} ({:?})", describe(action), step.reason));
                (delete.target.key.name.to_string(), self.delete(delete)?)
            }
            _ => {
                let name = action.target().unwrap().key.name.to_string();
                self.tell(format!("  {} ({:?})", describe(action), step.reason));
                let reply = self.request(|server| match action {
                    Action::Own(own) => server.own(own),
                    Action::Patch(patch) => server.patch(patch),
                    Action::Edit(edit) => server.edit(edit),
                    Action::Create(_) | Action::Delete(_) => unreachable!("were handled"),
                    Action::Reown(_) => unreachable!("no Deployment asks for it"),
                })?;
                (name, reply)
            }
        };
        let kind = kind_of(action.resource());
        Ok(match reply {
            Reply::Done(version) => {
                self.wrote(owner, kind, version);
                Outcome::Done { name: name.into(), resource_version: ResourceVersion(version) }
            }
            Reply::Refused(error) => Outcome::Failed(error),
            Reply::Lost(error) => {
                match kind {
                    // An expectation stays raised until the pod is seen or shown to be absent.
                    Kind::Pod => self.wrote(owner, kind, self.server.version_of(kind)),
                    // Nothing holds the next sync back.
                    Kind::ReplicaSet => self.bounds.answer_lost(&self.server),
                    Kind::Deployment => {}
                }
                Outcome::Unknown(error)
            }
        })
    }

    /// A create whose answer was lost is repeated under its name, and found to be done if the first one was.
    fn create(&mut self, kind: Kind, name: &str, create: &Create) -> Result<Reply, Dead> {
        let body: Value = serde_json::from_str(&create.body.with_name(name)).unwrap();
        let mut lost = None;
        for _ in 0..TRIES {
            match (self.request(|server| server.create(kind, body.clone()))?, &lost) {
                (Reply::Lost(error), _) => lost = Some(error),
                (Reply::Refused(error), Some(_)) if error.is_already_exists() => {
                    if !self.can_read()? {
                        return Ok(Reply::Lost(error));
                    }
                    let owner = create.owner.as_ref().unwrap().uid.to_string();
                    let found = self.server.get(kind, name).filter(|found| found["metadata"]["ownerReferences"][0]["uid"] == owner);
                    return Ok(found.map_or(Reply::Refused(error), |found| Reply::Done(version_of(found))));
                }
                (Reply::Refused(_), Some(_)) => {}
                (reply, _) => return Ok(reply),
            }
        }
        Ok(Reply::Lost(lost.unwrap()))
    }

    /// A delete likewise.
    fn delete(&mut self, delete: &Delete) -> Result<Reply, Dead> {
        let mut lost = None;
        for _ in 0..TRIES {
            match (self.request(|server| server.delete(delete))?, &lost) {
                (Reply::Lost(error), _) => lost = Some(error),
                (Reply::Refused(error), Some(_)) if error.is_not_found() => return Ok(Reply::Done(0)),
                (Reply::Refused(error), Some(_)) if error.is_conflict() => {
                    if !self.can_read()? {
                        return Ok(Reply::Lost(error));
                    }
                    let found = self.server.get(kind_of(delete.target.resource), &delete.target.key.name);
                    let going = found.filter(|found| found["metadata"].get("deletionTimestamp").is_some());
                    return Ok(going.map_or(Reply::Refused(error), |going| Reply::Done(version_of(going))));
                }
                (Reply::Refused(_), Some(_)) => {}
                (reply, _) => return Ok(reply),
            }
        }
        Ok(Reply::Lost(lost.unwrap()))
    }

    /// Whether a read is answered.
    fn can_read(&mut self) -> Result<bool, Dead> {
        match self.next_fate() {
            Fate::Fine | Fate::NameTaken => Ok(true),
            Fate::DeathBefore | Fate::DeathAfter => Err(Dead),
            Fate::Refused | Fate::AnswerLost | Fate::RequestLost => Ok(false),
        }
    }

    fn ask(&mut self, question: &Question) -> Result<Answer, Dead> {
        if !self.can_read()? {
            return Ok(Answer::Failed(error(503, "ServiceUnavailable")));
        }
        Ok(match question {
            Question::MayAdopt(owner) => match self.server.get(kind_of(owner.resource), &owner.key.name) {
                Some(live) => Answer::Owner { uid: Uid::parse(live["metadata"]["uid"].as_str().unwrap()).unwrap(), deleting: false },
                None => Answer::Failed(error(404, "NotFound")),
            },
            Question::Live { resource, key } => Answer::Object(self.server.get(kind_of(resource), &key.name).map(ToString::to_string)),
        })
    }

    fn finish(&mut self, owner: &str, conclusion: Conclusion) -> Result<(), Dead> {
        if let Some(error) = &conclusion.error {
            self.tell(format!("  failed: {error}"));
        }
        let Some(update) = conclusion.status else { return Ok(()) };
        self.tell(format!("  status {}", update.status.get()));
        let kind = kind_of(update.target.resource);
        match self.request(|server| server.put_status(&update))? {
            Reply::Done(version) => self.wrote(owner, kind, version),
            Reply::Refused(error) if error.is_invalid() => {
                self.broken.get_or_insert(error.message);
            }
            Reply::Refused(_) | Reply::Lost(_) if update.if_refused == IfRefused::WriteOverLive && update.metadata.is_some() => {
                let Some(live) = self.server.get(kind, owner) else { return Ok(()) };
                let metadata = serde_json::value::to_raw_value(&live["metadata"]).unwrap();
                let again = StatusUpdate { metadata: Some(metadata.into()), ..update };
                if let Reply::Done(version) = self.request(|server| server.put_status(&again))? {
                    self.wrote(owner, kind, version);
                }
            }
            Reply::Refused(error) | Reply::Lost(error) => self.tell(format!("  not written: {error}")),
        }
        Ok(())
    }

    fn request(&mut self, write: impl FnOnce(&mut Server) -> Result<u64, ApiError>) -> Result<Reply, Dead> {
        let fate = self.next_fate();
        let lost = || Reply::Lost(error(0, "Timeout"));
        let reply = match fate {
            Fate::DeathBefore => return Err(Dead),
            Fate::Refused => Reply::Refused(error(500, "InternalError")),
            Fate::RequestLost => lost(),
            Fate::Fine | Fate::NameTaken | Fate::AnswerLost | Fate::DeathAfter => match write(&mut self.server) {
                _ if fate == Fate::AnswerLost => lost(),
                Ok(version) => Reply::Done(version),
                Err(error) => Reply::Refused(error),
            },
        };
        self.look();
        match (&reply, fate) {
            (_, Fate::DeathAfter) => return Err(Dead),
            (Reply::Refused(error) | Reply::Lost(error), _) => self.tell(format!("    {fate:?}: {error}")),
            (Reply::Done(_), _) => {}
        }
        Ok(reply)
    }

    fn wrote(&mut self, owner: &str, kind: Kind, version: u64) {
        let highest = self.guard.entry(owner.to_owned()).or_default().entry(kind).or_default();
        *highest = version.max(*highest);
    }

    /// Somebody else is faster, if that is what the next request's fate is.
    fn take_name(&mut self, kind: Kind, name: &str) {
        let certain = self.fate_of == Some((self.requests + 1, Fate::NameTaken));
        if kind == Kind::ReplicaSet && (certain || self.fates.front() == Some(&Fate::NameTaken)) {
            let _: Result<u64, ApiError> = self.server.create(kind, json!({"metadata": {"name": name, "labels": {}}, "spec": {}}));
        }
    }

    /// Recreate gives the new ReplicaSet pods only when the last old one is gone; of what the stores have not seen yet it cannot know.
    fn look_at_recreate(&mut self, plan: &Plan, recreate: bool) {
        let steps = plan.stages.iter().flat_map(|stage| &stage.steps);
        let begins: Vec<_> = steps.filter(|step| matches!(step.reason, Rule::NewTemplate | Rule::NewReplicaSetSize)).collect();
        if !recreate || begins.is_empty() || Wanted::read(&self.server).rolls_back || !self.cache.is_all_current(&self.server) {
            return;
        }
        let new = begins.iter().filter_map(|step| step.action.target()).map(|target| target.key.name.to_string()).next();
        for (name, have) in Have::read_all(&self.server) {
            if Some(&name) != new.as_ref() && have.active + have.terminating > 0 {
                self.broken.get_or_insert(format!("Recreate went on while {name} had pods"));
            }
        }
    }
}
