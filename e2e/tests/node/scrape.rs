//! A Prometheus on the node that scrapes what the chart's `ServiceMonitor` says, configured as Prometheus' operator would.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use e2e::node::Cluster;
use e2e::prometheus::{Programs, Prometheus};
use e2e::wait;
use http::Request;
use serde_json::{Value, json};

use crate::rig::{NAMESPACE, RELEASE, name_of, our_pod};
use crate::support::PATIENCE;
use crate::workloads::apply;

/// Where a pod's token is.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

const MONITORS: &str = "/apis/monitoring.coreos.com/v1/namespaces/kube-system/servicemonitors";

/// The resource of the operator, without its schema: that the real one takes the chart's objects is tested with the chart.
pub(crate) async fn define_service_monitors(cluster: &Cluster) -> Result<()> {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "servicemonitors.monitoring.coreos.com", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": {"kind": "ServiceMonitor", "plural": "servicemonitors"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    apply(cluster, &definition).await?;
    wait::until("ServiceMonitors to be served", PATIENCE, async || get(cluster, MONITORS).await.map(drop)).await
}

/// Prometheus, with the rights that kube-prometheus gives it, finds our pod and reads its metrics.
pub(crate) async fn scraped(cluster: &Cluster) -> Result<()> {
    let folder = cluster.sandbox().folder().join("tmp/prometheus");
    std::fs::create_dir_all(&folder)?;
    apply(cluster, &json!({"apiVersion": "v1", "kind": "List", "items": account()})).await?;
    let token = cluster.plane().kubectl(&["create", "token", "prometheus", "--namespace=default"]).await?;
    std::fs::write(folder.join("token"), token.trim_end())?;
    let monitor = get(cluster, &format!("{MONITORS}/{RELEASE}")).await?;
    let config = json!({"scrape_configs": [job(&monitor, &discovery(cluster, &folder)?, &folder.join("token"))?]});
    let prometheus = Prometheus::start(&Programs::find().await?, &folder, &config, &[]).await?;
    let pod = name_of(&our_pod(cluster).await?)?;
    wait::until("our pod to be scraped", PATIENCE, async || {
        let seen = prometheus.query("leader_election_master_status").await?;
        let [(labels, value)] = &seen[..] else {
            anyhow::bail!("series: {seen:?}, targets: {}", prometheus.ask::<Value>("/api/v1/targets").await?);
        };
        ensure!(labels["job"] == "workloads-controller-manager" && labels["namespace"] == NAMESPACE && labels["pod"] == pod, "{labels}");
        ensure!(labels["name"] == "workloads-controller-manager" && *value > 0.0, "{labels} is {value}");
        Ok(())
    })
    .await
}

/// Prometheus' service account, and what it may do.
fn account() -> Value {
    let group = "rbac.authorization.k8s.io";
    json!([
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "prometheus", "namespace": "default"}},
        {
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": {"name": "prometheus"},
            "rules": [
                {"apiGroups": [""], "resources": ["services", "pods"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
                {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            ],
        },
        {
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "prometheus"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "prometheus"},
            "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}],
        },
    ])
}

/// How Prometheus finds a namespace's pods: with its account's token, as in a pod.
fn discovery(cluster: &Cluster, folder: &Path) -> Result<Value> {
    let (server, authority) = (cluster.plane().api_server_endpoint(0)?.url(), cluster.plane().credential("ca.crt"));
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "node",
        "clusters": [{"name": "node", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "prometheus", "user": {"tokenFile": folder.join("token")}}],
        "contexts": [{"name": "node", "context": {"cluster": "node", "user": "prometheus"}}],
    });
    let file = folder.join("kubeconfig");
    std::fs::write(&file, kubeconfig.to_string())?;
    Ok(json!({"role": "endpointslice", "kubeconfig_file": file, "namespaces": {"names": [NAMESPACE]}}))
}

/// What the operator makes of a `ServiceMonitor` (prometheus-operator `promcfg.go` `generateServiceMonitorConfig`), whose token file is `token`.
fn job(monitor: &Value, discovery: &Value, token: &Path) -> Result<Value> {
    let spec = &monitor["spec"];
    let endpoint = &spec["endpoints"][0];
    ensure!(spec["namespaceSelector"]["matchNames"] == json!([NAMESPACE]) && endpoint["bearerTokenFile"] == TOKEN, "{monitor}");
    let label = |label: &str| format!("__meta_kubernetes_service_label_{}", label.replace(['.', '/', '-'], "_"));
    let keep = |source: String, value: &Value| json!({"action": "keep", "source_labels": [source], "regex": value});
    let wanted = spec["selector"]["matchLabels"].as_object().context("no matchLabels")?;
    let mut relabelings: Vec<_> = wanted.iter().map(|(name, value)| keep(label(name), value)).collect();
    relabelings.push(keep("__meta_kubernetes_endpointslice_port_name".to_owned(), &endpoint["port"]));
    let job = label(spec["jobLabel"].as_str().context("no jobLabel")?);
    for (source, target) in [("__meta_kubernetes_namespace", "namespace"), ("__meta_kubernetes_pod_name", "pod"), (&job, "job")] {
        relabelings.push(json!({"source_labels": [source], "target_label": target}));
    }
    Ok(json!({
        "job_name": format!("serviceMonitor/{NAMESPACE}/{RELEASE}/0"),
        "kubernetes_sd_configs": [discovery],
        "scheme": endpoint["scheme"],
        "scrape_interval": endpoint["interval"],
        "scrape_timeout": endpoint["interval"],
        "tls_config": {"insecure_skip_verify": endpoint["tlsConfig"]["insecureSkipVerify"]},
        "authorization": {"credentials_file": token},
        "relabel_configs": relabelings,
    }))
}

async fn get(cluster: &Cluster, path: &str) -> Result<Value> {
    Ok(cluster.plane().admin().request(Request::get(path).body(Vec::new())?).await?)
}
