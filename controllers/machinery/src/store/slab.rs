//! Slots for objects, named by 4-byte ids, in pages that are never moved: growing copies nothing and wastes at most one page.

use std::sync::Arc;

/// A slot's name.
pub(super) type Id = u32;

/// No slot.
const NOBODY: Id = Id::MAX;
/// Slots in a page: small enough that a store of few objects is small, large enough that the page list is.
const PAGE: usize = 256;
const WORDS: usize = PAGE / 64;

/// The slots.
pub(super) struct Slab<O> {
    pages: Vec<Box<Page<O>>>,
    /// The first free slot; the next ones hang on its namespace ring.
    free: Id,
    len: usize,
}

/// The parts of a slot stand apart from each other: a slot of its own would be padded from 25 to 32 bytes.
struct Page<O> {
    objects: [Option<Arc<O>>; PAGE],
    links: [Links; PAGE],
    /// One bit a slot: the list under way has it.
    listed: [u64; WORDS],
}

/// A slot's neighbours in both rings that it is a member of.
#[derive(Clone, Copy)]
struct Links {
    namespace: Link,
    group: Link,
}

/// Neighbours in one ring; the last one's next is the first.
#[derive(Clone, Copy)]
struct Link {
    previous: Id,
    next: Id,
}

/// The two rings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ring {
    /// All objects of a namespace.
    Namespace,
    /// All objects of one owner, or all orphans of a namespace.
    Group,
}

// === impl Slab ===

impl<O> Slab<O> {
    pub(super) fn new() -> Self {
        Self { pages: Vec::new(), free: NOBODY, len: 0 }
    }

    /// How many objects there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, id: Id) -> Option<&Arc<O>> {
        self.page(id)?.objects.get(offset(id))?.as_ref()
    }

    /// Puts an object into a free slot, alone in both rings.
    pub(super) fn insert(&mut self, object: Arc<O>) -> Id {
        if self.free == NOBODY {
            self.grow();
        }
        let id = self.free;
        self.free = self.link(id, Ring::Namespace).next;
        self.len += 1;
        self.set_link(id, Ring::Namespace, Link { previous: id, next: id });
        self.set_link(id, Ring::Group, Link { previous: id, next: id });
        self.set_listed(id, false);
        if let Some(slot) = self.object_mut(id) {
            *slot = Some(object);
        }
        id
    }

    /// Puts another object into the slot. What the rings mean for it is the caller's business.
    pub(super) fn replace(&mut self, id: Id, object: Arc<O>) -> Option<Arc<O>> {
        self.object_mut(id)?.replace(object)
    }

    /// Frees the slot, which must have left both rings.
    pub(super) fn remove(&mut self, id: Id) -> Option<Arc<O>> {
        let object = self.object_mut(id)?.take()?;
        let free = self.free;
        self.set_link(id, Ring::Namespace, Link { previous: NOBODY, next: free });
        self.free = id;
        self.len -= 1;
        Some(object)
    }

    /// The member behind this one.
    pub(super) fn next(&self, id: Id, ring: Ring) -> Id {
        self.link(id, ring).next
    }

    /// The member before this one.
    pub(super) fn previous(&self, id: Id, ring: Ring) -> Id {
        self.link(id, ring).previous
    }

    /// Makes a lone slot the last of the ring that begins with `first`.
    pub(super) fn join(&mut self, id: Id, ring: Ring, first: Id) {
        let last = self.link(first, ring).previous;
        self.set_link(id, ring, Link { previous: last, next: first });
        self.update_link(last, ring, |link| link.next = id);
        self.update_link(first, ring, |link| link.previous = id);
    }

    /// Takes the slot out of its ring; it is alone afterwards.
    pub(super) fn leave(&mut self, id: Id, ring: Ring) {
        let Link { previous, next } = self.link(id, ring);
        self.update_link(previous, ring, |link| link.next = next);
        self.update_link(next, ring, |link| link.previous = previous);
        self.set_link(id, ring, Link { previous: id, next: id });
    }

    /// The members of the ring that begins with `first`.
    pub(super) fn ring(&self, first: Option<Id>, ring: Ring) -> impl Iterator<Item = &Arc<O>> {
        let mut at = first;
        std::iter::from_fn(move || {
            let id = at?;
            let next = self.next(id, ring);
            at = (Some(next) != first).then_some(next);
            self.get(id)
        })
    }

    /// Forgets which objects the list under way has.
    pub(super) fn clear_listed(&mut self) {
        for page in &mut self.pages {
            page.listed = [0; WORDS];
        }
    }

    /// Notes whether the list under way has this object.
    pub(super) fn set_listed(&mut self, id: Id, listed: bool) {
        let (word, bit) = (offset(id) / 64, 1_u64 << (offset(id) % 64));
        if let Some(word) = self.page_mut(id).and_then(|page| page.listed.get_mut(word)) {
            *word = if listed { *word | bit } else { *word & !bit };
        }
    }

    /// How many pages there are.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The objects of one page.
    pub(super) fn page_objects(&self, page: usize) -> impl Iterator<Item = &Arc<O>> {
        self.pages.get(page).into_iter().flat_map(|page| page.objects.iter().flatten())
    }

    /// The slots of one page whose objects the list did not have.
    pub(super) fn page_unlisted(&self, page: usize) -> Vec<Id> {
        let Some(found) = self.pages.get(page) else { return Vec::new() };
        let listed = |at: usize| found.listed.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0);
        let occupied = found.objects.iter().enumerate().filter(|(_, object)| object.is_some());
        occupied.filter(|(at, _)| !listed(*at)).map(|(at, _)| (page * PAGE + at) as Id).collect()
    }

    fn grow(&mut self) {
        let first = (self.pages.len() * PAGE) as Id;
        let free = self.free;
        let alone = Link { previous: NOBODY, next: NOBODY };
        let mut page =
            Box::new(Page { objects: [const { None }; PAGE], links: [Links { namespace: alone, group: alone }; PAGE], listed: [0; WORDS] });
        for (id, links) in (first + 1..).zip(&mut page.links) {
            links.namespace.next = id;
        }
        if let Some(last) = page.links.last_mut() {
            last.namespace.next = free;
        }
        self.pages.push(page);
        self.free = first;
    }

    fn page(&self, id: Id) -> Option<&Page<O>> {
        self.pages.get(id as usize / PAGE).map(|page| &**page)
    }

    fn page_mut(&mut self, id: Id) -> Option<&mut Page<O>> {
        self.pages.get_mut(id as usize / PAGE).map(|page| &mut **page)
    }

    fn object_mut(&mut self, id: Id) -> Option<&mut Option<Arc<O>>> {
        self.page_mut(id)?.objects.get_mut(offset(id))
    }

    fn link(&self, id: Id, ring: Ring) -> Link {
        let links = self.page(id).and_then(|page| page.links.get(offset(id)));
        match ring {
            Ring::Namespace => links.map(|links| links.namespace),
            Ring::Group => links.map(|links| links.group),
        }
        .unwrap_or(Link { previous: NOBODY, next: NOBODY })
    }

    fn set_link(&mut self, id: Id, ring: Ring, to: Link) {
        self.update_link(id, ring, |link| *link = to);
    }

    fn update_link(&mut self, id: Id, ring: Ring, update: impl FnOnce(&mut Link)) {
        let Some(links) = self.page_mut(id).and_then(|page| page.links.get_mut(offset(id))) else { return };
        update(match ring {
            Ring::Namespace => &mut links.namespace,
            Ring::Group => &mut links.group,
        });
    }
}

fn offset(id: Id) -> usize {
    id as usize % PAGE
}
