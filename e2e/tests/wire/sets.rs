//! ReplicaSets, which come as JSON.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use http::Method;
use machinery::source::ApiTransport;
use model::labels::Labels;
use model::plan::REPLICASETS;
use model::replicaset::ReplicaSetDecoder;
use model::{Format, Object, ReplicaSet};
use serde_json::{Value, json};

use crate::Shared;
use crate::reading::{Seen, client, config, of, start};
use crate::support::{PATIENCE, Space, ago};

const APPS: &str = "/apis/apps/v1";

/// Sets with much and with little in them.
async fn create(space: &Space) -> Result<()> {
    space.create_set("plain", 1).await?;
    space
        .create_set_with("full", 7, |set| {
            set["metadata"]["labels"] = json!({"a": "1", "empty": ""});
            set["metadata"]["annotations"] = json!({"text": "\u{e4}<&>\n\u{1f980}\"quoted\"", "number": "1Gi"});
            set["metadata"]["finalizers"] = json!(["example.com/kept"]);
            set["metadata"]["ownerReferences"] = json!([
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "0e1b4a9c-6a4e-4c53-9f0a-3f6f1f0f4a11"},
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "11111111-2222-3333-4444-555555555555", "controller": true},
            ]);
            set["spec"]["minReadySeconds"] = json!(30);
            set["spec"]["selector"]["matchExpressions"] = json!([
                {"key": "tier", "operator": "In", "values": ["front", "back"]}, {"key": "gone", "operator": "DoesNotExist"},
            ]);
            set["spec"]["template"]["metadata"]["labels"]["tier"] = json!("back");
            set["spec"]["template"]["spec"]["hostnameOverride"] = json!("somewhere.example");
            set["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "SIZE", "value": "1Gi"}]);
        })
        .await?;
    let condition = json!({
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "<no> & \u{e4}", "lastTransitionTime": ago(500),
    });
    let other = json!({"type": "example.com/Other", "status": "Unknown", "lastTransitionTime": ago(5000)});
    let status = json!({
        "replicas": 7, "fullyLabeledReplicas": 6, "readyReplicas": 5, "availableReplicas": 4, "terminatingReplicas": 0, "observedGeneration": 1,
        "conditions": [condition, other],
    });
    space.request(Method::PATCH, APPS, "replicasets/full/status", &json!({"status": status})).await?;
    // One that is at zero, and was seen to be.
    space.create_set("zero", 0).await?;
    let status = json!({"status": {"replicas": 0, "observedGeneration": 1}});
    space.request(Method::PATCH, APPS, "replicasets/zero/status", &status).await?;
    // A deleted one, which its finalizer keeps.
    space.create_set_with("deleted", 0, |set| set["metadata"]["finalizers"] = json!(["example.com/kept"])).await?;
    space.request(Method::DELETE, APPS, "replicasets/deleted", &json!({})).await.map(drop)
}

fn compare(set: &ReplicaSet, json: &Value) -> Result<()> {
    let (meta, spec) = (&json["metadata"], &json["spec"]);
    assert_eq!((set.name(), &*set.key.namespace), (meta["name"].as_str().unwrap(), meta["namespace"].as_str().unwrap()));
    assert_eq!((set.uid.to_string(), set.resource_version.to_string()), (text(&meta["uid"]), text(&meta["resourceVersion"])));
    assert_eq!(set.generation, meta["generation"].as_i64().unwrap());
    assert_eq!(set.deletion.map(|time| time.to_string()), meta["deletionTimestamp"].as_str().map(str::to_owned));
    let owner = meta["ownerReferences"].as_array().into_iter().flatten().find(|owner| owner["controller"] == true);
    assert_eq!(set.controller_uid().map(|uid| uid.to_string()), owner.map(|owner| text(&owner["uid"])));
    let labels = meta["labels"].as_object().into_iter().flatten();
    assert!(labels.clone().all(|(key, value)| set.labels.get(key) == value.as_str()) && labels.count() == set.labels.len());
    assert_eq!(i64::from(set.spec.replicas), spec["replicas"].as_i64().unwrap());
    assert_eq!(i64::from(set.spec.min_ready_seconds), spec["minReadySeconds"].as_i64().unwrap_or(0));
    assert!(set.spec.selector.as_ref().is_ok_and(|selector| selector.matches(&*set.spec.template_labels)));
    assert_eq!(serde_json::to_value(&set.status)?, json["status"]);

    // What is written back, or copied to pods, is kept whole; but not where no pod is wanted.
    let (Some(metadata), Some(template)) = (set.metadata(), set.template()) else {
        assert_eq!(set.name(), "zero");
        return Ok(());
    };
    assert_ne!(set.name(), "zero");
    assert_eq!(serde_json::from_str::<Value>(template.get())?, spec["template"]);
    // All but managedFields.
    let mut whole = meta.clone();
    whole.as_object_mut().unwrap().remove("managedFields");
    assert_eq!(serde_json::from_str::<Value>(metadata.get())?, whole);
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) async fn replica_sets_are_read_whole_and_their_status_is_written_back_unchanged(planes: Shared) -> Result<()> {
    let plane = &planes.streaming;
    let space = Space::new(plane, "sets").await?;
    let (listed, watched) = (Seen::default(), Seen::default());
    let client = client(&config(plane, None).await?)?;
    let reads = || of(&REPLICASETS, &space.namespace);
    let source = |seen: &Seen<ReplicaSet>| {
        start(reads(), ApiTransport::new(client.clone(), &reads(), Format::Json), ReplicaSetDecoder::new(), seen.clone())
    };
    let mut watching = source(&watched)?;
    ensure!(watching.handle.synced().await, "the source ended");
    create(&space).await?;
    let list = space.request(Method::GET, APPS, "replicasets", &Value::Null).await?;
    let sets: BTreeMap<_, _> = list["items"].as_array().unwrap().iter().map(|set| (text(&set["metadata"]["name"]), set.clone())).collect();
    assert_eq!(sets.keys().collect::<Vec<_>>(), ["deleted", "full", "plain", "zero"]);

    let applied = wait::until("the watch to have the last versions", PATIENCE, async || {
        let applied = watched.look(|history| history.applied.clone());
        let is_last = |(name, set): (&String, &Value)| {
            applied.get(name).is_some_and(|seen| seen.resource_version.to_string() == text(&set["metadata"]["resourceVersion"]))
        };
        ensure!(sets.iter().all(is_last), "not yet");
        Ok(applied)
    })
    .await?;
    let mut listing = source(&listed)?;
    ensure!(listing.handle.synced().await, "the source ended");
    let listed = listed.look(|history| history.listed.clone());
    for (name, set) in &sets {
        for ours in [&applied, &listed] {
            compare(ours.get(name).with_context(|| format!("{name} is missing"))?, set)?;
        }
        write_back(&space, &listed[name]).await?;
    }
    Ok(())
}

/// Metadata and status as the executor puts them together: a server that finds nothing changed leaves the version as it is.
async fn write_back(space: &Space, set: &ReplicaSet) -> Result<()> {
    let Some(metadata) = set.metadata() else { return Ok(()) };
    let body = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": serde_json::from_str::<Value>(metadata.get())?, "status": set.status,
    });
    let answer = space.request(Method::PUT, APPS, &format!("replicasets/{}/status", set.name()), &body).await?;
    assert_eq!(text(&answer["metadata"]["resourceVersion"]), set.resource_version.to_string(), "nothing has changed: {answer}");
    Ok(())
}
