//! Metrics of the process and its caches, and those that upstream's controllers have of their own.

use std::sync::Arc;
use std::time::Duration;

use ::statefulset::Unavailable;
use machinery::source::SourceHandle;
use machinery::store::Store;
use model::plan::Resource;
use model::{OwnerKind, StatefulSet};
use parking_lot::RwLock;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Histogram, HistogramOpts, IntGaugeVec, Opts, Registry};
use tokio::time::Instant;

use crate::gates::{FeatureGates, Release};
use crate::tally::{Children, Counted, RANGES, Tally};

/// What is said of one cache when it is asked for.
struct Cached {
    objects: usize,
    bytes: usize,
    /// For how long each has had too few replicas that has.
    below: Vec<Duration>,
    version: u64,
    failing: f64,
    synced: bool,
}

/// How to ask a cache.
struct Look {
    resource: &'static Resource,
    tally: Arc<Tally>,
    ask: Box<dyn Fn() -> Cached + Send + Sync>,
}

/// The caches' gauges; clones share them.
#[derive(Clone)]
pub(crate) struct CacheMetrics(Arc<Caches>);

struct Caches {
    objects: IntGaugeVec,
    bytes: IntGaugeVec,
    version: GaugeVec,
    failing: GaugeVec,
    synced: IntGaugeVec,
    owners: IntGaugeVec,
    most_children: IntGaugeVec,
    below: IntGaugeVec,
    longest_below: GaugeVec,
    looks: RwLock<Vec<Look>>,
}

/// `statefulset_controller_statefulset_unavailable_replicas` and `…_max_unavailable` (upstream `pkg/controller/statefulset/metrics`).
#[derive(Clone, Debug)]
pub(crate) struct AvailabilityMetrics {
    unavailable: IntGaugeVec,
    limit: IntGaugeVec,
}

/// What upstream's version gauge keeps of a version, so that a float has it exactly (`client-go/tools/cache`).
const VERSION_DIGITS: u64 = 1_000_000_000_000_000;
/// Children, the kind of their owners, and what that is called.
const OWNERS: &[(&str, OwnerKind, &str)] = &[
    ("replicasets", OwnerKind::Deployment, "deployments"),
    ("pods", OwnerKind::ReplicaSet, "replicasets"),
    ("pods", OwnerKind::StatefulSet, "statefulsets"),
    ("controllerrevisions", OwnerKind::StatefulSet, "statefulsets"),
];
/// What has replicas.
const REPLICATED: &[&str] = &["deployments", "replicasets", "statefulsets"];
/// For how many seconds something has been as it is, at least.
const FOR_SECONDS: &[(&str, u64)] = &[("0", 0), ("60", 60), ("600", 600), ("3600", 3600)];
/// What upstream's label `name` has its program's name for.
const PROGRAM: &str = "workloads-controller-manager";

/// `replicaset_controller_sorting_deletion_age_ratio` (upstream `pkg/controller/replicaset/metrics`).
pub(crate) fn deletion_age_ratio(registry: &Registry) -> Result<Histogram, prometheus::Error> {
    let name = "replicaset_controller_sorting_deletion_age_ratio";
    let help = "The ratio of the chosen deleted pod's ages to the current youngest pod's age (at the time). Should be <2.";
    let buckets = prometheus::exponential_buckets(0.25, 2.0, 6)?;
    let histogram = Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets))?;
    registry.register(Box::new(histogram.clone()))?;
    Ok(histogram)
}

/// This program's release. Not upstream's `kubernetes_build_info`: alerts compare that one between the parts of a control plane.
pub(crate) fn build_info(registry: &Registry) -> Result<(), prometheus::Error> {
    let opts = Opts::new("workloads_controller_manager_build_info", "A metric with a constant 1, labelled by this program's release.");
    let info = IntGaugeVec::new(opts, &["version"])?;
    info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
    registry.register(Box::new(info))
}

/// Which feature gates are on (upstream `component-base/metrics/prometheus/feature`).
pub(crate) fn feature_gates(gates: &FeatureGates, release: Release, registry: &Registry) -> Result<(), prometheus::Error> {
    let help = "This metric records the data about the stage and enablement of a k8s feature.";
    let enabled = IntGaugeVec::new(Opts::new("kubernetes_feature_enabled", help), &["name", "stage"])?;
    for (name, stage, on) in gates.all(release) {
        enabled.with_label_values(&[name, stage]).set(i64::from(on));
    }
    registry.register(Box::new(enabled))
}

// === impl CacheMetrics ===

impl CacheMetrics {
    /// Registers them.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let own = |name: &str, help: &str| Opts::new(format!("workloads_controller_manager_{name}"), help);
        let version = "ResourceVersion that the informer's store last reached: its last 15 digits.";
        let metrics = Self(Arc::new(Caches {
            objects: IntGaugeVec::new(own("cached_objects", "Number of objects in a cache."), &["resource"])?,
            version: GaugeVec::new(Opts::new("informer_store_resource_version", version), &["name", "group", "version", "resource"])?,
            failing: GaugeVec::new(
                own("watch_failing_seconds", "For how many seconds nothing but errors has come from a resource's lists and watches."),
                &["resource"],
            )?,
            synced: IntGaugeVec::new(own("cache_synced", "Whether a cache has been filled."), &["resource"])?,
            bytes: IntGaugeVec::new(
                own("cached_bytes", "Bytes that the objects in a cache take, without what they share and without indexes."),
                &["resource"],
            )?,
            owners: IntGaugeVec::new(
                own(
                    "owners",
                    "Number of owners, by how many children of a resource they have, as a range; those without any are not counted.",
                ),
                &["owner", "resource", "children"],
            )?,
            most_children: IntGaugeVec::new(
                own("most_children", "The most children of a resource that one owner has."),
                &["owner", "resource"],
            )?,
            below: IntGaugeVec::new(
                own(
                    "below_desired_objects",
                    "Number of objects that have had fewer available replicas than spec.replicas for at least that many seconds, as seen here.",
                ),
                &["resource", "for_seconds"],
            )?,
            longest_below: GaugeVec::new(
                own(
                    "longest_below_desired_seconds",
                    "For how many seconds the object has had fewer available replicas than spec.replicas that has had so for longest, as seen here.",
                ),
                &["resource"],
            )?,
            looks: RwLock::default(),
        }));
        registry.register(Box::new(metrics.clone()))?;
        Ok(metrics)
    }

    /// One more cache, which is not filled yet.
    pub(crate) fn add<O: Counted>(&self, resource: &'static Resource, store: Store<O>, source: SourceHandle) {
        let tally = Arc::new(Tally::default());
        store.add_handler(tally.clone());
        let counted = Arc::clone(&tally);
        let ask = move || {
            let (now, reached, status) = (Instant::now(), store.reached(), source.status());
            let failing = status.failing_since.and_then(|since| now.checked_duration_since(since));
            Cached {
                objects: store.len(),
                bytes: counted.bytes(),
                below: counted.below_desired(now),
                version: reached.version.0 % VERSION_DIGITS,
                failing: failing.map_or(0.0, |failing| failing.as_secs_f64()),
                synced: status.synced,
            }
        };
        self.0.looks.write().push(Look { resource, tally, ask: Box::new(ask) });
    }
}

// === impl Caches ===

impl Caches {
    fn gauges(&self) -> [&dyn Collector; 9] {
        let Self { objects, bytes, version, failing, synced, owners, most_children, below, longest_below, .. } = self;
        [objects, bytes, version, failing, synced, owners, most_children, below, longest_below]
    }

    fn set(&self, resource: &Resource, cached: &Cached) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let labels = [resource.plural];
        self.objects.with_label_values(&labels).set(count(cached.objects));
        self.bytes.with_label_values(&labels).set(count(cached.bytes));
        self.version.with_label_values(&[PROGRAM, resource.group, resource.version, resource.plural]).set(cached.version as f64);
        self.failing.with_label_values(&labels).set(cached.failing);
        self.synced.with_label_values(&labels).set(i64::from(cached.synced));
        if REPLICATED.contains(&resource.plural) {
            for (label, least) in FOR_SECONDS {
                let objects = cached.below.iter().filter(|below| below.as_secs() >= *least).count();
                self.below.with_label_values(&[resource.plural, label]).set(count(objects));
            }
            let longest = cached.below.iter().max().copied().unwrap_or_default();
            self.longest_below.with_label_values(&labels).set(longest.as_secs_f64());
        }
    }

    fn set_children(&self, resource: &Resource, tally: &Tally) {
        for (_, kind, owner) in OWNERS.iter().filter(|(children, ..)| *children == resource.plural) {
            let Children { owners, most } = tally.children_of(*kind);
            for ((range, _), owners) in RANGES.iter().zip(owners) {
                self.owners.with_label_values(&[owner, resource.plural, range]).set(i64::try_from(owners).unwrap_or(i64::MAX));
            }
            self.most_children.with_label_values(&[owner, resource.plural]).set(i64::from(most));
        }
    }
}

impl Collector for CacheMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.0.gauges().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for Look { resource, tally, ask } in &*self.0.looks.read() {
            self.0.set(resource, &ask());
            self.0.set_children(resource, tally);
        }
        self.0.gauges().into_iter().flat_map(Collector::collect).collect()
    }
}

// === impl AvailabilityMetrics ===

impl AvailabilityMetrics {
    /// Registers them.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| -> Result<IntGaugeVec, prometheus::Error> {
            let opts = Opts::new(format!("statefulset_controller_statefulset_{name}"), help);
            let gauge = IntGaugeVec::new(opts, &["statefulset_namespace", "statefulset_name", "pod_management_policy"])?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        Ok(Self {
            unavailable: gauge("unavailable_replicas", "Current number of unavailable pods in StatefulSet")?,
            limit: gauge("max_unavailable", "Maximum number of unavailable pods allowed during StatefulSet rolling updates")?,
        })
    }

    /// A sync has counted.
    pub(crate) fn set(&self, set: &StatefulSet, Unavailable { replicas, limit }: Unavailable) {
        let labels = labels(set);
        self.unavailable.with_label_values(&labels).set(i64::try_from(replicas).unwrap_or(i64::MAX));
        self.limit.with_label_values(&labels).set(i64::try_from(limit).unwrap_or(i64::MAX));
    }

    /// The set is gone, or sorts its pods otherwise now.
    pub(crate) fn forget(&self, set: &StatefulSet) {
        for gauge in [&self.unavailable, &self.limit] {
            // There is none if no sync has counted.
            let _ = gauge.remove_label_values(&labels(set));
        }
    }
}

fn labels(set: &StatefulSet) -> [&str; 3] {
    [&set.key.namespace, &set.key.name, if set.spec.allows_burst() { "Parallel" } else { "OrderedReady" }]
}
