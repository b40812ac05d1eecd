//! What becomes of a pod's claims when the pod or the set goes.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::looking::until_changed;
use crate::rig::{Shared, by_hand, controller_uid, names, owners_of, uid_of, with_claims, with_policy};
use crate::support::Space;

const CLAIMS: [&str; 3] = ["datadir-web-0", "datadir-web-1", "datadir-web-2"];

/// A set of three whose claims have that policy, complete.
async fn standing(space: &Space, when_deleted: &str, when_scaled: &str) -> Result<()> {
    space.create_stateful_set_with("web", 3, |object| with_policy(object, when_deleted, when_scaled)).await?;
    space.complete("web").await?;
    space.claims_are(&CLAIMS).await?;
    Ok(())
}

/// Waits until the claims have exactly the set as owner, as controller.
async fn owned_by_set(space: &Space, claims: &[&str]) -> Result<()> {
    for claim in claims {
        let owned = |owners: Vec<(String, bool)>| owners == [("StatefulSet/web".to_owned(), true)];
        space.claim_shows(claim, &format!("{claim} to be the set's"), |claim| owned(owners_of(claim))).await?;
    }
    Ok(())
}

/// Makes an orphan of a pod, and waits until it is adopted.
async fn orphan_and_adopt(space: &Space, pod: &str) -> Result<()> {
    let set = uid_of(&space.stateful_set("web").await?)?;
    space.patch_pod(pod, json!({"metadata": {"ownerReferences": null}})).await?;
    until_changed(&space.pods(), "the orphan to be adopted", async || {
        let owner = controller_uid(&space.pods().get(pod).await?.metadata);
        ensure!(owner.as_deref() == Some(&*set), "{owner:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn should_delete_pvcs_with_a_when_deleted_policy(cluster: Shared) -> Result<()> {
    let space = cluster.space("when-deleted").await?;
    standing(&space, "Delete", "Retain").await?;
    owned_by_set(&space, &CLAIMS).await?;
    space.delete_stateful_set("web", &DeleteParams::default()).await?;
    space.claims_are(&[]).await.map(drop)
}

pub(crate) async fn should_delete_pvcs_with_a_on_scaledown_policy(cluster: Shared) -> Result<()> {
    let space = cluster.space("when-scaled").await?;
    standing(&space, "Retain", "Delete").await?;
    space.scale_stateful_set("web", 1).await?;
    space.claims_are(&CLAIMS[..1]).await?;
    space.complete("web").await?;
    let left = space.claims().get(CLAIMS[0]).await?;
    assert!(owners_of(&left).is_empty());
    Ok(())
}

pub(crate) async fn should_delete_pvcs_after_adopting_pod_when_deleted(cluster: Shared) -> Result<()> {
    let space = cluster.space("adopted-deleted").await?;
    standing(&space, "Delete", "Retain").await?;
    owned_by_set(&space, &CLAIMS).await?;
    orphan_and_adopt(&space, "web-2").await?;
    space.delete_stateful_set("web", &DeleteParams::default()).await?;
    space.claims_are(&[]).await.map(drop)
}

pub(crate) async fn should_delete_pvcs_after_adopting_pod_when_scaled(cluster: Shared) -> Result<()> {
    let space = cluster.space("adopted-scaled").await?;
    standing(&space, "Retain", "Delete").await?;
    orphan_and_adopt(&space, "web-2").await?;
    space.scale_stateful_set("web", 1).await?;
    space.claims_are(&CLAIMS[..1]).await.map(drop)
}

pub(crate) async fn should_not_delete_pvc_with_on_scaledown_policy_if_another_controller_owns_the_pvc(cluster: Shared) -> Result<()> {
    let space = cluster.space("foreign-scaled").await?;
    standing(&space, "Retain", "Delete").await?;
    let owner = some_owner(&space, true).await?;
    space.patch_claim(CLAIMS[1], json!({"metadata": {"ownerReferences": [owner]}})).await?;
    space.scale_stateful_set("web", 1).await?;
    space.claims_are(&CLAIMS[..2]).await?;
    space.complete("web").await?;
    assert_eq!(names(&space.claims_are(&CLAIMS[..2]).await?), CLAIMS[..2]);
    Ok(())
}

/// A reference to something that is there.
async fn some_owner(space: &Space, is_controller: bool) -> Result<Value> {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    let owner = space.create("configmaps", &owner).await?;
    Ok(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "controller": is_controller}))
}

/// Sets the policy, and waits until the controller has seen it.
async fn set_policy(space: &Space, when_deleted: &str, when_scaled: &str) -> Result<()> {
    let policy = json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
    space.patch_stateful_set("web", json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}})).await?;
    space.observed("web").await.map(drop)
}

pub(crate) async fn should_not_delete_pvcs_when_there_is_another_controller(cluster: Shared) -> Result<()> {
    let space = cluster.space("foreign-deleted").await?;
    standing(&space, "Retain", "Retain").await?;
    let external = some_owner(&space, false).await?;
    space.patch_claim(CLAIMS[1], json!({"metadata": {"ownerReferences": [external]}})).await?;
    // Nobody collects what has a finalizer.
    let stale = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "unknown", "uid": "9d86d6ae-4e06-4ff1-bc55-f77f52e272e9",
        "controller": true, "blockOwnerDeletion": true,
    });
    space.patch_claim(CLAIMS[2], json!({"metadata": {"ownerReferences": [stale], "finalizers": ["example.com/keep"]}})).await?;
    set_policy(&space, "Delete", "Retain").await?;

    owned_by_set(&space, &CLAIMS[..1]).await?;
    let both = [("ConfigMap/owner".to_owned(), false), ("StatefulSet/web".to_owned(), true)];
    space.claim_shows(CLAIMS[1], "both owners", |claim| owners_of(claim) == both).await?;
    let left = space.claims().get(CLAIMS[2]).await?;
    assert_eq!(owners_of(&left), [("StatefulSet/unknown".to_owned(), true)]);

    // As releases before 1.34 wrote it.
    let set = uid_of(&space.stateful_set("web").await?)?;
    let plain = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": set, "controller": false});
    space.patch_claim(CLAIMS[0], json!({"metadata": {"ownerReferences": [plain]}})).await?;
    set_policy(&space, "Delete", "Delete").await?;
    owned_by_set(&space, &CLAIMS[..1]).await?;

    space.delete_stateful_set("web", &DeleteParams::default()).await?;
    until_changed(&space.claims(), "the set's only claim to be gone", async || {
        let first = space.claims().get_opt(CLAIMS[0]).await?;
        ensure!(first.is_none(), "it is there");
        Ok(())
    })
    .await?;
    let kept = space.claims().get(CLAIMS[1]).await?;
    assert!(kept.metadata.deletion_timestamp.is_none());
    space.claims().get(CLAIMS[2]).await?;
    space.patch_claim(CLAIMS[2], json!({"metadata": {"finalizers": null}})).await
}

pub(crate) async fn sts_27_a_claim_of_another_controller_is_left_alone(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-27").await?;
    standing(&space, "Retain", "Retain").await?;
    let owner = some_owner(&space, true).await?;
    space.patch_claim(CLAIMS[0], json!({"metadata": {"ownerReferences": [owner]}})).await?;
    set_policy(&space, "Delete", "Delete").await?;
    owned_by_set(&space, &CLAIMS[1..]).await?;
    let version = |claim: &k8s_openapi::api::core::v1::PersistentVolumeClaim| claim.resource_version();
    let before = version(&space.claims().get(CLAIMS[0]).await?);
    space.looked_at("web").await?;
    let after = space.claims().get(CLAIMS[0]).await?;
    assert_eq!(owners_of(&after), [("ConfigMap/owner".to_owned(), true)]);
    assert_eq!(version(&after), before);
    // Told only when the claim is visited for a change, which a new policy is for the ordinals that go.
    space
        .patch_claim(
            CLAIMS[2],
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner_uid(&after)?, "controller": true},
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid_of(&space.stateful_set("web").await?)?},
            ]}}),
        )
        .await?;
    space.looked_at("web").await?;
    let said = space.messages("StatefulSet", "web", "ConflictingController", 1).await?;
    assert!(said[0].contains(CLAIMS[2]), "{said:?}");
    space.claim_shows(CLAIMS[2], "the foreign owner alone", |claim| owners_of(claim) == [("ConfigMap/owner".to_owned(), true)]).await
}

/// Another policy is a matter of the claims alone. Upstream writes each pod, too, as it was, and tells of that.
pub(crate) async fn another_policy_writes_claims_and_no_pod(cluster: Shared) -> Result<()> {
    let space = cluster.space("policy").await?;
    standing(&space, "Retain", "Retain").await?;
    let before: Vec<_> = space.pods_of("web").await?.iter().map(ResourceExt::resource_version).collect();
    set_policy(&space, "Delete", "Retain").await?;
    owned_by_set(&space, &CLAIMS).await?;
    space.messages("StatefulSet", "web", "SuccessfulUpdate", 3).await?;
    set_policy(&space, "Retain", "Retain").await?;
    for claim in CLAIMS {
        space.claim_shows(claim, &format!("{claim} to be nobody's"), |claim| owners_of(claim).is_empty()).await?;
    }
    let after: Vec<_> = space.pods_of("web").await?.iter().map(ResourceExt::resource_version).collect();
    assert_eq!(after, before);
    if cluster.is_ours() {
        let is_write = |verb: &str| matches!(verb, "update" | "patch");
        let writes = cluster.requests(&space, |request| request.kind.resource == "pods" && is_write(&request.kind.verb))?;
        assert_eq!(writes, 0);
    }
    Ok(())
}

fn owner_uid(claim: &k8s_openapi::api::core::v1::PersistentVolumeClaim) -> Result<String> {
    claim.metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone()).next().context("no owner")
}

pub(crate) async fn pvc_should_be_recreated_when_pod_is_pending_due_to_missing_pvc(cluster: Shared) -> Result<()> {
    let space = cluster.space("missing-claim").await?;
    let create = |object: &mut Value| {
        with_claims(object);
        // A claim in use by a pod on a node cannot vanish.
        by_hand(object);
    };
    space.create_stateful_set_with("web", 1, create).await?;
    space.pods_are(&["web-0"]).await?;
    let first = space.claims_are(&CLAIMS[..1]).await?;
    space.request(Method::DELETE, "/api/v1", &format!("persistentvolumeclaims/{}", CLAIMS[0]), &json!({})).await?;
    let second = until_changed(&space.claims(), "another claim", async || {
        // Ours hears of the claim. Upstream hears of its pods only: in earnest it is the scheduler that says something of them.
        if !cluster.is_ours() {
            space.patch_pod("web-0", json!({"metadata": {"annotations": {"touched": fastrand::u32(..).to_string()}}})).await?;
        }
        let claims = space.claims_are(&CLAIMS[..1]).await?;
        ensure!(claims[0].uid() != first[0].uid(), "it is the first one");
        Ok(claims)
    })
    .await?;
    assert_eq!(owners_of(&second[0]), []);
    space.make_ready("web-0", 1).await?;
    space.complete("web").await.map(drop)
}
