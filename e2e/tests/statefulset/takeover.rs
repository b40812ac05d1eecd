//! ControllerRevisions are what upstream makes of the same sets, to the byte; and so nothing is replaced when the controllers change hands.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use e2e::ControlPlane;
use http::{Method, Request};
use kube::ResourceExt;
use nodes::Fleet;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::history::History;
use crate::rig::{
    CONTROLLERS, IMAGE, Shared, Subject, by_hand, comings_and_goings, control_plane, fleet, names, partition, revision_in, revisions_in,
    stateful_set, status_of,
};
use crate::support::templates::{
    Change, amounts, annotated, constrained, described, equipped, markup, newer_fields, nothing_further_inside, nothing_in_many_forms,
    numbers, of_late, probes, quantities, quantities_respelled, sorted_oddly,
};
use crate::support::{Space, minor_release};
use crate::under_way::UnderWay;

/// A set that is hard to take over.
struct Case {
    name: &'static str,
    change: Change,
}

fn cases() -> Vec<Case> {
    let plain = |_: &mut Value| {};
    let all: [(&'static str, Change); 20] = [
        ("plain", plain),
        ("amounts", amounts),
        ("sorted-oddly", sorted_oddly),
        ("described", described),
        ("of-late", of_late),
        ("of-1-33", plain),
        ("quantities", quantities),
        ("respelled", quantities_respelled),
        ("nothing", nothing_in_many_forms),
        ("nested", nothing_further_inside),
        ("markup", markup),
        ("newer", newer_fields),
        ("probes", probes),
        ("numbers", numbers),
        ("equipped", equipped),
        ("annotated", annotated),
        ("constrained", constrained),
        ("rolled-back", plain),
        ("partitioned", |object| partition(object, 1)),
        ("a-name-that-is-as-long-as-the-revision-label-permits", plain),
    ];
    all.into_iter().map(|(name, change)| Case { name, change }).collect()
}

/// A ControllerRevision as the server prints it.
#[derive(Deserialize)]
struct Printed {
    metadata: PrintedMetadata,
    data: Box<RawValue>,
    revision: i64,
}

#[derive(Deserialize)]
struct PrintedMetadata {
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct PrintedList {
    items: Vec<Printed>,
}

/// What of a ControllerRevision must be as upstream has it.
#[derive(PartialEq, Debug)]
struct Essence {
    data: String,
    revision: i64,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

/// A namespace's revisions by name.
async fn essences(space: &Space) -> Result<BTreeMap<String, Essence>> {
    let path = format!("/apis/apps/v1/namespaces/{}/controllerrevisions", space.namespace);
    let text = space.client.request_text(Request::get(path).body(Vec::new())?).await?;
    let list: PrintedList = serde_json::from_str(&text)?;
    let essence = |Printed { metadata, data, revision }: Printed| {
        let PrintedMetadata { name, labels, annotations } = metadata;
        (name, Essence { data: data.get().to_owned(), revision, labels, annotations })
    };
    Ok(list.items.into_iter().map(essence).collect())
}

/// A control plane where the controller changes hands.
struct World {
    // Fields are dropped in this order: clients end before their server.
    fleet: Fleet,
    plane: ControlPlane,
}

/// What Kubernetes 1.33 has left of a set: a revision that says that there is no `creationTimestamp`, and no set yet.
async fn leave_a_revision_of_1_33(space: &Space, name: &str) -> Result<()> {
    let mut served = space.apps(Method::POST, "statefulsets?dryRun=All", &stateful_set(name, 1)).await?;
    let mut template = served["spec"]["template"].take();
    template["$patch"] = json!("replace");
    template["metadata"]["creationTimestamp"] = Value::Null;
    let revision = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {"name": format!("{name}-55fd57d68"), "labels": {"app": name, "controller.kubernetes.io/hash": "55fd57d68"}},
        "data": {"spec": {"template": template}}, "revision": 3,
    });
    space.apps(Method::POST, "controllerrevisions", &revision).await.map(drop)
}

/// Makes all sets, and brings each where it is to be.
async fn make(space: &Space) -> Result<()> {
    leave_a_revision_of_1_33(space, "of-1-33").await?;
    for Case { name, change } in cases() {
        let mut object = stateful_set(name, 1);
        change(&mut object);
        space.apps(Method::POST, "statefulsets", &object).await.context(name)?;
    }
    for Case { name, .. } in cases() {
        space.complete(name).await.context(name)?;
    }
    for image in ["registry.example/app:2", "registry.example/app:3", IMAGE] {
        space.set_image("rolled-back", image).await?;
        space.complete("rolled-back").await?;
    }
    ensure!(space.revisions_of("of-1-33").await?.len() == 1, "its revision was not recognised");
    space.set_image("partitioned", "registry.example/app:2").await?;
    let (current, update) = revisions_in(&space.observed("partitioned").await?);
    ensure!(current != update, "its only pod is below the partition");
    Ok(())
}

/// Asks for one more pod of each set, so that nobody can overlook one: that pod is all that changes.
async fn grow(space: &Space, replicas: i32) -> Result<()> {
    let pods = History::start(space.pods()).await?;
    let before = essences(space).await?;
    for Case { name, .. } in cases() {
        space.scale_stateful_set(name, replicas).await?;
    }
    for Case { name, .. } in cases() {
        let counts = |status: &k8s_openapi::api::apps::v1::StatefulSetStatus| {
            (status.replicas, status.ready_replicas, status.available_replicas) == (replicas, Some(replicas), Some(replicas))
        };
        space.counts(name, &format!("{replicas} replicas"), counts).await.with_context(|| format!("{name} after a change of hands"))?;
    }
    let mut expected: Vec<_> = cases().into_iter().map(|case| format!("+{}-{}", case.name, replicas - 1)).collect();
    let mut steps = comings_and_goings(&pods).await?;
    expected.sort();
    steps.sort();
    ensure!(steps == expected, "{steps:?}");
    let after = essences(space).await?;
    ensure!(after == before, "revisions changed: {:?} to {:?}", before.keys(), after.keys());
    Ok(())
}

/// The version of a set that nobody asks anything of.
async fn untouched(space: &Space) -> Result<(Option<String>, Vec<Option<String>>)> {
    let revisions = space.revisions_of("untouched").await?;
    Ok((space.stateful_set("untouched").await?.resource_version(), revisions.iter().map(ResourceExt::resource_version).collect()))
}

pub(crate) async fn revisions_are_upstreams_to_the_byte_and_sets_change_hands_both_ways(cluster: Shared) -> Result<()> {
    let plane = control_plane().await?;
    let world = World { fleet: fleet(&plane).await?, plane };
    let (theirs, ours) = (Space::new(&world.plane, "theirs").await?, Space::new(&world.plane, "ours").await?);
    let mut upstream = Subject::Upstream.start(&world.plane, &CONTROLLERS).await?;
    make(&theirs).await?;
    theirs.create_stateful_set_with("untouched", 2, markup).await?;
    theirs.complete("untouched").await?;
    let moving = UnderWay::make(Space::new(&world.plane, "moving").await?).await?;
    moving.set_out(&world.fleet, "registry.example/app:2").await?;
    let (before, half_way) = (untouched(&theirs).await?, moving.kept().await?);
    upstream.stop().await?;

    let mut subject = cluster.subject.start(&world.plane, &CONTROLLERS).await?;
    make(&ours).await?;
    let (golden, made) = (essences(&theirs).await?, essences(&ours).await?);
    for (name, golden) in golden.iter().filter(|(name, _)| !name.starts_with("untouched-")) {
        let made = made.get(name).with_context(|| format!("upstream has {name}, the subject {:?}", made.keys()))?;
        assert_eq!(made, golden, "{name}");
    }
    assert_eq!(golden.len(), made.len() + 1);
    assert_eq!(moving.kept().await?, half_way, "what was under way went on before it could");
    grow(&theirs, 2).await?;
    ensure!(untouched(&theirs).await? == before, "what nobody had changed was written");
    // Another template, so that the newest revisions are of whoever is at work now.
    for Case { name, .. } in cases() {
        theirs.set_image(name, "registry.example/app:9").await?;
        if name != "partitioned" {
            theirs.complete(name).await.context(name)?;
        }
    }
    theirs.counts("partitioned", "a new pod", |status| (status.updated_replicas, status.ready_replicas) == (Some(1), Some(2))).await?;
    moving.arrive(&world.fleet, "registry.example/app:2").await?;
    moving.set_out(&world.fleet, "registry.example/app:3").await?;
    let half_way = moving.kept().await?;
    subject.stop().await?;

    let mut upstream = Subject::Upstream.start(&world.plane, &CONTROLLERS).await?;
    assert_eq!(moving.kept().await?, half_way, "what was under way went on before it could");
    grow(&theirs, 3).await?;
    grow(&ours, 2).await?;
    ensure!(untouched(&theirs).await? == before, "what nobody had changed was written");
    moving.arrive(&world.fleet, "registry.example/app:3").await?;
    upstream.stop().await
}

pub(crate) async fn sts_08_fields_that_nobody_knew_go_to_pods_and_revisions(cluster: Shared) -> Result<()> {
    if minor_release() < 37 {
        return Ok(());
    }
    let space = cluster.space("sts-08").await?;
    let create = |object: &mut Value| {
        newer_fields(object);
        by_hand(object);
    };
    space.create_stateful_set_with("web", 1, create).await?;
    space.pods_are(&["web-0"]).await?;
    let has_all = |spec: &Value| {
        let volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
        spec["hostnameOverride"] == "somewhere.example" && volumes.iter().any(|volume| volume["emptyDir"]["mode"] == 448)
    };
    let pod = space.request(Method::GET, "/api/v1", "pods/web-0", &Value::Null).await?;
    assert!(has_all(&pod["spec"]), "{}", pod["spec"]);
    let revision = space.observed("web").await?;
    let revision = space.apps(Method::GET, &format!("controllerrevisions/{}", revision_in(&revision)), &Value::Null).await?;
    assert!(has_all(&revision["data"]["spec"]["template"]["spec"]), "{}", revision["data"]);

    // Below a partition a pod is made from what its revision has kept.
    space.make_ready("web-0", 1).await?;
    space.complete("web").await?;
    space.set_partition("web", 1).await?;
    let mut without = stateful_set("web", 1);
    by_hand(&mut without);
    let template = json!([{"op": "replace", "path": "/spec/template", "value": without["spec"]["template"]}]);
    let patch = kube::api::Patch::<Value>::Json(serde_json::from_value(template)?);
    space.stateful_sets().patch("web", &kube::api::PatchParams::default(), &patch).await?;
    let after = space.observed("web").await?;
    assert_ne!(status_of(&after).current_revision, status_of(&after).update_revision);
    let pods = History::start(space.pods()).await?;
    space.delete_pod("web-0").await?;
    crate::looking::until_changed(&space.pods(), "web-0 to be back", async || {
        let made = pods.added().await?;
        ensure!(names(&made) == ["web-0"], "{:?}", names(&made));
        Ok(())
    })
    .await?;
    let pod = space.request(Method::GET, "/api/v1", "pods/web-0", &Value::Null).await?;
    assert!(has_all(&pod["spec"]), "{}", pod["spec"]);
    Ok(())
}
