//! How many replicas, of which ReplicaSet.

use anyhow::{Result, ensure};
use http::Method;
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::{Value, json};

use crate::rig::{Shared, rolling, set_name};
use crate::support::{PATIENCE, Space};

pub(crate) async fn deployment_should_support_proportional_scaling(cluster: Shared) -> Result<()> {
    let space = cluster.space("proportional").await?;
    space.create_deployment_with("web", 10, |object| rolling(object, 3, 2)).await?;
    space.complete("web").await?;

    // The new pods never start, so that the rollout stops half way: 10 - 2 old ones, 10 + 3 in all.
    space.annotate_template("web", json!({"nodes.wcm.dev/behaviour": "never-start"})).await?;
    space.observed("web").await?;
    let sets = space.sizes("web", &[8, 5]).await?;
    space.settled(&set_name(&sets[0]), 8).await?;
    space.settled(&set_name(&sets[1]), 5).await?;
    available(&space, &sets[0], 8).await?;
    available(&space, &sets[1], 0).await?;
    space
        .deployment_shows("web", "eight available pods", |it| {
            let available = it.status.as_ref().and_then(|status| status.available_replicas);
            ensure!(available == Some(8), "{available:?}");
            Ok(())
        })
        .await?;

    // 20 more: 8 + 20 * 8/13 and 5 + 20 * 5/13, rounded.
    space.scale_deployment("web", 30).await?;
    let sets = space.sizes("web", &[20, 13]).await?;
    annotated(&sets, "30", "33");
    space.settled(&set_name(&sets[0]), 20).await?;
    space.settled(&set_name(&sets[1]), 13).await?;
    available(&space, &sets[0], 20).await?;

    // 18 fewer than the 33 there are: 20 - 18 * 20/33 and 13 - 18 * 13/33.
    space.scale_deployment("web", 12).await?;
    annotated(&space.sizes("web", &[9, 6]).await?, "12", "15");
    Ok(())
}

/// Every one of them says so many desired and so many at most.
fn annotated(sets: &[ReplicaSet], desired: &str, most: &str) {
    for set in sets {
        let annotations = set.metadata.annotations.as_ref().unwrap();
        assert_eq!(annotations["deployment.kubernetes.io/desired-replicas"], desired);
        assert_eq!(annotations["deployment.kubernetes.io/max-replicas"], most);
    }
}

async fn available(space: &Space, set: &ReplicaSet, count: i32) -> Result<()> {
    let name = set_name(set);
    e2e::wait::object(&space.sets(), &name, &format!("{name} to have {count} available pods"), PATIENCE, |set| {
        let available = set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
        ensure!(available == count, "it has {available}");
        Ok(())
    })
    .await
}

/// Gets, puts and patches `scale` of what is called `web` and has one replica; it then has four.
pub(crate) async fn scale_subresource(space: &Space, resource: &str) -> Result<()> {
    let path = format!("{resource}/web/scale");
    let mut scale = space.apps(Method::GET, &path, &Value::Null).await?;
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(1), &json!(1)));
    assert_eq!(scale["status"]["selector"], "app=web");

    // Without a version it is unconditional.
    scale["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    scale["spec"]["replicas"] = json!(2);
    let put = space.apps(Method::PUT, &path, &scale).await?;
    assert_eq!(put["spec"]["replicas"], 2);
    let object = space.apps(Method::GET, &format!("{resource}/web"), &Value::Null).await?;
    assert_eq!(object["spec"]["replicas"], 2);

    space.apps(Method::PATCH, &path, &json!({"spec": {"replicas": 4}})).await?;
    let object = space.apps(Method::GET, &format!("{resource}/web"), &Value::Null).await?;
    assert_eq!(object["spec"]["replicas"], 4);
    Ok(())
}

pub(crate) async fn deployment_should_have_a_working_scale_subresource(cluster: Shared) -> Result<()> {
    let space = cluster.space("scale").await?;
    space.create_deployment("web", 1).await?;
    space.complete("web").await?;
    scale_subresource(&space, "deployments").await?;
    space.complete("web").await?;
    let sets = space.sizes("web", &[4]).await?;
    annotated(&sets, "4", "5");
    space.ready_pods(&set_name(&sets[0]), 4).await?;
    let scale = space.apps(Method::GET, "deployments/web/scale", &Value::Null).await?;
    assert_eq!(scale["status"]["replicas"], 4);
    Ok(())
}
