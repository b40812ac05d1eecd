//! `make demo`: a real control plane, simulated nodes and our program; a ReplicaSet grows to 50, to 200 and shrinks to 3, live in the
//! terminal. With a terminal everything then stays up to be played with until Ctrl-C.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use e2e::controlplane::{ControlPlane, ControllerManager};
use e2e::{Server, wait};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::{Api, Patch, PatchParams};
use nodes::scheduler::SchedulerOptions;
use nodes::{Fleet, FleetOptions};
use serde_json::json;

/// Shows the ReplicaSet controller at work on a control plane of its own.
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

/// Cells of the bar.
const WIDTH: i32 = 40;

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
    show.apply(50).await?;
    show.act("apply a ReplicaSet of 50", 50).await?;
    show.scale(200).await?;
    show.act("scale it to 200", 200).await?;
    show.scale(3).await?;
    show.act("scale it to 3", 3).await?;
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
        let manager = plane.launch().controllers(["replicaset-controller"]).start().await?;
        Ok(Self { fleet, manager, plane, live })
    }

    fn sets(&self) -> Api<ReplicaSet> {
        Api::namespaced(self.plane.admin().clone(), "default")
    }

    async fn apply(&self, replicas: i32) -> Result<()> {
        let template = json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "web", "image": "registry.example/web:1"}]},
        });
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        });
        let file = self.plane.folder().join("web.json");
        std::fs::write(&file, set.to_string())?;
        let file = file.to_str().context("the path of the manifest")?;
        self.plane.kubectl(&["apply", "-f", file]).await.map(drop)
    }

    async fn scale(&self, replicas: i32) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.sets().patch("web", &PatchParams::default(), &patch).await.context("scale the ReplicaSet")?;
        Ok(())
    }

    /// Watches the ReplicaSet until it has so many ready pods and no others.
    async fn act(&mut self, title: &str, wanted: i32) -> Result<()> {
        println!("\n{title}");
        let started = Instant::now();
        let outcome = wait::until(title, ACT, async || {
            self.manager.process_mut().ensure_running().map_err(wait::give_up)?;
            let status = self.sets().get("web").await?.status.unwrap_or_default();
            let (have, ready) = (status.replicas, status.ready_replicas.unwrap_or(0));
            self.draw(wanted, have, ready, self.fleet.statistics().pods, started.elapsed());
            ensure!(have == wanted && ready == wanted, "{have} replicas, {ready} ready");
            Ok(())
        });
        outcome.await?;
        if self.live {
            println!();
        } else {
            println!("  {wanted} of {wanted} ready after {:.1} s", started.elapsed().as_secs_f64());
        }
        Ok(())
    }

    fn draw(&self, wanted: i32, have: i32, ready: i32, on_nodes: i64, elapsed: Duration) {
        if !self.live {
            return;
        }
        let cells = |count: i32| usize::try_from((count * WIDTH / wanted.max(have).max(1)).clamp(0, WIDTH)).unwrap_or(0);
        let (full, begun) = (cells(ready), cells(have).saturating_sub(cells(ready)));
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(begun));
        print!(
            "\r  {bar:<40}  want {wanted:>3}  have {have:>3}  ready {ready:>3}  on nodes {on_nodes:>3}  {:>5.1} s ",
            elapsed.as_secs_f64()
        );
        // A terminal that is gone is noticed by the next line.
        let _ = std::io::stdout().flush();
    }

    fn invite(&self) {
        println!("\nEverything stays up until Ctrl-C. In another terminal:\n");
        println!("  export KUBECONFIG={}", self.plane.admin_kubeconfig().display());
        println!("  kubectl get replicasets,pods,nodes,events");
        println!("  kubectl scale replicaset web --replicas=20");
        println!("  kubectl annotate pod --all nodes.wcm.dev/behaviour=unready");
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

async fn config(plane: &ControlPlane) -> Result<kube::Config> {
    let file = kube::config::Kubeconfig::read_from(plane.admin_kubeconfig())?;
    Ok(kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await?)
}

fn say(text: &str) {
    println!("{text}");
}
