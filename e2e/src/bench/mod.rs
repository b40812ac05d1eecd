//! `make bench`: our program beside kube-controller-manager (KCM), on the same scenario in one run.
//!
//! - [`Scenario`] is what is asked of both: realistic pods under ReplicaSets, spread over namespaces. [`Rollout`] is another: Deployments
//!   that are rolled on simulated nodes; [`Stateful`] a third: StatefulSets.
//! - [`Contender`] is one of the two; each run gives it a control plane of its own, so that nobody inherits the other's history.
//! - [`measure`] takes the [`Measurement`]s, in alternating order.
//! - [`summary`] is pure: medians, ratios and what they should be. [`Report`] prints it as a table.

mod contender;
mod measurement;
mod report;
mod rollout;
mod run;
mod scenario;
mod stateful;
pub mod summary;
mod writes;

use anyhow::{Context as _, Result};

use crate::controlplane::Binaries;

pub use contender::Contender;
pub use measurement::{ColdStart, Creation, Measurement, Moment};
pub use report::{Machine, Report};
pub use rollout::{Rollout, RolloutMeasurement};
pub use scenario::Scenario;
pub use stateful::{Stateful, StatefulMeasurement};
pub use writes::Writes;

/// Measures both contenders `runs` times. Who goes first alternates: a machine that gets slower or faster favours nobody.
/// Each measurement is handed to `taken` as soon as it is there.
pub async fn measure(
    scenario: Scenario,
    runs: usize,
    binaries: &Binaries,
    mut taken: impl FnMut(&Measurement) -> Result<()>,
) -> Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for (run, contender) in turns(runs) {
        let measurement = run::measure(contender, run, scenario, binaries).await;
        let measurement = measurement.with_context(|| format!("run {run} of {contender}"))?;
        taken(&measurement)?;
        measurements.push(measurement);
    }
    Ok(measurements)
}

/// [`measure`] for a rolling update.
pub async fn measure_rollout(
    rollout: Rollout,
    runs: usize,
    binaries: &Binaries,
    mut taken: impl FnMut(&RolloutMeasurement) -> Result<()>,
) -> Result<Vec<RolloutMeasurement>> {
    let mut measurements = Vec::new();
    for (run, contender) in turns(runs) {
        let measurement = rollout.measure(contender, run, binaries).await;
        let measurement = measurement.with_context(|| format!("rolling update {run} of {contender}"))?;
        taken(&measurement)?;
        measurements.push(measurement);
    }
    Ok(measurements)
}

/// [`measure`] for StatefulSets.
pub async fn measure_stateful(
    sets: Stateful,
    runs: usize,
    binaries: &Binaries,
    mut taken: impl FnMut(&StatefulMeasurement) -> Result<()>,
) -> Result<Vec<StatefulMeasurement>> {
    let mut measurements = Vec::new();
    for (run, contender) in turns(runs) {
        let measurement = sets.measure(contender, run, binaries).await;
        let measurement = measurement.with_context(|| format!("StatefulSets, run {run} of {contender}"))?;
        taken(&measurement)?;
        measurements.push(measurement);
    }
    Ok(measurements)
}

fn turns(runs: usize) -> impl Iterator<Item = (usize, Contender)> {
    (1..=runs).flat_map(|run| {
        let order = if run % 2 == 1 { [Contender::Ours, Contender::Kcm] } else { [Contender::Kcm, Contender::Ours] };
        order.map(|contender| (run, contender))
    })
}
