//! `make demo`: a real control plane, simulated nodes and our program; a Deployment comes up, is rolled, is given an image that never
//! starts until its progress deadline is over, and is rolled back, live in the terminal. With a terminal everything then stays up to be
//! played with until Ctrl-C.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use e2e::controlplane::{ControlPlane, ControllerManager};
use e2e::{Server, wait};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use nodes::scheduler::SchedulerOptions;
use nodes::{Fleet, FleetOptions};
use serde_json::json;

/// Shows the Deployment and ReplicaSet controllers at work on a control plane of their own.
#[derive(Parser)]
struct Arguments {
    /// Simulated nodes.
    #[arg(long, default_value_t = 10)]
    nodes: u32,
    /// Ends after the show, as without a terminal.
    #[arg(long)]
    once: bool,
}

/// What runs. Children end before the control plane that they talk to.
struct Show {
    fleet: Fleet,
    manager: Server,
    plane: ControlPlane,
    live: bool,
}

/// Cells of the bar: one a pod, those of the surge included.
const WIDTH: usize = 26;
const REPLICAS: i32 = 20;

/// How long one act may take on a busy machine.
const ACT: Duration = Duration::from_secs(180);

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Dropping the show on the way out ends every child, whichever way that is.
    let ended = tokio::select! {
        ended = run(&arguments) => ended,
        _ = tokio::signal::ctrl_c() => {
            println!("\nstopping");
            Ok(())
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let terminal = std::io::stdout().is_terminal();
    let mut show = Show::start(arguments.nodes, terminal).await?;
    show.apply("web:1", "ready-after=500ms").await?;
    show.act("apply a Deployment of 20", complete).await?;
    show.apply("web:2", "ready-after=500ms").await?;
    show.act("another image: a rolling update, 25 % surge and 25 % unavailable", complete).await?;
    show.apply("web:broken", "never-start").await?;
    show.act("an image that never starts: the rollout stops, and gives up after its deadline of 10 s", deadline_exceeded).await?;
    show.events().await?;
    show.undo().await?;
    show.act("kubectl rollout undo: only the broken pods go", complete).await?;
    if terminal && !arguments.once {
        show.invite();
        show.stay().await?;
    }
    show.end().await
}

// === impl Show ===

impl Show {
    async fn start(nodes: u32, live: bool) -> Result<Self> {
        say("starting etcd, kube-apiserver and kube-controller-manager without the workload controllers");
        let plane = ControlPlane::builder().controller_manager(ControllerManager::default()).start().await?;
        say(&format!("registering {nodes} simulated nodes"));
        let config = config(&plane).await?;
        let options = FleetOptions { count: nodes, scheduler: Some(SchedulerOptions::default()), ..FleetOptions::default() };
        let fleet = Fleet::start(&config, options).await?;
        say("starting workloads-controller-manager");
        let manager = plane.launch().controllers(["deployment-controller", "replicaset-controller"]).start().await?;
        Ok(Self { fleet, manager, plane, live })
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.plane.admin().clone(), "default")
    }

    /// The nodes go by the annotation, as they would by the image.
    async fn apply(&self, image: &str, behaviour: &str) -> Result<()> {
        let template = json!({
            "metadata": {"labels": {"app": "web"}, "annotations": {"nodes.wcm.dev/behaviour": behaviour}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "web", "image": format!("registry.example/{image}")}]},
        });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "replicas": REPLICAS, "progressDeadlineSeconds": 10, "selector": {"matchLabels": {"app": "web"}}, "template": template,
            },
        });
        let file = self.plane.folder().join("web.json");
        std::fs::write(&file, deployment.to_string())?;
        let file = file.to_str().context("the path of the manifest")?;
        self.plane.kubectl(&["apply", "-f", file]).await.map(drop)
    }

    async fn undo(&self) -> Result<()> {
        self.plane.kubectl(&["rollout", "undo", "deployment/web"]).await.map(drop)
    }

    /// Watches the Deployment until its status, of its present generation, says so.
    async fn act(&mut self, title: &str, is_over: fn(&DeploymentStatus) -> bool) -> Result<()> {
        println!("\n{title}");
        let started = Instant::now();
        let outcome = wait::until(title, ACT, async || {
            self.manager.process_mut().ensure_running().map_err(wait::give_up)?;
            let deployment = self.deployments().get("web").await?;
            let status = deployment.status.unwrap_or_default();
            self.draw(&status, started.elapsed());
            ensure!(status.observed_generation == deployment.metadata.generation, "its status is of another generation");
            ensure!(is_over(&status), "{status:?}");
            Ok(status)
        });
        let status = outcome.await?;
        if self.live {
            println!();
        } else {
            println!("  after {:.1} s: {}", started.elapsed().as_secs_f64(), counts(&status));
        }
        Ok(())
    }

    fn draw(&self, status: &DeploymentStatus, elapsed: Duration) {
        if !self.live {
            return;
        }
        let count = |count: Option<i32>| usize::try_from(count.unwrap_or(0)).unwrap_or(0);
        let (all, new, available) = (count(status.replicas), count(status.updated_replicas), count(status.available_replicas));
        let old = all.saturating_sub(new);
        // Old pods are available as a rule: what is missing is missing among the new ones.
        let ready = available.saturating_sub(old).min(new);
        let bar = format!("{}{}{}", "▒".repeat(old), "█".repeat(ready), "░".repeat(new - ready));
        print!("\r  {bar:<WIDTH$}  {}  {:>5.1} s ", counts(status), elapsed.as_secs_f64());
        // A terminal that is gone is noticed by the next line.
        let _ = std::io::stdout().flush();
    }

    /// What the Deployment's events say.
    async fn events(&self) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.plane.admin().clone(), "default");
        let of_web = ListParams::default().fields("involvedObject.kind=Deployment,involvedObject.name=web");
        for event in events.list(&of_web).await?.items {
            println!("  {} {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default());
        }
        Ok(())
    }

    fn invite(&self) {
        println!("\nEverything stays up until Ctrl-C. In another terminal:\n");
        println!("  export KUBECONFIG={}", self.plane.admin_kubeconfig().display());
        println!("  kubectl get deployments,replicasets,pods,nodes,events");
        println!("  kubectl scale deployment web --replicas=40");
        println!("  kubectl rollout history deployment web");
        println!("  kubectl set image deployment web web=registry.example/web:3 && kubectl rollout status deployment web");
        println!("\nMetrics: {}/metrics", self.manager.endpoint().url());
    }

    async fn stay(&mut self) -> Result<()> {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if let Some(status) = self.manager.process_mut().exited()? {
                bail!("workloads-controller-manager ended: {status}\n{}", self.manager.process().log_tail(20));
            }
        }
    }

    async fn end(mut self) -> Result<()> {
        let status = self.manager.terminate().await?;
        ensure!(status.success(), "workloads-controller-manager ended with {status}");
        self.fleet.shutdown().await
    }
}

fn complete(status: &DeploymentStatus) -> bool {
    [status.replicas, status.updated_replicas, status.available_replicas].iter().all(|count| *count == Some(REPLICAS))
}

fn deadline_exceeded(status: &DeploymentStatus) -> bool {
    let reasons = status.conditions.iter().flatten().filter_map(|condition| condition.reason.as_deref());
    reasons.into_iter().any(|reason| reason == "ProgressDeadlineExceeded")
}

fn counts(status: &DeploymentStatus) -> String {
    let count = |count: Option<i32>| count.unwrap_or(0);
    format!(
        "pods {:>2}, new {:>2}, available {:>2}",
        count(status.replicas),
        count(status.updated_replicas),
        count(status.available_replicas)
    )
}

async fn config(plane: &ControlPlane) -> Result<kube::Config> {
    let file = kube::config::Kubeconfig::read_from(plane.admin_kubeconfig())?;
    Ok(kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await?)
}

fn say(text: &str) {
    println!("{text}");
}
