//! Leader election: of several replicas one works (client-go `tools/leaderelection`, on a `coordination.k8s.io/v1` Lease).
//!
//! It runs on a thread of its own with its own connection, so that no reconcile, however long, costs the lease. Whoever loses the lease
//! ends: the [`Fence`] is closed, and the process exits with code 1. [`protocol`] decides, [`election`] acts, [`api`] speaks HTTP.
//!
//! Better than upstream in three points: a standby *watches* the lease, and so counts from the last renewal rather than from when it
//! happened to poll; it tries at the moment when the lease expires; and a lease that was deleted is its holder's until it would have expired.

mod api;
mod election;
mod lease;
mod migration;
mod protocol;
mod standing;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use machinery::client::{ApiClient, ClientMetrics, ClientOptions, Deadlines};
use machinery::clock::Clock;
use machinery::events::EventRecorder;
use machinery::fence::{BootClock, Fence};
use machinery::source::Backoff;
use model::Uid;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::error;

use self::api::HttpLease;
use self::election::{Election, Ended};
use self::lease::{Holder, Lease};
pub(crate) use self::migration::{MigrationConfig, Place};
use self::protocol::{Protocol, Rules};
use self::standing::Standing;
pub(crate) use self::standing::{ElectionMetrics, Role};
use crate::options::LeaderElectionOptions;

/// A candidacy, as the rest of the process sees it.
pub(crate) struct Leadership {
    role: watch::Receiver<Role>,
    standing: Arc<Standing>,
    /// Whether the lease is given up in the end.
    releases: bool,
    resign: CancellationToken,
    ended: oneshot::Receiver<()>,
}

/// What a candidacy needs of the process.
pub(crate) struct Candidacy<'a> {
    pub(crate) options: &'a LeaderElectionOptions,
    /// The lease's name.
    pub(crate) lease: &'a str,
    /// What we are called in all leases.
    pub(crate) identity: &'a str,
    pub(crate) config: &'a kube::Config,
    pub(crate) client: &'a ClientOptions,
    pub(crate) client_metrics: &'a ClientMetrics,
    pub(crate) metrics: &'a ElectionMetrics,
    /// Tells who became leader.
    pub(crate) recorder: EventRecorder,
    /// Open while we lead.
    pub(crate) fence: Fence,
}

// === impl Leadership ===

impl Leadership {
    /// Where we stand; changes from leader to anything else are the end of the process.
    pub(crate) fn role(&self) -> Role {
        *self.role.borrow()
    }

    /// Waits until the lease has been looked at for the first time.
    pub(crate) async fn decided(&mut self) {
        // An election that has ended has a role, or has ended the process.
        let _ = self.role.wait_for(|role| *role != Role::Candidate).await;
    }

    /// Waits until we lead.
    pub(crate) fn leading(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut role = self.role.clone();
        async move {
            if role.wait_for(|role| *role == Role::Leader).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Tells that we are about to resign, if we lead. Nothing is told after that.
    pub(crate) fn stopping(&self) {
        if self.releases {
            self.standing.stopping();
        }
    }

    /// The health check `leaderElection`: what is wrong with our leadership, if anything is.
    pub(crate) fn check(&self) -> impl Fn() -> Result<(), String> + Send + Sync + use<> {
        let standing = Arc::clone(&self.standing);
        move || standing.check()
    }

    /// Gives the lease up, if we hold it and are meant to. Nobody may work any more.
    pub(crate) async fn resign(self) {
        self.resign.cancel();
        let _ = self.ended.await;
    }
}

/// Begins a candidacy on a thread of its own.
///
/// # Errors
/// When its client or its thread cannot be set up.
pub(crate) fn start(candidacy: Candidacy<'_>) -> anyhow::Result<Leadership> {
    let Candidacy { options, lease, identity, config, client, client_metrics, metrics, recorder, fence } = candidacy;
    let rules = rules(options, lease, identity);
    let clock = BootClock::default();
    let standing = Arc::new(Standing::new(rules.clone(), clock.clone(), recorder, metrics));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime of leader election")?;
    let client = {
        let _guard = runtime.enter();
        ApiClient::new(config, &client_options(client, rules.renew_deadline), client_metrics, false)?
    };
    let api = HttpLease::new(client, &rules.namespace, &rules.name);
    let (seen, watched) = watch::channel(None);
    let election = Election {
        protocol: Protocol::new(rules, fastrand::u64(..), clock.now()),
        api: api.clone(),
        clock,
        wall: Clock::system(),
        fence: fence.clone(),
        standing: Arc::clone(&standing),
        watched,
        release_on_exit: options.leader_elect_release_on_exit,
        complaint: None,
    };
    let resign = CancellationToken::new();
    let (done, ended) = oneshot::channel();
    let role = standing.follow();
    let until = resign.clone();
    let work = move || {
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| campaign(&runtime, election, api, seen, until)));
        if matches!(result, Ok(Ended::Resigned)) {
            let _ = done.send(());
            return;
        }
        if result.is_err() {
            error!("Leader election has panicked");
        }
        fence.close();
        // At once, whatever the other threads are at: somebody else works now, or soon.
        std::process::exit(1);
    };
    std::thread::Builder::new().name("leader-election".to_owned()).spawn(work).context("starting the thread of leader election")?;
    Ok(Leadership { role, standing, releases: options.leader_elect_release_on_exit, resign, ended })
}

fn campaign(
    runtime: &Runtime,
    election: Election<HttpLease>,
    api: HttpLease,
    seen: watch::Sender<Option<Lease>>,
    resign: CancellationToken,
) -> Ended {
    runtime.block_on(async {
        let watching = tokio::spawn(api.watch(seen, Clock::system(), Backoff::new(fastrand::u64(..))));
        let ended = election.run(resign).await;
        watching.abort();
        ended
    })
}

fn rules(options: &LeaderElectionOptions, lease: &str, identity: &str) -> Rules {
    Rules {
        namespace: options.leader_elect_resource_namespace.clone(),
        name: lease.to_owned(),
        me: Holder { identity: identity.to_owned(), duration: options.leader_elect_lease_duration },
        renew_deadline: options.leader_elect_renew_deadline,
        retry_period: options.leader_elect_retry_period,
    }
}

/// Host name and something random (upstream `controllermanager.go`: `id = id + "_" + string(uuid.NewUUID())`): a process that comes back
/// on the same host is not the one before.
pub(crate) fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}", host.trim(), Uid(fastrand::u128(..)))
}

/// Upstream's client for leader election has half the renew deadline for each request (`controllermanager.go`
/// `leaderElectAndRun`, client-go `rest.Config.Timeout`), and no less than a second.
fn client_options(client: &ClientOptions, renew_deadline: Duration) -> ClientOptions {
    let limit = (renew_deadline / 2).max(Duration::from_secs(1));
    ClientOptions { qps: 0.0, connect_timeout: limit, deadlines: Deadlines { lease: limit, ..client.deadlines }, ..client.clone() }
}
