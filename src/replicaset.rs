//! Wires the ReplicaSet controller: which events concern which key, and what a sync gets to see
//! (upstream `pkg/controller/replicaset/replica_set.go`).

use std::sync::Arc;
use std::time::Duration;

use machinery::clock::Clock;
use machinery::expectations::Expectations;
use machinery::guard::Guard;
use machinery::queue::WorkQueue;
use machinery::store::{Change, Handler, Store};
use machinery::sync::Reconciler;
use model::ownership::Claimable as _;
use model::plan::{Answer, Conclusion, Decision, Event, Lookup, ObjectRef, Outcome, Outcomes, PODS, Plan, REPLICASETS, Resource, Step};
use model::{ControllerRef, ObjectKey, OwnerKind, Pod, ReplicaSet, Time};
use prometheus::Histogram;
use replicaset::{Gates, View};

use crate::handlers::{enqueue, enqueue_matching, resolve_controller_ref};

/// What the controller reads and remembers; shared by its handlers and its syncs.
#[derive(Clone, Debug)]
pub(crate) struct ReplicaSetController {
    /// All ReplicaSets.
    pub(crate) sets: Store<ReplicaSet>,
    /// All pods.
    pub(crate) pods: Store<Pod>,
    /// Writes not seen yet.
    pub(crate) expectations: Arc<Expectations>,
    /// What holds back a sync whose caches have not seen the last one.
    pub(crate) guard: Option<Guard>,
    /// Keys to be synced.
    pub(crate) queue: WorkQueue<ObjectKey>,
    /// What time it is.
    pub(crate) clock: Clock,
    /// Feature gates.
    pub(crate) gates: Gates,
    /// How old the pods are that the ranking picks.
    pub(crate) deletion_age_ratio: Histogram,
}

// === impl ReplicaSetController ===

impl ReplicaSetController {
    /// Subscribes to the stores; before their sources start.
    pub(crate) fn listen(&self) {
        self.sets.add_handler(Arc::new(OnReplicaSet(self.clone())));
        self.pods.add_handler(Arc::new(OnPod(self.clone())));
    }

    fn owner_of(&self, pod: &Pod) -> Option<Arc<ReplicaSet>> {
        resolve_controller_ref(&self.sets, OwnerKind::ReplicaSet, &pod.namespace, &pod.controller)
    }

    fn enqueue_matching(&self, pod: &Pod) {
        enqueue_matching(&self.sets, &self.queue, &pod.namespace, pod, |set| (&set.key, set.spec.selector.as_ref().ok()));
    }

    fn pod_added(&self, pod: &Pod, initial: bool) {
        if pod.deletion.is_some() {
            // After a restart of this process a pod can first be seen when it is on its way out already.
            return self.pod_deleted(pod);
        }
        match &pod.controller {
            ControllerRef::Owner(_) => {
                let Some(set) = self.owner_of(pod) else { return };
                self.expectations.creation_observed(&set.key, set.uid, &pod.name);
                enqueue(&self.queue, &set.key, initial);
            }
            ControllerRef::None => self.enqueue_matching(pod),
            ControllerRef::Foreign => {}
        }
    }

    fn pod_updated(&self, old: &Pod, new: &Pod) {
        let labels_changed = !Arc::ptr_eq(&old.label_set, &new.label_set) && old.label_set != new.label_set;
        if new.deletion.is_some() {
            // Terminating pods are gone as far as the replicas are concerned; the expectation must not wait for the grace period to end.
            self.pod_deleted(new);
            if labels_changed {
                self.pod_deleted(old);
            }
            return;
        }
        let controller_changed = old.controller != new.controller;
        if controller_changed && let Some(set) = self.owner_of(old) {
            self.queue.add(set.key.clone());
        }
        match &new.controller {
            ControllerRef::Owner(_) => {
                let Some(set) = self.owner_of(new) else { return };
                self.queue.add(set.key.clone());
                if !old.ready && new.ready && set.spec.min_ready_seconds > 0 {
                    let wait = u64::try_from(set.spec.min_ready_seconds).unwrap_or(0);
                    self.queue.add_after(set.key.clone(), Duration::from_secs(wait));
                }
            }
            ControllerRef::None if labels_changed || controller_changed => self.enqueue_matching(new),
            ControllerRef::None | ControllerRef::Foreign => {}
        }
    }

    fn pod_deleted(&self, pod: &Pod) {
        let Some(set) = self.owner_of(pod) else { return };
        self.expectations.deletion_observed(&set.key, set.uid, pod.uid);
        self.queue.add(set.key.clone());
    }

    /// Upstream `getIndirectlyRelatedPods`: pods that any ReplicaSet under the same owner selects.
    fn related_pods(&self, set: &ReplicaSet) -> Vec<Arc<Pod>> {
        let Some(owner) = set.controller_uid() else { return Vec::new() };
        let mut siblings = Vec::new();
        self.sets.for_each_in_namespace(&set.key.namespace, |sibling| {
            if sibling.controller_uid() == Some(owner) {
                siblings.push(sibling.clone());
            }
        });
        let mut related = Vec::new();
        self.pods.for_each_in_namespace(&set.key.namespace, |pod| {
            if siblings.iter().any(|sibling| sibling.spec.selector.as_ref().is_ok_and(|selector| selector.matches(&**pod))) {
                related.push(pod.clone());
            }
        });
        related
    }
}

/// Hears of ReplicaSets.
struct OnReplicaSet(ReplicaSetController);

impl Handler<ReplicaSet> for OnReplicaSet {
    fn on_change(&self, change: Change<'_, ReplicaSet>) {
        let controller = &self.0;
        match change {
            Change::Added { new, initial } => enqueue(&controller.queue, &new.key, initial),
            Change::Updated { new, .. } => enqueue(&controller.queue, &new.key, false),
            Change::Resync { object } => enqueue(&controller.queue, &object.key, true),
            Change::Deleted { last, .. } => {
                controller.expectations.forget(&last.key, last.uid);
                if let Some(guard) = &controller.guard {
                    guard.forget(&last.key, last.uid);
                }
                enqueue(&controller.queue, &last.key, false);
            }
        }
    }
}

/// Hears of pods.
struct OnPod(ReplicaSetController);

impl Handler<Pod> for OnPod {
    fn on_change(&self, change: Change<'_, Pod>) {
        match change {
            Change::Added { new, initial } => self.0.pod_added(new, initial),
            Change::Updated { old, new } => self.0.pod_updated(old, new),
            Change::Deleted { last, .. } => self.0.pod_deleted(last),
            // Upstream ignores an update without a new version; its ReplicaSet's resync brings the key.
            Change::Resync { .. } => {}
        }
    }
}

impl Reconciler for ReplicaSetController {
    type View = View;

    fn resource(&self) -> &'static Resource {
        &REPLICASETS
    }

    fn children(&self) -> &'static Resource {
        &PODS
    }

    fn view(&self, key: &ObjectKey) -> Option<View> {
        let Some(set) = self.sets.get(key) else {
            self.expectations.forget_absent(key);
            return None;
        };
        // Before the pods: one that appears in between may be counted as missing for one sync, never as an extra one.
        let satisfied = self.expectations.satisfied(key, set.uid, self.clock.now());
        let pods = self.pods.claimable(set.uid, &key.namespace);
        Some(View::new(set, pods, satisfied, self.gates))
    }

    fn subject(&self, view: &View) -> ObjectRef {
        view.set.reference()
    }

    fn is_cached(&self, subject: &ObjectRef, child: &str) -> bool {
        self.pods.get_by_name(&subject.key.namespace, child).is_some_and(|pod| pod.controller.is(subject.uid))
    }

    fn decide(&self, view: &View, now: Time) -> Decision {
        replicaset::decide(view, now)
    }

    fn look(&self, view: &mut View, lookup: Lookup) {
        match lookup {
            Lookup::RelatedPods => {
                let related = self.related_pods(&view.set);
                view.relate(related);
            }
            // Not asked for by this controller.
            Lookup::UnfinishedPods => {}
        }
    }

    fn answer(&self, view: &mut View, answer: Answer) {
        view.answer(&answer);
    }

    fn absorb(&self, view: &mut View, plan: &Plan, outcomes: Outcomes) {
        for ratio in replicaset::deletion_age_ratios(view, plan, self.clock.wall()) {
            self.deletion_age_ratio.observe(ratio);
        }
        view.absorb(plan, &outcomes);
    }

    fn conclude(&self, view: &View, now: Time) -> Conclusion {
        replicaset::conclude(view, now)
    }

    fn next_victims(&self, view: &mut View, now: Time) -> Vec<(String, String)> {
        let related = self.related_pods(&view.set);
        view.relate(related);
        replicaset::next_victims(view, now)
    }

    fn event(&self, _: &ObjectRef, step: &Step, outcome: &Outcome) -> Option<Event> {
        replicaset::event(step, outcome)
    }
}
