//! What is measured. Seconds, bytes and counts, as numbers that are easy to read elsewhere.

use serde::Serialize;

use super::{Contender, Writes};

/// One contender's run.
#[derive(Debug, Clone, Serialize)]
pub struct Measurement {
    /// Whose.
    pub contender: Contender,
    /// Which of the repetitions, from 1.
    pub run: usize,
    /// The size of a pod as JSON.
    pub pod_bytes: u64,
    /// Resident memory at rest on an empty cluster.
    pub idle_rss: u64,
    /// Many ReplicaSets.
    pub creation: Creation,
    /// A start on a full cluster.
    pub cold_start: ColdStart,
    /// One large ReplicaSet, on the full cluster.
    pub single: Creation,
}

/// Pods being created, from the first ReplicaSet on.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Creation {
    /// How many pods.
    pub pods: u64,
    /// Until all pods were there.
    pub seconds: f64,
    /// The controller's processor time, until its last event was written.
    pub cpu: f64,
    /// The most memory that the controller's process had resident since its start.
    pub peak_rss: u64,
    /// The API server's processor time until all status was written, for information.
    pub api_server_cpu: f64,
    /// etcd's processor time, for information.
    pub etcd_cpu: f64,
    /// Requests that the controller sent.
    pub writes: Writes,
}

impl Creation {
    /// Pods per second.
    pub fn rate(&self) -> f64 {
        self.pods as f64 / self.seconds
    }

    /// The controller's processor time per pod, in seconds.
    pub fn cpu_per_pod(&self) -> f64 {
        self.cpu / self.pods as f64
    }

    /// Writes per pod without events.
    pub fn writes_per_pod(&self) -> f64 {
        self.writes.without_events() / self.pods as f64
    }

    /// Events per pod.
    pub fn events_per_pod(&self) -> f64 {
        self.writes.events / self.pods as f64
    }
}

/// A start on a full cluster with one pod missing.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ColdStart {
    /// All caches had synced.
    pub synced: Moment,
    /// The missing pod was there.
    pub probe: Moment,
    /// The most memory that the process had resident until then.
    pub peak_rss: u64,
}

/// A moment since a process was started.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Moment {
    /// Time since the start.
    pub seconds: f64,
    /// Processor time used so far.
    pub cpu: f64,
}
