//! One copy of what many objects of a source have in common.
//!
//! An [`Interner`] belongs to one decoder. It forgets: whenever it has grown by an eighth, what nobody else holds any more is swept out,
//! so that it never keeps more than that eighth in garbage, at a constant cost for each new entry.

#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use serde_json::value::RawValue;

use crate::annotations::Annotations;
use crate::claim::ClaimOwner;
use crate::labels::{Keys, LabelSet, Labels, storable};
use crate::meta::{ControllerRef, OwnerKind, OwnerRef, Uid};
use crate::pod::Claim;
use crate::protobuf::object_meta::Owner;
use crate::replicaset::Rollout;
use crate::template::Template;

/// Shared strings, label sets, owner references and whatever else objects have in common.
#[derive(Default)]
pub struct Interner {
    strings: Table<str>,
    shapes: Table<[Arc<str>]>,
    label_sets: Table<LabelSet>,
    owners: Table<OwnerRef>,
    claims: Table<[Claim]>,
    claim_owners: Table<[ClaimOwner]>,
    rollouts: Table<Rollout>,
    annotations: Table<Annotations>,
    templates: Table<Template>,
    hasher: DefaultHashBuilder,
    /// At how many entries the next sweep is due.
    sweep_at: usize,
}

/// How much an [`Interner`] holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interned {
    /// Strings: namespaces, nodes, label keys, volumes.
    pub strings: usize,
    /// Combinations of label keys.
    pub shapes: usize,
    /// Label sets.
    pub label_sets: usize,
    /// Owner references.
    pub owners: usize,
    /// Claim lists.
    pub claims: usize,
    /// Lists of claims' owners.
    pub claim_owners: usize,
    /// What Deployments have noted on ReplicaSets.
    pub rollouts: usize,
    /// Sets of annotations.
    pub annotations: usize,
    /// Pod templates.
    pub templates: usize,
}

/// A set of one kind of entry. The entries are their own keys.
struct Table<T: ?Sized>(HashTable<Arc<T>>);

/// What an entry is hashed by: the parts a caller has before there is an entry.
trait Entry {
    fn hash_parts(&self, state: &mut impl Hasher);
}

/// Fewer entries are not worth a sweep.
const SMALL: usize = 64;

/// Sorts pairs by key and leaves the last of those that have the same one: what a map would hold after reading them in order.
pub fn sort_pairs<'a>(pairs: &mut Vec<(&'a str, &'a str)>) {
    if pairs.is_sorted_by(|(one, _), (next, _)| one < next) {
        return;
    }
    pairs.sort_by_key(|(key, _)| *key);
    pairs.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 = later.1;
        }
        same
    });
}

// === impl Interner ===

impl Interner {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The shared form of a string.
    pub fn string(&mut self, text: &str) -> Arc<str> {
        let hash = self.hash(|state| text.hash(state));
        if let Some(found) = self.strings.find(hash, |have| have == text) {
            return found;
        }
        self.sweep_if_due();
        self.strings.insert(hash, Arc::from(text), &self.hasher)
    }

    /// The shared form of a label set. Sorts the pairs if they are not sorted; allocates nothing if there is such a set.
    pub fn label_set<'a>(&mut self, pairs: &mut Vec<(&'a str, &'a str)>) -> Arc<LabelSet> {
        sort_pairs(pairs);
        let labels = pairs.iter().map(|(key, value)| (*key, storable(value)));
        let hash = self.hash(|state| hash_pairs(labels.clone(), state));
        if let Some(found) = self
            .label_sets
            .find(hash, |have| have.len() == labels.len() && have.iter().zip(labels.clone()).all(|(one, other)| one == other))
        {
            return found;
        }
        self.sweep_if_due();
        let keys = self.keys(pairs);
        let set = LabelSet::from_sorted(keys, labels.map(|(_, value)| value));
        self.label_sets.insert(hash, Arc::new(set), &self.hasher)
    }

    /// The shared form of an owner reference.
    pub fn owner(&mut self, kind: OwnerKind, name: &str, uid: Uid) -> Arc<OwnerRef> {
        let hash = self.hash(|state| hash_owner(kind, name, uid, state));
        if let Some(found) = self.owners.find(hash, |have| have.uid == uid && have.kind == kind && &*have.name == name) {
            return found;
        }
        self.sweep_if_due();
        // The name has no other use here: sharing it would only cost an entry.
        self.owners.insert(hash, Arc::new(OwnerRef { kind, name: Arc::from(name), uid }), &self.hasher)
    }

    /// What a controlling owner reference comes to: shared if we run its kind, and next to nothing otherwise.
    pub fn controller_ref(&mut self, kind: &str, name: &str, uid: &str) -> ControllerRef {
        match OwnerKind::from_kind(kind) {
            None => ControllerRef::Foreign,
            Some(kind) => ControllerRef::Owner(self.owner(kind, name, Uid::parse(uid).unwrap_or(Uid::NONE))),
        }
    }

    /// The shared form of the claims of a pod, given as volume and claim name; `None` if there are none. Sorts the pairs.
    pub fn claims<'a>(&mut self, pod: &str, mounts: &mut Vec<(&'a str, &'a str)>) -> Option<Arc<[Claim]>> {
        sort_pairs(mounts);
        if mounts.is_empty() {
            return None;
        }
        let parts = mounts.iter().map(|(volume, claim)| (*volume, (!is_conventional(volume, claim, pod)).then_some(*claim)));
        let hash = self.hash(|state| hash_claims(parts.clone(), state));
        if let Some(found) = self
            .claims
            .find(hash, |have| have.len() == parts.len() && have.iter().zip(parts.clone()).all(|(one, other)| one.parts() == other))
        {
            return Some(found);
        }
        self.sweep_if_due();
        let claims = parts
            .map(|(volume, literal)| {
                let volume = self.string(volume);
                match literal {
                    None => Claim::Conventional(volume),
                    Some(claim) => Claim::Literal { volume, claim: Arc::from(claim) },
                }
            })
            .collect();
        Some(self.claims.insert(hash, claims, &self.hasher))
    }

    /// The shared form of a claim's owner references; `None` if there are none.
    pub(crate) fn claim_owners(&mut self, owners: &[Owner<'_>]) -> Option<Arc<[ClaimOwner]>> {
        if owners.is_empty() {
            return None;
        }
        let parts = owners.iter().map(|owner| (owner.api_version, owner.kind, owner.name, owner.parsed_uid(), owner.controller));
        let hash = self.hash(|state| hash_claim_owners(parts.clone(), state));
        if let Some(found) = self
            .claim_owners
            .find(hash, |have| have.len() == parts.len() && have.iter().zip(parts.clone()).all(|(one, other)| one.parts() == other))
        {
            return Some(found);
        }
        self.sweep_if_due();
        let owners = parts.map(|(api_version, kind, name, uid, controller)| {
            let (api_version, kind) = (self.string(api_version), self.string(kind));
            ClaimOwner { api_version, kind, name: Arc::from(name), uid, controller }
        });
        let owners = owners.collect();
        Some(self.claim_owners.insert(hash, owners, &self.hasher))
    }

    /// The shared form of a Deployment's notes.
    pub(crate) fn rollout(&mut self, rollout: Rollout) -> Arc<Rollout> {
        let hash = self.hash(|state| rollout.hash(state));
        if let Some(found) = self.rollouts.find(hash, |have| *have == rollout) {
            return found;
        }
        self.sweep_if_due();
        self.rollouts.insert(hash, Arc::new(rollout), &self.hasher)
    }

    /// The shared form of annotations.
    pub(crate) fn annotations(&mut self, annotations: Annotations) -> Arc<Annotations> {
        let hash = self.hash(|state| annotations.hash(state));
        if let Some(found) = self.annotations.find(hash, |have| *have == annotations) {
            return found;
        }
        self.sweep_if_due();
        self.annotations.insert(hash, Arc::new(annotations), &self.hasher)
    }

    /// The shared form of a pod template: one for all versions of an object that only its status tells apart.
    pub(crate) fn template(&mut self, template: &RawValue) -> Arc<Template> {
        let hash = self.hash(|state| template.get().hash(state));
        if let Some(found) = self.templates.find(hash, |have| have.raw().get() == template.get()) {
            return found;
        }
        self.sweep_if_due();
        self.templates.insert(hash, Arc::new(Template::new(template.to_owned())), &self.hasher)
    }

    /// How much it holds, garbage included.
    pub fn interned(&self) -> Interned {
        Interned {
            strings: self.strings.0.len(),
            shapes: self.shapes.0.len(),
            label_sets: self.label_sets.0.len(),
            owners: self.owners.0.len(),
            claims: self.claims.0.len(),
            claim_owners: self.claim_owners.0.len(),
            rollouts: self.rollouts.0.len(),
            annotations: self.annotations.0.len(),
            templates: self.templates.0.len(),
        }
    }

    /// The shared form of the keys of sorted pairs.
    pub(crate) fn keys(&mut self, pairs: &[(&str, &str)]) -> Keys {
        let keys = pairs.iter().map(|(key, _)| *key);
        let hash = self.hash(|state| hash_keys(keys.clone(), state));
        if let Some(found) = self.shapes.find(hash, |have| have.iter().map(|key| &**key).eq(keys.clone())) {
            return found;
        }
        self.sweep_if_due();
        let shape = keys.map(|key| self.string(key)).collect();
        self.shapes.insert(hash, shape, &self.hasher)
    }

    fn hash(&self, parts: impl FnOnce(&mut <DefaultHashBuilder as BuildHasher>::Hasher)) -> u64 {
        let mut state = self.hasher.build_hasher();
        parts(&mut state);
        state.finish()
    }

    /// All tables at once, because one holds on to the entries of another; counted together, because a small one
    /// that changes often must not make a large one be looked through each time.
    fn sweep_if_due(&mut self) {
        if self.interned().total() < self.sweep_at.max(SMALL) {
            return;
        }
        self.label_sets.sweep(&self.hasher);
        self.owners.sweep(&self.hasher);
        self.claims.sweep(&self.hasher);
        self.claim_owners.sweep(&self.hasher);
        self.rollouts.sweep(&self.hasher);
        self.annotations.sweep(&self.hasher);
        self.templates.sweep(&self.hasher);
        self.shapes.sweep(&self.hasher);
        self.strings.sweep(&self.hasher);
        let live = self.interned().total();
        self.sweep_at = live + live / 8 + SMALL;
    }
}

// === impl Interned ===

impl Interned {
    /// All entries.
    pub fn total(self) -> usize {
        let shared = self.strings + self.shapes + self.label_sets + self.owners + self.claims + self.claim_owners;
        shared + self.rollouts + self.annotations + self.templates
    }
}

// === impl Table ===

impl<T: ?Sized + Entry> Table<T> {
    fn find(&self, hash: u64, mut is: impl FnMut(&T) -> bool) -> Option<Arc<T>> {
        self.0.find(hash, |have| is(have)).cloned()
    }

    fn insert(&mut self, hash: u64, entry: Arc<T>, hasher: &DefaultHashBuilder) -> Arc<T> {
        self.0.insert_unique(hash, Arc::clone(&entry), |have| hash_entry(&**have, hasher));
        entry
    }

    /// Drops what only this table holds, and the room it needed.
    fn sweep(&mut self, hasher: &DefaultHashBuilder) {
        self.0.retain(|entry| Arc::strong_count(entry) > 1);
        let live = self.0.len();
        self.0.shrink_to(live + live / 4, |have| hash_entry(&**have, hasher));
    }
}

impl<T: ?Sized> Default for Table<T> {
    fn default() -> Self {
        Self(HashTable::new())
    }
}

// === impl Entry ===

impl Entry for str {
    fn hash_parts(&self, state: &mut impl Hasher) {
        self.hash(state);
    }
}

impl Entry for [Arc<str>] {
    fn hash_parts(&self, state: &mut impl Hasher) {
        hash_keys(self.iter().map(|key| &**key), state);
    }
}

impl Entry for LabelSet {
    fn hash_parts(&self, state: &mut impl Hasher) {
        hash_pairs(self.iter(), state);
    }
}

impl Entry for OwnerRef {
    fn hash_parts(&self, state: &mut impl Hasher) {
        hash_owner(self.kind, &self.name, self.uid, state);
    }
}

impl Entry for [Claim] {
    fn hash_parts(&self, state: &mut impl Hasher) {
        hash_claims(self.iter().map(Claim::parts), state);
    }
}

impl Entry for [ClaimOwner] {
    fn hash_parts(&self, state: &mut impl Hasher) {
        hash_claim_owners(self.iter().map(ClaimOwner::parts), state);
    }
}

impl Entry for Rollout {
    fn hash_parts(&self, state: &mut impl Hasher) {
        self.hash(state);
    }
}

impl Entry for Annotations {
    fn hash_parts(&self, state: &mut impl Hasher) {
        self.hash(state);
    }
}

impl Entry for Template {
    fn hash_parts(&self, state: &mut impl Hasher) {
        self.raw().get().hash(state);
    }
}

// === impl ClaimOwner ===

/// A claim's owner, taken apart: API version, kind, name, UID and whether it controls.
type ClaimOwnerParts<'a> = (&'a str, &'a str, &'a str, Uid, bool);

impl ClaimOwner {
    fn parts(&self) -> ClaimOwnerParts<'_> {
        (&self.api_version, &self.kind, &self.name, self.uid, self.controller)
    }
}

// === impl Claim ===

impl Claim {
    /// The volume, and the claim if it is not the conventional one.
    fn parts(&self) -> (&str, Option<&str>) {
        match self {
            Self::Conventional(volume) => (volume, None),
            Self::Literal { volume, claim } => (volume, Some(claim)),
        }
    }
}

/// Whether the claim is named as the `StatefulSet` controller names it (upstream `pkg/controller/statefulset/stateful_set_utils.go`
/// `getPersistentVolumeClaimName`).
fn is_conventional(volume: &str, claim: &str, pod: &str) -> bool {
    claim.strip_prefix(volume).and_then(|rest| rest.strip_prefix('-')) == Some(pod)
}

fn hash_entry<T: ?Sized + Entry>(entry: &T, hasher: &DefaultHashBuilder) -> u64 {
    let mut state = hasher.build_hasher();
    entry.hash_parts(&mut state);
    state.finish()
}

fn hash_keys<'a>(keys: impl Iterator<Item = &'a str>, state: &mut impl Hasher) {
    keys.for_each(|key| key.hash(state));
}

fn hash_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, state: &mut impl Hasher) {
    pairs.for_each(|pair| pair.hash(state));
}

fn hash_owner(kind: OwnerKind, name: &str, uid: Uid, state: &mut impl Hasher) {
    (kind, name, uid).hash(state);
}

fn hash_claims<'a>(claims: impl Iterator<Item = (&'a str, Option<&'a str>)>, state: &mut impl Hasher) {
    claims.for_each(|claim| claim.hash(state));
}

fn hash_claim_owners<'a>(owners: impl Iterator<Item = ClaimOwnerParts<'a>>, state: &mut impl Hasher) {
    owners.for_each(|owner| owner.hash(state));
}
