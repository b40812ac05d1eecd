//! Looking for kube-controller-manager through the API server.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::ACCEPT;
use jiff::fmt::rfc2822;
use machinery::client::{ApiClient, CallError, Class};
use machinery::clock::Clock;
use model::plan::ApiError;
use model::{Time, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Evidence, ManagerFlags, ManagerLease, ManagerPod, OUR_MANAGER, Ours, PodState, StatusWrite};
use crate::options::ControllerName;

/// Looks.
#[derive(Clone, Debug)]
pub(crate) struct Looker(pub(crate) ApiClient);

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What may be asked for before every first write.
    Brief {
        /// Whether there are pods of kube-controller-manager.
        pods: bool,
    },
    /// Everything.
    Thorough,
}

/// One look. It learns from the answers what time it is.
struct Look<'a> {
    client: &'a ApiClient,
    now: Cell<Option<Time>>,
}

/// The label that kubeadm, and whoever follows it, puts on its pods; kOps has another.
pub(crate) const LABELS: [(&str, &str); 2] = [("component", "kube-controller-manager"), ("k8s-app", "kube-controller-manager")];
/// Where its pods are.
pub(crate) const NAMESPACE: &str = "kube-system";

/// Objects of a page, and pages of a resource, whose statuses are looked at.
const PAGE: usize = 500;
const PAGES: usize = 4;

/// Clocks that differ by less are the same here; in nanoseconds.
const APART: u64 = 2_000_000_000;

const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const JSON: &str = "application/json";

#[derive(Deserialize)]
struct List<T> {
    #[serde(default)]
    metadata: ListMeta,
    items: Option<Vec<T>>,
}

#[derive(Deserialize, Default)]
struct ListMeta {
    #[serde(rename = "continue", default)]
    token: String,
}

#[derive(Deserialize)]
struct Object<S> {
    metadata: Meta,
    spec: Option<S>,
    status: Option<PodStatus>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    name: String,
    namespace: String,
    deletion_timestamp: Option<String>,
    managed_fields: Option<Vec<ManagedFields>>,
}

#[derive(Deserialize)]
struct ManagedFields {
    #[serde(default)]
    manager: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    time: String,
}

/// Of an object of which nothing but its metadata is read.
#[derive(Deserialize)]
struct NoSpec {}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct PodSpec {
    node_name: String,
    containers: Vec<Container>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Container {
    command: Option<Vec<String>>,
    args: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodStatus {
    phase: String,
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<u64>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
}

// === impl Looker ===

impl Looker {
    /// Looks once. What cannot be seen is part of the evidence.
    pub(crate) async fn look(&self, extent: Extent, ours: &Ours) -> Evidence {
        let look = Look { client: &self.0, now: Cell::new(None) };
        let pods = match extent {
            Extent::Brief { pods: false } => Ok(Vec::new()),
            Extent::Brief { pods: true } | Extent::Thorough => look.pods().await,
        };
        let (namespace, name) = ManagerLease::default_name();
        let lease = look.lease(&namespace, &name).await;
        let now = look.now.get().unwrap_or_else(|| Clock::system().wall());
        let mut evidence = Evidence { now, pods, lease, writes: Ok(Vec::new()) };
        let pages = match extent {
            Extent::Brief { .. } if ours.competes() => 0,
            // Clusters whose kube-controller-manager takes part in no election are small.
            Extent::Brief { .. } if evidence.held().is_none() => 1,
            Extent::Brief { .. } | Extent::Thorough => PAGES,
        };
        if pages > 0 {
            evidence.writes = look.writes(&ours.controllers, pages).await;
        }
        evidence
    }

    /// Any lease, and what time it is there.
    pub(crate) async fn lease(&self, namespace: &str, name: &str) -> Result<(Option<ManagerLease>, Time), String> {
        let look = Look { client: &self.0, now: Cell::new(None) };
        let lease = look.lease(namespace, name).await?;
        Ok((lease, look.now.get().unwrap_or_else(|| Clock::system().wall())))
    }
}

// === impl Look ===

impl Look<'_> {
    async fn get<T: DeserializeOwned>(&self, path: &str, accept: &str, class: Class) -> Result<T, ApiError> {
        let unusable = |error: &dyn std::fmt::Display| ApiError { message: error.to_string(), ..ApiError::default() };
        let request = Request::get(path).header(ACCEPT, accept).body(Bytes::new()).map_err(|error| unusable(&error))?;
        let answer = self.client.send(request, class).await.map_err(CallError::into_error)?;
        if let Some(now) = date(&answer.date) {
            self.now.set(Some(now));
        }
        serde_json::from_slice(&answer.body).map_err(|error| unusable(&error))
    }

    async fn pods(&self) -> Result<Vec<ManagerPod>, String> {
        let mut pods: Vec<ManagerPod> = Vec::new();
        for (label, value) in LABELS {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={label}%3D{value}&limit={PAGE}");
            let list: List<Object<PodSpec>> = self.get(&path, JSON, Class::List).await.map_err(|error| error.to_string())?;
            for pod in list.items.into_iter().flatten().map(manager_pod) {
                if !pods.iter().any(|known| known.name == pod.name) {
                    pods.push(pod);
                }
            }
        }
        Ok(pods)
    }

    async fn lease(&self, namespace: &str, name: &str) -> Result<Option<ManagerLease>, String> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
        match self.get::<Object<LeaseSpec>>(&path, JSON, Class::Get).await {
            Ok(lease) => Ok(Some(manager_lease(lease))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn writes(&self, controllers: &[ControllerName], pages: usize) -> Result<Vec<StatusWrite>, String> {
        let mut latest = HashMap::new();
        for controller in controllers {
            let path = controller.resource().path(None);
            let mut token = String::new();
            for _ in 0..pages {
                let path = format!("{path}?limit={PAGE}&continue={token}");
                let list: List<Object<NoSpec>> = self.get(&path, METADATA, Class::List).await.map_err(|error| error.to_string())?;
                for object in list.items.into_iter().flatten() {
                    note_writes(*controller, object.metadata, &mut latest);
                }
                token = form_urlencoded::byte_serialize(list.metadata.token.as_bytes()).collect();
                if token.is_empty() {
                    break;
                }
            }
        }
        Ok(latest.into_values().collect())
    }
}

fn note_writes(controller: ControllerName, meta: Meta, latest: &mut HashMap<(ControllerName, String), StatusWrite>) {
    let object = format!("{}/{}", meta.namespace, meta.name);
    for entry in meta.managed_fields.into_iter().flatten() {
        let Some(at) = Timestamp::parse(&entry.time) else { continue };
        if entry.subresource != "status" || entry.manager == OUR_MANAGER {
            continue;
        }
        let key = (controller, entry.manager.clone());
        if latest.get(&key).is_none_or(|known| known.at < at) {
            latest.insert(key, StatusWrite { controller, manager: entry.manager, at, object: object.clone() });
        }
    }
}

fn manager_pod(pod: Object<PodSpec>) -> ManagerPod {
    let (spec, status) = (pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
    let ready = status.conditions.iter().flatten().any(|condition| condition.kind == "Ready" && condition.status == "True");
    let line = |container: &'_ Container| [container.command.clone(), container.args.clone()].into_iter().flatten().flatten().collect();
    let lines: Vec<Vec<String>> = spec.containers.iter().map(line).collect();
    // Beside it there may be others, of a proxy for example: its own is the one that says what to control.
    let own = lines.iter().find(|line| line.iter().any(|argument| argument.contains("--controllers"))).or(lines.first());
    ManagerPod {
        name: format!("{NAMESPACE}/{}", pod.metadata.name),
        node: spec.node_name,
        state: match &*status.phase {
            _ if pod.metadata.deletion_timestamp.is_some() => PodState::Ended,
            "Succeeded" | "Failed" => PodState::Ended,
            "Running" if ready => PodState::Ready,
            _ => PodState::Unready,
        },
        flags: ManagerFlags::parse(own.into_iter().flatten().map(String::as_str)),
    }
}

fn manager_lease(lease: Object<LeaseSpec>) -> ManagerLease {
    let spec = lease.spec.unwrap_or_default();
    let renewal = spec.renew_time.unwrap_or_default();
    let written = time(&renewal);
    // The time of a write is the API server's, what is written is the holder's: so the holder's clock can be corrected.
    let stamps = lease.metadata.managed_fields.into_iter().flatten().filter_map(|entry| Timestamp::parse(&entry.time));
    let renewed = stamps.map(Timestamp::time).max().or(written);
    let ahead = match (written, renewed) {
        (Some(written), Some(renewed)) => written.nanos_since(renewed),
        _ => 0,
    };
    // Less is what cutting to seconds makes of a clock that agrees.
    let ahead = if ahead.unsigned_abs() < APART { 0 } else { ahead };
    let acquired = spec.acquire_time.as_deref().and_then(time).map(|at| Time(at.0.saturating_sub(ahead)));
    ManagerLease {
        holder: spec.holder_identity.unwrap_or_default(),
        renewal,
        renewed,
        acquired,
        duration: Duration::from_secs(spec.lease_duration_seconds.unwrap_or(0)),
    }
}

/// RFC 3339, fractions included.
fn time(text: &str) -> Option<Time> {
    let at: jiff::Timestamp = text.parse().ok()?;
    i64::try_from(at.as_nanosecond()).ok().map(Time)
}

/// The Date of an HTTP answer.
pub(crate) fn date(text: &str) -> Option<Time> {
    let at = rfc2822::parse(text).ok()?;
    i64::try_from(at.timestamp().as_nanosecond()).ok().map(Time)
}
