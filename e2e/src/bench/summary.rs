//! What the measurements say: medians, ratios, and whether they are as they should be. Pure.

use serde::Serialize;

use super::{Contender, Creation, Measurement, RolloutMeasurement, StatefulMeasurement};

/// One number of both contenders.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Our median.
    pub ours: f64,
    /// KCM's median.
    pub kcm: f64,
    /// Ours divided by KCM's; nothing if KCM's is 0.
    pub ratio: Option<f64>,
    /// What it should be.
    pub target: Option<Target>,
    /// Whether it is; nothing without a target, or without a ratio where that is the target.
    pub met: Option<bool>,
}

/// How a number is printed. The number itself is in bytes, seconds or pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Memory.
    Bytes,
    /// Time, of the clock or of processors.
    Seconds,
    /// Pieces per second.
    PerSecond,
    /// Pieces per pod.
    PerPod,
    /// Pieces.
    Pieces,
}

/// What one contender took for one scenario.
pub trait Measured: Sized + 'static {
    /// Whose it is.
    fn contender(&self) -> Contender;
    /// What is read off it, in the order of the table.
    fn metrics() -> &'static [Metric<Self>];
}

/// What is to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The ratio is at most this.
    RatioAtMost(f64),
    /// The ratio is at least this.
    RatioAtLeast(f64),
    /// Our own number is at most this.
    AtMost(f64),
}

impl Target {
    /// Whether it is reached.
    pub fn met(self, ours: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::RatioAtMost(limit) => ratio.map(|ratio| ratio <= limit),
            Self::RatioAtLeast(limit) => ratio.map(|ratio| ratio >= limit),
            Self::AtMost(limit) => Some(ours <= limit),
        }
    }
}

/// A number to be read off a measurement.
#[derive(Debug)]
pub struct Metric<M> {
    name: &'static str,
    unit: Unit,
    target: Option<Target>,
    value: fn(&M) -> f64,
}

const MIB: f64 = 1024.0 * 1024.0;

/// Everything that is compared, in the order of the table. The targets are meant for 100,000 pods.
const METRICS: &[Metric<Measurement>] = &[
    metric("idle: RSS", Unit::Bytes, Some(Target::AtMost(12.0 * MIB)), |it| it.idle_rss as f64),
    metric("creation: pods/s", Unit::PerSecond, Some(Target::RatioAtLeast(1.0)), |it| it.creation.rate()),
    metric("creation: CPU", Unit::Seconds, None, |it| it.creation.cpu),
    metric("creation: CPU per pod", Unit::Seconds, Some(Target::RatioAtMost(1.0 / 4.0)), |it| it.creation.cpu_per_pod()),
    metric("creation: peak RSS", Unit::Bytes, Some(Target::RatioAtMost(1.0 / 40.0)), |it| it.creation.peak_rss as f64),
    metric("creation: writes per pod", Unit::PerPod, Some(Target::AtMost(1.1)), |it| it.creation.writes_per_pod()),
    metric("  creates per pod", Unit::PerPod, None, |it| per_pod(&it.creation, it.creation.writes.creates)),
    metric("  status writes per pod", Unit::PerPod, None, |it| per_pod(&it.creation, it.creation.writes.statuses)),
    metric("  patches and others per pod", Unit::PerPod, None, |it| per_pod(&it.creation, it.creation.writes.others)),
    metric("  events per pod, not in the sum", Unit::PerPod, None, |it| it.creation.events_per_pod()),
    metric("creation: API server CPU", Unit::Seconds, None, |it| it.creation.api_server_cpu),
    metric("creation: etcd CPU", Unit::Seconds, None, |it| it.creation.etcd_cpu),
    metric("cold start: caches synced", Unit::Seconds, Some(Target::RatioAtMost(1.0 / 2.0)), |it| it.cold_start.synced.seconds),
    metric("cold start: CPU until then", Unit::Seconds, Some(Target::RatioAtMost(1.0 / 8.0)), |it| it.cold_start.synced.cpu),
    metric("cold start: missing pod is there", Unit::Seconds, Some(Target::RatioAtMost(1.0 / 2.0)), |it| it.cold_start.probe.seconds),
    metric("cold start: CPU until then", Unit::Seconds, Some(Target::RatioAtMost(1.0 / 8.0)), |it| it.cold_start.probe.cpu),
    metric("cold start: peak RSS", Unit::Bytes, Some(Target::RatioAtMost(1.0 / 40.0)), |it| it.cold_start.peak_rss as f64),
    metric("one ReplicaSet: pods/s", Unit::PerSecond, None, |it| it.single.rate()),
    metric("one ReplicaSet: CPU", Unit::Seconds, Some(Target::RatioAtMost(1.0 / 4.0)), |it| it.single.cpu),
    metric("one ReplicaSet: writes per pod", Unit::PerPod, None, |it| it.single.writes_per_pod()),
    metric("  events per pod, not in the sum", Unit::PerPod, None, |it| it.single.events_per_pod()),
];

/// Of a rolling update. The targets are meant for 1,000 Deployments.
const ROLLOUT_METRICS: &[Metric<RolloutMeasurement>] = &[
    metric("rolling update: time", Unit::Seconds, Some(Target::RatioAtMost(1.0)), |it| it.seconds),
    metric("rolling update: CPU", Unit::Seconds, Some(Target::RatioAtMost(1.0 / 4.0)), |it| it.cpu),
    metric("rolling update: writes", Unit::Pieces, Some(Target::RatioAtMost(1.1)), |it| it.writes.without_events()),
    metric("  creates", Unit::Pieces, None, |it| it.writes.creates),
    metric("  status writes", Unit::Pieces, None, |it| it.writes.statuses),
    metric("  patches, deletes and others", Unit::Pieces, None, |it| it.writes.others),
    metric("  events, not in the sum", Unit::Pieces, None, |it| it.writes.events),
    metric("rolling update: peak RSS", Unit::Bytes, None, |it| it.peak_rss as f64),
    metric("cold start with history: time", Unit::Seconds, Some(Target::RatioAtMost(1.0 / 2.0)), |it| it.cold_start.seconds),
    metric("cold start with history: CPU", Unit::Seconds, Some(Target::RatioAtMost(1.0 / 8.0)), |it| it.cold_start.cpu),
    metric("cold start with history: peak RSS", Unit::Bytes, None, |it| it.cold_start_peak_rss as f64),
];

/// Of StatefulSets. Both are bound by the API server or by the pods' readiness: the time is to be no longer than KCM's.
const STATEFUL_METRICS: &[Metric<StatefulMeasurement>] = &[
    metric("Parallel set: time", Unit::Seconds, Some(Target::RatioAtMost(1.0)), |it| it.parallel.seconds),
    metric("Parallel set: CPU", Unit::Seconds, Some(Target::RatioAtMost(1.0 / 4.0)), |it| it.parallel.cpu),
    metric("Parallel set: writes", Unit::Pieces, Some(Target::RatioAtMost(1.1)), |it| it.parallel_writes.without_events()),
    metric("OrderedReady rolled: time", Unit::Seconds, Some(Target::RatioAtMost(1.0)), |it| it.ordered.seconds),
    metric("OrderedReady rolled: CPU", Unit::Seconds, Some(Target::RatioAtMost(1.0 / 4.0)), |it| it.ordered.cpu),
    metric("OrderedReady rolled: writes", Unit::Pieces, Some(Target::RatioAtMost(1.1)), |it| it.ordered_writes.without_events()),
    metric("StatefulSets: peak RSS", Unit::Bytes, None, |it| it.peak_rss as f64),
];

const fn metric<M>(name: &'static str, unit: Unit, target: Option<Target>, value: fn(&M) -> f64) -> Metric<M> {
    Metric { name, unit, target, value }
}

impl Measured for Measurement {
    fn contender(&self) -> Contender {
        self.contender
    }

    fn metrics() -> &'static [Metric<Self>] {
        METRICS
    }
}

impl Measured for RolloutMeasurement {
    fn contender(&self) -> Contender {
        self.contender
    }

    fn metrics() -> &'static [Metric<Self>] {
        ROLLOUT_METRICS
    }
}

impl Measured for StatefulMeasurement {
    fn contender(&self) -> Contender {
        self.contender
    }

    fn metrics() -> &'static [Metric<Self>] {
        STATEFUL_METRICS
    }
}

fn per_pod(creation: &Creation, count: f64) -> f64 {
    count / creation.pods as f64
}

/// The rows of the table; none unless both contenders were measured.
pub fn rows<M: Measured>(measurements: &[M]) -> Vec<Row> {
    M::metrics().iter().filter_map(|metric| metric.row(measurements)).collect()
}

impl<M: Measured> Metric<M> {
    fn row(&self, measurements: &[M]) -> Option<Row> {
        let of = |contender| median(measurements.iter().filter(|it| it.contender() == contender).map(self.value).collect());
        let (ours, kcm) = (of(Contender::Ours)?, of(Contender::Kcm)?);
        let ratio = ratio(ours, kcm);
        let met = self.target.and_then(|target| target.met(ours, ratio));
        Some(Row { name: self.name, unit: self.unit, ours, kcm, ratio, target: self.target, met })
    }
}

/// The middle value, or the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get(values.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// How many times `of` the first is.
pub fn ratio(value: f64, of: f64) -> Option<f64> {
    (of != 0.0).then(|| value / of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{ColdStart, Moment, Writes};

    fn measurement(contender: Contender, run: usize, scale: f64) -> Measurement {
        let writes = Writes { creates: 100.0, statuses: 4.0, others: 1.0, events: 25.0 };
        let creation =
            Creation { pods: 100, seconds: scale, cpu: scale, peak_rss: (scale * 1e6) as u64, api_server_cpu: 1.0, etcd_cpu: 0.0, writes };
        let moment = Moment { seconds: scale, cpu: scale };
        let cold_start = ColdStart { synced: moment, probe: moment, peak_rss: 1 };
        Measurement { contender, run, pod_bytes: 10_000, idle_rss: 12 << 20, creation, cold_start, single: creation }
    }

    fn row(rows: &[Row], name: &str) -> Row {
        rows.iter().find(|row| row.name == name).cloned().unwrap()
    }

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, want) in [
            (vec![], None),
            (vec![3.0], Some(3.0)),
            (vec![9.0, 1.0], Some(5.0)),
            (vec![9.0, 1.0, 2.0], Some(2.0)),
            (vec![4.0, 1.0, 2.0, 100.0], Some(3.0)),
        ] {
            assert_eq!(median(values.clone()), want, "{values:?}");
        }
    }

    #[test]
    fn nothing_has_a_ratio_to_zero() {
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(ratio(1.0, 4.0), Some(0.25));
        assert_eq!(Target::RatioAtMost(1.0).met(1.0, None), None);
    }

    #[test]
    fn rows_compare_medians_and_outliers_do_not_count() {
        let mut all = Vec::new();
        for (run, (ours, kcm)) in [(1.0, 4.0), (2.0, 8.0), (1000.0, 8.0)].into_iter().enumerate() {
            all.extend([measurement(Contender::Ours, run, ours), measurement(Contender::Kcm, run, kcm)]);
        }
        let rows = rows(&all);
        let cpu = row(&rows, "creation: CPU per pod");
        assert_eq!((cpu.ours, cpu.kcm, cpu.ratio, cpu.met), (0.02, 0.08, Some(0.25), Some(true)));
        let peak = row(&rows, "creation: peak RSS");
        assert_eq!((peak.ratio, peak.met), (Some(0.25), Some(false)));
        let rate = row(&rows, "creation: pods/s");
        assert_eq!((rate.ours, rate.kcm, rate.met), (50.0, 12.5, Some(true)));
        assert_eq!(row(&rows, "idle: RSS").met, Some(true));
        let writes = row(&rows, "creation: writes per pod");
        assert_eq!((writes.ours, writes.met), (1.05, Some(true)));
        assert_eq!(row(&rows, "creation: etcd CPU").ratio, None);
    }

    #[test]
    fn one_contender_alone_is_no_comparison() {
        assert_eq!(rows(&[measurement(Contender::Ours, 1, 1.0)]), []);
    }
}
