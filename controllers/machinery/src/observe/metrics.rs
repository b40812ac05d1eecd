//! What is observed, in numbers.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

use super::ledger::{Cause, Ledger, Seen};
use crate::error::Error;

/// One observer's numbers; all are there from the start, at zero.
#[derive(Clone, Debug)]
pub(super) struct ObserverMetrics {
    would_act: IntCounterVec,
    done: IntCounterVec,
    overdue: IntCounterVec,
}

/// The differences, counted when they are asked for.
struct Differences {
    gauge: IntGaugeVec,
    ledger: Arc<Ledger>,
}

fn opts(controller: &str, name: &str, help: &str) -> Opts {
    Opts::new(format!("workloads_controller_manager_{name}"), help).const_label("controller", controller)
}

// === impl ObserverMetrics ===

impl ObserverMetrics {
    pub(super) fn register(controller: &str, ledger: &Arc<Ledger>, registry: &Registry) -> Result<Self, Error> {
        let counter = |name: &str, help: &str| -> Result<IntCounterVec, Error> {
            let counter = IntCounterVec::new(opts(controller, name, help), &["rule"])?;
            registry.register(Box::new(counter.clone()))?;
            for cause in Cause::all() {
                counter.with_label_values(&[cause.id()]);
            }
            Ok(counter)
        };
        let would_act = "Number of times that something began to be called for which an active process would have done, by rule.";
        let done = "Number of times that somebody else did what was called for, by rule.";
        let overdue = "Number of times that what was called for was not done for --observe-overdue-after, by rule.";
        let differences = "Number of objects that have called for something for --observe-overdue-after and longer, by rule.";
        let gauge = IntGaugeVec::new(opts(controller, "observed_differences", differences), &["rule"])?;
        registry.register(Box::new(Differences { gauge, ledger: Arc::clone(ledger) }))?;
        Ok(Self {
            would_act: counter("observed_would_act_total", would_act)?,
            done: counter("observed_done_by_others_total", done)?,
            overdue: counter("observed_overdue_total", overdue)?,
        })
    }

    /// Takes what has come of looking at one object.
    pub(super) fn count(&self, seen: &Seen) {
        for (counter, causes) in [(&self.would_act, &seen.begun), (&self.done, &seen.done), (&self.overdue, &seen.overdue)] {
            for cause in causes {
                counter.with_label_values(&[cause.id()]).inc();
            }
        }
    }

    /// All rules together: what was called for, what was done, what was overdue.
    pub(super) fn sums(&self) -> (u64, u64, u64) {
        let sum = |counter: &IntCounterVec| Cause::all().map(|cause| counter.with_label_values(&[cause.id()]).get()).sum();
        (sum(&self.would_act), sum(&self.done), sum(&self.overdue))
    }
}

impl Collector for Differences {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let differences = self.ledger.differences();
        for cause in Cause::all() {
            let count = differences.iter().filter(|difference| difference.causes.contains(&cause)).count();
            self.gauge.with_label_values(&[cause.id()]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.gauge.collect()
    }
}
