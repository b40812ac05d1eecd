//! What a process takes and holds while there is nothing to do, so that two such moments can be compared.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, Result, ensure};
use e2e::Server;
use serde_json::Value;

/// One process at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Footprint {
    pub(crate) resident: u64,
    pub(crate) files: usize,
    threads: usize,
    /// Series on the metrics page: labels must not pile up.
    series: usize,
    /// Objects in each cache.
    cached: BTreeMap<String, u64>,
}

/// Growth of resident memory that is no leak: an allocator keeps what it has been given, in as many pieces as the next load leaves.
const MEMORY: (f64, u64) = (0.15, 6 << 20);

/// Connections that a pool has opened once and keeps: of each of the clients for watches, writes, the lease and events one more, and those
/// of whoever reads the pages.
const FILES: usize = 6;

/// Series that appear with their first event: answers' codes, and what a metric counts by reason.
const SERIES: f64 = 0.25;

impl Footprint {
    pub(crate) async fn of(server: &Server) -> Result<Self> {
        let page = async |path: &str| -> Result<Value> { Ok(serde_json::from_str(&server.endpoint().text(path).await?)?) };
        let metrics = server.endpoint().text("/metrics").await?;
        let stores = page("/debug/stores").await?;
        let cached = stores.as_object().into_iter().flatten();
        let count = |entries: &str| -> Result<usize> {
            let folder = format!("/proc/{}/{entries}", server.pid());
            Ok(std::fs::read_dir(&folder).with_context(|| format!("read {folder}"))?.count())
        };
        Ok(Self {
            resident: server.usage()?.resident,
            files: count("fd")?,
            threads: count("task")?,
            series: metrics.lines().filter(|line| !line.starts_with('#')).count(),
            cached: cached.map(|(kind, store)| (kind.clone(), store["objects"].as_u64().unwrap_or_default())).collect(),
        })
    }

    /// Fails if this is more than what was before.
    pub(crate) fn is_flat_since(&self, before: &Self) -> Result<()> {
        let (share, more) = MEMORY;
        let most = before.resident + (before.resident as f64 * share) as u64 + more;
        ensure!(self.resident <= most, "memory has grown from {} to {} KiB", before.resident >> 10, self.resident >> 10);
        ensure!(self.files <= before.files + FILES, "open files have become {} from {}", self.files, before.files);
        ensure!(self.threads <= before.threads + 1, "threads have become {} from {}", self.threads, before.threads);
        let most = before.series + (before.series as f64 * SERIES) as usize;
        ensure!(self.series <= most, "series of metrics have become {} from {}", self.series, before.series);
        ensure!(self.cached == before.cached, "the caches hold {:?}, not {:?}", self.cached, before.cached);
        Ok(())
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resident, files, threads, series, .. } = self;
        write!(f, "{} KiB resident, {files} files, {threads} threads, {series} series", resident >> 10)
    }
}

/// Fails while the process has something on its mind: keys that wait, fail or are parked, and writes of its own that it has not seen.
pub(crate) async fn is_idle(server: &Server) -> Result<()> {
    let page = async |path: &str| -> Result<Value> { Ok(serde_json::from_str(&server.endpoint().text(path).await?)?) };
    let queues = page("/debug/queues").await?;
    for (controller, queue) in queues.as_object().into_iter().flatten() {
        for state in ["waiting", "processing", "parked"] {
            ensure!(queue[state] == 0, "{controller} has keys {state}: {queue}");
        }
    }
    let expectations = page("/debug/expectations").await?;
    for (controller, of) in expectations.as_object().into_iter().flatten() {
        ensure!(of["pending"] == 0, "{controller} waits to see its own writes: {of}");
    }
    let metrics = server.endpoint().text("/metrics").await?;
    let failing = metrics.lines().find(|line| line.starts_with("workloads_controller_manager_failing_objects") && !line.ends_with(" 0"));
    ensure!(failing.is_none(), "{}", failing.unwrap_or_default());
    Ok(())
}
