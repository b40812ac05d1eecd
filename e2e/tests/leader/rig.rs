//! What each scenario has: a control plane for itself while it runs, and candidates, each behind a proxy of its own.

use std::ops::Deref;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::process::Launch;
use e2e::proxy::{Logged, Match, Proxy};
use e2e::{ControlPlane, Server, wait};
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DeleteParams, ListParams};
use tokio::sync::OwnedSemaphorePermit;

use crate::support::planes;
use crate::support::{PATIENCE, Space};

/// The lease's duration, the renew deadline and the retry period; shorter than the defaults, but not so short that a busy machine loses
/// the lease.
pub const LEASE: Duration = Duration::from_secs(8);
pub const DEADLINE: Duration = Duration::from_secs(6);
const TIMES: [&str; 3] = ["--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=1s"];

/// Times are measured here: nobody is to wait for a processor.
pub type Planes = planes::Planes<2>;

/// Short: the scenarios' functions.
pub type Shared = Rc<Planes>;

/// One scenario's world. The space is its namespace, seen by the administrator past the proxies.
pub struct Rig {
    pub space: Space,
    pub plane: ControlPlane,
    _turn: OwnedSemaphorePermit,
}

/// One process that takes part. Fields are dropped in this order: the program ends before its server.
pub struct Candidate {
    pub server: Server,
    pub proxy: Proxy,
}

impl Deref for Rig {
    type Target = Space;

    fn deref(&self) -> &Space {
        &self.space
    }
}

impl Rig {
    pub async fn new(planes: &Shared) -> Result<Self> {
        let (plane, turn) = planes.lend().await?;
        let space = Space::new(&plane, "leader").await?;
        Ok(Self { space, plane, _turn: turn })
    }

    /// One more candidate, which answers for its health.
    pub async fn candidate(&self) -> Result<Candidate> {
        self.candidate_with(|launch| launch).await
    }

    pub async fn candidate_with(&self, change: impl FnOnce(Launch) -> Launch) -> Result<Candidate> {
        let proxy = Proxy::start(self.plane.service_account_kubeconfig()).await?;
        let launch = self.plane.launch().kubeconfig(proxy.kubeconfig()).rate(1000, 1000).leader_elect();
        let launch = TIMES.iter().fold(launch, |launch, flag| launch.flag(*flag));
        Ok(Candidate { server: change(launch).start().await?, proxy })
    }

    /// A candidate that leads, and then one that stands by.
    pub async fn pair(&self) -> Result<(Candidate, Candidate)> {
        let leader = self.candidate().await?;
        leader.works().await?;
        let standby = self.candidate().await?;
        standby.stands_by().await?;
        Ok((leader, standby))
    }

    pub fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.plane.admin().clone(), "kube-system")
    }

    /// Who holds a lease; empty if nobody does.
    pub async fn holder(&self, lease: &str) -> Result<String> {
        let lease = self.leases().get_opt(lease).await?;
        Ok(lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default())
    }

    /// Waits for an event about a lease.
    pub async fn told(&self, message: &str) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.plane.admin().clone(), "kube-system");
        wait::list(&events, &ListParams::default(), &format!("the event {message:?}"), PATIENCE, |events| {
            let is_told = |event: &Event| event.reason.as_deref() == Some("LeaderElection") && event.message.as_deref() == Some(message);
            ensure!(events.iter().any(is_told), "none");
            Ok(())
        })
        .await?;
        Ok(())
    }

    /// Ends the scenario, which went well, and leaves the control plane clean for the next one.
    pub async fn end(self, planes: &Shared) -> Result<()> {
        self.deployments().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        self.sets().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        self.pods().delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
        for lease in ["workloads-controller-manager", "kube-controller-manager", "workloads-migration"] {
            let _ = self.leases().delete(lease, &DeleteParams::default()).await;
        }
        planes.take_back(self.plane);
        Ok(())
    }

    pub fn deployments(&self) -> Api<k8s_openapi::api::apps::v1::Deployment> {
        Api::namespaced(self.plane.admin().clone(), &self.space.namespace)
    }
}

impl Candidate {
    pub fn log(&self) -> Result<String> {
        self.server.printed()
    }

    pub async fn logs(&self, text: &str) -> Result<()> {
        wait::until(&format!("the log to say {text:?}"), PATIENCE, async || {
            ensure!(self.log()?.contains(text), "it does not");
            Ok(())
        })
        .await
    }

    pub async fn works(&self) -> Result<()> {
        self.logs("Controllers started").await
    }

    /// With full caches.
    pub async fn stands_by(&self) -> Result<()> {
        self.logs("Caches synced").await?;
        self.logs("Standing by: another process holds the lease").await
    }

    /// What it has written, the lease and events apart.
    pub fn writes(&self) -> Vec<Logged> {
        let is_write = |logged: &Logged| logged.method != Method::GET && !matches!(&*logged.target.resource, "leases" | "events");
        self.proxy.requests().into_iter().filter(is_write).collect()
    }

    /// Everything it has written, to whatever.
    pub fn all_writes(&self) -> usize {
        let all = Match { methods: vec![Method::POST, Method::PUT, Method::PATCH, Method::DELETE], ..Match::any() };
        self.proxy.seen(&all)
    }

    /// How long after `since` its first write came, once it has come.
    pub async fn first_write_after(&self, since: Instant) -> Result<Duration> {
        let first = async || self.writes().first().map(|write| write.at.duration_since(since)).context("it has written nothing");
        wait::until("the first write", PATIENCE, first).await
    }

    /// Its end, which comes by itself.
    pub async fn ended(&mut self, within: Duration) -> Result<Option<i32>> {
        let process = self.server.process_mut();
        let status = wait::until("the process to end", within, async || process.exited()?.context("it runs")).await?;
        ensure!(!self.log()?.contains("panicked"), "its log speaks of a panic");
        Ok(status.code())
    }

    pub async fn master(&self, lease: &str) -> Result<Option<f64>> {
        self.server.endpoint().metric(&format!("leader_election_master_status{{name=\"{lease}\"}}")).await
    }
}
