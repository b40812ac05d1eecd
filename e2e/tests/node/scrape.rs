//! A Prometheus on the node that scrapes what the chart's `ServiceMonitor` says, configured as Prometheus' operator would.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use e2e::node::Cluster;
use e2e::prometheus::{Programs, Prometheus};
use e2e::wait;
use http::Request;
use serde_json::{Map, Value, json};

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

/// Prometheus, with the right that kube-prometheus gives it, reads our pod's metrics.
pub(crate) async fn scraped(cluster: &Cluster) -> Result<()> {
    let folder = cluster.sandbox().folder().join("tmp/prometheus");
    std::fs::create_dir_all(&folder)?;
    apply(cluster, &json!({"apiVersion": "v1", "kind": "List", "items": account()})).await?;
    let token = cluster.plane().kubectl(&["create", "token", "prometheus", "--namespace=default"]).await?;
    std::fs::write(folder.join("token"), token.trim_end())?;
    let monitor = get(cluster, &format!("{MONITORS}/{RELEASE}")).await?;
    let config = json!({"scrape_configs": [job(&monitor, &discovered(cluster).await?, &folder.join("token"))?]});
    let prometheus = Prometheus::start(&Programs::find().await?, &folder, &config).await?;
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
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        },
        {
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "prometheus"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "prometheus"},
            "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}],
        },
    ])
}

/// What Prometheus would find by `kubernetes_sd_configs` with the role `endpointslice`, which Debian's lacks: all endpoints of the namespace,
/// with the labels that are used here (Prometheus `discovery/kubernetes/endpointslice.go` `buildEndpointSlice`).
async fn discovered(cluster: &Cluster) -> Result<Vec<Value>> {
    let slices = get(cluster, &format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices")).await?;
    let mut targets = Vec::new();
    for slice in slices["items"].as_array().context("no items")? {
        let service = slice["metadata"]["labels"]["kubernetes.io/service-name"].as_str().context("no service")?;
        let service = get(cluster, &format!("/api/v1/namespaces/{NAMESPACE}/services/{service}")).await?;
        let labels = service["metadata"]["labels"].as_object().context("a service without labels")?;
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            let address = endpoint["addresses"][0].as_str().context("no address")?;
            for port in slice["ports"].as_array().into_iter().flatten() {
                let mut found: Map<_, _> = labels.iter().map(|(name, value)| (service_label(name), value.clone())).collect();
                found.insert("__meta_kubernetes_namespace".to_owned(), json!(NAMESPACE));
                found.insert("__meta_kubernetes_pod_name".to_owned(), endpoint["targetRef"]["name"].clone());
                found.insert("__meta_kubernetes_endpointslice_port_name".to_owned(), port["name"].clone());
                targets.push(json!({"targets": [format!("{address}:{}", port["port"])], "labels": found}));
            }
        }
    }
    Ok(targets)
}

fn service_label(name: &str) -> String {
    format!("__meta_kubernetes_service_label_{}", name.replace(['.', '/', '-'], "_"))
}

/// What the operator makes of a `ServiceMonitor` (prometheus-operator `promcfg.go` `generateServiceMonitorConfig`), whose token file is `token`.
fn job(monitor: &Value, targets: &[Value], token: &Path) -> Result<Value> {
    let spec = &monitor["spec"];
    let endpoint = &spec["endpoints"][0];
    ensure!(spec["namespaceSelector"]["matchNames"] == json!([NAMESPACE]) && endpoint["bearerTokenFile"] == TOKEN, "{monitor}");
    let keep = |source: String, value: &Value| json!({"action": "keep", "source_labels": [source], "regex": value});
    let wanted = spec["selector"]["matchLabels"].as_object().context("no matchLabels")?;
    let mut relabelings: Vec<_> = wanted.iter().map(|(name, value)| keep(service_label(name), value)).collect();
    relabelings.push(keep("__meta_kubernetes_endpointslice_port_name".to_owned(), &endpoint["port"]));
    let job = service_label(spec["jobLabel"].as_str().context("no jobLabel")?);
    for (source, target) in [("__meta_kubernetes_namespace", "namespace"), ("__meta_kubernetes_pod_name", "pod"), (&job, "job")] {
        relabelings.push(json!({"source_labels": [source], "target_label": target}));
    }
    Ok(json!({
        "job_name": format!("serviceMonitor/{NAMESPACE}/{RELEASE}/0"),
        "static_configs": targets,
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
