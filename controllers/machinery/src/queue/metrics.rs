//! client-go's work queue metrics (upstream `component-base/metrics/prometheus/workqueue`), under client-go's names.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, Histogram, HistogramOpts, IntCounter, IntGauge, Opts, Registry};

use super::core::{Core, Key, Observer};
use crate::clock::Clock;

/// What is counted as it happens.
pub(super) struct Metrics {
    depth: IntGauge,
    adds: IntCounter,
    queue_duration: Histogram,
    work_duration: Histogram,
    retries: IntCounter,
}

/// What is worked out when someone asks: how long the work under way has lasted. (Upstream refreshes it every 500 ms.)
pub(super) struct InProgress {
    unfinished: Gauge,
    longest_running: Gauge,
    clock: Clock,
}

/// [`InProgress`] of one queue, while that lives.
pub(super) struct InProgressOf<K> {
    gauges: InProgress,
    core: Weak<Mutex<Core<K, Metrics>>>,
}

// === impl Metrics ===

impl Metrics {
    pub(super) fn new(name: &str) -> Result<Self, prometheus::Error> {
        Ok(Self {
            depth: IntGauge::with_opts(opts(name, "depth", "Current depth of workqueue"))?,
            adds: IntCounter::with_opts(opts(name, "adds_total", "Total number of adds handled by workqueue"))?,
            queue_duration: histogram(
                name,
                "queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested.",
            )?,
            work_duration: histogram(name, "work_duration_seconds", "How long in seconds processing an item from workqueue takes.")?,
            retries: IntCounter::with_opts(opts(name, "retries_total", "Total number of retries handled by workqueue"))?,
        })
    }

    pub(super) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.depth.clone()))?;
        registry.register(Box::new(self.adds.clone()))?;
        registry.register(Box::new(self.queue_duration.clone()))?;
        registry.register(Box::new(self.work_duration.clone()))?;
        registry.register(Box::new(self.retries.clone()))
    }
}

impl Observer for Metrics {
    fn added(&mut self) {
        self.adds.inc();
        self.depth.inc();
    }

    fn taken(&mut self, waited: Duration) {
        self.depth.dec();
        self.queue_duration.observe(waited.as_secs_f64());
    }

    fn worked(&mut self, took: Duration) {
        self.work_duration.observe(took.as_secs_f64());
    }

    fn retried(&mut self) {
        self.retries.inc();
    }

    fn dropped(&mut self) {
        self.depth.dec();
    }
}

// === impl InProgress ===

impl InProgress {
    pub(super) fn new(name: &str, clock: Clock) -> Result<Self, prometheus::Error> {
        let unfinished = "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values \
                          indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.";
        let longest = "How many seconds has the longest running processor for workqueue been running.";
        Ok(Self {
            unfinished: Gauge::with_opts(opts(name, "unfinished_work_seconds", unfinished))?,
            longest_running: Gauge::with_opts(opts(name, "longest_running_processor_seconds", longest))?,
            clock,
        })
    }

    pub(super) fn of<K>(self, core: &Arc<Mutex<Core<K, Metrics>>>) -> InProgressOf<K> {
        InProgressOf { gauges: self, core: Arc::downgrade(core) }
    }
}

// === impl InProgressOf ===

impl<K: Key> Collector for InProgressOf<K> {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.gauges.unfinished.desc();
        all.extend(self.gauges.longest_running.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (mut total, mut longest) = (Duration::ZERO, Duration::ZERO);
        if let Some(core) = self.core.upgrade() {
            let now = self.gauges.clock.now();
            for worked in core.lock().work_in_progress(now) {
                total += worked;
                longest = longest.max(worked);
            }
        }
        self.gauges.unfinished.set(total.as_secs_f64());
        self.gauges.longest_running.set(longest.as_secs_f64());
        let mut all = self.gauges.unfinished.collect();
        all.extend(self.gauges.longest_running.collect());
        all
    }
}

fn opts(queue: &str, metric: &str, help: &str) -> Opts {
    Opts::new(format!("workqueue_{metric}"), help).const_label("name", queue)
}

fn histogram(queue: &str, metric: &str, help: &str) -> Result<Histogram, prometheus::Error> {
    let buckets = prometheus::exponential_buckets(10e-9, 10.0, 10)?;
    let opts = HistogramOpts::new(format!("workqueue_{metric}"), help).const_label("name", queue).buckets(buckets);
    Histogram::with_opts(opts)
}
