//! What the controllers' event handlers have in common: whose an object is, who might adopt it, and how urgent that is.

use std::sync::Arc;

use machinery::queue::WorkQueue;
use machinery::store::Store;
use model::labels::Labels;
use model::selector::Selector;
use model::{ControllerRef, Object, ObjectKey, OwnerKind};

/// Upstream `resolveControllerRef`: by name, then the UID must be the same.
pub(crate) fn resolve_controller_ref<O: Object>(
    owners: &Store<O>,
    kind: OwnerKind,
    namespace: &str,
    controller: &ControllerRef,
) -> Option<Arc<O>> {
    let owner = controller.owner().filter(|owner| owner.kind == kind)?;
    owners.get_by_name(namespace, &owner.name).filter(|object| object.uid() == owner.uid)
}

/// Everyone who might adopt an orphan with these labels (upstream `getPodReplicaSets`, `getDeploymentsForReplicaSet`,
/// `getStatefulSetsForPod`). An owner is seen as its key and its selector, if that can be used.
pub(crate) fn enqueue_matching<O: Object>(
    owners: &Store<O>,
    queue: &WorkQueue<ObjectKey>,
    namespace: &str,
    labels: &dyn Labels,
    seen: impl Fn(&O) -> (&ObjectKey, Option<&Selector>),
) {
    if labels.is_empty() {
        return;
    }
    owners.for_each_in_namespace(namespace, |owner| {
        let (key, selector) = seen(owner);
        if selector.is_some_and(|selector| !selector.is_empty() && selector.matches(labels)) {
            queue.add(key.clone());
        }
    });
}

/// What is only handed out again, after a start or by a resync, waits behind what is new.
pub(crate) fn enqueue(queue: &WorkQueue<ObjectKey>, key: &ObjectKey, replayed: bool) {
    if replayed { queue.add_low_priority(key.clone()) } else { queue.add(key.clone()) }
}
