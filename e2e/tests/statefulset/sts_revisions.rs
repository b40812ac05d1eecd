//! Rows of the bug corpus about revisions.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use http::{Method, Request};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::history::History;
use crate::looking::until_changed;
use crate::rig::{IMAGE, NEXT, Shared, comings_and_goings, ensure_all_at, names, revision_in, revisions_in, status_of};
use crate::support::{PATIENCE, Space, minor_release, name_of};

/// Has every new pod of a namespace annotated by the API server, or no longer.
async fn annotate_new_pods(space: &Space, begin: bool) -> Result<()> {
    let group = "/apis/admissionregistration.k8s.io/v1";
    let name = format!("annotate-{}", space.namespace);
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
            ]},
            "matchConditions": [{"name": "here", "expression": format!("object.metadata.namespace == '{}'", space.namespace)}],
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{metadata: Object.metadata{annotations: {'injected': 'yes'}}, spec: Object.spec{priorityClassName: ''}}",
            }}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name},
    });
    for (resource, object) in [("mutatingadmissionpolicies", policy), ("mutatingadmissionpolicybindings", binding)] {
        let request = if begin {
            let request = Request::post(format!("{group}/{resource}")).header("content-type", "application/json");
            request.body(object.to_string().into_bytes())?
        } else {
            Request::delete(format!("{group}/{resource}/{name}")).body(Vec::new())?
        };
        space.client.request::<Value>(request).await.with_context(|| format!("{resource} {begin}"))?;
    }
    // Admission learns of it by a watch.
    wait::until("the policy to take effect", PATIENCE, async || {
        let probe = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "labels": {}}, "spec": crate::support::pod_spec(),
        });
        let made = space.create("pods?dryRun=All", &probe).await?;
        ensure!(made["metadata"]["annotations"]["injected"].is_string() == begin, "{}", made["metadata"]);
        Ok(())
    })
    .await
}

pub(crate) async fn sts_09_what_admission_does_to_pods_rolls_nothing(cluster: Shared) -> Result<()> {
    if minor_release() < 36 {
        // Policies that change objects came with 1.36.
        return Ok(());
    }
    let space = cluster.space("sts-09").await?;
    space.create_stateful_set("web", 2).await?;
    space.complete("web").await?;
    annotate_new_pods(&space, true).await?;
    let pods = History::start(space.pods()).await?;
    space.scale_stateful_set("web", 3).await?;
    space.complete("web").await?;
    let annotated = |pod: &k8s_openapi::api::core::v1::Pod| pod.annotations().contains_key("injected");
    assert_eq!(space.pods_of("web").await?.iter().map(annotated).collect::<Vec<_>>(), [false, false, true]);
    space.looked_at("web").await?;
    annotate_new_pods(&space, false).await?;
    space.looked_at("web").await?;
    assert_eq!(comings_and_goings(&pods).await?, ["+web-2"]);
    assert_eq!(space.revisions_of("web").await?.len(), 1);
    Ok(())
}

pub(crate) async fn sts_12_revisions_are_trimmed_although_no_pod_can_be_made(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-12").await?;
    space.limit_pods(0).await?;
    space.create_stateful_set_with("web", 1, |object| object["spec"]["revisionHistoryLimit"] = json!(2)).await?;
    space.observed("web").await?;
    for version in 2..=50 {
        space.set_image("web", &format!("registry.example/app:{version}")).await?;
        space.observed("web").await?;
    }
    // The current one, which no pod has, the newest, and the two before it.
    until_changed(&space.revisions(), "four revisions", async || {
        let left: Vec<_> = space.revisions_of("web").await?.iter().map(|revision| revision.revision).collect();
        ensure!(left.len() <= 4 && left.ends_with(&[48, 49, 50]), "{left:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn sts_13_a_revision_name_that_is_taken_is_counted(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-13").await?;
    // What the name is going to be.
    space.create_stateful_set_with("web", 0, |object| object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(NEXT)).await?;
    let taken = revision_in(&space.complete("web").await?);
    space.delete_stateful_set("web", &DeleteParams::background()).await?;
    until_changed(&space.revisions(), "its revision to be gone", async || {
        ensure!(space.revisions().get_opt(&taken).await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    let squatter = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": taken}, "data": {"spec": {"other": "data"}}, "revision": 7,
    });
    space.apps(Method::POST, "controllerrevisions", &squatter).await?;

    space.create_stateful_set("web", 2).await?;
    let first = space.complete("web").await?;
    assert_eq!(status_of(&first).collision_count.unwrap_or(0), 0);
    space.set_image("web", NEXT).await?;
    let done = space.complete("web").await?;
    let found = revision_in(&done);
    assert_ne!(found, taken);
    assert_eq!(status_of(&done).collision_count, Some(1));
    ensure_all_at(&space, "web", NEXT, &found).await?;
    let revisions = space.revisions_of("web").await?;
    assert_eq!((revisions.len(), revisions[1].name_any()), (2, found));
    // The label keeps the hash that it had without the collision.
    let hash = revisions[1].labels().get("controller.kubernetes.io/hash").cloned().unwrap_or_default();
    assert_eq!(taken, format!("web-{hash}"));
    Ok(())
}

pub(crate) async fn sts_15_a_set_that_goes_adopts_nothing(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-15").await?;
    space.create_stateful_set_with("web", 2, |object| object["metadata"]["finalizers"] = json!(["example.com/hold"])).await?;
    space.complete("web").await?;
    let (pods, revisions) = (History::start(space.pods()).await?, History::start(space.revisions()).await?);
    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    space.delete_stateful_set("web", &orphan).await?;
    let unowned = async || -> Result<()> {
        let revisions = space.revisions().list(&ListParams::default()).await?.items;
        let pods = space.all_pods().await?;
        let owned = pods.iter().map(|pod| &pod.metadata).chain(revisions.iter().map(|revision| &revision.metadata));
        let owned = owned.filter(|metadata| metadata.owner_references.iter().flatten().next().is_some()).count();
        ensure!(owned == 0, "{owned} are owned");
        Ok(())
    };
    until_changed(&space.revisions(), "everything to be orphaned", unowned).await?;
    // The set is still there, and hears of its orphans; the counts of a set without pods show that it has.
    for pod in space.all_pods().await? {
        space.patch_pod(&name_of(&pod), json!({"metadata": {"labels": {"touched": "yes"}}})).await?;
    }
    space.patch_stateful_set("web", json!({"metadata": {"annotations": {"touched": "yes"}}})).await?;
    wait::until("the controller to ask whether it may adopt", PATIENCE, async || {
        let asked = cluster.requests(&space, |request| request.kind.resource == "statefulsets" && request.kind.verb == "get")?;
        ensure!(asked > 0, "it has not");
        Ok(())
    })
    .await?;
    space.patch_stateful_set("web", json!({"metadata": {"finalizers": null}})).await?;
    until_changed(&space.stateful_sets(), "the set to be gone", async || {
        ensure!(space.stateful_sets().get_opt("web").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    unowned().await?;
    assert!(pods.deleted().await?.is_empty() && revisions.deleted().await?.is_empty());
    ensure_never_adopted_again(&pods).await?;
    ensure_never_adopted_again(&revisions).await
}

/// What has lost its owner stays without.
async fn ensure_never_adopted_again<K>(history: &History<K>) -> Result<()>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let mut free = BTreeSet::new();
    for change in history.so_far().await? {
        let object = change.object();
        if object.owner_references().is_empty() {
            free.insert(object.uid());
        } else {
            ensure!(!free.contains(&object.uid()), "{} was adopted again", object.name_any());
        }
    }
    Ok(())
}

/// Ours hears of revisions; upstream sees at the next occasion what has become of them.
pub(crate) async fn a_revision_that_somebody_deletes_is_made_again(cluster: Shared) -> Result<()> {
    let space = cluster.space("deleted-revision").await?;
    space.create_stateful_set("web", 1).await?;
    let name = revision_in(&space.complete("web").await?);
    let pods = History::start(space.pods()).await?;
    let before = space.revisions_of("web").await?;
    space.revisions().delete(&name, &DeleteParams::default()).await?;
    if !cluster.is_ours() {
        space.looked_at("web").await?;
    }
    let after = until_changed(&space.revisions(), "the revision to be back", async || {
        let revisions = space.revisions_of("web").await?;
        ensure!(names(&revisions) == [&*name], "{:?}", names(&revisions));
        Ok(revisions)
    })
    .await?;
    assert_ne!(before[0].uid(), after[0].uid());
    assert_eq!(before[0].data, after[0].data);
    space.complete("web").await?;
    ensure_all_at(&space, "web", IMAGE, &name).await?;
    assert!(comings_and_goings(&pods).await?.is_empty());
    let (current, update) = revisions_in(&space.stateful_set("web").await?);
    assert_eq!((current, update), (name.clone(), name));
    Ok(())
}
