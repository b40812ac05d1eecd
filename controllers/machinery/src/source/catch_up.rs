//! Proving that everything up to now has been seen.
//!
//! A quiet watch cannot be told from a late one, except by its bookmarks, and they come once a minute. Whoever has just become leader
//! must not wait that long, nor act on what the leader before has changed since. A short list is simply read again. For a long one the
//! storage is asked for its version and the watch opened anew, for so short a time that the server's last bookmark (2 s before the end,
//! upstream `cacher/cache_watcher.go` `nextBookmarkTime`) comes at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::{Decode, ResourceVersion};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::debug;

use super::reflector::{After, Source, State};
use super::transport::{Freshness, Transport};

/// What is asked of a source: a number for each time, and how the last one is to be answered.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    asked: AtomicU64,
    /// The last of them that is to be answered by a list.
    to_list: AtomicU64,
    changed: Notify,
}

/// What is to be reached.
#[derive(Debug)]
pub(super) struct Goal {
    wish: u64,
    version: ResourceVersion,
    /// After that a list is more certain.
    pub(super) until: Instant,
}

/// A list of no more objects than this is read in less time than it takes the server to send a bookmark.
const SHORT_LIST: usize = 2000;
/// The shortest time for which a watch can be asked so that the server sends a bookmark.
pub(super) const SHORTEST_WATCH: Duration = Duration::from_secs(3);
/// How long a bookmark is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

// === impl Wishes ===

impl Wishes {
    /// Asks the source to catch up with what is in the storage from now on; its number.
    pub(super) fn ask(self: &Arc<Self>, objects: usize) -> u64 {
        let wish = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        if objects <= SHORT_LIST {
            self.to_list.store(wish, Ordering::SeqCst);
        }
        self.changed.notify_one();
        wish
    }

    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

// === impl Source ===

impl<D: Decode, T: Transport> Source<D, T> {
    /// Whether nothing is asked that has not been answered.
    pub(super) fn has_caught_up(&self) -> bool {
        self.report.caught_up() >= self.wishes.asked()
    }

    /// The watch was left to catch up.
    pub(super) async fn catch_up(&mut self) -> State<T::Chunks> {
        let wish = self.wishes.asked();
        if self.wishes.to_list.load(Ordering::SeqCst) == wish {
            self.wanted = Freshness::Consistent;
            return State::List;
        }
        match self.storage_version().await {
            Ok(Some(version)) if self.was_set_back(version) => State::List,
            Ok(Some(version)) => {
                debug!(resource = self.config.resource.plural, seen = %self.version, %version, "source catches up");
                self.goal = Some(Goal { wish, version, until: Instant::now() + PATIENCE });
                self.look_at_goal();
                State::Watch
            }
            Err(error) if error.code == 0 => self.wait(error, After::CatchUp),
            _ => {
                self.wanted = Freshness::Consistent;
                State::List
            }
        }
    }

    /// Says so if the goal is reached. The store must have what was seen already.
    pub(super) fn look_at_goal(&mut self) {
        if let Some(goal) = self.goal.take_if(|goal| goal.version <= self.version) {
            self.report.has_caught_up(goal.wish);
        }
    }

    /// A list has ended; `wish` is what was asked before it began, if it was consistent.
    pub(super) fn listed_for(&mut self, wish: Option<u64>) {
        if let Some(wish) = wish {
            self.goal = None;
            self.report.has_caught_up(wish);
        }
        self.look_at_goal();
    }

    /// Whether the bookmark has not come in time. Then the next list tells.
    pub(super) fn gives_up_goal(&mut self) -> bool {
        let late = self.goal.take_if(|goal| goal.until <= Instant::now()).is_some();
        if late {
            self.wanted = Freshness::Consistent;
        }
        late
    }
}
