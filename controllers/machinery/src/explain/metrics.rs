//! What syncs come to, in numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::plan::{Outcome, Outcomes, Plan, Resource, Rule};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry};

use super::{Records, Verdict};
use crate::clock::Clock;
use crate::error::Error;

/// One controller's numbers; all are there from the start, at zero.
#[derive(Clone, Debug)]
pub struct SyncMetrics {
    syncs: IntCounterVec,
    writes: IntCounterVec,
    refused: IntCounterVec,
}

/// What is open, counted when it is asked for.
struct Open {
    waiting: IntGaugeVec,
    longest: GaugeVec,
    failing: IntGaugeVec,
    longest_failure: Gauge,
    records: Arc<Records>,
    clock: Clock,
}

const NANOS: f64 = 1e9;

/// The API server's reasons that a write can meet (apimachinery `meta/v1/types.go` `StatusReason`); admission webhooks make up others.
const REASONS: &[&str] = &[
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "Expired",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotFound",
    "RequestEntityTooLarge",
    "ServerTimeout",
    "ServiceUnavailable",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    OTHER,
];
const OTHER: &str = "Other";

fn opts(controller: &str, name: &str, help: &str) -> Opts {
    Opts::new(format!("workloads_controller_manager_{name}"), help).const_label("controller", controller)
}

// === impl SyncMetrics ===

impl SyncMetrics {
    /// Registers a controller's numbers.
    pub fn register(controller: &str, records: &Arc<Records>, clock: Clock, registry: &Registry) -> Result<Self, Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| -> Result<IntCounterVec, Error> {
            let counter = IntCounterVec::new(opts(controller, name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok(counter)
        };
        let syncs = counter("syncs_total", "Number of syncs, by what they came to.", &["outcome"])?;
        for verdict in [Verdict::Settled, Verdict::Acted, Verdict::Waits, Verdict::Failed] {
            syncs.with_label_values(&[verdict.as_str()]);
        }
        let writes = counter("writes_total", "Number of writes of children, by the rule that asked for them.", &["rule"])?;
        for rule in Rule::ALL.iter().filter(|rule| rule.ends().is_none()) {
            writes.with_label_values(&[rule.id()]);
        }
        let refused = counter(
            "writes_refused_total",
            "Number of writes of children that the API server refused, by its reason; of pods, these are rejected pods.",
            &["resource", "reason"],
        )?;
        registry.register(Box::new(Open::new(controller, Arc::clone(records), clock)?))?;
        Ok(Self { syncs, writes, refused })
    }

    /// The controller writes this resource: what may be refused of that is there from the start, too.
    pub fn writes(&self, resource: &Resource) {
        for reason in REASONS {
            self.refused.with_label_values(&[resource.plural, reason]);
        }
    }

    /// A sync has ended.
    pub(crate) fn synced(&self, verdict: Verdict) {
        self.syncs.with_label_values(&[verdict.as_str()]).inc();
    }

    /// A plan has been carried out.
    pub(crate) fn wrote(&self, plan: &Plan, outcomes: &Outcomes) {
        for (step, outcome) in outcomes.of(plan) {
            match outcome {
                Outcome::Done { .. } => self.writes.with_label_values(&[step.reason.id()]).inc(),
                Outcome::Failed(error) if error.code != 0 => {
                    let reason = REASONS.iter().find(|reason| **reason == error.reason).unwrap_or(&OTHER);
                    self.refused.with_label_values(&[step.action.resource().plural, reason]).inc();
                }
                Outcome::Failed(_) | Outcome::Unknown(_) | Outcome::NotSent => {}
            }
        }
    }
}

// === impl Open ===

impl Open {
    fn new(controller: &str, records: Arc<Records>, clock: Clock) -> Result<Self, prometheus::Error> {
        let waiting = "Number of objects that wait, by the rule that they wait for.";
        let longest = "For how many seconds the object has waited that has waited for that rule for longest.";
        let failing = "Number of objects whose last sync has failed.";
        let longest_failure = "For how many seconds the syncs of the object have failed whose syncs have failed for longest.";
        Ok(Self {
            waiting: IntGaugeVec::new(opts(controller, "waiting_objects", waiting), &["rule"])?,
            longest: GaugeVec::new(opts(controller, "longest_wait_seconds", longest), &["rule"])?,
            failing: IntGaugeVec::new(opts(controller, "failing_objects", failing), &[])?,
            longest_failure: Gauge::with_opts(opts(controller, "longest_failure_seconds", longest_failure))?,
            records,
            clock,
        })
    }
}

impl Collector for Open {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.waiting.desc();
        all.extend(self.longest.desc());
        all.extend(self.failing.desc());
        all.extend(self.longest_failure.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = self.clock.wall();
        let age = |since| (now.nanos_since(since).max(0) as f64) / NANOS;
        let mut rules: BTreeMap<&str, (i64, f64)> =
            Rule::ALL.iter().filter(|rule| rule.ends().is_some()).map(|rule| (rule.id(), (0, 0.0))).collect();
        let (mut failing, mut longest_failure) = (0, 0.0_f64);
        for (_, record) in self.records.open() {
            if record.verdict == Verdict::Failed {
                failing += 1;
                longest_failure = longest_failure.max(age(record.since));
            }
            for (since, wait) in &record.waits {
                let (count, longest) = rules.entry(wait.rule.id()).or_default();
                *count += 1;
                *longest = longest.max(age(*since));
            }
        }
        for (rule, (count, longest)) in rules {
            self.waiting.with_label_values(&[rule]).set(count);
            self.longest.with_label_values(&[rule]).set(longest);
        }
        self.failing.with_label_values::<&str>(&[]).set(failing);
        self.longest_failure.set(longest_failure);
        let mut all = self.waiting.collect();
        all.extend(self.longest.collect());
        all.extend(self.failing.collect());
        all.extend(self.longest_failure.collect());
        all
    }
}

#[cfg(test)]
mod tests {
    use model::plan::{PODS, Wait};
    use model::{ObjectKey, Time, Uid};
    use prometheus::TextEncoder;

    use super::*;
    use crate::explain::Record;

    #[tokio::test(start_paused = true)]
    async fn what_is_open_is_counted_by_rule() {
        let registry = Registry::new();
        let records = Arc::new(Records::default());
        let (clock, _) = Clock::test(Time(100_000_000_000));
        let sut = SyncMetrics::register("deployment", &records, clock, &registry).unwrap();
        sut.writes(&PODS);
        let page = || TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let sample = |name: &str, labels: &str, value: &str| {
            format!("workloads_controller_manager_{name}{{controller=\"deployment\"{labels}}} {value}\n")
        };
        let zero = page();
        for (name, labels) in [
            ("waiting_objects", ",rule=\"paused\""),
            ("longest_wait_seconds", ",rule=\"surge-ceiling\""),
            ("failing_objects", ""),
            ("longest_failure_seconds", ""),
            ("syncs_total", ",outcome=\"failed\""),
            ("writes_total", ",rule=\"new-template\""),
            ("writes_refused_total", ",reason=\"Forbidden\",resource=\"pods\""),
            ("writes_refused_total", ",reason=\"Other\",resource=\"pods\""),
        ] {
            assert!(zero.contains(&sample(name, labels, "0")), "{name}{labels} in\n{zero}");
        }
        for (name, since) in [("a", 40), ("b", 70)] {
            let record = Record::new(vec![Wait::new(Rule::Paused)], Vec::new(), None, Time(since * 1_000_000_000));
            records.push(&ObjectKey::new("ns", name), Uid(1), record);
        }
        records.push(&ObjectKey::new("ns", "c"), Uid(1), Record::new(Vec::new(), Vec::new(), Some("no"), Time(90_000_000_000)));
        sut.synced(Verdict::Failed);
        let now = page();
        for (name, labels, value) in [
            ("waiting_objects", ",rule=\"paused\"", "2"),
            ("longest_wait_seconds", ",rule=\"paused\"", "60"),
            ("failing_objects", "", "1"),
            ("longest_failure_seconds", "", "10"),
            ("syncs_total", ",outcome=\"failed\"", "1"),
        ] {
            assert!(now.contains(&sample(name, labels, value)), "{name}{labels} in\n{now}");
        }
    }
}
