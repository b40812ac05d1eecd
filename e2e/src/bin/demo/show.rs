//! What the acts are played on.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::controlplane::{ControlPlane, ControllerManager};
use e2e::{Server, wait};
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, ListParams};
use nodes::scheduler::SchedulerOptions;
use nodes::{Fleet, FleetOptions};
use serde_json::Value;

/// What runs. Children end before the control plane that they talk to.
pub(crate) struct Show {
    fleet: Fleet,
    manager: Server,
    plane: ControlPlane,
    live: bool,
}

/// One look at what an act is about.
pub(crate) struct Look {
    /// What is drawn in a terminal.
    pub(crate) picture: String,
    /// The same in words.
    pub(crate) words: String,
    /// Whether this is what the act waits for.
    pub(crate) is_over: bool,
}

/// How long one act may take on a busy machine.
const ACT: Duration = Duration::from_secs(180);

// === impl Show ===

impl Show {
    pub(crate) async fn start(nodes: u32, live: bool) -> Result<Self> {
        say("starting etcd, kube-apiserver and kube-controller-manager without the workload controllers");
        let plane = ControlPlane::builder().controller_manager(ControllerManager::default()).start().await?;
        say(&format!("registering {nodes} simulated nodes"));
        let config = config(&plane).await?;
        let options = FleetOptions { count: nodes, scheduler: Some(SchedulerOptions::default()), ..FleetOptions::default() };
        let fleet = Fleet::start(&config, options).await?;
        say("starting workloads-controller-manager");
        let controllers = ["deployment-controller", "replicaset-controller", "statefulset-controller"];
        let manager = plane.launch().controllers(controllers).start().await?;
        Ok(Self { fleet, manager, plane, live })
    }

    pub(crate) fn client(&self) -> Client {
        self.plane.admin().clone()
    }

    /// `kubectl apply`.
    pub(crate) async fn apply(&self, manifest: &Value) -> Result<()> {
        let file = self.plane.folder().join("manifest.json");
        std::fs::write(&file, manifest.to_string())?;
        self.kubectl(&["apply", "-f", file.to_str().context("the path of the manifest")?]).await
    }

    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        self.plane.kubectl(arguments).await.map(drop)
    }

    /// Looks until the act is over.
    pub(crate) async fn act(&mut self, title: &str, look: impl AsyncFn(Client) -> Result<Look>) -> Result<()> {
        println!("\n{title}");
        let started = Instant::now();
        let (client, live) = (self.client(), self.live);
        let last = wait::until(title, ACT, async || {
            self.manager.process_mut().ensure_running().map_err(wait::give_up)?;
            let seen = look(client.clone()).await?;
            if live {
                print!("\r  {}  {}  {:>5.1} s ", seen.picture, seen.words, started.elapsed().as_secs_f64());
                // A terminal that is gone is noticed by the next line.
                let _ = std::io::stdout().flush();
            }
            ensure!(seen.is_over, "{}", seen.words);
            Ok(seen)
        });
        let last = last.await?;
        if live {
            println!();
        } else {
            println!("  after {:.1} s: {}", started.elapsed().as_secs_f64(), last.words);
        }
        Ok(())
    }

    /// What an object's events of some reasons say; of all, if none are named.
    pub(crate) async fn events(&self, kind: &str, name: &str, reasons: &[&str]) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.client(), "default");
        let of_it = ListParams::default().fields(&format!("involvedObject.kind={kind},involvedObject.name={name}"));
        for event in events.list(&of_it).await?.items {
            let reason = event.reason.unwrap_or_default();
            if reasons.is_empty() || reasons.contains(&reason.as_str()) {
                println!("  {reason} {}", event.message.unwrap_or_default());
            }
        }
        Ok(())
    }

    pub(crate) fn invite(&self) {
        println!("\nEverything stays up until Ctrl-C. In another terminal:\n");
        println!("  export KUBECONFIG={}", self.plane.admin_kubeconfig().display());
        println!("  kubectl get deployments,replicasets,statefulsets,controllerrevisions,pods,nodes,events");
        println!("  kubectl scale deployment web --replicas=40");
        println!("  kubectl rollout history statefulset db");
        println!("  kubectl set image deployment web web=registry.example/web:3 && kubectl rollout status deployment web");
        println!("\nMetrics: {}", e2e::access::curl(&self.manager, "/metrics"));
    }

    pub(crate) async fn stay(&mut self) -> Result<()> {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if let Some(status) = self.manager.process_mut().exited()? {
                bail!("workloads-controller-manager ended: {status}\n{}", self.manager.process().log_tail(20));
            }
        }
    }

    pub(crate) async fn end(mut self) -> Result<()> {
        let status = self.manager.terminate().await?;
        ensure!(status.success(), "workloads-controller-manager ended with {status}");
        self.fleet.shutdown().await
    }
}

async fn config(plane: &ControlPlane) -> Result<kube::Config> {
    let file = kube::config::Kubeconfig::read_from(plane.admin_kubeconfig())?;
    Ok(kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await?)
}

fn say(text: &str) {
    println!("{text}");
}
