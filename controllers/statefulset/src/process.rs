//! The set's pods and claims towards what the set says (upstream `stateful_set_control.go` `updateStatefulSet`).

use model::plan::{Action, OnError, Plan, Reown, Rule, STATEFULSETS, Step, SyncError, Wait};
use model::statefulset::UpdateStrategyType;

use crate::events::warning;
use crate::job::{Results, aggregate, stage};
use crate::revisions::Revisions;
use crate::slots::Slots;
use crate::status;
use crate::sync::{Stop, Sync, failed};

// === impl Sync ===

impl Sync<'_> {
    pub(crate) fn process(&mut self, revisions: &Revisions) -> Result<(), Stop> {
        let mut new = status::begin(self.set, revisions, self.collision_count);
        status::count(&mut new, self.pods.iter(), revisions, self.availability());
        self.status = Some(new);
        if self.set.deletion.is_some() {
            self.waits.push(Wait::new(Rule::BeingDeleted));
            return Ok(());
        }
        self.refuse_unknown_strategy()?;
        let slots = Slots::of(self.set, &self.pods);
        if self.set.spec.update_strategy.r#type == UpdateStrategyType::Recreate && !self.recreate(&slots, revisions)? {
            return Ok(());
        }
        let is_waiting = self.process_pods(&slots, revisions)?;
        if is_waiting { Ok(()) } else { self.update_pods(&slots, revisions) }
    }

    /// A strategy that is not known, or switched off, must not fall through to one that is: no pod is touched.
    fn refuse_unknown_strategy(&mut self) -> Result<(), Stop> {
        let key = &self.set.key;
        let message = match &self.set.spec.update_strategy.r#type {
            UpdateStrategyType::Recreate if !self.view.gates.recreate => {
                format!("statefulset {key} uses Recreate strategy but feature gate StatefulSetRecreateStrategy is disabled")
            }
            UpdateStrategyType::Unknown(strategy) => format!("statefulset {key} uses unknown strategy {strategy:?}"),
            _ => return Ok(()),
        };
        self.events.push(warning("UnknownStrategy", message.clone()));
        self.waits.push(Wait::new(Rule::UnknownStrategy).saying(message.as_str()));
        Err(failed(message))
    }

    /// Replicas, then condemned pods; whether one of them must be waited for.
    fn process_pods(&mut self, slots: &Slots, revisions: &Revisions) -> Result<bool, Stop> {
        let burst = self.set.spec.allows_burst();
        let replicas = self.replicas(slots, revisions)?;
        // Where pods have no regard to each other, those that cannot be made must not keep others from going: it may be them that fill a quota.
        let on_error = if burst { OnError::SkipRest } else { OnError::StopSync };
        let mut stages = vec![stage(&replicas.jobs, burst, on_error)];
        let (mut claims, mut condemned) = (Vec::new(), Vec::new());
        if burst || !replicas.is_waiting {
            claims = self.condemned_claims(slots);
            condemned = self.condemned(slots);
            if !burst {
                self.wait_for_condemned(slots, !condemned.is_empty());
            }
            stages.push(stage(&claims, burst, OnError::StopSync));
            stages.push(stage(&condemned, burst, OnError::StopSync));
        }
        let is_waiting = !burst && (replicas.is_waiting || !slots.condemned.is_empty());
        // Claims that are given to a set which was deleted meanwhile go with it, and their data too.
        if stages.iter().flat_map(|stage| &stage.steps).any(gives_to_set) {
            self.may_adopt()?.map_err(|why| failed(format!("can't adopt PersistentVolumeClaims: {why}")))?;
        }
        let (_, outcomes) = self.act(Plan { stages })?;
        let mut results = Results::default();
        for (at, jobs) in [&replicas.jobs, &claims, &condemned].into_iter().enumerate() {
            results.take(&self.set.key.name, jobs, outcomes.0.get(at).map_or(&[], Vec::as_slice));
        }
        self.events.append(&mut results.events);
        let availability = self.availability();
        if let Some(status) = &mut self.status {
            status::count(status, slots.pods(), revisions, availability);
        }
        if burst {
            self.wait_for_burst(slots);
        }
        if results.errors.is_empty() { Ok(is_waiting) } else { Err(Stop::Failed(SyncError(aggregate(&results.errors)))) }
    }
}

/// Whether a step makes the set an owner of a claim that is there.
fn gives_to_set(step: &Step) -> bool {
    matches!(&step.action, Action::Reown(Reown { add: Some(owner), .. }) if owner.resource == &STATEFULSETS)
}
