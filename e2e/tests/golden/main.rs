//! The golden files of ControllerRevisions, `controllers/statefulset/tests/golden/RELEASE.json`: what kube-controller-manager of a release
//! makes of StatefulSets with awkward templates. Tests without an API server hold our code against them.
//!
//! This test has kube-controller-manager do it again and fails if a file no longer says what it does. With `GOLDEN=write` in the
//! environment it writes the file (`make golden`: those of all releases).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod cases;
mod revision;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use e2e::ControlPlane;
use e2e::controlplane::ControllerManager;
use futures::future::try_join_all;
use http::{Method, Request};
use model::raw;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use cases::{Case, cases, stateful_set};
use revision::{Golden, revision_of, wait_for_revision};
use support::minor_release;

/// The same in every run, so that a file changes only if what it is about does.
const NAMESPACE: &str = "golden";
const UID: &str = "00000000-0000-4000-8000-000000000001";

/// A cluster in which kube-controller-manager revises StatefulSets.
struct World {
    plane: ControlPlane,
}

// === impl World ===

impl World {
    async fn start() -> Result<Self> {
        let revising = ControllerManager::only(["statefulset-controller"]).unlimited();
        let mut builder = ControlPlane::builder().controller_manager(revising);
        // It came with 1.37, and is the newest field that a template can have.
        if minor_release() >= 37 {
            builder = builder.feature_gate("EmptyDirVolumeMode", true);
        }
        let world = Self { plane: builder.start().await? };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let request = Request::post("/api/v1/namespaces").header("content-type", "application/json");
        world.plane.admin().request::<Value>(request.body(namespace.to_string().into_bytes())?).await.context("the namespace")?;
        Ok(world)
    }

    /// Sends an object of the namespace's, and returns the answer byte for byte.
    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Box<RawValue>> {
        let uri = format!("/apis/apps/v1/namespaces/{NAMESPACE}/{path}");
        let request = Request::builder().method(method.clone()).uri(uri).header("content-type", "application/json");
        let answer = self.plane.admin().request_text(request.body(body.to_string().into_bytes())?).await;
        Ok(RawValue::from_string(answer.with_context(|| format!("{method} {path}"))?)?)
    }

    /// Has a case's set go through its templates, and writes down what came of each.
    async fn record(&self, case: &Case) -> Result<String> {
        let name = case.set_name();
        let mut entries = Vec::new();
        if case.squatted {
            entries.push(entry(case, None, &self.squat(case).await?)?);
        }
        for (n, change) in case.templates.iter().enumerate() {
            let mut object = stateful_set(&name);
            change(&mut object);
            let (method, path) =
                if n == 0 { (Method::POST, "statefulsets".to_owned()) } else { (Method::PUT, format!("statefulsets/{name}")) };
            let set = self.send(method, &path, &object).await?;
            let revision = wait_for_revision(&self.plane, &name).await?;
            entries.push(entry(case, Some(&set), &revision)?);
        }
        Ok(entries.join(",\n"))
    }

    /// Takes the name of the case's first revision for other data, before there is a set.
    async fn squat(&self, case: &Case) -> Result<Golden> {
        let name = case.set_name();
        let mut object = stateful_set(&name);
        case.templates[0](&mut object);
        self.send(Method::POST, "statefulsets", &object).await?;
        let taken = wait_for_revision(&self.plane, &name).await?.name;
        self.send(Method::DELETE, &format!("statefulsets/{name}"), &json!({"propagationPolicy": "Background"})).await?;
        let path = format!("controllerrevisions/{taken}");
        self.send(Method::DELETE, &path, &json!({})).await?;
        let squatter = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": taken}, "data": {"spec": "of another"}, "revision": 7,
        });
        self.send(Method::POST, "controllerrevisions", &squatter).await?;
        revision_of(&self.plane, &taken).await
    }
}

/// A line of what was there, one of the set and one of the revision.
fn entry(case: &Case, set: Option<&RawValue>, revision: &Golden) -> Result<String> {
    let set = set.map(trimmed).transpose()?.map(|set| format!(",\n\"set\":{}", set.get()));
    Ok(format!("{{\"case\":\"{}\"{},\n\"revision\":{}}}", case.name, set.unwrap_or_default(), serde_json::to_string(revision)?))
}

/// The set as it was served, but for what is another in every run. Nothing of that reaches a revision, except the UID in its owner reference.
fn trimmed(set: &RawValue) -> Result<Box<RawValue>> {
    let set = raw::without(set, &["metadata", "managedFields"])?;
    let set = raw::with_text(&set, &["metadata", "creationTimestamp"], "2026-01-01T00:00:00Z")?;
    let set = raw::with_text(&set, &["metadata", "resourceVersion"], "1")?;
    Ok(raw::with_text(&set, &["metadata", "uid"], UID)?)
}

fn file(release: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../controllers/statefulset/tests/golden")).join(format!("{release}.json"))
}

#[tokio::test]
async fn golden_files_say_what_upstream_makes_of_each_template() -> Result<()> {
    let world = World::start().await?;
    let cases = cases();
    let recorded = try_join_all(cases.iter().map(async |case| world.record(case).await.context(case.name))).await?;
    let recorded = format!("[\n{}\n]\n", recorded.join(",\n"));
    let file = file(world.plane.binaries().release()?);
    if std::env::var("GOLDEN").as_deref() == Ok("write") {
        return std::fs::write(&file, recorded).with_context(|| file.display().to_string());
    }
    let written = std::fs::read_to_string(&file).with_context(|| format!("{}: `make golden` writes it", file.display()))?;
    let differs = written.lines().zip(recorded.lines()).find(|(written, recorded)| written != recorded);
    ensure!(written == recorded, "{} says otherwise; `make golden` writes it anew; first here: {differs:#?}", file.display());
    Ok(())
}
