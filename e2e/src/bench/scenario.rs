//! What both are asked to do.

use anyhow::{Context as _, Result};
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Requests in flight while objects are made: enough to be always ahead of the controller.
const CREATORS: usize = 8;

/// The first part of the load: many ReplicaSets of moderate size.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Pods in all.
    pub pods: u64,
    /// Replicas of each ReplicaSet.
    pub replicas: u64,
    /// Namespaces that they are spread over.
    pub namespaces: u64,
    /// Replicas of the one large ReplicaSet that follows.
    pub single: u64,
}

impl Scenario {
    /// ReplicaSets of 100 in ten namespaces, and one of 10,000 (of `pods` if that is less).
    pub fn of(pods: u64) -> Self {
        Self { pods, replicas: 100, namespaces: 10, single: pods.min(10_000) }
    }

    /// The size of each ReplicaSet; the last one takes the rest.
    fn sizes(self) -> impl Iterator<Item = u64> {
        let full = self.pods / self.replicas.max(1);
        let rest = self.pods % self.replicas.max(1);
        (0..full).map(move |_| self.replicas).chain((rest > 0).then_some(rest))
    }

    fn namespace(self, n: u64) -> String {
        format!("bench-{}", n % self.namespaces.max(1))
    }

    /// Makes the namespaces of the many ReplicaSets.
    pub(super) async fn prepare(self, client: &Client) -> Result<()> {
        for n in 0..self.namespaces {
            create_namespace(client, &self.namespace(n)).await?;
        }
        Ok(())
    }

    /// Makes the many ReplicaSets, several at a time.
    pub(super) async fn create(self, client: &Client) -> Result<()> {
        let sets: Vec<_> = (0_u64..).zip(self.sizes()).map(|(n, size)| (self.namespace(n), n, size)).collect();
        let client = client.clone();
        for_all(&sets, move |(namespace, n, size)| {
            let client = client.clone();
            async move { create_set(&client, &namespace, &format!("web-{n}"), size).await }
        })
        .await
    }

    /// How many ReplicaSets say in their status that all their pods are there, and how many there are.
    pub(super) async fn settled(client: &Client) -> Result<(usize, usize)> {
        let list: Value = client.request(Request::get("/apis/apps/v1/replicasets").body(Vec::new())?).await?;
        let sets = list.pointer("/items").and_then(Value::as_array).context("a list without items")?;
        let settled = sets.iter().filter(|set| {
            let number = |path| set.pointer(path).and_then(Value::as_u64).unwrap_or(0);
            number("/status/replicas") == number("/spec/replicas")
        });
        Ok((settled.count(), sets.len()))
    }
}

/// Does something for each, several at a time.
pub(super) async fn for_all<T, F>(all: &[T], each: impl Fn(T) -> F + Clone + Send + 'static) -> Result<()>
where
    T: Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let mut workers = JoinSet::new();
    for first in 0..CREATORS {
        let mine: Vec<_> = all.iter().skip(first).step_by(CREATORS).cloned().collect();
        let each = each.clone();
        workers.spawn(async move {
            for one in mine {
                each(one).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    Ok(())
}

/// Makes a namespace.
pub(super) async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    post(client, "/api/v1/namespaces", &body).await
}

/// Makes a ReplicaSet of realistic pods.
pub(super) async fn create_set(client: &Client, namespace: &str, name: &str, replicas: u64) -> Result<()> {
    post(client, &format!("/apis/apps/v1/namespaces/{namespace}/replicasets"), &replica_set(name, replicas)).await
}

/// The number of pods, everywhere or in one namespace. One pod's metadata is all that travels: the server counts the rest.
pub(super) async fn count_pods(client: &Client, namespace: Option<&str>) -> Result<u64> {
    let path = match namespace {
        Some(namespace) => format!("/api/v1/namespaces/{namespace}/pods?limit=1"),
        None => "/api/v1/pods?limit=1".to_owned(),
    };
    let request = Request::get(path).header(ACCEPT, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    let list: Value = client.request(request.body(Vec::new())?).await?;
    let shown = list.pointer("/items").and_then(Value::as_array).map_or(0, Vec::len);
    let remaining = list.pointer("/metadata/remainingItemCount").and_then(Value::as_u64).unwrap_or(0);
    Ok(shown as u64 + remaining)
}

/// The size of one pod as JSON, as it travels on a watch.
pub(super) async fn pod_bytes(client: &Client) -> Result<u64> {
    let request = Request::get("/api/v1/pods?limit=1").header(ACCEPT, "application/json");
    let list: Value = client.request(request.body(Vec::new())?).await?;
    Ok(list.pointer("/items/0").context("no pod")?.to_string().len() as u64)
}

pub(super) async fn post(client: &Client, path: &str, body: &Value) -> Result<()> {
    let request = Request::post(path).header(CONTENT_TYPE, "application/json").body(body.to_string().into_bytes())?;
    client.request::<Value>(request).await.map(drop).with_context(|| format!("POST {path}"))
}

/// As a Deployment makes them: selector and template carry the hash.
fn replica_set(name: &str, replicas: u64) -> Value {
    let labels =
        json!({"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "bench", "pod-template-hash": format!("{name}-7c9f8d5b6")});
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app.kubernetes.io/name": name, "pod-template-hash": format!("{name}-7c9f8d5b6")}},
            "template": {"metadata": {"labels": labels, "annotations": annotations(name)}, "spec": pod_spec(name)},
        },
    })
}

pub(super) fn annotations(name: &str) -> Value {
    json!({
        "kubectl.kubernetes.io/default-container": "server",
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8080",
        "checksum/config": format!("{name}-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
    })
}

pub(super) fn pod_spec(name: &str) -> Value {
    json!({
        "containers": [container(name, "server", 8080), container(name, "sidecar", 15_020)],
        "serviceAccountName": "default",
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {"runAsNonRoot": true, "runAsUser": 65_532, "fsGroup": 65_532},
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": name}},
        }],
        "volumes": [
            {"name": "config", "configMap": {"name": format!("{name}-config"), "defaultMode": 420}},
            {"name": "secrets", "secret": {"secretName": format!("{name}-secrets"), "defaultMode": 256}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
        ],
    })
}

fn container(name: &str, role: &str, port: u16) -> Value {
    let probe = |path: &str, period: u32| json!({"httpGet": {"path": path, "port": port}, "periodSeconds": period, "timeoutSeconds": 2});
    json!({
        "name": role,
        "image": format!("registry.example/{name}/{role}:1.27.3"),
        "args": ["--config=/etc/bench/config.yaml", format!("--listen=:{port}"), "--log-level=info"],
        "env": (0..12).map(environment).collect::<Vec<_>>(),
        "ports": [{"name": "http", "containerPort": port}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "livenessProbe": probe("/livez", 10),
        "readinessProbe": probe("/readyz", 5),
        "startupProbe": probe("/startupz", 2),
        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/bench", "readOnly": true},
            {"name": "secrets", "mountPath": "/etc/secrets", "readOnly": true},
            {"name": "scratch", "mountPath": "/tmp"},
        ],
    })
}

fn environment(n: u32) -> Value {
    match n {
        0 => json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
        1 => json!({"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}),
        n => json!({"name": format!("SETTING_{n}"), "value": format!("http://service-{n}.bench.svc.cluster.local:8080/v1")}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_add_up_to_the_pods() {
        for pods in [0, 1, 99, 100, 250, 10_000] {
            assert_eq!(Scenario::of(pods).sizes().sum::<u64>(), pods);
        }
        assert_eq!(Scenario::of(250).sizes().collect::<Vec<_>>(), [100, 100, 50]);
    }

    #[test]
    fn pods_are_as_realistic_as_they_should_be() {
        let set = replica_set("web-1", 5);
        let containers = set.pointer("/spec/template/spec/containers").and_then(Value::as_array).unwrap();
        assert_eq!(containers.len(), 2);
        for container in containers {
            assert_eq!(container["env"].as_array().unwrap().len(), 12);
        }
        let labels = &set["spec"]["template"]["metadata"]["labels"];
        for (key, value) in set["spec"]["selector"]["matchLabels"].as_object().unwrap() {
            assert_eq!(&labels[key], value);
        }
    }
}
