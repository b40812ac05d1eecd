//! Wires the Deployment controller: which events concern which key, and what a sync gets to see
//! (upstream `pkg/controller/deployment/deployment_controller.go`).

use std::collections::HashSet;
use std::sync::Arc;

use ::deployment::{Gates, View};
use machinery::clock::Clock;
use machinery::guard::Guard;
use machinery::queue::WorkQueue;
use machinery::store::{Change, Handler, Store};
use machinery::sync::Reconciler;
use model::deployment::Strategy;
use model::plan::{
    Answer, Conclusion, DEPLOYMENTS, Decision, Event, Lookup, ObjectRef, Outcome, Outcomes, Plan, REPLICASETS, Resource, Step,
};
use model::{ControllerRef, Deployment, ObjectKey, OwnerKind, Pod, ReplicaSet, Time};

use crate::handlers::{enqueue, enqueue_matching, resolve_controller_ref};

/// What the controller reads and remembers; shared by its handlers and its syncs.
#[derive(Clone, Debug)]
pub(crate) struct DeploymentController {
    /// All Deployments.
    pub(crate) deployments: Store<Deployment>,
    /// All ReplicaSets.
    pub(crate) sets: Store<ReplicaSet>,
    /// All pods.
    pub(crate) pods: Store<Pod>,
    /// What holds back a sync whose caches have not seen the last one.
    pub(crate) guard: Guard,
    /// Keys to be synced.
    pub(crate) queue: WorkQueue<ObjectKey>,
    /// What time it is.
    pub(crate) clock: Clock,
    /// Feature gates.
    pub(crate) gates: Gates,
}

// === impl DeploymentController ===

impl DeploymentController {
    /// Subscribes to the stores; before their sources start.
    pub(crate) fn listen(&self) {
        self.deployments.add_handler(Arc::new(OnDeployment(self.clone())));
        self.sets.add_handler(Arc::new(OnReplicaSet(self.clone())));
        self.pods.add_handler(Arc::new(OnPod(self.clone())));
    }

    fn owner_of(&self, set: &ReplicaSet) -> Option<Arc<Deployment>> {
        resolve_controller_ref(&self.deployments, OwnerKind::Deployment, &set.key.namespace, &set.controller)
    }

    /// Upstream `getDeploymentForPod`.
    fn deployment_of(&self, pod: &Pod) -> Option<Arc<Deployment>> {
        let set = resolve_controller_ref(&self.sets, OwnerKind::ReplicaSet, &pod.namespace, &pod.controller)?;
        self.owner_of(&set)
    }

    fn enqueue_matching(&self, set: &ReplicaSet) {
        enqueue_matching(&self.deployments, &self.queue, &set.key.namespace, &*set.labels, |deployment| {
            (&deployment.key, deployment.spec.selector.as_ref().ok())
        });
    }

    fn set_added(&self, set: &ReplicaSet, initial: bool) {
        if set.deletion.is_some() {
            // After a restart of this process a ReplicaSet can first be seen when it is on its way out already.
            return self.set_deleted(set);
        }
        match &set.controller {
            ControllerRef::Owner(_) => {
                if let Some(deployment) = self.owner_of(set) {
                    enqueue(&self.queue, &deployment.key, initial);
                }
            }
            ControllerRef::None => self.enqueue_matching(set),
            ControllerRef::Foreign => {}
        }
    }

    fn set_updated(&self, old: &ReplicaSet, new: &ReplicaSet) {
        let controller_changed = old.controller != new.controller;
        if controller_changed && let Some(deployment) = self.owner_of(old) {
            self.queue.add(deployment.key.clone());
        }
        match &new.controller {
            ControllerRef::Owner(_) => {
                if let Some(deployment) = self.owner_of(new) {
                    self.queue.add(deployment.key.clone());
                }
            }
            ControllerRef::None if controller_changed || old.labels != new.labels => self.enqueue_matching(new),
            ControllerRef::None | ControllerRef::Foreign => {}
        }
    }

    fn set_deleted(&self, set: &ReplicaSet) {
        if let Some(deployment) = self.owner_of(set) {
            self.queue.add(deployment.key.clone());
        }
    }
}

/// Hears of Deployments.
struct OnDeployment(DeploymentController);

impl Handler<Deployment> for OnDeployment {
    fn on_change(&self, change: Change<'_, Deployment>) {
        let controller = &self.0;
        match change {
            Change::Added { new, initial } => enqueue(&controller.queue, &new.key, initial),
            Change::Updated { new, .. } => enqueue(&controller.queue, &new.key, false),
            Change::Resync { object } => enqueue(&controller.queue, &object.key, true),
            Change::Deleted { last, .. } => {
                controller.guard.forget(&last.key, last.uid);
                enqueue(&controller.queue, &last.key, false);
            }
        }
    }
}

/// Hears of ReplicaSets.
struct OnReplicaSet(DeploymentController);

impl Handler<ReplicaSet> for OnReplicaSet {
    fn on_change(&self, change: Change<'_, ReplicaSet>) {
        match change {
            Change::Added { new, initial } => self.0.set_added(new, initial),
            Change::Updated { old, new } => self.0.set_updated(old, new),
            Change::Deleted { last, .. } => self.0.set_deleted(last),
            // Upstream ignores an update without a new version; its Deployment's resync brings the key.
            Change::Resync { .. } => {}
        }
    }
}

/// Hears of pods: only their end matters, and only where it lets a rollout go on.
struct OnPod(DeploymentController);

impl Handler<Pod> for OnPod {
    fn on_change(&self, change: Change<'_, Pod>) {
        let Change::Deleted { last, .. } = change else { return };
        if let Some(deployment) = self.0.deployment_of(last)
            && deployment.spec.strategy == Strategy::Recreate
        {
            self.0.queue.add(deployment.key.clone());
        }
    }
}

impl Reconciler for DeploymentController {
    type View = View;

    fn resource(&self) -> &'static Resource {
        &DEPLOYMENTS
    }

    fn children(&self) -> &'static Resource {
        &REPLICASETS
    }

    fn view(&self, key: &ObjectKey) -> Option<View> {
        let deployment = self.deployments.get(key)?;
        let sets = self.sets.claimable(deployment.uid, &key.namespace);
        Some(View::new(deployment, sets, self.gates, self.clock.wall()))
    }

    fn subject(&self, view: &View) -> ObjectRef {
        view.deployment.reference()
    }

    fn is_cached(&self, subject: &ObjectRef, child: &str) -> bool {
        self.sets.get_by_name(&subject.key.namespace, child).is_some_and(|set| set.controller.is(subject.uid))
    }

    /// The view has its own time: what was decided in an earlier round must not change with the clock.
    fn decide(&self, view: &View, _: Time) -> Decision {
        ::deployment::decide(view)
    }

    fn look(&self, view: &mut View, lookup: Lookup) {
        match lookup {
            Lookup::UnfinishedPods => {
                let unfinished = |set: &&Arc<ReplicaSet>| self.pods.controlled_by(set.uid).iter().any(|pod| !pod.is_finished());
                let sets: HashSet<_> = view.candidates.iter().filter(unfinished).map(|set| set.uid).collect();
                view.take_unfinished(sets);
            }
            // Not asked for by this controller.
            Lookup::RelatedPods => {}
        }
    }

    fn answer(&self, view: &mut View, answer: Answer) {
        view.answer(answer);
    }

    fn absorb(&self, view: &mut View, plan: &Plan, outcomes: Outcomes) {
        view.absorb(plan, outcomes);
    }

    fn conclude(&self, view: &View, _: Time) -> Conclusion {
        ::deployment::conclude(view)
    }

    fn event(&self, _: &ObjectRef, step: &Step, outcome: &Outcome) -> Option<Event> {
        ::deployment::event(step, outcome)
    }
}
