//! The writing half of a store.

use std::fmt;
use std::sync::Arc;

use model::{Object, ResourceVersion};

use super::index::Applied;
use super::{Change, Handler, Reached, Shared};
use crate::source::{Sink, SourceEvent};

/// Takes a source's events into the store. There is one for each store.
pub struct StoreWriter<O> {
    shared: Arc<Shared<O>>,
    /// Objects of the list under way that are older than what is there. A single older object never replaces a newer one; a complete
    /// list does, since the source has made sure that it wants a list this old, and then the newer versions are of a history
    /// that the server has lost.
    older: Vec<Arc<O>>,
    /// A list is under way: until it is complete, deletes that happened before it may still be missing.
    listing: bool,
}

// === impl StoreWriter ===

impl<O: Object> StoreWriter<O> {
    pub(super) fn new(shared: Arc<Shared<O>>) -> Self {
        Self { shared, older: Vec::new(), listing: false }
    }

    fn restarted(&mut self) {
        self.older.clear();
        self.listing = true;
        self.shared.index.write().clear_listed();
    }

    fn listed(&mut self, object: &Arc<O>) {
        let initial = !self.shared.reached.borrow().synced;
        if self.shared.put(object, initial, Put::Listed) {
            self.older.push(Arc::clone(object));
        }
    }

    fn synced(&mut self, version: ResourceVersion) {
        self.listing = false;
        let before = *self.shared.reached.borrow();
        let older = std::mem::take(&mut self.older);
        let rewound = version.is_known() && (version < before.version || !older.is_empty());
        if rewound {
            tracing::warn!(version = version.0, reached = before.version.0, "a complete list is older than the store: following it");
            // Before the handlers hear of anything: a key that they wake must not be synced from stores of two different pasts.
            self.shared.reached.send_modify(|reached| {
                reached.rewinds += 1;
                reached.rewinding = true;
            });
            for object in &older {
                self.shared.put(object, false, Put::Forced);
            }
        }
        self.shared.sweep();
        self.shared.reached.send_if_modified(|reached| {
            let version = if version.is_known() { version } else { reached.version };
            let after = Reached { version, synced: true, lists: reached.lists + 1, rewinding: false, rewinds: reached.rewinds };
            std::mem::replace(reached, after) != after
        });
    }

    fn applied(&mut self, object: &Arc<O>) {
        self.shared.put(object, false, Put::Applied);
        self.shared.announce(object.resource_version());
    }

    fn deleted(&mut self, last: &Arc<O>) {
        self.shared.take(last);
        if !self.listing {
            self.shared.announce(last.resource_version());
        }
    }
}

impl<O: Object> Sink<O> for StoreWriter<O> {
    fn apply(&mut self, event: SourceEvent<O>) {
        match event {
            SourceEvent::Restarted => self.restarted(),
            SourceEvent::Listed(object) => self.listed(&Arc::new(object)),
            SourceEvent::Synced(version) => self.synced(version),
            SourceEvent::Applied(object) => self.applied(&Arc::new(object)),
            SourceEvent::Deleted(last) => self.deleted(&Arc::new(last)),
            SourceEvent::Bookmark(version) => self.shared.announce(version),
        }
    }
}

impl<O> fmt::Debug for StoreWriter<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreWriter").finish_non_exhaustive()
    }
}

/// Where an object comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Put {
    Listed,
    Applied,
    /// From a complete list: an older version wins.
    Forced,
}

// === impl Shared ===

impl<O: Object> Shared<O> {
    /// Puts an object in and tells the handlers. Whether it is older than what is there, which then stays.
    fn put(&self, object: &Arc<O>, initial: bool, put: Put) -> bool {
        let handlers = self.handlers.lock();
        let applied = {
            let mut index = self.index.write();
            let applied = index.apply(object, put == Put::Forced);
            index.mark_listed(object);
            applied
        };
        match applied {
            Applied::Added => tell(&handlers, Change::Added { new: object, initial }),
            Applied::Updated(old) => tell(&handlers, Change::Updated { old: &old, new: object }),
            Applied::Replaced(replaced) => {
                for last in &replaced {
                    tell(&handlers, Change::Deleted { last, observed: false });
                }
                tell(&handlers, Change::Added { new: object, initial });
            }
            Applied::Same => {}
            Applied::Older => return true,
        }
        false
    }

    /// Removes an object that the watch saw go.
    fn take(&self, last: &Arc<O>) {
        let handlers = self.handlers.lock();
        let removed = self.index.write().remove_object(last);
        if removed.is_some() {
            tell(&handlers, Change::Deleted { last, observed: true });
        }
    }

    /// Removes what the list did not have, page by page.
    fn sweep(&self) {
        let pages = self.index.read().pages();
        for page in 0..pages {
            let handlers = self.handlers.lock();
            let gone = self.index.write().sweep(page);
            for last in &gone {
                tell(&handlers, Change::Deleted { last, observed: false });
            }
        }
    }

    /// Says that everything up to this version has been handled. Versions only grow here; a list may say otherwise.
    fn announce(&self, version: ResourceVersion) {
        self.reached.send_if_modified(|reached| {
            let further = version > reached.version;
            if further {
                reached.version = version;
            }
            further
        });
    }
}

fn tell<O>(handlers: &[Arc<dyn Handler<O>>], change: Change<'_, O>) {
    for handler in handlers {
        handler.on_change(change);
    }
}
