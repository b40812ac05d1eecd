//! The update strategy `Recreate` of 1.37, whose gate is off by default: a control plane and a subject that have it on.

use anyhow::{Result, ensure};
use e2e::controlplane::ControllerManager;
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::{Value, json};

use crate::history::History;
use crate::rig::{CONTROLLERS, IMAGE, NEXT, Shared, comings_and_goings, control_plane, ensure_all_at, fleet, revision_in, status_of};
use crate::support::{Space, minor_release};

const GATE: &str = "StatefulSetRecreateStrategy";

/// The condition's status and reason.
fn progress(set: &StatefulSet) -> Option<(String, String)> {
    let conditions = status_of(set).conditions.unwrap_or_default();
    let progressing = conditions.into_iter().find(|condition| condition.type_ == "Progressing")?;
    Some((progressing.status, progressing.reason.unwrap_or_default()))
}

/// Waits until the condition says so.
async fn progress_is(space: &Space, status: &str, reason: &str) -> Result<()> {
    let expected = Some((status.to_owned(), reason.to_owned()));
    let check = |set: &StatefulSet| {
        let found = progress(set);
        ensure!(found == expected, "{found:?}");
        Ok(())
    };
    space.stateful_set_shows("web", &format!("Progressing {status} because of {reason}"), check).await
}

/// All pods go before there is a new one; a template that no pod starts with is mended by the next one.
pub(crate) async fn recreate_ends_all_old_pods_before_it_makes_new_ones(cluster: Shared) -> Result<()> {
    if minor_release() < 37 {
        return Ok(());
    }
    let plane = control_plane().await?;
    let mut subject = if cluster.is_ours() {
        plane.launch().controllers(CONTROLLERS).feature_gate(GATE, true).rate(1000, 1000).start().await?
    } else {
        plane.run_controller_manager(&ControllerManager::only(CONTROLLERS).feature_gate(GATE, true).unlimited()).await?
    };
    let _fleet = fleet(&plane).await?;
    let space = Space::new(&plane, "recreate").await?;
    let recreate = |object: &mut Value| object["spec"]["updateStrategy"] = json!({"type": "Recreate"});
    space.create_stateful_set_with("web", 3, recreate).await?;
    let old = space.complete("web").await?;
    assert_eq!(progress(&old), None, "its template has never changed");

    let pods = History::start(space.pods()).await?;
    space.set_image("web", NEXT).await?;
    let new = revision_in(&space.complete("web").await?);
    progress_is(&space, "False", "RecreateCompleted").await?;
    let mut steps = comings_and_goings(&pods).await?;
    steps[..3].sort();
    assert_eq!(steps, ["-web-0", "-web-1", "-web-2", "+web-0", "+web-1", "+web-2"]);
    ensure_all_at(&space, "web", NEXT, &new).await?;

    space.set_behaviour("web", Some("never-start")).await?;
    space.counts("web", "one new pod", |status| (status.replicas, status.updated_replicas) == (1, Some(1))).await?;
    progress_is(&space, "True", "RecreateInProgress").await?;
    space.set_behaviour("web", None).await?;
    space.set_image("web", IMAGE).await?;
    let mended = revision_in(&space.complete("web").await?);
    assert_eq!(mended, revision_in(&old), "it is a way back");
    ensure_all_at(&space, "web", IMAGE, &mended).await?;
    progress_is(&space, "False", "RecreateCompleted").await?;
    if cluster.is_ours() {
        ensure!(subject.terminate().await?.success());
    }
    Ok(())
}
