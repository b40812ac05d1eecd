//! Which pod is whose, and what makes it that.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use nodes::Fate;
use serde_json::{Value, json};

use crate::history::History;
use crate::looking::until_changed;
use crate::rig::{
    Shared, claim_template, controller_uid, is_ready, names, ordinal_of, owners_of, revision_in, revision_of, uid_of, uids, with_claims,
};
use crate::support::{Space, name_of};

/// A pod is called, labelled and equipped as its ordinal says.
fn ensure_identity(pod: &Pod, set: &str, revision: &str) -> Result<()> {
    let ordinal = ordinal_of(pod);
    let name = format!("{set}-{ordinal}");
    let label = |key: &str| pod.labels().get(key).map(String::as_str);
    assert_eq!((name_of(pod), pod.metadata.generate_name.as_deref()), (name.clone(), Some(&*format!("{set}-"))));
    assert_eq!(label("statefulset.kubernetes.io/pod-name"), Some(&*name));
    assert_eq!(label("apps.kubernetes.io/pod-index"), Some(&*ordinal.to_string()));
    assert_eq!(label("app"), Some(set));
    assert_eq!(revision_of(pod), revision);
    let spec = pod.spec.as_ref().context("no spec")?;
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some(&*name), Some("service")));
    let volumes = spec.volumes.iter().flatten();
    let mut claims: Vec<_> =
        volumes.filter_map(|volume| Some((&*volume.name, &*volume.persistent_volume_claim.as_ref()?.claim_name))).collect();
    claims.sort_unstable();
    let expected = [("datadir", format!("datadir-{name}")), ("logs", format!("logs-{name}"))];
    assert_eq!(claims, expected.each_ref().map(|(volume, claim)| (*volume, &**claim)));
    Ok(())
}

pub(crate) async fn should_provide_basic_identity(cluster: Shared) -> Result<()> {
    let space = cluster.space("identity").await?;
    let equipped = |object: &mut Value| {
        with_claims(object);
        object["spec"]["volumeClaimTemplates"] = json!([claim_template("datadir"), claim_template("logs")]);
        object["spec"]["volumeClaimTemplates"][1]["metadata"]["labels"] = json!({"app": "overlaid", "own": "label"});
        object["spec"]["volumeClaimTemplates"][1]["metadata"]["annotations"] = json!({"own": "note"});
        // A volume of the template that the claim takes the place of, and one that stays.
        object["spec"]["template"]["spec"]["volumes"] = json!([{"name": "logs", "emptyDir": {}}, {"name": "scratch", "emptyDir": {}}]);
    };
    space.create_stateful_set_with("web", 3, equipped).await?;
    let revision = revision_in(&space.complete("web").await?);
    let first = space.pods_are(&["web-0", "web-1", "web-2"]).await?;
    for pod in &first {
        ensure_identity(pod, "web", &revision)?;
        assert_eq!(pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref()).map(Vec::len), Some(3));
    }
    let expected: Vec<_> = ["datadir", "logs"].iter().flat_map(|name| (0..3).map(move |ordinal| format!("{name}-web-{ordinal}"))).collect();
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    let claims = space.claims_are(&expected).await?;
    for claim in &claims {
        assert_eq!(claim.labels().get("app").map(String::as_str), Some("web"), "labels that are selected by win");
        assert!(owners_of(claim).is_empty());
        let is_labelled = claim.labels().contains_key("own") && claim.annotations().contains_key("own");
        assert_eq!(is_labelled, claim.name_any().starts_with("logs"));
    }

    // All pods go and come back to what was theirs.
    space.scale_stateful_set("web", 0).await?;
    space.pods_are(&[]).await?;
    space.complete("web").await?;
    space.scale_stateful_set("web", 3).await?;
    space.complete("web").await?;
    let second = space.pods_are(&["web-0", "web-1", "web-2"]).await?;
    for pod in &second {
        ensure_identity(pod, "web", &revision)?;
    }
    assert!(uids(&first).iter().all(|uid| !uids(&second).contains(uid)));
    let again = space.claims_are(&expected).await?;
    assert_eq!(claims.iter().map(ResourceExt::uid).collect::<Vec<_>>(), again.iter().map(ResourceExt::uid).collect::<Vec<_>>());
    Ok(())
}

/// Waits until a pod's controller is that one.
async fn controlled_by(space: &Space, pod: &str, uid: Option<&str>) -> Result<()> {
    until_changed(&space.pods(), &format!("{pod} to be controlled by {uid:?}"), async || {
        let owner = controller_uid(&space.pods().get(pod).await?.metadata);
        ensure!(owner.as_deref() == uid, "{owner:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn should_adopt_matching_orphans_and_release_non_matching_pods(cluster: Shared) -> Result<()> {
    let space = cluster.space("adopt").await?;
    let set = space.create_stateful_set("web", 1).await?;
    let set = uid_of(&set)?;
    space.complete("web").await?;
    let before = uids(&space.pods_are(&["web-0"]).await?);
    space.patch_pod("web-0", json!({"metadata": {"ownerReferences": null}})).await?;
    controlled_by(&space, "web-0", Some(&set)).await?;

    space.patch_pod("web-0", json!({"metadata": {"labels": {"app": "other"}}})).await?;
    controlled_by(&space, "web-0", None).await?;
    space.counts("web", "no pod", |status| status.replicas == 0).await?;
    space.patch_pod("web-0", json!({"metadata": {"labels": {"app": "web"}}})).await?;
    controlled_by(&space, "web-0", Some(&set)).await?;
    space.complete("web").await?;
    assert_eq!(uids(&space.pods_are(&["web-0"]).await?), before);

    // One that matches and is not called as a pod of the set is nobody's.
    let stranger = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger", "labels": {"app": "web"}}, "spec": crate::support::pod_spec(),
    });
    space.create("pods", &stranger).await?;
    space.looked_at("web").await?;
    controlled_by(&space, "stranger", None).await
}

pub(crate) async fn should_not_deadlock_when_a_pods_predecessor_fails(cluster: Shared) -> Result<()> {
    let space = cluster.space("predecessor").await?;
    cluster.pods_become(&space, Some(Fate::Unready)).await;
    cluster.pod_becomes(&space, "web-0", Some(Fate::Ready));
    let pods = History::start(space.pods()).await?;
    space.create_stateful_set("web", 2).await?;
    space.counts("web", "two pods", |status| (status.replicas, status.ready_replicas) == (2, Some(1))).await?;

    // The one behind it is not ready, and that must not keep it from coming back.
    space.delete_pod("web-0").await?;
    let back = until_changed(&space.pods(), "web-0 to be back", async || {
        let pod = space.pods().get("web-0").await?;
        ensure!(is_ready(&pod), "it is not ready");
        Ok(pod)
    })
    .await?;
    assert_eq!(names(&pods.added().await?), ["web-0", "web-1", "web-0"]);
    cluster.pods_become(&space, None).await;
    space.complete("web").await?;
    assert_eq!(space.pods_of("web").await?[0].uid(), back.uid());
    assert_eq!(pods.added().await?.len(), 3);
    Ok(())
}

/// The labels that make a pod that of its ordinal are put back; nothing else about it is touched.
pub(crate) async fn an_identity_that_somebody_takes_away_is_given_back(cluster: Shared) -> Result<()> {
    let space = cluster.space("relabel").await?;
    space.create_stateful_set("web", 1).await?;
    space.complete("web").await?;
    let before = uids(&space.pods_of("web").await?);
    space.patch_pod("web-0", json!({"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": "other", "own": "label"}}})).await?;
    let pod = until_changed(&space.pods(), "the label", async || {
        let pod = space.pods().get("web-0").await?;
        ensure!(pod.labels()["statefulset.kubernetes.io/pod-name"] == "web-0", "{:?}", pod.labels());
        Ok(pod)
    })
    .await?;
    assert_eq!(pod.labels()["own"], "label");
    assert_eq!(uids(&space.pods_of("web").await?), before);
    let said = space.messages("StatefulSet", "web", "SuccessfulUpdate", 1).await?;
    // Releases before 1.35 write the verb in lower case.
    assert_eq!(said[0].to_lowercase(), "update pod web-0 in statefulset web successful");
    Ok(())
}
