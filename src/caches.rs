//! One cache for each resource, shared by all controllers: its store, and the source that fills it.

use std::pin::Pin;

use machinery::guard::Guarded;
use machinery::source::{ApiTransport, Source, SourceHandle};
use machinery::store::{Store, StoreWriter};
use model::plan::Resource;
use model::{Decode, Object};

/// A cache that is not filled yet: whoever wants to hear of its changes has to say so before that.
pub(crate) struct Cache<D: Decode> {
    /// What it holds.
    pub(crate) resource: &'static Resource,
    /// What its readers see.
    pub(crate) store: Store<D::Object>,
    /// Where its source writes.
    pub(crate) writer: StoreWriter<D::Object>,
    /// What fills it.
    pub(crate) source: Source<D, ApiTransport>,
}

/// What is waited for before any controller works.
pub(crate) struct Filling {
    /// What it holds.
    pub(crate) resource: &'static Resource,
    /// How its source is doing.
    pub(crate) source: SourceHandle,
    /// What is filled.
    pub(crate) store: Box<dyn Filled>,
    /// Whether its objects are handed out again from time to time.
    pub(crate) resync: bool,
}

/// A store, whatever its objects are.
pub(crate) trait Filled: Send + Sync {
    /// How many objects it has.
    fn len(&self) -> usize;
    /// Waits until a list has been complete.
    fn synced(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// Hands every object out again.
    fn resync(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

// === impl Cache ===

impl<D: Decode> Cache<D> {
    /// As a guard sees it.
    pub(crate) fn guarded(&self) -> Guarded {
        Guarded { resource: self.resource, reached: self.store.subscribe(), source: self.source.handle() }
    }
}

// === impl Filled ===

impl<O: Object> Filled for Store<O> {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn synced(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Self::synced(self))
    }

    fn resync(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(Self::resync(self))
    }
}
