//! Runs the set's syncs, request by request, as the executor does.

use model::Uid;
use model::plan::{Action, Answer, ApiError, Conclusion, Create, Decision, Delete, NewName, Outcome, Plan, Question, Step};
use model::{ResourceVersion, StatefulSet};
use serde_json::{Value, json};
use statefulset::{View, conclude, decide, wanted_claims};

use super::bounds::{look_at_plan, look_at_waits};
use super::server::{KINDS, Kind, Server, error, is_terminating, kind_of, owners_of, version_of};
use super::{DB, World};
use crate::support::did::describe;
use crate::support::executor;

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
    /// Somebody else makes a revision of the name that is to be created.
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

/// No sync of the machinery takes more.
const MAX_ROUNDS: usize = 16;
/// How often the executor sends a create or a delete whose answers are lost.
const TRIES: usize = 4;

// === impl World ===

impl World {
    /// A sync, unless the stores have not seen the last one's writes.
    pub fn sync(&mut self, fates: &[Fate]) {
        let written = |kind| self.guard.get(&kind).copied().unwrap_or(0);
        if KINDS.iter().any(|kind| self.cache.reached(*kind) < written(*kind)) {
            return;
        }
        let Some(set) = self.cache.sets.get(DB).cloned() else { return };
        self.tell(format!("sync {fates:?}"));
        self.fates = fates.iter().copied().collect();
        if self.run(&set).is_err() {
            self.restart();
        }
        self.fates.clear();
    }

    fn run(&mut self, set: &std::sync::Arc<StatefulSet>) -> Result<(), Dead> {
        let mut view = self.view(set);
        let mut has_acted = false;
        for _ in 0..MAX_ROUNDS {
            match decide(&view) {
                Decision::Ask(question) => view.answer(self.ask(&question)?),
                Decision::Look(lookup) => panic!("everything is in the view: {lookup:?}"),
                Decision::Act(plan) => {
                    has_acted |= plan.stages.iter().any(|stage| !stage.steps.is_empty());
                    let looked = look_at_plan(&view, &plan, &self.server);
                    self.note(looked);
                    let outcomes = self.carry_out(&plan)?;
                    view.absorb(&plan, outcomes);
                }
                Decision::Conclude => {
                    let (conclusion, findings) = conclude(&view);
                    self.known_same = findings.sameness.or(self.known_same);
                    self.note(look_at_waits(set, &conclusion, has_acted));
                    self.waits.clone_from(&conclusion.waits);
                    return self.finish(conclusion, set.spec.min_ready_seconds);
                }
            }
        }
        self.note(Err("a sync did not end".to_owned()));
        Ok(())
    }

    /// As the wiring makes it.
    fn view(&self, set: &std::sync::Arc<StatefulSet>) -> View {
        let pods: Vec<_> = self.cache.pods.values().filter(|pod| pod.controller.is(set.uid) || pod.controller.is_none()).cloned().collect();
        let revisions = self.cache.revisions.values().filter(|one| one.controller.is(set.uid) || one.controller.is_none());
        let claims = wanted_claims(set, &pods).filter_map(|name| Some((name.clone(), self.cache.claims.get(&name)?.clone())));
        let claims = claims.collect();
        View::new(set.clone(), pods, revisions.cloned().collect(), claims, self.known_same, self.gates, self.server.now)
    }

    fn carry_out(&mut self, plan: &Plan) -> Result<model::plan::Outcomes, Dead> {
        executor::carry_out(plan, |step, _| self.act(step))
    }

    fn act(&mut self, step: &Step) -> Result<Outcome, Dead> {
        let action = &step.action;
        let kind = kind_of(action.resource());
        self.tell(format!("  {} ({:?})", describe(action), step.reason));
        let reply = match action {
            Action::Create(create) => self.create(kind, create)?,
            Action::Delete(delete) => self.delete(delete)?,
            _ => self.request(kind, |server| match action {
                Action::Own(own) => server.own(own),
                Action::Patch(patch) => server.patch(patch),
                Action::Reown(reown) => server.reown(reown),
                Action::Create(_) | Action::Delete(_) | Action::Edit(_) => unreachable!("nothing is edited"),
            })?,
        };
        Ok(match reply {
            Reply::Done(version) => {
                self.wrote(kind, version);
                Outcome::Done { name: "x".into(), resource_version: ResourceVersion(version) }
            }
            Reply::Refused(error) => Outcome::Failed(error),
            Reply::Lost(error) => Outcome::Unknown(error),
        })
    }

    /// A create whose answer was lost is repeated under its name, and found to be done if the first one was.
    fn create(&mut self, kind: Kind, create: &Create) -> Result<Reply, Dead> {
        let NewName::Given(name) = &create.body.name else { panic!("names are given") };
        self.take_name(kind, name);
        let body: Value = serde_json::from_str(&create.body.with_name(name)).unwrap();
        let mut lost = None;
        for _ in 0..TRIES {
            match (self.request(kind, |server| server.create(kind, body.clone()))?, &lost) {
                (Reply::Lost(error), _) => lost = Some(error),
                (Reply::Refused(error), Some(_)) if error.is_already_exists() => {
                    if !self.can_read()? {
                        return Ok(Reply::Lost(error));
                    }
                    let is_ours = |found: &Value| {
                        create.owner.as_ref().is_none_or(|owner| owners_of(found).iter().any(|other| other["uid"] == owner.uid.to_string()))
                    };
                    let found = self.server.get(kind, name).filter(|found| is_ours(found));
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
        let kind = kind_of(delete.target.resource);
        let mut lost = None;
        for _ in 0..TRIES {
            match (self.request(kind, |server| server.delete(delete))?, &lost) {
                (Reply::Lost(error), _) => lost = Some(error),
                (Reply::Refused(error), Some(_)) if error.is_not_found() => return Ok(Reply::Done(0)),
                (Reply::Refused(error), Some(_)) if error.is_conflict() => {
                    let found = self.server.get(kind, &delete.target.key.name).filter(|found| is_terminating(found));
                    return Ok(found.map_or(Reply::Refused(error), |going| Reply::Done(version_of(going))));
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

    fn finish(&mut self, conclusion: Conclusion, min_ready_seconds: i32) -> Result<(), Dead> {
        self.failed = conclusion.error.map(|error| error.0);
        if let Some(error) = &self.failed {
            self.tell(format!("  failed: {error}"));
        }
        let Some(update) = conclusion.status else { return Ok(()) };
        self.tell(format!("  status {}", update.status.get()));
        let status: Value = serde_json::from_str(update.status.get()).unwrap();
        let waits = min_ready_seconds > 0 && status["readyReplicas"] != status["availableReplicas"];
        if waits && self.failed.is_none() && conclusion.requeue_after.is_none() {
            self.note(Err("nothing wakes the set when its pods become available".to_owned()));
        }
        match self.request(Kind::Set, |server| server.put_status(&update))? {
            Reply::Done(version) => self.wrote(Kind::Set, version),
            Reply::Refused(error) if error.is_invalid() => self.note(Err(error.message)),
            Reply::Refused(error) | Reply::Lost(error) => self.failed = Some(error.message),
        }
        Ok(())
    }

    fn request(&mut self, kind: Kind, write: impl FnOnce(&mut Server) -> Result<u64, ApiError>) -> Result<Reply, Dead> {
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
        if fate == Fate::AnswerLost && kind == Kind::Pod {
            self.bounds.made_worse();
        }
        self.look();
        match (&reply, fate) {
            (_, Fate::DeathAfter) => return Err(Dead),
            (Reply::Refused(error) | Reply::Lost(error), _) => self.tell(format!("    {fate:?}: {error}")),
            (Reply::Done(_), _) => {}
        }
        Ok(reply)
    }

    fn wrote(&mut self, kind: Kind, version: u64) {
        let highest = self.guard.entry(kind).or_default();
        *highest = version.max(*highest);
    }

    /// Somebody else is faster, if that is what the next request's fate is.
    fn take_name(&mut self, kind: Kind, name: &str) {
        if kind == Kind::Revision && self.fates.front() == Some(&Fate::NameTaken) {
            let other = json!({"metadata": {"name": name}, "data": {"of": "others"}, "revision": 1});
            let _: Result<u64, ApiError> = self.server.create(kind, other);
        }
    }
}
