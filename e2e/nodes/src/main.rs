//! Runs simulated nodes, and on request the scheduler, against any cluster.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nodes::{Behaviour, Fleet, FleetOptions, SchedulerOptions, Statistics};
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use tracing_subscriber::EnvFilter;

/// Simulated kubelets: nodes that say of every pod that it runs. Nothing really runs.
#[derive(Parser, Debug)]
#[command(name = "nodes", version, max_term_width = 120)]
struct Options {
    /// Kubeconfig of the cluster. Default: the environment's, or the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig. Default: its current one.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,

    /// How many nodes.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,

    /// The nodes' names are this, a hyphen and a number.
    #[arg(long, value_name = "NAME", default_value = "simulated")]
    prefix: String,

    /// Pods that each node has room for.
    #[arg(long, value_name = "N", default_value_t = 110)]
    pods_per_node: u32,

    /// How pods behave that have no annotation nodes.wcm.dev/behaviour, in the same words: fail, unready, start-after=5s, ...
    #[arg(long, value_name = "WORDS", default_value = "")]
    behaviour: Behaviour,

    /// Schedule pods, too: for clusters without kube-scheduler.
    #[arg(long)]
    scheduler: bool,

    /// Taint the nodes (nodes.wcm.dev/simulated:NoSchedule), so that only pods that tolerate it come here.
    #[arg(long)]
    taint: bool,

    /// Leave the Node objects there at the end.
    #[arg(long)]
    keep_nodes: bool,

    /// Seconds between two lines of statistics; 0 is none.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    statistics: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let options = Options::parse();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let config = options.config().await?;
    info!(server = %config.cluster_url, count = options.count, "nodes are starting");
    let statistics = Duration::from_secs(options.statistics);
    let fleet = tokio::select! {
        fleet = Fleet::start(&config, options.into_fleet()) => fleet?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    info!("nodes are running");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = report(&fleet, statistics) => {}
    }
    info!("nodes are stopping");
    tokio::select! {
        result = fleet.shutdown() => result,
        // Somebody is in a hurry.
        _ = interrupt.recv() => Ok(()),
    }
}

/// Prints statistics whenever they have changed; ends only by being dropped.
async fn report(fleet: &Fleet, every: Duration) {
    if every.is_zero() {
        return std::future::pending().await;
    }
    let mut last = None;
    loop {
        let now = Statistics { renewals: 0, ..fleet.statistics() };
        if last.replace(now) != Some(now) {
            let Statistics { nodes, pods, running, ready, patches, deletes, retries, bindings, .. } = now;
            info!(nodes, pods, running, ready, patches, deletes, retries, bindings, "statistics");
        }
        tokio::time::sleep(every).await;
    }
}

// === impl Options ===

impl Options {
    async fn config(&self) -> Result<kube::Config> {
        let Some(file) = &self.kubeconfig else { return kube::Config::infer().await.context("find a cluster") };
        let kubeconfig = Kubeconfig::read_from(file).with_context(|| format!("read {}", file.display()))?;
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?)
    }

    fn into_fleet(self) -> FleetOptions {
        FleetOptions {
            count: self.count,
            prefix: self.prefix,
            pods_per_node: self.pods_per_node,
            behaviour: self.behaviour,
            taint: self.taint,
            keep_nodes: self.keep_nodes,
            scheduler: self.scheduler.then(SchedulerOptions::default),
            ..FleetOptions::default()
        }
    }
}
