//! What runs on the node: small web servers as each kind of workload.

use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use e2e::node::Cluster;
use serde_json::{Value, json};

/// The namespace of the workloads, but for those of the system.
pub(crate) const SHOP: &str = "shop";

/// What the web servers are rolled from, and to.
pub(crate) const IMAGE: &str = "localhost/web:1";
pub(crate) const NEXT_IMAGE: &str = "localhost/web:2";

/// What a web server does.
const SERVE: &str = "echo $HOSTNAME > /tmp/index.html; exec httpd -f -p 8080 -h /tmp";

/// Longer than any rollout takes here on a loaded machine.
const ROLLED: &str = "--timeout=180s";

/// Everything that kube-controller-manager makes: `kind/name` with its namespace.
pub(crate) const ALL: [(&str, &str); 4] =
    [("kube-system", "deployment/dns"), (SHOP, "deployment/web"), (SHOP, "statefulset/db"), (SHOP, "daemonset/agent")];

/// Applies them.
pub(crate) async fn apply_all(cluster: &Cluster) -> Result<()> {
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}});
    apply(cluster, &json!({"apiVersion": "v1", "kind": "List", "items": [shop, dns(), web("web", 3), db(), agent()]})).await
}

/// As a cluster's DNS servers are installed: in the system's namespace, and at most one of two is away.
fn dns() -> Value {
    let mut dns = web("dns", 2);
    dns["metadata"]["namespace"] = json!("kube-system");
    dns["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    dns["spec"]["template"]["spec"]["priorityClassName"] = json!("system-cluster-critical");
    dns
}

/// A Deployment of web servers.
pub(crate) fn web(name: &str, replicas: u32) -> Value {
    workload("Deployment", name, &json!({"replicas": replicas, "template": template(name, SERVE)}))
}

/// A StatefulSet whose pods note each start of theirs in their volumes.
fn db() -> Value {
    let mut template = template("db", "echo $HOSTNAME >> /data/index.html; exec httpd -f -p 8080 -h /data");
    template["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let claims = json!([{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }]);
    workload("StatefulSet", "db", &json!({"replicas": 2, "serviceName": "db", "template": template, "volumeClaimTemplates": claims}))
}

/// A DaemonSet, which nobody hands over.
fn agent() -> Value {
    workload("DaemonSet", "agent", &json!({"template": template("agent", SERVE)}))
}

fn workload(kind: &str, name: &str, spec: &Value) -> Value {
    let mut workload = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": SHOP},
        "spec": {"selector": {"matchLabels": {"app": name}}},
    });
    workload["spec"].as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
    workload
}

fn template(app: &str, command: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {
        // busybox leaves SIGTERM to those who are not the first process.
        "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "web", "image": IMAGE, "command": ["sh", "-c", command],
            "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1, "timeoutSeconds": 10, "failureThreshold": 10},
        }],
    }})
}

/// `kubectl apply`.
pub(crate) async fn apply(cluster: &Cluster, object: &Value) -> Result<()> {
    let mut command = cluster.plane().kubectl_command().await?;
    command.args(["apply", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let text = object.to_string();
    let run = move || -> Result<_> {
        let mut child = command.spawn().context("start kubectl")?;
        // Taken, and so closed when it is written.
        child.stdin.take().context("no standard input")?.write_all(text.as_bytes())?;
        child.wait_with_output().context("run kubectl")
    };
    let output = tokio::task::spawn_blocking(run).await??;
    ensure!(output.status.success(), "kubectl apply failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Waits until a workload's rollout is done, as a user does.
pub(crate) async fn rolled_out(cluster: &Cluster, (namespace, workload): (&str, &str)) -> Result<()> {
    cluster.plane().kubectl(&["rollout", "status", "--namespace", namespace, workload, ROLLED]).await.map(drop)
}

/// Gives a workload the other image and waits until all its pods run it.
pub(crate) async fn roll(cluster: &Cluster, (namespace, workload): (&str, &str), image: &str) -> Result<()> {
    cluster.plane().kubectl(&["set", "image", "--namespace", namespace, workload, &format!("web={image}")]).await?;
    rolled_out(cluster, (namespace, workload)).await
}

/// Scales a workload and waits until it has that many pods.
pub(crate) async fn scale(cluster: &Cluster, (namespace, workload): (&str, &str), replicas: u32) -> Result<()> {
    cluster.plane().kubectl(&["scale", "--namespace", namespace, workload, &format!("--replicas={replicas}")]).await?;
    let condition = format!("--for=jsonpath={{.status.readyReplicas}}={replicas}");
    cluster.plane().kubectl(&["wait", "--namespace", namespace, workload, &condition, ROLLED]).await?;
    rolled_out(cluster, (namespace, workload)).await
}
