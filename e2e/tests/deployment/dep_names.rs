//! Which ReplicaSet is the new one, and what it is called. Named after the rows of the bug corpus.

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::rig::{HASH, Shared, controller_uid, set_name, size_of};
use crate::support::{PATIENCE, Space, ago};

const NEXT: &str = "registry.example/app:2";

/// A ReplicaSet with the template that a Deployment `web` has in the beginning, and a hash of its own.
async fn twin(space: &Space, name: &str, replicas: i32, owner: Option<&str>) -> Result<ReplicaSet> {
    space
        .create_set_with(name, replicas, |set| {
            let labels = json!({"app": "web", HASH: name});
            set["spec"]["selector"]["matchLabels"] = labels.clone();
            set["spec"]["template"]["metadata"]["labels"] = labels.clone();
            set["metadata"]["labels"] = labels;
            own(set, "web", owner);
        })
        .await
}

fn own(set: &mut Value, name: &str, uid: Option<&str>) {
    if let Some(uid) = uid {
        let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": true});
        set["metadata"]["ownerReferences"] = json!([owner]);
    }
}

/// Waits until the Deployment has these ReplicaSets, of these sizes.
async fn ends_with(space: &Space, mut expected: Vec<(&str, i32)>) -> Result<()> {
    expected.sort_unstable();
    wait::until(&format!("{expected:?}"), PATIENCE, async || {
        let sets = space.replica_sets_of("web").await?;
        let mut seen: Vec<_> = sets.iter().map(|set| (set_name(set), size_of(set))).collect();
        seen.sort_unstable();
        ensure!(seen.iter().map(|(name, size)| (name.as_str(), *size)).eq(expected.iter().copied()), "{seen:?}");
        Ok(())
    })
    .await
}

pub(crate) async fn dep_01_of_two_sets_with_one_template_the_oldest_is_the_new_one(cluster: Shared) -> Result<()> {
    // A second one that somebody gives to the Deployment. It is not older, and its name comes last.
    let space = cluster.space("twins").await?;
    let web = space.create_deployment("web", 2).await?;
    space.complete("web").await?;
    let first = set_name(&space.new_set("web").await?);
    twin(&space, "zz-twin", 2, web.metadata.uid.as_deref()).await?;
    ends_with(&space, vec![(&first, 2), ("zz-twin", 0)]).await?;
    let done = space.complete("web").await?;
    assert_eq!(done.status.and_then(|status| status.collision_count), None);

    // Two that are adopted. The name decides only within a second.
    let space = cluster.space("adopted").await?;
    let older = twin(&space, "zz-older", 2, None).await?;
    space.ready_pods("zz-older", 2).await?;
    let created = older.metadata.creation_timestamp.context("no creation time")?;
    wait::until("another second", PATIENCE, async || {
        ensure!(ago(1) > created.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), "it is the same");
        Ok(())
    })
    .await?;
    twin(&space, "aa-younger", 2, None).await?;
    space.ready_pods("aa-younger", 2).await?;
    space.create_deployment("web", 2).await?;
    ends_with(&space, vec![("zz-older", 2), ("aa-younger", 0)]).await?;
    space.complete("web").await.map(drop)
}

/// The names that a Deployment `web` without pods gives to its ReplicaSets of the first and of the next image. They depend on nothing else.
async fn names(space: &Space) -> Result<[String; 2]> {
    space.create_deployment("web", 0).await?;
    space.complete("web").await?;
    let first = set_name(&space.new_set("web").await?);
    space.set_image("web", NEXT).await?;
    space.complete("web").await?;
    let second = set_name(&space.new_set("web").await?);
    space.delete_deployment("web", &DeleteParams::foreground()).await?;
    space.all_gone().await?;
    Ok([first, second])
}

/// Waits until the Deployment is complete, with one collision. Returns its new ReplicaSet's name.
async fn avoids(space: &Space, taken: &ReplicaSet) -> Result<String> {
    let done = space.complete("web").await?;
    assert_eq!(done.status.and_then(|status| status.collision_count), Some(1));
    let found = set_name(&space.new_set("web").await?);
    assert_ne!(found, set_name(taken));
    let left = space.sets().get(&set_name(taken)).await?;
    assert_eq!((&left.metadata.uid, controller_uid(&left.metadata)), (&taken.metadata.uid, controller_uid(&taken.metadata)));
    Ok(found)
}

/// That a restart changes nothing about it is shown where programs are restarted, in the tests with faults.
pub(crate) async fn dep_02_a_name_that_is_taken_is_counted_and_another_one_is_found(cluster: Shared) -> Result<()> {
    let space = cluster.space("taken").await?;
    let [first, second] = names(&space).await?;
    assert_eq!(names(&space).await?, [first.clone(), second.clone()], "the same on every try");

    // By one without an owner, whom nobody selects.
    let taken = space.create_set(&first, 0).await?;
    space.create_deployment("web", 0).await?;
    let found = avoids(&space, &taken).await?;

    // By one of another Deployment: the next name on the list is the same.
    let space = cluster.space("others").await?;
    let other = space.create_deployment("other", 0).await?;
    space.complete("other").await?;
    let others = |set: &mut Value| {
        let labels = json!({"app": "other"});
        set["spec"]["selector"]["matchLabels"] = labels.clone();
        set["spec"]["template"]["metadata"]["labels"] = labels.clone();
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/app:other");
        set["metadata"]["labels"] = labels;
        own(set, "other", other.metadata.uid.as_deref());
    };
    let taken = space.create_set_with(&first, 0, others).await?;
    space.create_deployment("web", 0).await?;
    assert_eq!(avoids(&space, &taken).await?, found);

    // By one of its own, with another template.
    let space = cluster.space("own").await?;
    let web = space.create_deployment("web", 0).await?;
    space.complete("web").await?;
    assert_eq!(set_name(&space.new_set("web").await?), first);
    let otherwise = |set: &mut Value| {
        let labels = json!({"app": "web", HASH: "by-hand"});
        set["spec"]["selector"]["matchLabels"] = labels.clone();
        set["spec"]["template"]["metadata"]["labels"] = labels.clone();
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/app:other");
        set["metadata"]["labels"] = labels;
        own(set, "web", web.metadata.uid.as_deref());
    };
    let taken = space.create_set_with(&second, 0, otherwise).await?;
    space.set_image("web", NEXT).await?;
    avoids(&space, &taken).await.map(drop)
}
