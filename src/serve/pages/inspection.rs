//! `/debug/stores`, `/debug/queues`, `/debug/expectations`: what the process has in its memory, as JSON. Read only, and small whatever
//! the size of the cluster.

use std::sync::Arc;
use std::time::Duration;

use machinery::expectations::Expectations;
use machinery::queue::WorkQueue;
use machinery::source::SourceHandle;
use machinery::store::Store;
use model::{Object, ObjectKey};
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Listed, Pages};
use crate::serve::answer;

/// Keys and records on a page; the rest is only counted.
const SHOWN: usize = 50;

/// Tells about one thing, on its page.
struct Look {
    page: &'static str,
    name: &'static str,
    tell: Box<dyn Fn() -> Value + Send + Sync>,
}

/// What can be looked into. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Inspection(Arc<RwLock<Vec<Look>>>);

const STORES: &str = "/debug/stores";
const QUEUES: &str = "/debug/queues";
const EXPECTATIONS: &str = "/debug/expectations";

// === impl Inspection ===

impl Inspection {
    /// A cache, and what fills it.
    pub(crate) fn store<O: Object>(&self, resource: &'static str, store: Store<O>, source: SourceHandle) {
        self.add(STORES, resource, move || {
            let (reached, status) = (store.reached(), source.status());
            json!({
                "objects": store.len(),
                "resourceVersion": reached.version.to_string(),
                "synced": reached.synced,
                "completeLists": reached.lists,
                "rewinds": reached.rewinds,
                "source": {
                    "phase": format!("{:?}", status.phase),
                    "phaseSeconds": seconds(status.since),
                    "lists": status.lists,
                    "watches": status.watches,
                    "lastError": status.last_error.map(|error| error.to_string()),
                    "failingSeconds": status.failing_since.map(seconds),
                },
            })
        });
    }

    /// A controller's queue.
    pub(crate) fn queue(&self, controller: &'static str, queue: WorkQueue<ObjectKey>) {
        self.add(QUEUES, controller, move || {
            let snapshot = queue.snapshot(SHOWN);
            let keys = |keys: &[ObjectKey]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
            json!({
                "waiting": snapshot.waiting,
                "processing": snapshot.processing,
                "delayed": snapshot.delayed,
                "parked": snapshot.parked,
                "firstWaiting": keys(&snapshot.first_waiting),
                "inWork": keys(&snapshot.in_work),
                "firstParked": keys(&snapshot.first_parked),
            })
        });
    }

    /// What a controller waits to see of its own writes.
    pub(crate) fn expectations(&self, controller: &'static str, expectations: Arc<Expectations>) {
        self.add(EXPECTATIONS, controller, move || {
            let (count, first) = expectations.all_pending(SHOWN);
            let first = first.iter().map(|(key, pending)| {
                json!({
                    "key": key.to_string(),
                    "creations": pending.creations,
                    "deletions": pending.deletions,
                    "unknown": pending.unknown.iter().map(|write| write.name.to_string()).collect::<Vec<_>>(),
                    "seconds": seconds(pending.since),
                })
            });
            json!({"pending": count, "first": first.collect::<Vec<_>>()})
        });
    }

    /// Adds the pages.
    pub(crate) fn install(&self, pages: &Pages) {
        for page in [STORES, QUEUES, EXPECTATIONS] {
            let looks = self.clone();
            pages.add(page, Listed::No, move |_| answer::json_page(&looks.show(page)));
        }
    }

    fn add(&self, page: &'static str, name: &'static str, tell: impl Fn() -> Value + Send + Sync + 'static) {
        self.0.write().push(Look { page, name, tell: Box::new(tell) });
    }

    fn show(&self, page: &str) -> Value {
        let looks = self.0.read();
        looks.iter().filter(|look| look.page == page).map(|look| (look.name.to_owned(), (look.tell)())).collect()
    }
}

fn seconds(since: Instant) -> u64 {
    Instant::now().checked_duration_since(since).unwrap_or(Duration::ZERO).as_secs()
}
