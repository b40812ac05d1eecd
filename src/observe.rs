//! `--mode=observe`: the controllers look on, and tell what they see.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use machinery::observe::{Difference, Observe, Observer};
use machinery::sync::{Controller, Reconciler};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use crate::app::App;
use crate::explain::Witnesses;
use crate::options::Mode;
use crate::serve::answer;
use crate::serve::pages::{Listed, Pages};

/// Where it is told; there is no such page where a process works.
pub(crate) const PATH: &str = "/debug/observe";

/// Differences on the page; the rest is only counted.
const SHOWN: usize = 50;
/// Of each, what would be done; the rest is left out.
const STEPS: usize = 5;

/// A controller's workers, to be started.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The controllers that look on; none where a process works.
#[derive(Clone, Default)]
pub(crate) struct Observers(Vec<Arc<dyn Observe>>);

/// What has been observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Observed {
    /// What is called for so long, and done by nobody, is a difference.
    pub(crate) overdue_after_seconds: u64,
    /// Each controller's counts, by the resource it looks at.
    pub(crate) controllers: BTreeMap<String, ObservedTally>,
    /// The first of the differences, oldest first.
    pub(crate) differences: Vec<ObservedDifference>,
}

/// What one controller has seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObservedTally {
    /// How often something began to be called for.
    pub(crate) would_act: u64,
    /// How often somebody did it.
    pub(crate) done_by_others: u64,
    /// How often nobody did it in time.
    pub(crate) overdue: u64,
    /// How many objects call for something now.
    pub(crate) open: usize,
    /// How many of them have done so for too long.
    pub(crate) differences: usize,
}

/// An object that calls for something that nobody does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObservedDifference {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// For how long.
    pub(crate) seconds: u64,
    /// The rules that call for it; `status` for the status.
    pub(crate) rules: Vec<String>,
    /// What a sync would do now.
    pub(crate) would_do: Vec<String>,
}

// === impl App ===

impl App {
    /// Whether nothing is to be written.
    pub(crate) fn observes(&self) -> bool {
        self.options.mode.mode == Mode::Observe
    }

    /// A controller's workers: they work, or look on. `name` is the metrics' label `controller`.
    pub(crate) fn work<R: Reconciler>(&mut self, name: &str, controller: Arc<Controller<R>>, workers: u16) -> anyhow::Result<Work> {
        let workers = usize::from(workers);
        if !self.observes() {
            return Ok(Box::pin(controller.run(workers)));
        }
        let observer = Arc::new(Observer::new(name, controller, self.options.mode.observe_overdue_after, &self.registry)?);
        self.observers.0.push(observer.clone());
        Ok(Box::pin(observer.run(workers)))
    }
}

// === impl Observers ===

impl Observers {
    /// Adds the page, unless there is nobody who looks on.
    pub(crate) fn install(self, pages: &Pages, witnesses: Witnesses, overdue_after: Duration) {
        if !self.0.is_empty() {
            pages.add(PATH, Listed::No, move |_| answer::json_page(&json!(self.observed(&witnesses, overdue_after))));
        }
    }

    fn observed(&self, witnesses: &Witnesses, overdue_after: Duration) -> Observed {
        let mut observed =
            Observed { overdue_after_seconds: overdue_after.as_secs(), controllers: BTreeMap::new(), differences: Vec::new() };
        for observer in &self.0 {
            let (tally, differences) = (observer.tally(), observer.differences());
            let told = ObservedTally {
                would_act: tally.would_act,
                done_by_others: tally.done_by_others,
                overdue: tally.overdue,
                open: tally.open,
                differences: differences.len(),
            };
            observed.controllers.insert(observer.resource().plural.to_owned(), told);
            let room = SHOWN.saturating_sub(observed.differences.len());
            observed.differences.extend(differences.iter().take(room).map(|one| difference(&**observer, one, witnesses)));
        }
        observed.differences.sort_by_key(|difference| std::cmp::Reverse(difference.seconds));
        observed
    }
}

fn difference(observer: &dyn Observe, difference: &Difference, witnesses: &Witnesses) -> ObservedDifference {
    let mut would_do = witnesses.next_steps(observer.resource(), &difference.key);
    would_do.truncate(STEPS);
    ObservedDifference {
        kind: observer.resource().kind.to_owned(),
        namespace: difference.key.namespace.to_string(),
        name: difference.key.name.to_string(),
        seconds: Instant::now().saturating_duration_since(difference.since).as_secs(),
        rules: difference.causes.iter().map(|cause| cause.id().to_owned()).collect(),
        would_do,
    }
}
