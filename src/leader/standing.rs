//! What the rest of the process sees of the election: whether we lead, the metrics, the health check, the event.

use std::time::Duration;

use machinery::events::EventRecorder;
use machinery::fence::BootClock;
use model::plan::{Event, ObjectRef, Resource, Severity};
use model::{ObjectKey, ResourceVersion, Uid};
use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};
use tokio::sync::watch;

use super::lease::Lease;
use super::protocol::Rules;

/// Where a candidate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The lease has not been read yet.
    Candidate,
    /// Somebody else leads, or nobody knows.
    Standby,
    /// We lead.
    Leader,
}

/// Shared by the election and the rest of the process.
pub(super) struct Standing {
    rules: Rules,
    role: watch::Sender<Role>,
    clock: BootClock,
    /// When the request was begun that renewed last.
    renewed: Mutex<Option<Duration>>,
    /// The lease when we took it.
    lease: Mutex<Option<(Uid, ResourceVersion)>>,
    status: IntGauge,
    slow_path: IntCounter,
    /// None once we have told that we stop.
    recorder: Mutex<Option<EventRecorder>>,
}

/// Upstream's metrics (`component-base/metrics/prometheus/clientgo/leaderelection`), for any number of leases.
#[derive(Clone, Debug)]
pub(crate) struct ElectionMetrics {
    status: IntGaugeVec,
    slow_path: IntCounterVec,
}

/// `coordination.k8s.io/v1` Lease.
static LEASES: Resource = Resource { group: "coordination.k8s.io", version: "v1", plural: "leases", kind: "Lease" };

/// Upstream KCM's `leaderElectionHealthzAdaptorTimeout`.
const EXPIRED_FOR: Duration = Duration::from_secs(20);

// === impl ElectionMetrics ===

impl ElectionMetrics {
    /// Registers them.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let help = "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. \
                    'name' is the string used to identify the lease. Please make sure to group by name.";
        let status = IntGaugeVec::new(Opts::new("leader_election_master_status", help), &["name"])?;
        let help = "Total number of slow path exercised in renewing leases. 'name' is the string used to identify the lease. \
                    Please make sure to group by name.";
        let slow_path = IntCounterVec::new(Opts::new("leader_election_slowpath_total", help), &["name"])?;
        registry.register(Box::new(status.clone()))?;
        registry.register(Box::new(slow_path.clone()))?;
        Ok(Self { status, slow_path })
    }
}

// === impl Standing ===

impl Standing {
    pub(super) fn new(rules: Rules, clock: BootClock, recorder: EventRecorder, metrics: &ElectionMetrics) -> Self {
        Self {
            role: watch::Sender::new(Role::Candidate),
            clock,
            renewed: Mutex::new(None),
            lease: Mutex::new(None),
            status: metrics.status.with_label_values(&[&rules.name]),
            slow_path: metrics.slow_path.with_label_values(&[&rules.name]),
            recorder: Mutex::new(Some(recorder)),
            rules,
        }
    }

    pub(super) fn follow(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    pub(super) fn leading(&self, lease: &Lease) {
        self.status.set(1);
        *self.lease.lock() = Some((lease.uid(), lease.version()));
        self.role.send_replace(Role::Leader);
        self.tell("became leader");
    }

    /// Tells, once, that we are about to give the lease up, if we hold it (upstream `leaderelection.go` `renew`).
    pub(super) fn stopping(&self) {
        if *self.role.borrow() == Role::Leader {
            self.tell("stopped leading");
        }
        *self.recorder.lock() = None;
    }

    fn tell(&self, what: &str) {
        let (recorder, lease) = (self.recorder.lock(), *self.lease.lock());
        let (Some(recorder), Some((uid, resource_version))) = (&*recorder, lease) else { return };
        let key = ObjectKey::new(&*self.rules.namespace, &*self.rules.name);
        let lease = ObjectRef { resource: &LEASES, key, uid, resource_version };
        let message = format!("{} {what}", self.rules.me.identity);
        recorder.record(&lease, Event { severity: Severity::Normal, reason: "LeaderElection", message });
    }

    pub(super) fn standing_by(&self) {
        self.role.send_if_modified(|role| std::mem::replace(role, Role::Standby) != Role::Standby);
    }

    pub(super) fn renewed(&self, at: Duration) {
        *self.renewed.lock() = Some(at);
    }

    pub(super) fn lost(&self) {
        self.status.set(0);
        *self.renewed.lock() = None;
        self.standing_by();
    }

    pub(super) fn slow_path(&self) {
        self.slow_path.inc();
    }

    /// Upstream `leaderelection.go` `Check`: a leader whose lease has expired and who is still there hangs. Standbys are healthy.
    pub(super) fn check(&self) -> Result<(), String> {
        let limit = self.rules.me.duration + EXPIRED_FOR;
        let renewed = *self.renewed.lock();
        if renewed.is_some_and(|renewed| self.clock.now().saturating_sub(renewed) > limit) {
            return Err(format!("failed election to renew leadership on lease {}", self.rules.name));
        }
        Ok(())
    }
}
