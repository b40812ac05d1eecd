//! One cache for each resource, shared by all controllers: its store, and the source that fills it.

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
    /// Ends when a list has been complete.
    pub(crate) synced: std::pin::Pin<Box<dyn Future<Output = usize> + Send>>,
}

// === impl Cache ===

impl<D: Decode> Cache<D> {
    /// As a guard sees it.
    pub(crate) fn guarded(&self) -> Guarded {
        Guarded { resource: self.resource, reached: self.store.subscribe(), source: self.source.handle() }
    }
}

// === impl Filling ===

impl Filling {
    pub(crate) fn of<O: Object>(resource: &'static Resource, store: Store<O>, source: SourceHandle) -> Self {
        let synced = Box::pin(async move {
            store.synced().await;
            store.len()
        });
        Self { resource, source, synced }
    }
}
