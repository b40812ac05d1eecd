//! One contender's run on a control plane of its own.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::scenario::{count_pods, create_namespace, create_set, pod_bytes};
use super::{ColdStart, Contender, Creation, Measurement, Moment, Scenario, Writes};
use crate::controlplane::{Binaries, ControlPlane};
use crate::{Server, wait};

/// How often pods are counted: rare enough to cost the API server nothing, and 1 % of the shortest time that is measured so.
const COUNT_EVERY: Duration = Duration::from_millis(200);

/// Memory at rest is read this long after the caches have synced; it is a state, there is no event to wait for.
const REST: Duration = Duration::from_secs(3);

/// Without a write for this long, a controller has nothing left to do.
const QUIET: Duration = Duration::from_secs(1);

/// The slowest creation, in pods per second, that is still waited for.
const SLOWEST: u64 = 40;

/// What both run.
const CONTROLLERS: &[&str] = &["replicaset-controller"];

const NAMESPACE_OF_PROBE: &str = "bench-probe";
const NAMESPACE_OF_SINGLE: &str = "bench-single";

/// A controller at work on its control plane.
struct Run {
    contender: Contender,
    // Ends before the control plane that it talks to.
    controller: Server,
    plane: ControlPlane,
    scenario: Scenario,
}

/// Takes one measurement. All processes have ended when this returns.
pub(super) async fn measure(contender: Contender, run: usize, scenario: Scenario, binaries: &Binaries) -> Result<Measurement> {
    let plane = ControlPlane::builder().binaries(binaries.folder()).start().await?;
    scenario.prepare(plane.admin()).await?;
    for namespace in [NAMESPACE_OF_PROBE, NAMESPACE_OF_SINGLE] {
        create_namespace(plane.admin(), namespace).await?;
    }
    let controller = contender.spawn(&plane, CONTROLLERS)?;
    let mut at_work = Run { contender, controller, plane, scenario };
    let measurement = at_work.phases(run).await?;
    at_work.stop().await?;
    Ok(measurement)
}

impl Run {
    async fn phases(&mut self, run: usize) -> Result<Measurement> {
        let idle_rss = self.idle().await?;
        let Scenario { pods, single, .. } = self.scenario;
        let scenario = self.scenario;
        let client = self.plane.admin().clone();
        let creation = self.creation(pods, None, scenario.create(&client)).await?;
        let pod_bytes = pod_bytes(&client).await?;
        let cold_start = self.cold_start().await?;
        let one = create_set(&client, NAMESPACE_OF_SINGLE, "single", single);
        let single = self.creation(single, Some(NAMESPACE_OF_SINGLE), one).await?;
        Ok(Measurement { contender: self.contender, run, pod_bytes, idle_rss, creation, cold_start, single })
    }

    async fn idle(&mut self) -> Result<u64> {
        self.contender.synced(&mut self.controller, Duration::from_mins(1)).await?;
        sleep(REST).await;
        self.controller.process_mut().ensure_running()?;
        Ok(self.controller.usage()?.resident)
    }

    /// Measures from the first request of `create` until there are `pods` pods (in `namespace`) and every status says so.
    async fn creation(&mut self, pods: u64, namespace: Option<&str>, create: impl Future<Output = Result<()>>) -> Result<Creation> {
        let within = Duration::from_secs(60 + pods / SLOWEST);
        let before = self.spent().await?;
        let started = Instant::now();
        let (created, counted) = tokio::join!(create, tokio::time::timeout(within, self.until_counted(pods, namespace)));
        created?;
        counted.with_context(|| format!("{pods} pods took longer than {within:?}"))??;
        let seconds = started.elapsed().as_secs_f64();
        self.until_settled(within).await?;
        let api_server_cpu = self.api_server_cpu()? - before.api_server;
        self.until_quiet().await?;
        let after = self.spent().await?;
        Ok(Creation {
            pods,
            seconds,
            cpu: after.controller - before.controller,
            peak_rss: self.controller.usage()?.peak,
            api_server_cpu,
            etcd_cpu: after.etcd - before.etcd,
            writes: after.writes - before.writes,
        })
    }

    async fn until_counted(&mut self, pods: u64, namespace: Option<&str>) -> Result<()> {
        let client = self.plane.admin().clone();
        let mut ticks = interval(COUNT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.controller.process_mut().ensure_running()?;
            let count = count_pods(&client, namespace).await?;
            ensure!(count <= pods, "{count} pods where {pods} are wanted");
            if count == pods {
                return Ok(());
            }
        }
    }

    async fn until_settled(&mut self, within: Duration) -> Result<()> {
        let client = self.plane.admin().clone();
        wait::until("every ReplicaSet's status", within, async || {
            self.controller.process_mut().ensure_running().map_err(wait::give_up)?;
            let (settled, all) = Scenario::settled(&client).await?;
            ensure!(settled == all, "{settled} of {all} ReplicaSets say that their pods are there");
            Ok(())
        })
        .await
    }

    /// Waits until a second goes by without a write: events trail behind, and belong to the work.
    async fn until_quiet(&mut self) -> Result<()> {
        let mut ticks = interval(QUIET);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = None;
        loop {
            ticks.tick().await;
            let writes = self.writes().await?;
            if last == Some(writes) {
                return Ok(());
            }
            last = Some(writes);
        }
    }

    /// Stops the controller, takes one pod's worth of work and starts it again.
    async fn cold_start(&mut self) -> Result<ColdStart> {
        let client = self.plane.admin().clone();
        self.stop().await?;
        create_set(&client, NAMESPACE_OF_PROBE, "probe", 1).await?;
        let within = Duration::from_secs(60 + self.scenario.pods / 500);
        let started = Instant::now();
        self.controller = self.contender.spawn(&self.plane, CONTROLLERS)?;
        self.contender.synced(&mut self.controller, within).await?;
        let synced = self.moment(started)?;
        wait::until("the pod that was missing", within, async || {
            self.controller.process_mut().ensure_running().map_err(wait::give_up)?;
            ensure!(count_pods(&client, Some(NAMESPACE_OF_PROBE)).await? == 1, "no pod");
            Ok(())
        })
        .await?;
        let probe = self.moment(started)?;
        let peak_rss = self.controller.usage()?.peak;
        self.until_settled(within).await?;
        Ok(ColdStart { synced, probe, peak_rss })
    }

    async fn stop(&mut self) -> Result<()> {
        self.contender.stop(&mut self.controller).await
    }

    fn moment(&self, started: Instant) -> Result<Moment> {
        let seconds = started.elapsed().as_secs_f64();
        Ok(Moment { seconds, cpu: self.controller.usage()?.cpu.as_secs_f64() })
    }

    async fn spent(&mut self) -> Result<Spent> {
        let writes = self.writes().await?;
        Ok(Spent {
            controller: self.controller.usage()?.cpu.as_secs_f64(),
            api_server: self.api_server_cpu()?,
            etcd: self.plane.etcd_process().usage()?.cpu.as_secs_f64(),
            writes,
        })
    }

    fn api_server_cpu(&mut self) -> Result<f64> {
        Ok(self.plane.api_server_process(0)?.usage()?.cpu.as_secs_f64())
    }

    async fn writes(&self) -> Result<Writes> {
        Ok(Writes::on(&self.plane.api_server_endpoint(0)?.text("/metrics").await?))
    }
}

/// Processor seconds and writes so far.
struct Spent {
    controller: f64,
    api_server: f64,
    etcd: f64,
    writes: Writes,
}
