//! A real API server behind the proxy: nobody can tell.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::ControlPlane;
use e2e::proxy::{Fault, Match, Moment, Proxy, Refusal, Rule, When};
use e2e::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use machinery::client::{ApiClient, CallError, ClientMetrics, ClientOptions};
use machinery::source::{ApiTransport, Source, SourceConfig, SourceMetrics};
use machinery::store::store;
use model::plan::PODS;
use model::{Decode as _, ObjectKey, PodDecoder};
use prometheus::Registry;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::upstream::PATIENCE;

fn pod(name: &str) -> Pod {
    let spec = json!({"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "registry.example/app:1"}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

async fn config(file: &std::path::Path) -> Result<kube::Config> {
    Ok(kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &KubeConfigOptions::default()).await?)
}

#[tokio::test]
async fn kube_and_our_own_client_do_not_notice_it() -> Result<()> {
    let plane = ControlPlane::builder().start().await?;
    let namespace = plane.namespace("proxy").await?;
    let proxy = Proxy::start(plane.admin_kubeconfig()).await?;
    let config = config(proxy.kubeconfig()).await?;
    let pods: Api<Pod> = Api::namespaced(kube::Client::try_from(config.clone())?, &namespace);
    pods.create(&PostParams::default(), &pod("listed")).await?;

    // Our source: a streaming list and a watch, protobuf over HTTP/2.
    let registry = Registry::new();
    let client = ApiClient::new(&config, &ClientOptions::default(), &ClientMetrics::register(&registry)?, true)?;
    let source_config = SourceConfig::new(&PODS, 1);
    let transport = ApiTransport::new(client, &source_config, PodDecoder::FORMAT);
    let (pods_store, writer) = store();
    let source = Source::new(source_config, transport, PodDecoder::new(), &SourceMetrics::register(&registry)?);
    let end = CancellationToken::new();
    let running = tokio::spawn(source.run(writer, end.clone()));
    let key = |name: &str| ObjectKey::new(&*namespace, name);
    let is_cached = async |name: &str, cached: bool| {
        wait::until(&format!("{name} to be cached or not"), PATIENCE, async || {
            ensure!(pods_store.get(&key(name)).is_some() == cached, "it is not so");
            Ok(())
        })
        .await
    };
    is_cached("listed", true).await?;
    pods.create(&PostParams::default(), &pod("watched")).await?;
    is_cached("watched", true).await?;
    pods.delete("listed", &DeleteParams::default()).await?;
    is_cached("listed", false).await?;
    assert_eq!(pods.list(&ListParams::default()).await?.items.len(), 1);
    assert!(pods.get_opt("listed").await?.is_none());
    assert_eq!(proxy.in_flight(&Match::watches("pods")), 1);
    end.cancel();
    running.await?;

    let seen: Vec<_> = proxy.requests_of(&Match::creates("pods")).iter().map(|logged| (logged.status, logged.server_status)).collect();
    assert_eq!(seen, [(Some(201), Some(201)); 2]);
    proxy.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_pod_is_made_though_its_creator_is_told_otherwise() -> Result<()> {
    let plane = ControlPlane::builder().start().await?;
    let namespace = plane.namespace("proxy").await?;
    let proxy = Proxy::start(plane.admin_kubeconfig()).await?;
    let registry = Registry::new();
    let client =
        ApiClient::new(&config(proxy.kubeconfig()).await?, &ClientOptions::default(), &ClientMetrics::register(&registry)?, false)?;
    proxy.add(Rule::new(Match::creates("pods"), Fault::Refuse(Moment::After, Refusal::timeout())).when(When::first(1)));
    let body = serde_json::to_vec(&pod("made"))?;
    let request = http::Request::post(format!("/api/v1/namespaces/{namespace}/pods")).header("content-type", "application/json");
    let error = client.send(request.body(body.into())?, machinery::client::Class::Write).await.err().context("an error")?;
    assert!(matches!(&error, CallError::Lost(error) if error.code == 504), "{error:?}");
    let pods: Api<Pod> = Api::namespaced(plane.admin().clone(), &namespace);
    wait::object(&pods, "made", "the pod", Duration::from_secs(5), |_| Ok(())).await?;
    assert_eq!(proxy.seen(&Match::creates("pods")), 1);
    Ok(())
}
