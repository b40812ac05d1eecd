//! One side of a script: its namespace, what is in it, and requests to it.

use std::rc::Rc;

use anyhow::{Context as _, Result};
use e2e::differential::script::{BAD_IMAGE, Cascade, Nodes, PodState, Pods, Target, Write};
use e2e::differential::snapshot::{
    self, HOLD, Kind, REVISION, Snapshot, annotation, is_active, is_deleted, is_ready, label, name, text, uid,
};
use e2e::differential::statefulsets::is_replaced_at_once;
use futures::future::try_join_all;
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use crate::cache::{Cache, Space, version};
use crate::sides::Side;
use crate::support::ago;

/// A side's namespace of one script.
pub(crate) struct View {
    pub(crate) side: &'static str,
    pub(crate) cache: Rc<Cache>,
    client: Client,
    namespace: String,
}

/// One object's name and a change of it.
type Change = (String, Option<&'static str>, Value);

/// What the cache must show before the side is looked at again.
pub(crate) enum Written {
    /// This version of the kind.
    Version(Kind, u64),
    /// The end of an object, or its beginning.
    Deletion(Kind, String, String),
}

impl View {
    pub(crate) async fn new(side: &Side, kind: &str, seed: u64) -> Result<Self> {
        let (namespace, client) = (format!("{kind}-{seed}"), side.plane.admin().clone());
        // Not by `ControlPlane::namespace`: both sides' must have one name.
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let request = Request::post("/api/v1/namespaces").header("content-type", "application/json").body(body.to_string().into_bytes())?;
        client.request::<Value>(request).await.context("create a namespace")?;
        Ok(Self { side: side.name, cache: Rc::clone(&side.cache), client, namespace })
    }

    /// What is there now.
    pub(crate) fn space(&self) -> Space {
        self.cache.space(&self.namespace)
    }

    /// Does what a user does. Answers the codes, in the order of the objects.
    pub(crate) async fn write(&self, write: &Write) -> Result<(Vec<u16>, Vec<Written>)> {
        let snapshot = self.space().snapshot;
        match write {
            Write::Create(kind, body) => {
                let answer = self.send(*kind, Method::POST, "", "application/json", body).await?;
                Ok(told(vec![answer]))
            }
            Write::Patch(target, part, patch) => {
                let (kind, names) = resolve(&snapshot, target);
                self.patch(kind, names.into_iter().map(|name| (name, *part, patch.clone())).collect()).await
            }
            Write::Delete(target, cascade) => {
                let (kind, names) = resolve(&snapshot, target);
                self.delete(&snapshot, kind, names, *cascade).await
            }
            Write::Undo(deployment, back) => match undo(&snapshot, deployment, *back) {
                Some(patch) => {
                    let target = format!("/{deployment}");
                    let answer = self.send(Kind::Deployment, Method::PATCH, &target, "application/json-patch+json", &patch).await?;
                    Ok(told(vec![answer]))
                }
                None => Ok((Vec::new(), Vec::new())),
            },
        }
    }

    /// What the nodes have to do; nothing if they have done it.
    pub(crate) fn work(&self, nodes: Nodes) -> Vec<(String, Option<&'static str>, Value)> {
        let snapshot = self.space().snapshot;
        match nodes {
            Nodes::Idle => Vec::new(),
            Nodes::Ready(count) => readiness(&snapshot, count),
            Nodes::Release => releases(&snapshot),
            Nodes::All => {
                let releases = releases(&snapshot);
                if releases.is_empty() { readiness(&snapshot, usize::MAX) } else { releases }
            }
        }
    }

    /// The nodes' work on pods. Those that a controller has deleted meanwhile are left alone.
    pub(crate) async fn do_work(&self, work: Vec<Change>) -> Result<Vec<Written>> {
        Ok(self.patch(Kind::Pod, work).await?.1)
    }

    async fn patch(&self, kind: Kind, changes: Vec<Change>) -> Result<(Vec<u16>, Vec<Written>)> {
        let patches = changes.iter().map(async |(name, part, patch)| {
            let path = format!("/{name}{}{}", if part.is_some() { "/" } else { "" }, part.unwrap_or_default());
            self.send(kind, Method::PATCH, &path, "application/merge-patch+json", patch).await
        });
        Ok(told(try_join_all(patches).await?))
    }

    async fn delete(&self, snapshot: &Snapshot, kind: Kind, names: Vec<String>, cascade: Cascade) -> Result<(Vec<u16>, Vec<Written>)> {
        let options = json!({"propagationPolicy": cascade.policy()});
        let deletes = names.iter().map(async |name| {
            let (code, _) = self.send(kind, Method::DELETE, &format!("/{name}"), "application/json", &options).await?.0;
            anyhow::Ok(code)
        });
        let codes = try_join_all(deletes).await?;
        let deletion = |name: String| {
            let uid = snapshot.get(kind, &name).map(uid).unwrap_or_default().to_owned();
            Written::Deletion(kind, name, uid)
        };
        Ok((codes, names.into_iter().map(deletion).collect()))
    }

    /// Sends a request; a refusal is an answer.
    async fn send(&self, kind: Kind, method: Method, path: &str, content: &str, body: &Value) -> Result<((u16, Kind), Value)> {
        let uri = format!("{}/namespaces/{}/{}{path}", kind.group(), self.namespace, kind.plural());
        let request =
            Request::builder().method(method.clone()).uri(&uri).header("content-type", content).body(body.to_string().into_bytes())?;
        match self.client.request(request).await {
            Ok(answer) => Ok(((200, kind), answer)),
            Err(kube::Error::Api(status)) => Ok(((status.code, kind), Value::Null)),
            Err(error) => Err(error).with_context(|| format!("{method} {uri}")),
        }
    }

    /// Whether the cache shows what was written.
    pub(crate) fn shows(&self, written: &Written) -> bool {
        match written {
            Written::Version(kind, version) => self.cache.has_seen(*kind, *version),
            Written::Deletion(kind, name, of) => {
                self.space().snapshot.get(*kind, name).is_none_or(|object| uid(object) != of || is_deleted(object))
            }
        }
    }
}

fn told(answers: Vec<((u16, Kind), Value)>) -> (Vec<u16>, Vec<Written>) {
    let written = |((_, kind), answer): ((u16, Kind), Value)| Written::Version(kind, version(&answer));
    (answers.iter().map(|((code, _), _)| *code).collect(), answers.into_iter().map(written).collect())
}

/// The names of the objects that are meant.
fn resolve(snapshot: &Snapshot, target: &Target) -> (Kind, Vec<String>) {
    let names = |objects: Vec<&Value>| objects.into_iter().map(|object| name(object).to_owned()).collect();
    match target {
        Target::Named(kind, name) => (*kind, vec![name.clone()]),
        Target::SetOf(deployment, back) => {
            (Kind::ReplicaSet, names(snapshot.by_revision(deployment).into_iter().skip(*back).take(1).collect()))
        }
        Target::Labelled(kind, key, value) => {
            (*kind, names(snapshot.of(*kind).filter(|object| label(object, key) == Some(value) && !is_deleted(object)).collect()))
        }
        Target::Pods(pods) => (Kind::Pod, names(choose(snapshot, pods))),
        Target::Replaceable(pod) => {
            let pod = snapshot.get(Kind::Pod, pod).filter(|pod| is_replaced_at_once(snapshot, pod));
            (Kind::Pod, names(pod.into_iter().collect()))
        }
        Target::ClaimOf(pod, claim) => {
            let runs = snapshot.get(Kind::Pod, pod).is_some_and(|pod| text(pod, "/status/phase") == "Running" && is_active(pod));
            (Kind::PersistentVolumeClaim, if runs { vec![claim.clone()] } else { Vec::new() })
        }
    }
}

fn choose<'a>(snapshot: &'a Snapshot, pods: &Pods) -> Vec<&'a Value> {
    let Some(set) = snapshot.by_revision(&pods.deployment).into_iter().nth(pods.back) else { return Vec::new() };
    let is_chosen = |pod: &&Value| match pods.state {
        PodState::Ready => is_active(pod) && is_ready(pod),
        PodState::NotReady => is_active(pod) && !is_ready(pod),
        PodState::Failed => text(pod, "/status/phase") == "Failed" && !is_deleted(pod),
    };
    // A phase, too, is looked at when a ReplicaSet chooses: pods that were ready before are no equals of new ones.
    let mut chosen: Vec<_> = snapshot.controlled(Kind::Pod, set).filter(is_chosen).collect();
    chosen.sort_by_key(|pod| text(pod, "/status/phase"));
    chosen.truncate(pods.count);
    chosen
}

/// The patch that kubectl makes of the ReplicaSet with the n-th highest revision.
fn undo(snapshot: &Snapshot, deployment: &str, back: usize) -> Option<Value> {
    let set = *snapshot.by_revision(deployment).get(back)?;
    let mut template = set.pointer("/spec/template")?.clone();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(snapshot::HASH_LABEL);
    }
    let deployment = snapshot.get(Kind::Deployment, deployment)?;
    // The Deployment keeps its own revision, and takes the rest of the ReplicaSet's annotations but for those that are about its size.
    let mut annotations = json!({});
    if let Some(revision) = annotation(deployment, REVISION) {
        annotations[REVISION] = json!(revision);
    }
    for (key, value) in set.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten() {
        if !key.starts_with("deployment.kubernetes.io/") {
            annotations[key] = value.clone();
        }
    }
    let put = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    Some(json!([put("/spec/template", template), put("/metadata/annotations", annotations)]))
}

/// Pods that may become ready, so many of each ReplicaSet and StatefulSet.
fn readiness(snapshot: &Snapshot, count: usize) -> Vec<Change> {
    let status = json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ago(0)}],
    }});
    let may = |pod: &&Value| {
        let image = text(pod, "/spec/containers/0/image");
        is_active(pod) && !is_ready(pod) && !image.contains(BAD_IMAGE)
    };
    let of = |set| {
        let mut pods: Vec<_> = snapshot.controlled(Kind::Pod, set).filter(may).collect();
        pods.sort_by_key(|pod| text(pod, "/status/phase"));
        pods.truncate(count);
        pods
    };
    let pods = snapshot.of(Kind::ReplicaSet).chain(snapshot.of(Kind::StatefulSet)).flat_map(of);
    pods.map(|pod| (name(pod).to_owned(), Some("status"), status.clone())).collect()
}

/// Pods that are being deleted.
fn releases(snapshot: &Snapshot) -> Vec<Change> {
    let held = snapshot.of(Kind::Pod).filter(|pod| is_deleted(pod) && snapshot::has_finalizer(pod, HOLD));
    held.map(|pod| (name(pod).to_owned(), None, json!({"metadata": {"finalizers": null}}))).collect()
}
