//! Numbers about what a cache holds, kept while it changes: what it weighs, how many children owners have, who has fewer replicas than it
//! should have.

use std::collections::HashMap;
use std::mem::size_of;
use std::time::Duration;

use machinery::store::{Change, Handler};
use model::condition::Condition;
use model::replicaset::Body;
use model::{ControllerRef, ControllerRevision, Deployment, Object, OwnerKind, PersistentVolumeClaim, Pod, ReplicaSet, StatefulSet, Uid};
use parking_lot::Mutex;
use tokio::time::Instant;

/// An object that is counted.
pub(crate) trait Counted: Object + Sized {
    /// Bytes that it has besides its own size and its name's, and that it does not share with others.
    fn more_bytes(&self) -> usize {
        0
    }

    /// Whether fewer replicas are available than are wanted.
    fn is_below_desired(&self) -> bool {
        false
    }
}

/// What one cache holds.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    bytes: usize,
    /// How many children each owner has; who has none is not in here.
    children: HashMap<(OwnerKind, Uid), u32>,
    /// Since when these have fewer replicas than they should have, as far as we know.
    below: HashMap<Uid, Instant>,
}

/// How many owners have how many children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Children {
    /// By [`RANGES`].
    pub(crate) owners: [u64; RANGES.len()],
    /// The most that one has.
    pub(crate) most: u32,
}

/// Ranges of numbers of children, each with its last.
pub(crate) const RANGES: [(&str, u32); 5] = [("1", 1), ("2-10", 10), ("11-100", 100), ("101-1000", 1000), ("1001-", u32::MAX)];

/// An `Arc`'s counters.
const COUNTERS: usize = 2 * size_of::<usize>();

fn bytes<O: Counted>(object: &O) -> usize {
    COUNTERS + size_of::<O>() + object.name().len() + object.more_bytes()
}

fn of_conditions(conditions: &[Condition]) -> usize {
    let texts = |condition: &Condition| condition.reason.len() + condition.message.len();
    conditions.iter().map(|condition| size_of::<Condition>() + texts(condition)).sum()
}

impl Counted for Pod {}
impl Counted for PersistentVolumeClaim {}
impl Counted for ControllerRevision {}

impl Counted for Deployment {
    fn more_bytes(&self) -> usize {
        let raw = self.metadata.get().len() + self.spec.raw_selector.get().len() + self.spec.template.raw().get().len();
        raw + of_conditions(&self.status.conditions)
    }

    fn is_below_desired(&self) -> bool {
        self.status.available_replicas < self.spec.replicas
    }
}

impl Counted for ReplicaSet {
    fn more_bytes(&self) -> usize {
        let raw = match &self.body {
            Body::Whole { metadata, template } => metadata.get().len() + template.raw().get().len(),
            Body::AtZero { .. } => 0,
        };
        raw + of_conditions(&self.status.conditions)
    }

    fn is_below_desired(&self) -> bool {
        self.status.available_replicas < self.spec.replicas
    }
}

impl Counted for StatefulSet {
    fn more_bytes(&self) -> usize {
        let claims: usize = self.spec.claim_templates.iter().map(|claim| claim.raw.get().len()).sum();
        self.metadata.get().len() + self.spec.template.raw().get().len() + claims + of_conditions(&self.status.conditions)
    }

    fn is_below_desired(&self) -> bool {
        self.status.available_replicas < self.spec.replicas
    }
}

// === impl Tally ===

impl Tally {
    /// What the objects weigh, without what they share and without indexes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().bytes
    }

    /// How many children the owners of a kind have among these objects.
    pub(crate) fn children_of(&self, kind: OwnerKind) -> Children {
        let mut children = Children::default();
        for (_, count) in self.0.lock().children.iter().filter(|((of, _), _)| *of == kind) {
            let range = RANGES.iter().position(|(_, last)| count <= last).unwrap_or(RANGES.len() - 1);
            if let Some(owners) = children.owners.get_mut(range) {
                *owners += 1;
            }
            children.most = children.most.max(*count);
        }
        children
    }

    /// For how long each of those has had fewer replicas than it should have that does now.
    pub(crate) fn below_desired(&self, now: Instant) -> Vec<Duration> {
        self.0.lock().below.values().map(|since| now.saturating_duration_since(*since)).collect()
    }
}

impl<O: Counted> Handler<O> for Tally {
    fn on_change(&self, change: Change<'_, O>) {
        let mut numbers = self.0.lock();
        match change {
            Change::Added { new, .. } => numbers.enter(&**new),
            Change::Updated { old, new } => numbers.replace(&**old, &**new),
            Change::Deleted { last, .. } => numbers.leave(&**last),
            Change::Resync { .. } => {}
        }
    }
}

// === impl Numbers ===

impl Numbers {
    fn enter<O: Counted>(&mut self, new: &O) {
        self.bytes += bytes(new);
        if let ControllerRef::Owner(owner) = new.controller() {
            *self.children.entry((owner.kind, owner.uid)).or_default() += 1;
        }
        self.judge(new);
    }

    fn replace<O: Counted>(&mut self, old: &O, new: &O) {
        self.bytes = (self.bytes + bytes(new)).saturating_sub(bytes(old));
        if old.controller() != new.controller() {
            self.lose(old.controller());
            if let ControllerRef::Owner(owner) = new.controller() {
                *self.children.entry((owner.kind, owner.uid)).or_default() += 1;
            }
        }
        self.judge(new);
    }

    fn leave<O: Counted>(&mut self, last: &O) {
        self.bytes = self.bytes.saturating_sub(bytes(last));
        self.lose(last.controller());
        self.below.remove(&last.uid());
    }

    fn lose(&mut self, controller: &ControllerRef) {
        let ControllerRef::Owner(owner) = controller else { return };
        let key = (owner.kind, owner.uid);
        match self.children.get_mut(&key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.children.remove(&key);
            }
        }
    }

    fn judge<O: Counted>(&mut self, new: &O) {
        if new.is_below_desired() {
            self.below.entry(new.uid()).or_insert_with(Instant::now);
        } else if !self.below.is_empty() {
            self.below.remove(&new.uid());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{Decode as _, ReplicaSetDecoder};
    use serde_json::json;

    use super::*;

    fn set(name: &str, uid: u32, owner: Option<u32>, available: i32, labels: &str) -> Arc<ReplicaSet> {
        let identity = |id: u32| format!("00000000-0000-0000-0000-{id:012}");
        let owners: Vec<_> = owner
            .iter()
            .map(|owner| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": identity(*owner), "controller": true}))
            .collect();
        let object = json!({
            "metadata": {"namespace": "shop", "name": name, "uid": identity(uid), "resourceVersion": "5", "ownerReferences": owners},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": labels}}, "spec": {"containers": []}}},
            "status": {"replicas": 2, "availableReplicas": available},
        });
        Arc::new(ReplicaSetDecoder::new().decode(object.to_string().as_bytes()).unwrap())
    }

    fn observed(tally: &Tally, change: Change<'_, ReplicaSet>) {
        tally.on_change(change);
    }

    #[tokio::test(start_paused = true)]
    async fn numbers_follow_every_change() {
        let tally = Tally::default();
        let (a, b, c) = (set("a", 1, Some(9), 2, "web"), set("b", 2, Some(9), 1, "web"), set("c", 3, None, 0, "web"));
        for new in [&a, &b, &c] {
            observed(&tally, Change::Added { new, initial: true });
        }
        let children = tally.children_of(OwnerKind::Deployment);
        assert_eq!((children.owners, children.most), ([0, 1, 0, 0, 0], 2));
        assert_eq!(tally.children_of(OwnerKind::ReplicaSet), Children::default());
        let before = tally.bytes();
        tokio::time::advance(Duration::from_secs(90)).await;
        // Released, and longer by ten bytes.
        let longer = set("b", 2, None, 1, "web0123456789");
        observed(&tally, Change::Updated { old: &b, new: &longer });
        assert!(tally.bytes() > before.saturating_sub(200) && tally.bytes() != before);
        assert_eq!(tally.children_of(OwnerKind::Deployment).owners, [1, 0, 0, 0, 0]);
        assert_eq!(tally.below_desired(Instant::now()), [Duration::from_secs(90); 2]);
        let mended = set("c", 3, None, 2, "web");
        observed(&tally, Change::Updated { old: &c, new: &mended });
        assert_eq!(tally.below_desired(Instant::now()).len(), 1);
        observed(&tally, Change::Resync { object: &mended });
        for last in [&a, &longer, &mended] {
            observed(&tally, Change::Deleted { last, observed: true });
        }
        assert_eq!((tally.bytes(), tally.children_of(OwnerKind::Deployment)), (0, Children::default()));
        assert!(tally.below_desired(Instant::now()).is_empty());
    }
}
