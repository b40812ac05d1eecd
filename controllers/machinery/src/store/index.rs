//! The objects of one resource and everything they are looked up by. No lock, no handlers: the store adds those.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use model::{ControllerRef, Object, Uid};
use parking_lot::Mutex;

use super::slab::{Id, Ring, Slab};
use super::walk::{Walk, Walks};

/// Objects and indexes.
///
/// A table entry is the 4-byte id of a slot: its key is read from the object in the slot, so no key is stored twice. Objects of a
/// namespace and of a group are rings through the slots, and the table holds the first of each ring.
pub(super) struct Index<O> {
    slab: Slab<O>,
    by_uid: HashTable<Id>,
    by_name: HashTable<Id>,
    namespaces: HashTable<Id>,
    groups: HashTable<Id>,
    hasher: DefaultHashBuilder,
    /// Behind a lock of its own: whoever walks holds the index for reading only.
    walks: Mutex<Walks>,
}

/// The objects that share a controlling owner, or that share a namespace and have none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Group<'a> {
    /// Controlled by the owner of that UID.
    Owner(Uid),
    /// Controlled by nobody, in that namespace.
    Orphans(&'a str),
}

/// Which table.
#[derive(Clone, Copy)]
enum Table {
    Uid,
    Name,
    Namespaces,
    Groups,
}

/// What became of an object handed to [`Index::apply`].
pub(super) enum Applied<O> {
    /// There was none of that name.
    Added,
    /// It replaced this version of the same object.
    Updated(Arc<O>),
    /// It replaced other objects of the same name or UID.
    Replaced(Vec<Arc<O>>),
    /// This version is there already.
    Same,
    /// What is there is newer, and stays.
    Older,
}

// === impl Index ===

impl<O: Object> Index<O> {
    pub(super) fn new() -> Self {
        Self {
            slab: Slab::new(),
            by_uid: HashTable::new(),
            by_name: HashTable::new(),
            namespaces: HashTable::new(),
            groups: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            walks: Mutex::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(super) fn by_name(&self, namespace: &str, name: &str) -> Option<&Arc<O>> {
        self.slab.get(self.id_by_name(namespace, name)?)
    }

    pub(super) fn by_uid(&self, uid: Uid) -> Option<&Arc<O>> {
        self.slab.get(self.id_by_uid(uid)?)
    }

    pub(super) fn group(&self, group: Group<'_>) -> impl Iterator<Item = &Arc<O>> {
        self.slab.ring(self.first_in_group(group), Ring::Group)
    }

    /// How many pages [`Self::page`] knows.
    pub(super) fn pages(&self) -> usize {
        self.slab.pages()
    }

    /// A fixed part of all objects.
    pub(super) fn page(&self, page: usize) -> impl Iterator<Item = &Arc<O>> {
        self.slab.page_objects(page)
    }

    /// Puts an object in, unless what is there is as new or newer. `force` lets an older version win, too.
    pub(super) fn apply(&mut self, object: &Arc<O>, force: bool) -> Applied<O> {
        let named = self.id_by_name(object.namespace(), object.name());
        if let Some(id) = named
            && let Some(old) = self.slab.get(id).map(Arc::clone)
        {
            let (held, offered) = (old.resource_version(), object.resource_version());
            let comparable = held.is_known() && offered.is_known();
            if comparable && offered < held && !force {
                return Applied::Older;
            }
            if old.uid() == object.uid() {
                if comparable && offered == held {
                    return Applied::Same;
                }
                self.replace(id, &old, object);
                return Applied::Updated(old);
            }
        }
        let mut replaced = Vec::new();
        replaced.extend(named.and_then(|id| self.remove(id)));
        // No API server renames an object; were one to, a second entry for its UID would break the index.
        replaced.extend(self.id_by_uid(object.uid()).and_then(|id| self.remove(id)));
        self.insert(Arc::clone(object));
        if replaced.is_empty() { Applied::Added } else { Applied::Replaced(replaced) }
    }

    /// Removes the object of that name if it has that UID.
    pub(super) fn remove_object(&mut self, object: &O) -> Option<Arc<O>> {
        let id = self.id_by_name(object.namespace(), object.name())?;
        if self.slab.get(id)?.uid() != object.uid() {
            return None;
        }
        self.remove(id)
    }

    /// A list begins: no object has been listed.
    pub(super) fn clear_listed(&mut self) {
        self.slab.clear_listed();
    }

    /// The list has an object of that name.
    pub(super) fn mark_listed(&mut self, object: &O) {
        if let Some(id) = self.id_by_name(object.namespace(), object.name()) {
            self.slab.set_listed(id, true);
        }
    }

    /// Removes the objects of a page that the list did not have.
    pub(super) fn sweep(&mut self, page: usize) -> Vec<Arc<O>> {
        self.slab.page_unlisted(page).into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Begins a walk over the objects of a namespace; [`Self::end_walk`] must follow.
    pub(super) fn begin_walk(&self, namespace: &str) -> usize {
        let walk = self
            .first_in_namespace(namespace)
            .map_or(Walk::Done, |next| Walk::At { next, last: self.slab.previous(next, Ring::Namespace) });
        self.walks.lock().begin(walk)
    }

    /// The next objects of a walk; none at its end.
    pub(super) fn walk_on(&self, number: usize, count: usize) -> Vec<Arc<O>> {
        let mut walks = self.walks.lock();
        let ids = std::iter::from_fn(|| walks.step(number, |id| self.slab.next(id, Ring::Namespace)));
        ids.take(count).filter_map(|id| self.slab.get(id).map(Arc::clone)).collect()
    }

    /// Ends a walk.
    pub(super) fn end_walk(&self, number: usize) {
        self.walks.lock().end(number);
    }

    fn id_by_name(&self, namespace: &str, name: &str) -> Option<Id> {
        let hash = self.hasher.hash_one((namespace, name));
        let same = |object: &Arc<O>| object.name() == name && &**object.namespace() == namespace;
        self.by_name.find(hash, |id| self.slab.get(*id).is_some_and(same)).copied()
    }

    fn id_by_uid(&self, uid: Uid) -> Option<Id> {
        let hash = self.hasher.hash_one(uid);
        self.by_uid.find(hash, |id| self.slab.get(*id).is_some_and(|object| object.uid() == uid)).copied()
    }

    fn first_in_namespace(&self, namespace: &str) -> Option<Id> {
        let hash = self.hasher.hash_one(namespace);
        self.namespaces.find(hash, |id| self.slab.get(*id).is_some_and(|object| &**object.namespace() == namespace)).copied()
    }

    fn insert(&mut self, object: Arc<O>) {
        let id = self.slab.insert(object);
        for table in [Table::Uid, Table::Name] {
            self.enter(table, id);
        }
        self.join(id, Table::Namespaces, Ring::Namespace);
        self.join(id, Table::Groups, Ring::Group);
    }

    fn replace(&mut self, id: Id, old: &O, new: &Arc<O>) {
        let regroup = group_of(old) != group_of(&**new);
        if regroup {
            self.leave(id, Table::Groups, Ring::Group);
        }
        self.slab.replace(id, Arc::clone(new));
        if regroup {
            self.join(id, Table::Groups, Ring::Group);
        }
    }

    fn remove(&mut self, id: Id) -> Option<Arc<O>> {
        self.walks.get_mut().remove(id, self.slab.previous(id, Ring::Namespace), self.slab.next(id, Ring::Namespace));
        self.leave(id, Table::Namespaces, Ring::Namespace);
        self.leave(id, Table::Groups, Ring::Group);
        for table in [Table::Uid, Table::Name] {
            self.erase(table, id);
        }
        self.slab.remove(id)
    }

    /// Puts the slot into its ring: as the last, or as the first of a new one.
    fn join(&mut self, id: Id, table: Table, ring: Ring) {
        let Some(object) = self.slab.get(id) else { return };
        let first = match table {
            Table::Namespaces => self.first_in_namespace(object.namespace()),
            _ => match group_of(&**object) {
                Some(group) => self.first_in_group(group),
                None => return,
            },
        };
        match first {
            Some(first) => self.slab.join(id, ring, first),
            None => self.enter(table, id),
        }
    }

    /// Takes the slot out of its ring, which may end the ring or give it another first.
    fn leave(&mut self, id: Id, table: Table, ring: Ring) {
        let next = self.slab.next(id, ring);
        if next == id {
            self.erase(table, id);
            return;
        }
        if let Some(hash) = self.hash(table, id)
            && let Some(first) = self.table_mut(table).find_mut(hash, |entry| *entry == id)
        {
            *first = next;
        }
        self.slab.leave(id, ring);
    }

    fn first_in_group(&self, group: Group<'_>) -> Option<Id> {
        let hash = self.hasher.hash_one(group);
        self.groups.find(hash, |id| self.slab.get(*id).is_some_and(|object| group_of(&**object) == Some(group))).copied()
    }

    fn enter(&mut self, table: Table, id: Id) {
        let Some(hash) = self.hash(table, id) else { return };
        let Self { slab, hasher, by_uid, by_name, namespaces, groups, .. } = self;
        let entries = match table {
            Table::Uid => by_uid,
            Table::Name => by_name,
            Table::Namespaces => namespaces,
            Table::Groups => groups,
        };
        entries.insert_unique(hash, id, |id| slab.get(*id).and_then(|object| hash_of(hasher, table, &**object)).unwrap_or(0));
    }

    fn erase(&mut self, table: Table, id: Id) {
        let Some(hash) = self.hash(table, id) else { return };
        if let Ok(entry) = self.table_mut(table).find_entry(hash, |entry| *entry == id) {
            entry.remove();
        }
    }

    fn hash(&self, table: Table, id: Id) -> Option<u64> {
        hash_of(&self.hasher, table, &**self.slab.get(id)?)
    }

    fn table_mut(&mut self, table: Table) -> &mut HashTable<Id> {
        match table {
            Table::Uid => &mut self.by_uid,
            Table::Name => &mut self.by_name,
            Table::Namespaces => &mut self.namespaces,
            Table::Groups => &mut self.groups,
        }
    }
}

/// The group an object is in: none if a foreign controller has it, or an owner that cannot exist.
pub(super) fn group_of<O: Object>(object: &O) -> Option<Group<'_>> {
    match object.controller() {
        ControllerRef::None => Some(Group::Orphans(object.namespace())),
        ControllerRef::Owner(owner) if owner.uid != Uid::NONE => Some(Group::Owner(owner.uid)),
        ControllerRef::Owner(_) | ControllerRef::Foreign => None,
    }
}

fn hash_of<O: Object>(hasher: &DefaultHashBuilder, table: Table, object: &O) -> Option<u64> {
    match table {
        Table::Uid => Some(hasher.hash_one(object.uid())),
        Table::Name => Some(hasher.hash_one((&**object.namespace(), object.name()))),
        Table::Namespaces => Some(hasher.hash_one(&**object.namespace())),
        Table::Groups => group_of(object).map(|group| hasher.hash_one(group)),
    }
}
