//! What each scenario has: a control plane for itself while it runs, the proxy, the program behind it, and a witness in front of it.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::process::Launch;
use e2e::proxy::{Match, Proxy};
use e2e::{ControlPlane, Server, wait};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, WatchEvent, WatchParams};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use crate::support::planes;
use crate::support::{PATIENCE, Space, is_active};

pub type Planes = planes::Planes<3>;

/// Short: the scenarios' functions.
pub type Shared = Rc<Planes>;

/// One scenario's world. The space is its namespace, seen by the administrator past the proxy.
pub struct Rig {
    // Fields are dropped in this order: the program ends before its server.
    pub manager: Option<Server>,
    pub proxy: Proxy,
    pub space: Space,
    pub plane: ControlPlane,
    _turn: OwnedSemaphorePermit,
}

impl Deref for Rig {
    type Target = Space;

    fn deref(&self) -> &Space {
        &self.space
    }
}

impl Rig {
    /// With the program running, and no faults.
    pub async fn start(planes: &Shared) -> Result<Self> {
        let mut rig = Self::prepare(planes).await?;
        rig.run().await?;
        Ok(rig)
    }

    /// Without the program.
    pub async fn prepare(planes: &Shared) -> Result<Self> {
        let (plane, turn) = planes.lend().await?;
        let space = Space::new(&plane, "faults").await?;
        let proxy = Proxy::start(plane.service_account_kubeconfig()).await?;
        Ok(Self { manager: None, proxy, space, plane, _turn: turn })
    }

    /// How the program is started.
    pub fn launch(&self) -> Launch {
        self.plane.launch().kubeconfig(self.proxy.kubeconfig()).controllers(["replicaset-controller"]).rate(1000, 1000)
    }

    /// Starts the program and waits until its controllers work.
    pub async fn run(&mut self) -> Result<()> {
        let manager = self.manager.insert(self.launch().start().await?);
        let log = manager.log().to_owned();
        wait::until("the controllers to start", PATIENCE, async || {
            ensure!(std::fs::read_to_string(&log)?.contains("Controllers started"), "they have not");
            Ok(())
        })
        .await
    }

    /// Kills the program. Whatever it had sent has met the rules that are in force now, or is lost: rules may change behind this.
    pub async fn kill9(&mut self) -> Result<()> {
        self.manager.take().context("no program is running")?.kill9()?;
        wait::until("the proxy to see it gone", PATIENCE, async || {
            ensure!(self.proxy.connections() == 0, "{} connections are open", self.proxy.connections());
            Ok(())
        })
        .await
    }

    /// The program.
    pub fn program(&self) -> Result<&Server> {
        self.manager.as_ref().context("no program is running")
    }

    /// How often the log has this text.
    pub fn logged(&self, text: &str) -> Result<usize> {
        Ok(self.program()?.printed()?.matches(text).count())
    }

    /// How many lists of pods the program has begun.
    pub async fn pod_lists(&self) -> Result<f64> {
        let sample = r#"reflector_lists_total{group="",resource="pods"}"#;
        self.program()?.endpoint().metric(sample).await?.context("no such metric")
    }

    /// Waits until the pod watch is old enough: one that ends in its first second is taken for a failure, and backed off.
    pub async fn pod_watch_is_old(&self) -> Result<()> {
        wait::until("the pod watch to be older than a second", PATIENCE, async || {
            let watches = self.proxy.requests_of(&Match::watches("pods"));
            let open = watches.iter().find(|watch| watch.ended.is_none()).context("there is none")?;
            ensure!(open.at.elapsed() > Duration::from_millis(1200), "it is {:?} old", open.at.elapsed());
            Ok(())
        })
        .await
    }

    /// How many creates of pods the proxy has seen.
    pub fn creates(&self) -> usize {
        self.proxy.seen(&Match::creates("pods"))
    }

    /// How many deletes of pods the proxy has seen.
    pub fn deletes(&self) -> usize {
        self.proxy.seen(&Match::deletes("pods"))
    }

    /// The active pods of this one owner.
    pub async fn pods_of(&self, owner: &str) -> Result<usize> {
        let is_of = |pod: &Pod| pod.metadata.owner_references.iter().flatten().any(|reference| reference.uid == owner);
        Ok(self.all_pods().await?.iter().filter(|pod| is_active(pod) && is_of(pod)).count())
    }

    /// Ends the scenario, which went well: the program ends in order, and the control plane is clean for the next one.
    pub async fn end(mut self, planes: &Shared) -> Result<()> {
        if let Some(mut manager) = self.manager.take() {
            let log = manager.printed()?;
            ensure!(!log.contains("panicked"), "the program's log speaks of a panic");
            ensure!(manager.terminate().await?.success(), "the program ended badly");
        }
        self.sets().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        let (pods, at_once) = (self.pods(), DeleteParams::default().grace_period(0));
        // Ten thousand of them are more than one request has time for on a busy server.
        wait::until("the pods to be gone", 5 * PATIENCE, async || Ok(pods.delete_collection(&at_once, &ListParams::default()).await?))
            .await?;
        self.proxy.stop().await;
        planes.take_back(self.plane);
        Ok(())
    }
}

/// Sees every change of the namespace's pods, past the proxy.
pub struct Witness {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

/// What it has seen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    active: BTreeSet<String>,
    made: BTreeSet<String>,
    /// The most active pods there were at any moment.
    pub peak: usize,
}

impl Witness {
    pub async fn start(space: &Space) -> Result<Self> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let version = Self::list(&space.pods(), &seen).await?;
        let task = tokio::spawn(Self::follow(space.pods(), Arc::clone(&seen), version));
        Ok(Self { seen, task })
    }

    /// All that was seen once there have been so many pods in all.
    pub async fn of(&self, made: usize) -> Result<Seen> {
        wait::until("the witness to have seen all pods", PATIENCE, async || {
            let seen = self.seen.lock().unwrap().clone();
            ensure!(seen.made() >= made, "{} of {made}", seen.made());
            Ok(seen)
        })
        .await
    }

    async fn follow(pods: Api<Pod>, seen: Arc<Mutex<Seen>>, mut version: String) {
        loop {
            // Ends when the server does; then everything is listed again.
            let _ = Self::watch(&pods, &seen, &version).await;
            loop {
                if let Ok(listed) = Self::list(&pods, &seen).await {
                    version = listed;
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    async fn list(pods: &Api<Pod>, seen: &Mutex<Seen>) -> Result<String> {
        let list = pods.list(&ListParams::default()).await?;
        let mut seen = seen.lock().unwrap();
        seen.active.clear();
        list.items.iter().for_each(|pod| seen.applied(pod));
        list.metadata.resource_version.context("a list without a version")
    }

    async fn watch(pods: &Api<Pod>, seen: &Mutex<Seen>, version: &str) -> Result<()> {
        let mut events = std::pin::pin!(pods.watch(&WatchParams::default(), version).await?);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => seen.lock().unwrap().applied(&pod),
                WatchEvent::Deleted(pod) => drop(seen.lock().unwrap().active.remove(&uid(&pod))),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(_) => break,
            }
        }
        Ok(())
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Seen {
    /// How many pods there have been.
    pub fn made(&self) -> usize {
        self.made.len()
    }

    /// How many of them have gone.
    pub fn gone(&self) -> usize {
        self.made.len() - self.active.len()
    }

    fn applied(&mut self, pod: &Pod) {
        self.made.insert(uid(pod));
        if is_active(pod) {
            self.active.insert(uid(pod));
        } else {
            self.active.remove(&uid(pod));
        }
        self.peak = self.peak.max(self.active.len());
    }
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}
