//! What the scenarios share: a busy program on a control plane, and a Prometheus that scrapes it.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use e2e::access::Authority;
use e2e::controlplane::ControlPlane;
use e2e::endpoint::Endpoint;
use e2e::prometheus::{Programs, Prometheus};
use e2e::{Server, process, wait};
use http::{Method, Request};
use nodes::Fleet;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::alerts;
use super::scraper::{Job, config};
use crate::support::pods::fleet;
use crate::support::scenarios::Context;
use crate::support::{PATIENCE, Space, pod_spec};

const CONTROLLERS: [&str; 3] = ["deployment-controller", "replicaset-controller", "statefulset-controller"];

/// The annotation that says how a pod behaves on a simulated node.
const BEHAVIOUR: &str = "nodes.wcm.dev/behaviour";

pub struct Cluster {
    // Fields are dropped in this order: clients end before their servers.
    pub prometheus: Prometheus,
    server: Server,
    _fleet: Fleet,
    pub plane: ControlPlane,
    pub programs: Programs,
    /// Reads every page.
    master: Endpoint,
    pub folder: TempDir,
}

impl Context for Cluster {
    async fn start() -> Result<Self> {
        process::binary()?;
        let programs = Programs::find().await?;
        let plane = ControlPlane::builder().start().await?;
        let (authority, folder) = (Authority::create("scraped")?, tempfile::tempdir()?);
        let server = start_program(&plane, &authority, folder.path())?;
        let identity = authority.client("master", Some("system:masters"))?;
        let master = Endpoint::secure(server.endpoint().url(), &authority.der(), Some(&identity))?;
        wait::until("the program to be ready", PATIENCE, async || master.text("/readyz").await.map(drop)).await?;
        let space = Space::new(&plane, "monitoring").await?;
        let prometheus = start_prometheus(&programs, &space, folder.path(), server.endpoint()).await?;
        let cluster = Self { prometheus, server, _fleet: fleet(&plane).await?, plane, programs, master, folder };
        cluster.scraped("up").await?;
        cluster.work().await?;
        Ok(cluster)
    }

    async fn stop(&mut self) -> Result<()> {
        let status = self.server.terminate().await?;
        ensure!(status.success(), "the program ended with {status}");
        Ok(())
    }
}

impl Cluster {
    /// A page of the program's.
    pub async fn page(&self, path: &str) -> Result<String> {
        self.master.text(path).await
    }

    /// Waits until Prometheus has more than nothing of an expression of the program.
    async fn scraped(&self, expression: &str) -> Result<()> {
        let expression = format!("({expression}) > 0 and on (instance, job) up{{job=\"workloads-controller-manager\"}}");
        wait::until(&format!("{expression} to be scraped"), PATIENCE, async || {
            let found = self.prometheus.query(&expression).await?;
            ensure!(!found.is_empty(), "nothing");
            Ok(())
        })
        .await
    }

    /// Lets all three controllers make, change, delete and wait, between scrapes: rates are of what is counted in more than one.
    async fn work(&self) -> Result<()> {
        let space = Space::new(&self.plane, "busy").await?;
        let limits = json!({"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "1m"}}]}});
        space.create("limitranges", &limits).await?;
        let greedy =
            json!({"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}});
        for (kind, resource, name, replicas) in [
            ("Deployment", "deployments", "web", 3),
            ("Deployment", "deployments", "stuck", 2),
            ("Deployment", "deployments", "greedy", 2),
            ("StatefulSet", "statefulsets", "db", 2),
        ] {
            let mut object = object(kind, name, replicas);
            match name {
                "stuck" => object["spec"]["template"]["metadata"]["annotations"] = json!({BEHAVIOUR: "unready"}),
                "greedy" => object["spec"]["template"]["spec"]["containers"] = json!([greedy]),
                _ => {}
            }
            space.apps(Method::POST, resource, &object).await?;
        }
        self.ready(&space, "deployments/web", 3).await?;
        self.ready(&space, "statefulsets/db", 2).await?;
        self.scraped("workloads_controller_manager_writes_total{controller=\"statefulset\"}").await?;
        self.scraped("workloads_controller_manager_writes_refused_total{reason=\"Forbidden\"}").await?;
        let changed = json!({"spec": {"replicas": 4, "template": {"metadata": {"annotations": {"changed": "yes"}}}}});
        for (object, replicas) in [("deployments/web", 4), ("statefulsets/db", 4)] {
            space.apps(Method::PATCH, object, &changed).await?;
            self.ready(&space, object, replicas).await?;
        }
        space.apps(Method::PATCH, "deployments/web", &json!({"spec": {"replicas": 2}})).await?;
        self.ready(&space, "deployments/web", 2).await?;
        self.scraped("increase(replicaset_controller_sorting_deletion_age_ratio_count[1m])").await
    }

    /// Waits until an object has so many pods, all of its newest revision and ready.
    async fn ready(&self, space: &Space, object: &str, replicas: i64) -> Result<()> {
        wait::until(&format!("{object} to have {replicas} new pods that are ready"), PATIENCE, async || {
            let seen = space.apps(Method::GET, object, &Value::Null).await?;
            let status = &seen["status"];
            ensure!(seen["metadata"]["generation"] == status["observedGeneration"], "{status}");
            for count in ["replicas", "readyReplicas", "updatedReplicas"] {
                ensure!(status[count] == replicas, "{status}");
            }
            Ok(())
        })
        .await
    }
}

fn start_program(plane: &ControlPlane, authority: &Authority, folder: &Path) -> Result<Server> {
    authority.server()?.write(folder, "server")?;
    std::fs::write(folder.join("ca.crt"), authority.pem())?;
    let flag = |flag: &str, file: &Path| format!("{flag}={}", file.display());
    let launch = plane.launch().controllers(CONTROLLERS).rate(200, 400).leader_elect();
    let launch =
        launch.flag(flag("--tls-cert-file", &folder.join("server.crt"))).flag(flag("--tls-private-key-file", &folder.join("server.key")));
    let launch = launch.flag(flag("--client-ca-file", &folder.join("ca.crt")));
    // It asks about its clients.
    let launch = launch.flag(flag("--authentication-kubeconfig", plane.admin_kubeconfig()));
    launch.flag(flag("--authorization-kubeconfig", plane.admin_kubeconfig())).spawn()
}

/// A Prometheus with the token of a service account that may read metrics, and others that may not.
async fn start_prometheus(programs: &Programs, space: &Space, folder: &Path, server: &Endpoint) -> Result<Prometheus> {
    let scraper = token(space, folder, "scraper").await?;
    let stranger = token(space, folder, "stranger").await?;
    let nonsense = folder.join("nonsense.token");
    std::fs::write(&nonsense, "nonsense")?;
    may_read_metrics(space, "scraper").await?;
    let job = |name, path, token| Job { name, label: None, path, token };
    let jobs = [
        job("workloads-controller-manager", "/metrics", Some(scraper.clone())),
        Job { label: Some("workloads-controller-manager"), ..job("slis", "/metrics/slis", Some(scraper)) },
        job("nobody", "/metrics", None),
        job("stranger", "/metrics", Some(stranger)),
        job("nonsense", "/metrics", Some(nonsense)),
    ];
    let address = server.url().trim_start_matches("https://");
    let config = config(address, &folder.join("ca.crt"), &jobs, &alerts::rules());
    Prometheus::start(programs, folder, &config).await
}

/// The file of a token of a new service account.
async fn token(space: &Space, folder: &Path, account: &str) -> Result<PathBuf> {
    space.create("serviceaccounts", &json!({"metadata": {"name": account}})).await?;
    let file = folder.join(format!("{account}.token"));
    std::fs::write(&file, space.token_of(account, &json!({"expirationSeconds": 3600})).await?)?;
    Ok(file)
}

/// Lets a service account read what is to be scraped, and nothing else.
async fn may_read_metrics(space: &Space, account: &str) -> Result<()> {
    let group = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": "scrapers"},
        "rules": [{"nonResourceURLs": ["/metrics", "/metrics/slis"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "scrapers"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "scrapers"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": space.namespace}],
    });
    for (resource, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let request = Request::post(format!("/apis/{group}/v1/{resource}")).header("content-type", "application/json");
        space.client.request::<Value>(request.body(object.to_string().into_bytes())?).await?;
    }
    Ok(())
}

/// An object whose selector and template have the label `app`, its own name.
fn object(kind: &str, name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()},
        },
    })
}
