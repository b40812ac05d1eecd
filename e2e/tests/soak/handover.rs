//! Whether kube-controller-manager finds anything left to do.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::controlplane::ControllerManager;
use e2e::soak::audit::Write;
use e2e::wait;
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::player::Player;
use crate::support;
use crate::world::World;

const NAMESPACE: &str = "marker";

/// For its start, and for its first look at everything.
const PATIENCE: Duration = Duration::from_mins(4);

/// What it writes of whoever it is.
fn controllers() -> Vec<&'static str> {
    let mut controllers = vec!["deployment-controller", "replicaset-controller"];
    // Our StatefulSets are those of 1.37 on every server; those of before differ.
    if support::minor_release() >= 37 {
        controllers.push("statefulset-controller");
    }
    controllers
}

impl World {
    /// Ends ours, and has kube-controller-manager look at everything. Fails with what it writes.
    pub(crate) async fn hand_over(&mut self, players: &[Rc<Player>]) -> Result<()> {
        self.replicas.stop().await?;
        let controllers = controllers();
        let mut upstream = self.side.plane.run_controller_manager(&ControllerManager::only(controllers.clone()).unlimited()).await?;
        mark(self.client(), controllers.len() > 2).await?;
        // Whoever was queued before the marker was has been looked at, or is being looked at.
        wait::until("kube-controller-manager to have done its work", PATIENCE, async || {
            upstream.process_mut().ensure_running().map_err(wait::give_up)?;
            let metrics = upstream.endpoint().text("/metrics").await?;
            for name in ["deployment", "replicaset", "statefulset"] {
                for metric in ["workqueue_depth", "workqueue_unfinished_work_seconds"] {
                    let busy =
                        metrics.lines().find(|line| line.starts_with(&format!("{metric}{{name=\"{name}\"}}")) && !line.ends_with(" 0"));
                    ensure!(busy.is_none(), "{}", busy.unwrap_or_default());
                }
            }
            marked(self.client(), controllers.len() > 2).await
        })
        .await?;
        let writes = self.audited().await?;
        upstream.kill9()?;
        let spaces: BTreeSet<_> = players.iter().map(|player| player.namespace.as_str()).collect();
        let by_controller = |write: &&Write| {
            let (namespace, _) = write.key.split_once('/').unwrap_or_default();
            spaces.contains(namespace) && controllers.iter().any(|name| write.user.ends_with(&format!(":{name}")))
        };
        let (events, left): (Vec<_>, Vec<_>) = writes.iter().filter(by_controller).partition(|write| write.resource == "events");
        let left: Vec<_> = left.into_iter().map(ToString::to_string).collect();
        println!("  kube-controller-manager looked at {} namespaces: {} writes, {} events", spaces.len(), left.len(), events.len());
        if left.is_empty() { Ok(()) } else { bail!("kube-controller-manager found this to do:\n{}", left.join("\n")) }
    }
}

/// Makes objects of its own for it, in a namespace of their own.
async fn mark(client: &Client, with_set: bool) -> Result<()> {
    let template = json!({"metadata": {"labels": {"app": "marker"}}, "spec": support::pod_spec()});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "marker"}}, "template": template});
    let mut bodies = vec![("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": NAMESPACE}}))];
    bodies.push((path("deployments"), json!({"metadata": {"name": "marker"}, "spec": spec})));
    if with_set {
        bodies.push((path("statefulsets"), json!({"metadata": {"name": "marker"}, "spec": spec})));
    }
    for (path, body) in bodies {
        crate::world::ask(client, Method::POST, &path, &body).await?;
    }
    Ok(())
}

async fn marked(client: &Client, with_set: bool) -> Result<()> {
    for resource in ["deployments", "statefulsets"].into_iter().take(if with_set { 2 } else { 1 }) {
        let request = Request::get(format!("{}/marker", path(resource))).body(Vec::new())?;
        let object: Value = client.request(request).await.context("read the marker")?;
        let available = object.pointer("/status/availableReplicas");
        ensure!(available == Some(&json!(1)), "the marker among {resource} has {available:?} pods available");
    }
    Ok(())
}

fn path(resource: &str) -> String {
    format!("/apis/apps/v1/namespaces/{NAMESPACE}/{resource}")
}
