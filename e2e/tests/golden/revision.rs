//! Revisions as kube-controller-manager wrote them.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use e2e::{ControlPlane, wait};
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use model::protobuf::{Envelope, Reader};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::support::PATIENCE;
use super::{NAMESPACE, UID};

/// What of a ControllerRevision its author has chosen.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Golden {
    pub(crate) name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    owner_references: Vec<BTreeMap<String, Value>>,
    revision: i64,
    /// Text, so that nothing that reads or writes the file spells it anew.
    data: String,
}

#[derive(Deserialize)]
struct Printed {
    metadata: PrintedMetadata,
    data: Box<RawValue>,
    revision: i64,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PrintedMetadata {
    name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    owner_references: Vec<BTreeMap<String, Value>>,
}

async fn get(plane: &ControlPlane, path: &str, format: &str) -> Result<Vec<u8>> {
    let request = Request::get(format!("/apis/apps/v1/namespaces/{NAMESPACE}/{path}")).header("accept", format);
    let (head, body) = plane.admin().send(request.body(Body::empty())?).await?.into_parts();
    ensure!(head.status.is_success(), "GET {path} was answered with {}", head.status);
    Ok(body.collect().await?.to_bytes().to_vec())
}

/// A revision by its name.
///
/// The data are taken from the protobuf answer: kube-controller-manager sends its bytes in protobuf, the API server stores them in
/// protobuf, and hands them out as they are. A JSON answer is written by an encoder, which compacts what is raw and escapes HTML in it. Go
/// has done both before, so that nothing is left to do; that is made sure of.
pub(crate) async fn revision_of(plane: &ControlPlane, name: &str) -> Result<Golden> {
    let path = format!("controllerrevisions/{name}");
    let Printed { metadata, data: printed, revision } = serde_json::from_slice(&get(plane, &path, "application/json").await?)?;
    let stored = get(plane, &path, "application/vnd.kubernetes.protobuf").await?;
    let data = String::from_utf8(data(Envelope::open(&stored)?.raw)?)?;
    ensure!(printed.get() == data, "{name} is printed as {printed}, and stored as {data}");
    let PrintedMetadata { name, labels, annotations, mut owner_references } = metadata;
    for owner in &mut owner_references {
        owner.insert("uid".to_owned(), UID.into());
    }
    Ok(Golden { name, labels, annotations, owner_references, revision, data })
}

/// `data.raw` of a ControllerRevision (`k8s.io/api/apps/v1/generated.proto`).
fn data(revision: &[u8]) -> Result<Vec<u8>> {
    for field in Reader::new(revision) {
        let field = field?;
        if field.number != 2 {
            continue;
        }
        for field in field.message()? {
            let field = field?;
            if field.number == 1 {
                return Ok(field.bytes()?.to_vec());
            }
        }
    }
    anyhow::bail!("no data")
}

/// Waits until the controller has seen the set as it is now, and returns the revision that it has come to.
pub(crate) async fn wait_for_revision(plane: &ControlPlane, set: &str) -> Result<Golden> {
    let name = wait::until(&format!("{set} to be observed"), PATIENCE, async || {
        let set: Value = serde_json::from_slice(&get(plane, &format!("statefulsets/{set}"), "application/json").await?)?;
        ensure!(set["status"]["observedGeneration"] == set["metadata"]["generation"], "{}", set["status"]);
        Ok(set["status"]["updateRevision"].as_str().context("no revision")?.to_owned())
    })
    .await?;
    revision_of(plane, &name).await
}
