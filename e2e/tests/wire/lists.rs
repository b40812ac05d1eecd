//! Long lists.

use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::{AuditedRequest, SERVICE_ACCOUNT_USER};
use e2e::wait;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use machinery::source::ApiTransport;
use machinery::store::{Change, Handler, store};
use model::plan::PODS;
use model::{Format, PodDecoder};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Shared;
use crate::reading::{client, config, of, start};
use crate::support::{PATIENCE, Space, pod_spec};

const PODS_IN_ALL: usize = 1200;

/// A set with all its pods, none of them made by a controller.
async fn set_with_pods(space: &Space) -> Result<()> {
    let uid = space.create_set("web", i32::try_from(PODS_IN_ALL)?).await?.metadata.uid;
    let owner = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": true, "blockOwnerDeletion": true,
    }]);
    let pod = |n: usize| {
        let metadata = json!({"name": format!("web-{n:05}"), "labels": {"app": "web"}, "ownerReferences": owner});
        serde_json::from_value::<Pod>(json!({"metadata": metadata, "spec": pod_spec()}))
    };
    let mut tasks = JoinSet::new();
    for lane in 0..16 {
        let api: Api<Pod> = space.pods();
        let pods: Vec<_> = (lane..PODS_IN_ALL).step_by(16).map(&pod).collect::<Result<_, _>>()?;
        tasks.spawn(async move {
            for pod in &pods {
                api.create(&PostParams::default(), pod).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

pub(crate) async fn all_pages_are_known_before_the_first_sync(planes: Shared) -> Result<()> {
    let plane = &planes.paging;
    let space = Space::new(plane, "pages").await?;
    set_with_pods(&space).await?;

    let mut manager = plane.launch().controllers(["replicaset-controller"]).rate(1000, 1000).start().await?;
    space
        .status("all pods counted", |status| {
            ensure!(status["replicas"] == PODS_IN_ALL, "not yet");
            Ok(())
        })
        .await?;
    assert!(manager.terminate().await?.success());

    let audit = plane.audit()?;
    let ours = |request: &AuditedRequest| request.kind.user == SERVICE_ACCOUNT_USER && request.kind.resource == "pods";
    let pages = wait::until("the pages in the audit log", PATIENCE, async || {
        let pages: Vec<_> = audit.requests()?.into_iter().filter(|request| ours(request) && request.kind.verb == "list").collect();
        ensure!(pages.iter().filter(|page| page.kind.code == 200).count() >= 3, "{} pages", pages.len());
        Ok(pages)
    })
    .await?;
    assert!(pages.iter().all(|page| page.uri.contains("limit=500")), "{pages:?}");
    assert_eq!(pages.iter().filter(|page| page.uri.contains("continue=")).count(), pages.len() - 1, "one list, no second one");
    // Had the first sync seen one page, there would be hundreds of creates.
    assert_eq!(space.our_requests(|request| ours(request))?, 0, "no pod was touched");
    let status_writes = space.our_requests(|request| request.kind.subresource == "status")?;
    assert_eq!(status_writes, 1, "one status says it all");
    Ok(())
}

/// What handlers hear.
#[derive(Default)]
struct Heard(Mutex<Vec<bool>>);

impl Handler<model::Pod> for Heard {
    fn on_change(&self, change: Change<'_, model::Pod>) {
        if let Change::Added { initial, .. } = change {
            self.0.lock().unwrap().push(initial);
        }
    }
}

pub(crate) async fn a_streamed_list_is_known_as_a_whole(planes: Shared) -> Result<()> {
    let plane = &planes.streaming;
    let space = Space::new(plane, "stream").await?;
    set_with_pods(&space).await?;
    let list = space.request(Method::GET, "/api/v1", "pods", &Value::Null).await?;

    let reads = of(&PODS, &space.namespace);
    let transport = ApiTransport::new(client(&config(plane, None).await?)?, &reads, Format::Protobuf);
    let (pods, writer) = store();
    let heard = Arc::new(Heard::default());
    pods.add_handler(heard.clone());
    let source = start(reads, transport, PodDecoder::new(), writer)?;
    tokio::time::timeout(PATIENCE, pods.synced()).await?;
    assert_eq!(pods.len(), PODS_IN_ALL, "known in the moment in which the list is complete");
    assert!(heard.0.lock().unwrap().len() == PODS_IN_ALL && heard.0.lock().unwrap().iter().all(|initial| *initial));
    let status = source.handle.status();
    assert_eq!((status.lists, status.watches), (1, 1), "the list was the beginning of the watch");
    for pod in list["items"].as_array().context("items")? {
        let name = pod["metadata"]["name"].as_str().context("a name")?;
        let ours = pods.get_by_name(&space.namespace, name).with_context(|| format!("{name} is missing"))?;
        assert_eq!(ours.resource_version.to_string(), pod["metadata"]["resourceVersion"].as_str().context("a version")?);
    }
    Ok(())
}
