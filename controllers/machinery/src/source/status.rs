//! What a source says about itself, and what it can be asked for while it runs.

use std::sync::Arc;
use std::time::Duration;

use model::ResourceVersion;
use model::plan::{ApiError, Resource};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::{info, warn};

use super::catch_up::Wishes;

/// What a source is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Reading everything.
    Listing,
    /// Following the watch.
    Watching,
    /// Waiting to try again.
    BackingOff,
}

/// How a source is. For health checks and `explain`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceStatus {
    /// What it is doing.
    pub phase: Phase,
    /// Since when.
    pub since: Instant,
    /// Whether a list was ever complete. It stays so while the source lists again.
    pub synced: bool,
    /// What keeps it from going on, if anything does.
    pub last_error: Option<ApiError>,
    /// Since when nothing but errors has come.
    pub failing_since: Option<Instant>,
    /// Lists begun, the first one included.
    pub lists: u64,
    /// Watches opened, streaming lists included.
    pub watches: u64,
    /// Which of the times that it was asked to catch up it has answered.
    caught_up: u64,
}

/// A running source, from outside.
#[derive(Clone, Debug)]
pub struct SourceHandle {
    pub(super) status: watch::Receiver<SourceStatus>,
    pub(super) relist: Arc<Notify>,
    pub(super) wishes: Arc<Wishes>,
}

/// The source's own side: keeps the status, and writes one log line a change.
#[derive(Debug)]
pub(super) struct Report {
    resource: &'static Resource,
    status: watch::Sender<SourceStatus>,
    /// Whether the status has an error: asked with every event.
    failing: bool,
}

// === impl SourceStatus ===

impl SourceStatus {
    pub(super) fn new(now: Instant) -> Self {
        Self { phase: Phase::Listing, since: now, synced: false, last_error: None, failing_since: None, lists: 0, watches: 0, caught_up: 0 }
    }
}

// === impl SourceHandle ===

impl SourceHandle {
    /// A handle of no source: what is asked of it arrives at `relist`.
    #[cfg(test)]
    pub(crate) fn for_test(relist: Arc<Notify>) -> Self {
        let (_, status) = watch::channel(SourceStatus::new(Instant::now()));
        Self { status, relist, wishes: Arc::default() }
    }

    /// How the source is now.
    pub fn status(&self) -> SourceStatus {
        self.status.borrow().clone()
    }

    /// Waits until a list has been complete; `false` if the source ends before that.
    pub async fn synced(&mut self) -> bool {
        self.status.wait_for(|status| status.synced).await.is_ok()
    }

    /// Asks for a consistent list: something that was written has not been seen. Asking twice before it begins is asking once.
    pub fn relist(&self) {
        self.relist.notify_one();
    }

    /// Asks the source to catch up: the future is `true` once the store shows everything that was in the storage at the time of this
    /// call, `false` if the source ends before that. `objects` says how many the store has about, which decides what is quicker.
    pub fn catch_up(&self, objects: usize) -> impl Future<Output = bool> + Send + use<> {
        let wish = self.wishes.ask(objects);
        let mut status = self.status.clone();
        async move { status.wait_for(|status| status.caught_up >= wish).await.is_ok() }
    }
}

// === impl Report ===

impl Report {
    pub(super) fn new(resource: &'static Resource, status: watch::Sender<SourceStatus>) -> Self {
        Self { resource, status, failing: false }
    }

    pub(super) fn phase(&self, phase: Phase) {
        self.status.send_if_modified(|status| {
            let changed = status.phase != phase;
            if changed {
                status.phase = phase;
                status.since = Instant::now();
            }
            changed
        });
    }

    pub(super) fn list_begun(&self) {
        self.phase(Phase::Listing);
        self.status.send_modify(|status| status.lists += 1);
    }

    pub(super) fn watch_opened(&self) {
        self.status.send_modify(|status| status.watches += 1);
    }

    pub(super) fn caught_up(&self) -> u64 {
        self.status.borrow().caught_up
    }

    pub(super) fn has_caught_up(&self, wish: u64) {
        self.status.send_modify(|status| status.caught_up = status.caught_up.max(wish));
    }

    pub(super) fn synced(&mut self, version: ResourceVersion) {
        info!(resource = self.resource.plural, group = self.resource.group, %version, "source has synced");
        self.status.send_modify(|status| status.synced = true);
        self.healthy();
    }

    /// Something good has come: the last error is history.
    pub(super) fn healthy(&mut self) {
        if !self.failing {
            return;
        }
        self.failing = false;
        info!(resource = self.resource.plural, group = self.resource.group, "source has recovered");
        self.status.send_modify(|status| {
            status.last_error = None;
            status.failing_since = None;
        });
    }

    /// Something has failed and is tried again. The same failure over and over is one line.
    pub(super) fn failed(&mut self, error: ApiError, retry_in: Duration) {
        self.failing = true;
        self.phase(Phase::BackingOff);
        self.status.send_modify(|status| {
            let news = status.last_error.as_ref().is_none_or(|last| (last.code, &last.reason) != (error.code, &error.reason));
            if news {
                warn!(
                    resource = self.resource.plural,
                    group = self.resource.group,
                    code = error.code,
                    reason = error.reason,
                    error = error.message,
                    ?retry_in,
                    "source has failed and tries again"
                );
            }
            status.failing_since.get_or_insert_with(Instant::now);
            status.last_error = Some(error);
        });
    }
}
