//! What each slot needs (upstream `stateful_set_control.go` `processReplica`).

use std::sync::Arc;

use model::plan::{Action, Create, Delete, NewName, NewObject, PODS, Rule, Step, Wait};
use model::pod::Phase;
use model::statefulset::UpdateStrategyType;
use model::{Pod, StatefulSet, Uid, raw};
use serde_json::value::RawValue;

use crate::events::{Verb, warning};
use crate::identity::{PodTemplate, identity_matches, identity_patch};
use crate::job::Job;
use crate::retention::Holder;
use crate::revisions::Revisions;
use crate::slots::{Availability, Slots, is_running_and_ready, revision_of};
use crate::sync::{Stop, Sync, failed};
use crate::update::is_above_partition;

/// No sync makes more pods than this; the next goes on. It bounds what a sync holds in memory, whatever `spec.replicas` says.
pub(crate) const MAX_NEW_PODS: usize = 10_000;

/// What the slots need, as far as they may be looked at.
pub(crate) struct Replicas {
    pub(crate) jobs: Vec<Job>,
    /// Something in a slot must be waited for before anything else is done, if pods are made and deleted in order.
    pub(crate) is_waiting: bool,
}

/// What new pods are made from, once it was asked for.
struct Templates<'v> {
    revisions: Revisions,
    current: Option<PodTemplate<'v>>,
    update: Option<PodTemplate<'v>>,
}

// === impl Sync ===

impl<'v> Sync<'v> {
    pub(crate) fn replicas(&mut self, slots: &Slots, revisions: &Revisions) -> Result<Replicas, Stop> {
        let in_order = !self.set.spec.allows_burst();
        let mut templates = Templates { revisions: revisions.clone(), current: None, update: None };
        let (mut jobs, mut empty) = (Vec::new(), 0);
        for ordinal in self.set.spec.ordinals() {
            let (job, is_waiting) = match slots.replicas.get(&ordinal) {
                Some(pod) => self.replica(pod, ordinal, revisions),
                None if empty == MAX_NEW_PODS => {
                    // Of what comes behind, only what is there.
                    let there = slots.replicas.range(ordinal..);
                    jobs.extend(there.map(|(ordinal, pod)| self.replica(pod, *ordinal, revisions).0));
                    break;
                }
                None => {
                    empty += 1;
                    (self.new_replica(ordinal, &mut templates)?, true)
                }
            };
            let is_wrong = !job.errors.is_empty();
            if in_order && !is_wrong && !job.then.is_empty() && !slots.replicas.contains_key(&ordinal) {
                self.waits.push(Wait::on(Rule::PodNotAvailable, &job.pod));
            }
            jobs.push(job);
            if in_order && (is_waiting || is_wrong) {
                return Ok(Replicas { jobs, is_waiting: true });
            }
        }
        Ok(Replicas { jobs, is_waiting: false })
    }

    /// A pod that is there, and whether the next must wait for it.
    fn replica(&mut self, pod: &Arc<Pod>, ordinal: i32, revisions: &Revisions) -> (Job, bool) {
        let holder = Holder { name: &pod.name, uid: pod.uid, ordinal };
        let mut job = Job::of(&*pod.name);
        if pod.is_finished() {
            if !self.set.spec.allows_burst() {
                self.wait_for(pod);
            }
            if pod.deletion.is_none() {
                self.tell_of_finished(pod);
                job.then.push(delete(pod, Rule::PodFinished));
            }
            return (job, true);
        }
        let is_pending = pod.phase == Phase::Pending;
        if is_pending {
            self.add_missing_claims(&mut job, ordinal);
        }
        let is_unavailable = self.availability().is_unavailable(pod) || !is_running_and_ready(pod);
        if is_unavailable && !self.set.spec.allows_burst() {
            if !self.tell_of_stall(pod, ordinal, revisions) {
                self.wait_for(pod);
            }
            if is_pending {
                self.fix_retention(&mut job, holder);
            }
            return (job, true);
        }
        job.is_repair = !self.claims_match_retention_policy(holder);
        if is_pending || job.is_repair {
            self.fix_retention(&mut job, holder);
        }
        if !identity_matches(self.set, pod, ordinal) {
            job.then.push(self.repair(pod, ordinal));
        }
        (job, is_unavailable)
    }

    /// A pod that is not there; none while its claims are those of an earlier one.
    fn new_replica(&mut self, ordinal: i32, templates: &mut Templates<'v>) -> Result<Job, Stop> {
        let mut job = Job::of(self.set.pod_name(ordinal));
        if let Some(claim) = self.stale_claim(ordinal) {
            let wait = Wait::on(Rule::ClaimTerminating, &claim.name);
            self.waits.push(wait);
            return Ok(job);
        }
        job.wants_claims_to = Some(Verb::Create);
        self.add_missing_claims(&mut job, ordinal);
        let revision = &*revision_for(self.set, ordinal, &templates.revisions).clone();
        let was_sent = self.is_next_plan_carried_out();
        let template = self.template_of(revision, templates)?;
        let body = if was_sent {
            // Only its name is still asked for; a large set has thousands of bodies, and a sync several rounds.
            NewObject { name: NewName::Given(Arc::from(&*job.pod)), before_name: String::new(), after_name: String::new() }
        } else {
            template.pod(ordinal, revision).map_err(|error| failed(format!("spec.template: {error}")))?
        };
        let namespace = self.set.key.namespace.clone();
        let create = Create { resource: &PODS, namespace, owner: Some(self.set.as_owner()), body: Arc::new(body), news: None };
        job.then.push(Step { action: Action::Create(create), reason: Rule::TooFewReplicas });
        let name = job.pod.clone();
        self.fix_retention(&mut job, Holder { name: &name, uid: Uid::NONE, ordinal });
        Ok(job)
    }

    /// The template of a revision: the set's own, or the one that the current revision has kept (upstream `ApplyRevision`).
    fn template_of<'t>(&mut self, revision: &str, templates: &'t mut Templates<'v>) -> Result<&'t PodTemplate<'v>, Stop> {
        let set = self.set;
        let is_update = revision == &*templates.revisions.update;
        let known = if is_update { &mut templates.update } else { &mut templates.current };
        if known.is_none() {
            let template = if is_update { set.spec.template.raw() } else { self.kept_template(revision)? };
            let template = PodTemplate::read(set, template).map_err(|error| failed(format!("template of {revision}: {error}")))?;
            *known = Some(template);
        }
        known.as_ref().ok_or_else(|| failed("no template".to_owned()))
    }

    fn kept_template(&mut self, revision: &str) -> Result<&'v RawValue, Stop> {
        let data = self.live_data(revision)?.ok_or_else(|| failed(format!("ControllerRevision {revision} is gone")))?;
        let template = raw::get(data, &["spec", "template"]).map_err(|error| failed(format!("ControllerRevision {revision}: {error}")))?;
        template.ok_or_else(|| failed(format!("ControllerRevision {revision} has no template")))
    }

    /// Under the name that it should have: what is called otherwise cannot be mended, and the server says so.
    fn repair(&self, pod: &Arc<Pod>, ordinal: i32) -> Step {
        let mut target = model::ownership::Claimable::reference(&**pod);
        target.key.name = Arc::from(self.set.pod_name(ordinal));
        Step { action: self.patch(target, identity_patch(self.set, ordinal)), reason: Rule::IdentityLost }
    }

    pub(crate) fn availability(&self) -> Availability {
        Availability { min_ready_seconds: self.set.spec.min_ready_seconds, now: self.view.now }
    }

    /// Upstream told of this up to 1.27; without it nobody knows why the pod went.
    fn tell_of_finished(&mut self, pod: &Pod) {
        let (reason, how) = match pod.phase {
            Phase::Failed => ("RecreatingFailedPod", "failed"),
            _ => ("RecreatingTerminatedPod", "terminated"),
        };
        self.events.push(warning(reason, format!("StatefulSet {} is recreating {how} Pod {}", self.set.key, pod.name)));
    }

    /// A pod of another revision that cannot become ready holds back the rollout that would replace it, for ever. Whether this is one.
    fn tell_of_stall(&mut self, pod: &Pod, ordinal: i32, revisions: &Revisions) -> bool {
        let is_stuck = pod.deletion.is_none() && !is_running_and_ready(pod) && revision_of(pod) != &*revisions.update;
        let is_rolling = self.set.spec.update_strategy.r#type == UpdateStrategyType::RollingUpdate;
        let is_stall = is_stuck && is_rolling && is_above_partition(self.set, ordinal);
        if is_stall {
            let message = format!(
                "Pod {} is not ready and of revision {}: the rollout of {} waits for it. If it cannot become ready, delete it",
                pod.name,
                revision_of(pod),
                revisions.update,
            );
            self.events.push(warning("RolloutStalled", message));
            let command = format!("kubectl delete pod {} --namespace {}", pod.name, pod.namespace);
            self.waits.push(Wait::on(Rule::RolloutStalled, &pod.name).saying(command));
        }
        is_stall
    }
}

/// Which revision a new pod is made from (upstream `newVersionedStatefulSetPod`).
fn revision_for<'a>(set: &StatefulSet, ordinal: i32, revisions: &'a Revisions) -> &'a Arc<str> {
    let strategy = &set.spec.update_strategy;
    let at_current = match &strategy.rolling_update {
        Some(rolling_update) => rolling_update.partition,
        None if strategy.r#type == UpdateStrategyType::RollingUpdate => set.status.current_replicas,
        None => 0,
    };
    if set.spec.slot_of(ordinal) < i64::from(at_current) { &revisions.current } else { &revisions.update }
}

/// Of this very pod: a newer one of its name must not be hit by an old decision.
pub(crate) fn delete(pod: &Arc<Pod>, reason: Rule) -> Step {
    let target = model::ownership::Claimable::reference(&**pod);
    Step { action: Action::Delete(Delete { target, at_version: false }), reason }
}
