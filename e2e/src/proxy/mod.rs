//! A proxy in front of an API server that does to requests what networks, crashes and overload do to them.
//!
//! ```no_run
//! # async fn example(control_plane: e2e::ControlPlane) -> anyhow::Result<()> {
//! use e2e::proxy::{Fault, Loss, Match, Moment, Proxy, Rule, When};
//!
//! let proxy = Proxy::start(control_plane.service_account_kubeconfig()).await?;
//! let lost = proxy.add(Rule::new(Match::creates("pods"), Fault::Lose(Moment::After, Loss::Stream)).when(When::chance(0.05)));
//! let ours = control_plane.launch().kubeconfig(proxy.kubeconfig()).start().await?;
//! assert_eq!(lost.taken(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! It speaks plain HTTP/2 with prior knowledge and HTTP/1.1 on loopback, and HTTP/2 to the server; credentials pass through untouched.
//! Each client connection has a server connection of its own. A request that has come in whole is carried out even if its client is gone, as
//! if it had been on the wire. Faults are [`Rule`]s, added and ended while it runs. With the same seed and the same order of requests the same
//! faults happen; the seed is printed, and `WCM_SEED` sets it.

mod active;
mod body;
mod connection;
mod exchange;
mod frames;
mod log;
mod recording;
mod refusal;
mod rule;
mod serve;
mod target;
mod tasks;
mod upstream;
mod watch;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;

pub use active::Handle;
pub use log::Logged;
pub use recording::Recording;
pub use refusal::Refusal;
pub use rule::{Ending, Event, EventMatch, Fault, Loss, Match, Moment, Point, Rule, WatchFault, When};
pub use target::Target;

use active::Registry;
use connection::Connections;
use log::Log;
use tasks::Tasks;
use upstream::Upstream;

/// A running proxy. Dropping it ends all of its tasks and connections.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    seed: u64,
    kubeconfig: PathBuf,
    shared: Arc<Shared>,
    folder: TempDir,
}

/// What the tasks have in common.
#[derive(Debug)]
struct Shared {
    registry: Arc<Registry>,
    log: Log,
    connections: Connections,
    /// Where new connections go.
    upstream: Mutex<Upstream>,
    tasks: Tasks,
}

// === impl Proxy ===

impl Proxy {
    /// A proxy in front of the server of a kubeconfig, with no faults.
    pub async fn start(kubeconfig: &Path) -> Result<Self> {
        let seed = std::env::var("WCM_SEED").ok().map(|seed| seed.parse().context("WCM_SEED is no number")).transpose()?;
        Self::start_seeded(kubeconfig, seed.unwrap_or_else(|| fastrand::u64(..))).await
    }

    /// A proxy whose faults are those of a seed.
    pub async fn start_seeded(kubeconfig: &Path, seed: u64) -> Result<Self> {
        let upstream = Mutex::new(Upstream::of(kubeconfig).await?);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        println!("faults of the proxy {url}: WCM_SEED={seed}");
        let registry = Arc::new(Registry::new(seed));
        let shared =
            Arc::new(Shared { registry, log: Log::default(), connections: Connections::default(), upstream, tasks: Tasks::default() });
        shared.tasks.spawn(serve::accept(Arc::clone(&shared), listener));
        let mut this = Self { url, seed, kubeconfig: PathBuf::new(), shared, folder: tempfile::tempdir()? };
        this.kubeconfig = this.kubeconfig_of(kubeconfig)?;
        Ok(this)
    }

    /// Its address, without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What the faults depend on.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The kubeconfig that it was started with, pointed at the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Lets callers without credentials be the user of the kubeconfig that it was started with. client-go sends none over plain HTTP (clientcmd
    /// `ClientConfig`).
    pub fn lend_token(&self) -> Result<()> {
        let config: Value = serde_json::from_slice(&std::fs::read(&self.kubeconfig)?)?;
        let token = config.pointer("/users/0/user/token").and_then(Value::as_str).context("a kubeconfig whose user has no token")?;
        self.shared.upstream.lock().unwrap_or_else(PoisonError::into_inner).lend_token(token)
    }

    /// A user's kubeconfig, JSON as [`ControlPlane`](crate::ControlPlane) writes it, pointed at the proxy. The file lives as long as the proxy.
    pub fn kubeconfig_of(&self, kubeconfig: &Path) -> Result<PathBuf> {
        let text = std::fs::read(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
        let mut config: Value = serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", kubeconfig.display()))?;
        for cluster in config.pointer_mut("/clusters").and_then(Value::as_array_mut).context("a kubeconfig without clusters")? {
            *cluster.pointer_mut("/cluster").context("a cluster without content")? = serde_json::json!({"server": self.url});
        }
        let file = self.folder.path().join(kubeconfig.file_name().context("a kubeconfig without a name")?);
        std::fs::write(&file, config.to_string())?;
        Ok(file)
    }

    /// Puts a rule in force, for open watches too.
    pub fn add(&self, rule: Rule) -> Handle {
        self.shared.registry.add(rule)
    }

    /// Takes all rules out of force; what they hold back goes on.
    pub fn clear(&self) {
        self.shared.registry.clear();
    }

    /// Holds matching requests in front of the server until the handle is released, or discarded: [`Handle::held`] says how many.
    pub fn hold_requests(&self, matcher: Match) -> Handle {
        self.add(Rule::new(matcher, Fault::Hold))
    }

    /// Holds back what matching watches say, until the handle is released, or discarded.
    pub fn stall(&self, matcher: Match) -> Handle {
        self.add(Rule::new(matcher, Fault::Watch(WatchFault::Stall)))
    }

    /// Ends the matching watches that are open, and loses what was held back of them. Others, opened later, stay.
    pub fn cut(&self, matcher: Match, ending: Ending) -> Handle {
        let open = self.in_flight(&matcher) as u64;
        self.add(Rule::new(matcher, Fault::Watch(WatchFault::Cut(ending, Point::Now))).when(When::first(open)))
    }

    /// How many matching requests have come.
    pub fn seen(&self, matcher: &Match) -> usize {
        self.shared.log.count(|logged| matcher.accepts(&logged.target))
    }

    /// How many matching requests are not answered or lost yet, or are watches that are open.
    pub fn in_flight(&self, matcher: &Match) -> usize {
        self.shared.log.count(|logged| logged.ended.is_none() && matcher.accepts(&logged.target))
    }

    /// All requests so far, in the order they came.
    pub fn requests(&self) -> Vec<Logged> {
        self.shared.log.all()
    }

    /// The matching requests so far.
    pub fn requests_of(&self, matcher: &Match) -> Vec<Logged> {
        self.shared.log.of(matcher)
    }

    /// How many connections clients have. Of one that has none any more, no request will come: each has met the rules there were, or is lost.
    pub fn connections(&self) -> usize {
        self.shared.connections.count()
    }

    /// Closes all connections to clients.
    pub fn close_connections(&self) {
        self.shared.connections.close();
    }

    /// Freezes the connections there are: nothing comes through any more, pings included, and nobody is told. New ones work.
    pub fn freeze_connections(&self) {
        self.shared.connections.freeze();
    }

    /// Freezes all connections, new ones too, until [`Proxy::heal`].
    pub fn partition(&self) {
        self.shared.connections.partition(true);
        self.freeze_connections();
    }

    /// Ends a partition: new connections work, and the frozen ones are closed.
    pub fn heal(&self) {
        self.shared.connections.partition(false);
        self.shared.connections.close_frozen();
    }

    /// Sends new connections to another server; credentials must be good there too. The connections there are stay with the old one.
    pub async fn redirect(&self, kubeconfig: &Path) -> Result<()> {
        let upstream = Upstream::of(kubeconfig).await?;
        *self.shared.upstream.lock().unwrap_or_else(PoisonError::into_inner) = upstream;
        Ok(())
    }

    /// Ends it, and waits until every task has ended.
    pub async fn stop(self) {
        let tasks = self.shared.tasks.clone();
        drop(self);
        tasks.ended().await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.tasks.end();
    }
}
