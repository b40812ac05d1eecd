//! Wires the StatefulSet controller: which events concern which key, and what a sync gets to see
//! (upstream `pkg/controller/statefulset/stateful_set.go`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::statefulset::{Claims, Gates, Sameness, View, wanted_claims};
use machinery::clock::Clock;
use machinery::guard::Guard;
use machinery::queue::WorkQueue;
use machinery::store::{Change, Handler, Store};
use machinery::sync::Reconciler;
use model::labels::Labels;
use model::plan::{Answer, Conclusion, Decision, Event, Lookup, ObjectRef, Outcome, Outcomes, PODS, Plan, Resource, STATEFULSETS, Step};
use model::{ControllerRef, ControllerRevision, ObjectKey, OwnerKind, PersistentVolumeClaim, Pod, StatefulSet, Time, Uid};
use parking_lot::Mutex;

use crate::handlers::{enqueue, enqueue_matching, resolve_controller_ref};
use crate::metrics::AvailabilityMetrics;

/// What the controller reads and remembers; shared by its handlers and its syncs.
#[derive(Clone, Debug)]
pub(crate) struct StatefulSetController {
    /// All StatefulSets.
    pub(crate) sets: Store<StatefulSet>,
    /// All pods.
    pub(crate) pods: Store<Pod>,
    /// All PersistentVolumeClaims.
    pub(crate) claims: Store<PersistentVolumeClaim>,
    /// All ControllerRevisions.
    pub(crate) revisions: Store<ControllerRevision>,
    /// Which sets' last revisions are known to mean their templates: that costs a live read to find out.
    pub(crate) known_same: Arc<Mutex<HashMap<Uid, Sameness>>>,
    /// How many pods are unavailable, and may be.
    pub(crate) availability: AvailabilityMetrics,
    /// What holds back a sync whose caches have not seen the last one.
    pub(crate) guard: Option<Guard>,
    /// Keys to be synced.
    pub(crate) queue: WorkQueue<ObjectKey>,
    /// What time it is.
    pub(crate) clock: Clock,
    /// Feature gates.
    pub(crate) gates: Gates,
}

// === impl StatefulSetController ===

impl StatefulSetController {
    /// Subscribes to the stores; before their sources start.
    pub(crate) fn listen(&self) {
        self.sets.add_handler(Arc::new(OnStatefulSet(self.clone())));
        self.pods.add_handler(Arc::new(OnPod(self.clone())));
        self.claims.add_handler(Arc::new(OnClaim(self.clone())));
        self.revisions.add_handler(Arc::new(OnRevision(self.clone())));
    }

    fn owner_of(&self, namespace: &str, controller: &ControllerRef) -> Option<Arc<StatefulSet>> {
        resolve_controller_ref(&self.sets, OwnerKind::StatefulSet, namespace, controller)
    }

    fn enqueue_matching(&self, namespace: &str, labels: &dyn Labels) {
        enqueue_matching(&self.sets, &self.queue, namespace, labels, |set| (&set.key, set.spec.selector.as_ref().ok()));
    }

    fn pod_added(&self, pod: &Pod, initial: bool) {
        if pod.deletion.is_some() {
            // After a restart of this process a pod can first be seen when it is on its way out already.
            return self.pod_deleted(pod);
        }
        match &pod.controller {
            ControllerRef::Owner(_) => {
                if let Some(set) = self.owner_of(&pod.namespace, &pod.controller) {
                    enqueue(&self.queue, &set.key, initial);
                }
            }
            ControllerRef::None => self.enqueue_matching(&pod.namespace, pod),
            ControllerRef::Foreign => {}
        }
    }

    fn pod_updated(&self, old: &Pod, new: &Pod) {
        let controller_changed = old.controller != new.controller;
        if controller_changed && let Some(set) = self.owner_of(&old.namespace, &old.controller) {
            self.queue.add(set.key.clone());
        }
        match &new.controller {
            ControllerRef::Owner(_) => {
                let Some(set) = self.owner_of(&new.namespace, &new.controller) else { return };
                self.queue.add(set.key.clone());
                if !old.ready && new.ready && set.spec.min_ready_seconds > 0 {
                    let wait = u64::try_from(set.spec.min_ready_seconds).unwrap_or(0);
                    self.queue.add_after(set.key.clone(), Duration::from_secs(wait));
                }
            }
            ControllerRef::None if controller_changed || old.label_set != new.label_set || old.own_labels != new.own_labels => {
                self.enqueue_matching(&new.namespace, new);
            }
            ControllerRef::None | ControllerRef::Foreign => {}
        }
    }

    fn pod_deleted(&self, pod: &Pod) {
        if let Some(set) = self.owner_of(&pod.namespace, &pod.controller) {
            self.queue.add(set.key.clone());
        }
    }

    /// Upstream has no such handler, so a pod whose claim has vanished stays Pending until something else happens to it.
    fn claim_changed(&self, claim: &PersistentVolumeClaim) {
        let Some((stem, _)) = claim.name.rsplit_once('-') else { return };
        self.sets.for_each_in_namespace(&claim.namespace, |set| {
            let is_template = |template: &str| stem.strip_prefix(template).and_then(|rest| rest.strip_prefix('-')) == Some(&*set.key.name);
            if set.spec.claim_templates.iter().any(|template| is_template(&template.name)) {
                self.queue.add(set.key.clone());
            }
        });
    }

    /// Nor this one: a revision that someone has deleted is made again at once.
    fn revision_changed(&self, revision: &ControllerRevision) {
        match self.owner_of(&revision.namespace, &revision.controller) {
            Some(set) => self.queue.add(set.key.clone()),
            None if revision.controller.is_none() => self.enqueue_matching(&revision.namespace, revision),
            None => {}
        }
    }
}

/// Hears of StatefulSets.
struct OnStatefulSet(StatefulSetController);

impl Handler<StatefulSet> for OnStatefulSet {
    fn on_change(&self, change: Change<'_, StatefulSet>) {
        let controller = &self.0;
        match change {
            Change::Added { new, initial } => enqueue(&controller.queue, &new.key, initial),
            Change::Updated { new, .. } => enqueue(&controller.queue, &new.key, false),
            Change::Resync { object } => enqueue(&controller.queue, &object.key, true),
            Change::Deleted { last, .. } => {
                controller.known_same.lock().remove(&last.uid);
                controller.availability.forget(last);
                if let Some(guard) = &controller.guard {
                    guard.forget(&last.key, last.uid);
                }
                enqueue(&controller.queue, &last.key, false);
            }
        }
    }
}

/// Hears of pods.
struct OnPod(StatefulSetController);

impl Handler<Pod> for OnPod {
    fn on_change(&self, change: Change<'_, Pod>) {
        match change {
            Change::Added { new, initial } => self.0.pod_added(new, initial),
            Change::Updated { old, new } => self.0.pod_updated(old, new),
            Change::Deleted { last, .. } => self.0.pod_deleted(last),
            // Upstream ignores an update without a new version; its set's resync brings the key.
            Change::Resync { .. } => {}
        }
    }
}

/// Hears of claims.
struct OnClaim(StatefulSetController);

impl Handler<PersistentVolumeClaim> for OnClaim {
    fn on_change(&self, change: Change<'_, PersistentVolumeClaim>) {
        match change {
            // Their sets are looked at anyway.
            Change::Added { initial: true, .. } | Change::Resync { .. } => {}
            Change::Added { new, .. } => self.0.claim_changed(new),
            Change::Updated { old, new } if old.deletion != new.deletion || old.owners != new.owners => self.0.claim_changed(new),
            // Nothing else about it is read.
            Change::Updated { .. } => {}
            Change::Deleted { last, .. } => self.0.claim_changed(last),
        }
    }
}

/// Hears of revisions.
struct OnRevision(StatefulSetController);

impl Handler<ControllerRevision> for OnRevision {
    fn on_change(&self, change: Change<'_, ControllerRevision>) {
        match change {
            Change::Added { initial: true, .. } | Change::Resync { .. } => {}
            Change::Added { new, .. } | Change::Updated { new, .. } => self.0.revision_changed(new),
            Change::Deleted { last, .. } => self.0.revision_changed(last),
        }
    }
}

impl Reconciler for StatefulSetController {
    type View = View;

    fn resource(&self) -> &'static Resource {
        &STATEFULSETS
    }

    fn children(&self) -> &'static Resource {
        &PODS
    }

    fn view(&self, key: &ObjectKey) -> Option<View> {
        let set = self.sets.get(key)?;
        let pods = self.pods.claimable(set.uid, &key.namespace);
        let revisions = self.revisions.claimable(set.uid, &key.namespace);
        let claim = |name: String| self.claims.get_by_name(&key.namespace, &name).map(|claim| (name, claim));
        let claims: Claims = wanted_claims(&set, &pods).filter_map(claim).collect();
        let known_same = self.known_same.lock().get(&set.uid).copied();
        Some(View::new(set, pods, revisions, claims, known_same, self.gates, self.clock.wall()))
    }

    fn subject(&self, view: &View) -> ObjectRef {
        view.set.reference()
    }

    fn is_cached(&self, subject: &ObjectRef, child: &str) -> bool {
        self.pods.get_by_name(&subject.key.namespace, child).is_some_and(|pod| pod.controller.is(subject.uid))
    }

    /// The view has its own time: what was decided in an earlier round must not change with the clock.
    fn decide(&self, view: &View, _: Time) -> Decision {
        ::statefulset::decide(view)
    }

    /// Everything is in the view.
    fn look(&self, _: &mut View, _: Lookup) {}

    fn answer(&self, view: &mut View, answer: Answer) {
        view.answer(answer);
    }

    fn absorb(&self, view: &mut View, plan: &Plan, outcomes: Outcomes) {
        view.absorb(plan, outcomes);
    }

    fn conclude(&self, view: &View, _: Time) -> Conclusion {
        let (conclusion, findings) = ::statefulset::conclude(view);
        if let Some(sameness) = findings.sameness {
            self.known_same.lock().insert(view.set.uid, sameness);
        }
        if let Some(unavailable) = findings.unavailable {
            self.availability.set(&view.set, unavailable);
        }
        conclusion
    }

    fn event(&self, subject: &ObjectRef, step: &Step, outcome: &Outcome) -> Option<Event> {
        ::statefulset::event(&subject.key.name, step, outcome)
    }
}
