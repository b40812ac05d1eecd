//! The cache of one resource: what its source has seen, indexed, with handlers that hear of every change.
//!
//! One [`StoreWriter`] is fed by the source, in the source's task. For each event the object becomes visible in the store first, then the
//! handlers run, then the version is announced ([`Store::resource_version`], [`Store::wait_for`]): whoever wakes up because a
//! version is reached finds expectations lowered and keys queued. (Upstream moves the version before the handlers run.)
//!
//! A relist is told apart from what is there by a mark in each slot, in place. Until it is complete the old content is served.

mod index;
mod slab;
mod walk;
mod writer;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use model::{Object, ObjectKey, ResourceVersion, Uid};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use index::{Group, Index};
pub use writer::StoreWriter;

/// How many objects a walk over a namespace takes out at a time, to keep its hold on the lock short.
const STEP: usize = 256;

/// Read access to the objects of one resource; cheap to clone.
pub struct Store<O>(Arc<Shared<O>>);

/// What readers and the writer share.
struct Shared<O> {
    index: RwLock<Index<O>>,
    /// Held while handlers run, so that changes and resyncs reach them one after the other, in the order of the store.
    handlers: Mutex<Vec<Arc<dyn Handler<O>>>>,
    reached: watch::Sender<Reached>,
}

/// How far a store has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reached {
    /// Every event up to this version is in the store and has been handled.
    pub version: ResourceVersion,
    /// A list has been complete at least once.
    pub synced: bool,
    /// How many lists have been complete.
    pub lists: u64,
    /// Such an older list is being taken in: what the store shows is of two pasts at once.
    pub rewinding: bool,
    /// How often a complete list was older than what was there already: the server's data was restored from a backup, and what was
    /// remembered about versions is void.
    pub rewinds: u64,
}

/// Hears of every change, in the source's task: it must be quick and must not block.
pub trait Handler<O>: Send + Sync {
    /// The store has changed, and already shows it.
    fn on_change(&self, change: Change<'_, O>);
}

/// What happened to an object. One that was replaced by another of the same name (or of the same UID) is a
/// [`Change::Deleted`] of the old and a [`Change::Added`] of the new.
#[derive(Debug)]
pub enum Change<'a, O> {
    /// It is new.
    Added {
        /// The object.
        new: &'a Arc<O>,
        /// It comes from the first list.
        initial: bool,
    },
    /// It has another version.
    Updated {
        /// The version before.
        old: &'a Arc<O>,
        /// The version now.
        new: &'a Arc<O>,
    },
    /// It is gone.
    Deleted {
        /// Its last state as far as it is known.
        last: &'a Arc<O>,
        /// The watch saw it go, so that `last` is the very last state. Otherwise a list did not have it, or another object has its name.
        observed: bool,
    },
    /// Nothing happened; time to look again.
    Resync {
        /// The object.
        object: &'a Arc<O>,
    },
}

/// A new, empty store and its only writer.
pub fn store<O: Object>() -> (Store<O>, StoreWriter<O>) {
    let shared =
        Arc::new(Shared { index: RwLock::new(Index::new()), handlers: Mutex::default(), reached: watch::Sender::new(Reached::default()) });
    (Store(Arc::clone(&shared)), StoreWriter::new(shared))
}

// === impl Store ===

impl<O: Object> Store<O> {
    /// Adds a handler. It hears of changes from now on: add all of them before the source starts.
    pub fn add_handler(&self, handler: Arc<dyn Handler<O>>) {
        self.0.handlers.lock().push(handler);
    }

    /// The object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<O>> {
        self.get_by_name(&key.namespace, &key.name)
    }

    /// The object of that namespace and name.
    pub fn get_by_name(&self, namespace: &str, name: &str) -> Option<Arc<O>> {
        self.0.index.read().by_name(namespace, name).cloned()
    }

    /// The object of that UID.
    pub fn get_by_uid(&self, uid: Uid) -> Option<Arc<O>> {
        self.0.index.read().by_uid(uid).cloned()
    }

    /// The objects whose controller has that UID, in the order in which they came under it.
    pub fn controlled_by(&self, owner: Uid) -> Vec<Arc<O>> {
        self.0.index.read().group(Group::Owner(owner)).cloned().collect()
    }

    /// The objects of a namespace that have no controller.
    pub fn orphans(&self, namespace: &str) -> Vec<Arc<O>> {
        self.0.index.read().group(Group::Orphans(namespace)).cloned().collect()
    }

    /// [`Self::controlled_by`] and [`Self::orphans`] at the same moment: between two calls an orphan could be adopted and be in neither.
    pub fn claimable(&self, owner: Uid, namespace: &str) -> Vec<Arc<O>> {
        let index = self.0.index.read();
        index.group(Group::Owner(owner)).chain(index.group(Group::Orphans(namespace))).cloned().collect()
    }

    /// All objects of a namespace. Not a snapshot, see [`Self::for_each_in_namespace`].
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<O>> {
        let mut all = Vec::new();
        self.for_each_in_namespace(namespace, |object| all.push(Arc::clone(object)));
        all
    }

    /// Calls `each` for all objects of a namespace, without holding the lock for long. An object that is there all the time is seen
    /// once; one that comes or goes meanwhile may be seen or not.
    pub fn for_each_in_namespace(&self, namespace: &str, mut each: impl FnMut(&Arc<O>)) {
        let walk = WalkGuard { number: self.0.index.read().begin_walk(namespace), shared: &self.0 };
        loop {
            let found = self.0.index.read().walk_on(walk.number, STEP);
            if found.is_empty() {
                return;
            }
            found.iter().for_each(&mut each);
        }
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.index.read().len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands every object to the handlers again, a few at a time so that the source is not held up.
    pub async fn resync(&self) {
        let pages = self.0.index.read().pages();
        for page in 0..pages {
            self.0.resync_page(page);
            tokio::task::yield_now().await;
        }
    }

    /// Whether a list has been complete.
    pub fn has_synced(&self) -> bool {
        self.0.reached.borrow().synced
    }

    /// Waits until a list has been complete.
    pub async fn synced(&self) {
        self.wait(|reached| reached.synced).await;
    }

    /// The version that has been reached, handlers included.
    pub fn resource_version(&self) -> ResourceVersion {
        self.reached().version
    }

    /// How far the store has come.
    pub fn reached(&self) -> Reached {
        *self.0.reached.borrow()
    }

    /// Waits until a version has been reached, or until a rewind makes that meaningless. An unknown version is reached at once.
    pub async fn wait_for(&self, version: ResourceVersion) -> Reached {
        let before = self.reached().rewinds;
        self.wait(|reached| reached.version >= version || reached.rewinds != before).await
    }

    /// Follows how far the store has come.
    pub fn subscribe(&self) -> watch::Receiver<Reached> {
        self.0.reached.subscribe()
    }

    async fn wait(&self, until: impl FnMut(&Reached) -> bool) -> Reached {
        let mut reached = self.0.reached.subscribe();
        // The sender lives as long as this store: the error that says it is gone cannot occur while `self` is borrowed.
        let result = reached.wait_for(until).await.map(|reached| *reached);
        result.unwrap_or_else(|_| self.reached())
    }
}

impl<O> Clone for Store<O> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<O> fmt::Debug for Store<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("reached", &*self.0.reached.borrow()).finish_non_exhaustive()
    }
}

// === impl Shared ===

impl<O: Object> Shared<O> {
    /// Hands one page to the handlers. Their lock is taken first: no change can come between reading an object and handing it on.
    fn resync_page(&self, page: usize) {
        let handlers = self.handlers.lock();
        let objects: Vec<Arc<O>> = self.index.read().page(page).cloned().collect();
        for object in &objects {
            for handler in &*handlers {
                handler.on_change(Change::Resync { object });
            }
        }
    }
}

/// Ends its walk however it is left.
struct WalkGuard<'a, O: Object> {
    number: usize,
    shared: &'a Shared<O>,
}

// === impl WalkGuard ===

impl<O: Object> Drop for WalkGuard<'_, O> {
    fn drop(&mut self) {
        self.shared.index.read().end_walk(self.number);
    }
}

// === impl Change ===

impl<O> Clone for Change<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Change<'_, O> {}

impl<'a, O> Change<'a, O> {
    /// The object as it is now, or was last.
    pub fn object(&self) -> &'a Arc<O> {
        match *self {
            Self::Added { new, .. } | Self::Updated { new, .. } => new,
            Self::Deleted { last, .. } => last,
            Self::Resync { object } => object,
        }
    }
}
