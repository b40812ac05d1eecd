//! Rows of the bug corpus about claims and ordinals.

use anyhow::{Result, ensure};
use http::Method;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::history::History;
use crate::looking::until_changed;
use crate::rig::{Shared, claim_template, comings_and_goings, controller_uid, names, owners_of, uid_of, uids, with_claims, with_policy};
use crate::support::Space;

pub(crate) async fn sts_22_a_claim_that_is_on_its_way_out_is_waited_for(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-22").await?;
    space.create_stateful_set_with("web", 1, with_claims).await?;
    space.complete("web").await?;
    let first = space.claims_are(&["datadir-web-0"]).await?;
    // Its pod protects it, and so does a finalizer of the test's until the pod is gone.
    space.patch_claim("datadir-web-0", json!({"metadata": {"finalizers": ["example.com/hold"]}})).await?;
    space.request(Method::DELETE, "/api/v1", "persistentvolumeclaims/datadir-web-0", &json!({})).await?;
    let pods = History::start(space.pods()).await?;
    space.delete_pod("web-0").await?;
    let said = space.messages("StatefulSet", "web", "FailedCreate", 1).await?;
    assert!(said[0].contains("pvc datadir-web-0 is being deleted"), "{said:?}");
    assert_eq!(comings_and_goings(&pods).await?, ["-web-0"]);
    space.patch_claim("datadir-web-0", json!({"metadata": {"finalizers": null}})).await?;
    space.complete("web").await?;
    let second = space.claims_are(&["datadir-web-0"]).await?;
    assert_ne!(first[0].uid(), second[0].uid());
    assert_eq!(comings_and_goings(&pods).await?, ["-web-0", "+web-0"]);
    Ok(())
}

/// Deletes the set and leaves its pods and revisions there.
async fn orphan(space: &Space) -> Result<()> {
    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    space.delete_stateful_set("web", &orphan).await?;
    until_changed(&space.stateful_sets(), "the set to be gone", async || {
        ensure!(space.stateful_sets().get_opt("web").await?.is_none(), "it is there");
        Ok(())
    })
    .await
}

pub(crate) async fn sts_25_a_pod_without_a_new_volume_is_replaced(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-25").await?;
    space.create_stateful_set_with("web", 2, with_claims).await?;
    space.complete("web").await?;
    let pods = History::start(space.pods()).await?;
    orphan(&space).await?;
    let one_more = |object: &mut Value| {
        with_claims(object);
        object["spec"]["volumeClaimTemplates"] = json!([claim_template("datadir"), claim_template("extra")]);
    };
    space.create_stateful_set_with("web", 2, one_more).await?;
    if !cluster.is_ours() {
        // It asks for the impossible, for ever.
        let said = space.messages("StatefulSet", "web", "FailedUpdate", 1).await?;
        assert!(said[0].contains("Forbidden"), "{said:?}");
        return Ok(());
    }
    until_changed(&space.pods(), "both pods to be replaced", async || {
        let steps = comings_and_goings(&pods).await?;
        ensure!(steps == ["-web-1", "+web-1", "-web-0", "+web-0"], "{steps:?}");
        Ok(())
    })
    .await?;
    space.complete("web").await?;
    space.claims_are(&["datadir-web-0", "datadir-web-1", "extra-web-0", "extra-web-1"]).await?;
    assert_eq!(space.revisions_of("web").await?.len(), 1, "the template is the same");
    Ok(())
}

pub(crate) async fn sts_45_another_window_of_ordinals_has_exactly_its_pods_and_claims(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-45").await?;
    space.create_stateful_set_with("web", 3, |object| with_policy(object, "Retain", "Delete")).await?;
    space.complete("web").await?;
    let kept = space.claims().get("datadir-web-2").await?.uid();
    space.patch_stateful_set("web", json!({"spec": {"ordinals": {"start": 2}}})).await?;
    space.pods_are(&["web-2", "web-3", "web-4"]).await?;
    space.complete("web").await?;
    let claims = space.claims_are(&["datadir-web-2", "datadir-web-3", "datadir-web-4"]).await?;
    assert_eq!(claims[0].uid(), kept);
    assert!(claims.iter().all(|claim| owners_of(claim).is_empty()));
    Ok(())
}

pub(crate) async fn sts_49_a_set_made_again_takes_its_pods_and_revision(cluster: Shared) -> Result<()> {
    let space = cluster.space("sts-49").await?;
    space.create_stateful_set_with("web", 2, with_claims).await?;
    space.complete("web").await?;
    let pods = History::start(space.pods()).await?;
    let revisions = space.revisions_of("web").await?;
    let before = uids(&space.pods_of("web").await?);
    orphan(&space).await?;
    let larger = |object: &mut Value| {
        with_claims(object);
        object["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    };
    let again = space.create_stateful_set_with("web", 2, larger).await?;
    space.complete("web").await?;
    assert_eq!(uids(&space.pods_of("web").await?), before);
    assert!(comings_and_goings(&pods).await?.is_empty());
    let adopted = space.revisions_of("web").await?;
    assert_eq!((names(&adopted), adopted[0].uid()), (names(&revisions), revisions[0].uid()));
    assert_eq!(controller_uid(&adopted[0].metadata), Some(uid_of(&again)?));
    Ok(())
}
