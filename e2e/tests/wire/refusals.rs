//! Refusals of real servers to requests that want protobuf: what our client makes of them, and how a source goes on.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::{ControlPlane, wait};
use http::{Method, Request};
use kube::client::Body;
use machinery::client::Class;
use machinery::source::{ApiTransport, FRAME_LIMIT, Frames, Freshness, PageRequest, PageStart, Transport as _, WatchRequest, WatchStart};
use model::plan::{ApiError, PODS};
use model::protobuf::WatchEvent;
use model::{Format, PodDecoder, ResourceVersion, status};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Shared;
use crate::reading::{Altered, Running, Seen, client, config, of, refusal, start};
use crate::support::{PATIENCE, Space, pod_spec};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Farther than any of these servers will come.
const FUTURE: ResourceVersion = ResourceVersion(1 << 50);

fn page(at: PageStart) -> PageRequest {
    PageRequest { limit: 500, at }
}

fn first_page() -> PageRequest {
    page(PageStart::First(Freshness::Consistent))
}

fn watch(start: WatchStart) -> WatchRequest {
    WatchRequest { start, timeout: Duration::from_secs(60) }
}

fn transport(config: &kube::Config, space: &Space) -> Result<ApiTransport> {
    Ok(ApiTransport::new(client(config)?, &of(&PODS, &space.namespace), Format::Protobuf))
}

/// The content type of the answer to a request that accepts protobuf: proof that the refusal came in that form.
async fn content_type(config: &kube::Config, path: &str) -> Result<String> {
    let request = Request::get(path).header("accept", PROTOBUF).body(Body::empty())?;
    let answer = kube::Client::try_from(config.clone())?.send(request).await?;
    Ok(answer.headers()["content-type"].to_str()?.to_owned())
}

/// A service account of its own, and a client's configuration with its token.
async fn account(plane: &ControlPlane, space: &Space, name: &str) -> Result<kube::Config> {
    space.create("serviceaccounts", &json!({"metadata": {"name": name}})).await?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = space.create(&format!("serviceaccounts/{name}/token"), &request).await?;
    let token = answer["status"]["token"].as_str().context("a token")?;
    config(plane, Some(token.to_owned())).await
}

/// Lets the account read pods in its namespace.
async fn grant(space: &Space, name: &str) -> Result<()> {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}],
    });
    let binding = json!({
        "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": space.namespace}],
    });
    space.request(Method::POST, rbac, "roles", &role).await?;
    space.request(Method::POST, rbac, "rolebindings", &binding).await.map(drop)
}

async fn create_pods(space: &Space, count: usize) -> Result<()> {
    for n in 0..count {
        space.create("pods", &json!({"metadata": {"name": format!("p-{n}")}, "spec": pod_spec()})).await?;
    }
    Ok(())
}

/// Waits until the source is held up by an error of that code, and returns it.
async fn held_up(source: &Running, code: u16) -> Result<ApiError> {
    wait::until(&format!("the source to hear {code}"), PATIENCE, async || {
        let error = source.handle.status().last_error.context("no error")?;
        ensure!(error.code == code, "{error:?}");
        Ok(error)
    })
    .await
}

async fn synced(source: &mut Running, seen: &Seen<model::Pod>, pods: usize) -> Result<()> {
    ensure!(tokio::time::timeout(PATIENCE, source.handle.synced()).await?, "the source ended");
    wait::until("all pods", PATIENCE, async || {
        let listed = seen.look(|history| history.listed.len());
        ensure!(listed == pods, "{listed} of {pods}");
        Ok(())
    })
    .await
}

pub(crate) async fn a_source_without_rights_hears_403_until_it_has_them(planes: Shared) -> Result<()> {
    let plane = &planes.streaming;
    let space = Space::new(plane, "rights").await?;
    create_pods(&space, 3).await?;
    let nobody = account(plane, &space, "nobody").await?;
    let mut pods = transport(&nobody, &space)?;
    let everything = WatchStart::InitialEvents(Freshness::Consistent);
    for error in [refusal(pods.list(&first_page()).await), refusal(pods.watch(&watch(everything)).await)] {
        assert_eq!((error.code, error.reason.as_str(), error.retry_after), (403, "Forbidden", None));
        let start = format!("pods is forbidden: User \"system:serviceaccount:{}:nobody\" cannot ", space.namespace);
        assert!(error.message.starts_with(&start), "{error:?}");
    }
    let path = format!("/api/v1/namespaces/{}/pods", space.namespace);
    assert_eq!(content_type(&nobody, &path).await?, PROTOBUF);

    let seen = Seen::default();
    let mut source = start(of(&PODS, &space.namespace), pods, PodDecoder::new(), seen.clone())?;
    held_up(&source, 403).await?;
    assert!(!source.handle.status().synced);
    grant(&space, "nobody").await?;
    synced(&mut source, &seen, 3).await
}

pub(crate) async fn a_list_whose_history_is_gone_hears_410_and_begins_again(planes: Shared) -> Result<()> {
    let plane = &planes.paging;
    let space = Space::new(plane, "gone").await?;
    create_pods(&space, 5).await?;
    let admin = config(plane, None).await?;

    // Version 1 is long gone once the storage was compacted, which takes two rounds.
    let rounds = async || {
        space.request(Method::PATCH, "/api/v1", "pods/p-0", &json!({"metadata": {"annotations": {"now": crate::support::ago(0)}}})).await?;
        let answer = kube::Client::try_from(admin.clone())?.request_text(Request::get(expired(&space, "p-1")?).body(Vec::new())?).await;
        ensure!(matches!(&answer, Err(kube::Error::Api(status)) if status.code == 410), "{answer:?}");
        Ok(())
    };
    let mut pods = transport(&admin, &space)?;
    wait::until("a compaction", PATIENCE, rounds).await?;
    let error = refusal(pods.list(&page(PageStart::Continue(token("p-1")?))).await);
    assert_eq!((error.code, error.reason.as_str()), (410, "Expired"), "{error:?}");
    assert!(error.message.contains("continue parameter"), "{error:?}");
    assert_eq!(content_type(&admin, &expired(&space, "p-1")?).await?, PROTOBUF);

    let mut reads = of(&PODS, &space.namespace);
    reads.page_size = 2;
    let (seen, altered) = (Seen::default(), Altered { inner: pods, watch: None, outlive: true });
    let mut source = start(reads, altered, PodDecoder::new(), seen.clone())?;
    synced(&mut source, &seen, 5).await?;
    assert_eq!(seen.look(|history| (history.lists_begun, history.lists_ended)), (2, 1));
    Ok(())
}

/// A continue token of version 1 (upstream `k8s.io/apiserver/pkg/storage` `continueToken`): base64 of JSON, without padding.
fn token(after: &str) -> Result<String> {
    use k8s_openapi::ByteString;
    let json = json!({"v": "meta.k8s.io/v1", "rv": 1, "start": format!("{after}\u{0}")}).to_string();
    let encoded = serde_json::to_value(ByteString(json.into_bytes()))?;
    Ok(encoded.as_str().context("base64")?.trim_end_matches('=').replace('+', "-").replace('/', "_"))
}

fn expired(space: &Space, after: &str) -> Result<String> {
    Ok(format!("/api/v1/namespaces/{}/pods?limit=2&continue={}", space.namespace, token(after)?))
}

pub(crate) async fn a_watch_from_the_distant_past_hears_410_and_lists_again(planes: Shared) -> Result<()> {
    let plane = &planes.paging;
    let space = Space::new(plane, "past").await?;
    create_pods(&space, 3).await?;
    let admin = config(plane, None).await?;
    let mut pods = transport(&admin, &space)?;

    // The server says yes, and then in the stream no.
    let mut stream = pods.watch(&watch(WatchStart::After(ResourceVersion(1)))).await.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    let mut frames = Frames::new(Format::Protobuf, FRAME_LIMIT);
    let error = loop {
        let chunk = stream.next().await.context("the stream ended")?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        frames.push(&chunk);
        if let Some(frame) = frames.frame().map_err(|error| anyhow::anyhow!("{error:?}"))? {
            let event = WatchEvent::read(frame)?;
            assert_eq!(event.event_type, "ERROR");
            break status::from_protobuf(500, event.object)?;
        }
    };
    assert_eq!((error.code, error.reason.as_str()), (410, "Expired"), "{error:?}");
    assert!(error.message.starts_with("too old resource version: 1 ("), "{error:?}");

    // A source that comes back with such a version lists again.
    let alter = |request: &mut WatchRequest| {
        let watches = matches!(request.start, WatchStart::After(_));
        if watches {
            request.start = WatchStart::After(ResourceVersion(1));
        }
        watches
    };
    let (seen, altered) = (Seen::default(), Altered { inner: pods, watch: Some(alter), outlive: false });
    let mut source = start(of(&PODS, &space.namespace), altered, PodDecoder::new(), seen.clone())?;
    synced(&mut source, &seen, 3).await?;
    wait::until("a second list", PATIENCE, async || {
        let lists = seen.look(|history| (history.lists_begun, history.lists_ended));
        ensure!(lists == (2, 2), "{lists:?}");
        Ok(())
    })
    .await?;
    // And then it follows the watch.
    space.create("pods", &json!({"metadata": {"name": "late"}, "spec": pod_spec()})).await?;
    wait::until("the late pod", PATIENCE, async || {
        ensure!(seen.look(|history| history.applied.contains_key("late")), "not yet");
        Ok(())
    })
    .await
}

/// Lets an account have one request at a time (API priority and fairness; even at no shares one is let through).
async fn jail(plane: &ControlPlane, space: &Space, name: &str) -> Result<()> {
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": {"name": "jail"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"},
        }},
    });
    let rule = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true});
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "jail"},
        "spec": {
            "matchingPrecedence": 2, "priorityLevelConfiguration": {"name": "jail"}, "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"namespace": space.namespace, "name": name}}],
                "resourceRules": [rule],
            }],
        },
    });
    for (resource, body) in [("prioritylevelconfigurations", level), ("flowschemas", schema)] {
        let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/{resource}");
        let request = Request::post(path).header("content-type", "application/json").body(body.to_string().into_bytes())?;
        plane.admin().request::<Value>(request).await?;
    }
    Ok(())
}

/// Requests of the account that wait in the server, one after the other: while one does, no other is let in. Two, so that there is no gap.
fn hogs(jailed: &kube::Config, space: &Space) -> Result<JoinSet<()>> {
    let mut hogs = JoinSet::new();
    for _ in 0..2 {
        let mut pods = transport(jailed, space)?;
        hogs.spawn(async move {
            loop {
                // It is refused at once, or waited for for three seconds.
                drop(pods.list(&page(PageStart::First(Freshness::NotOlderThan(FUTURE)))).await);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }
    Ok(hogs)
}

pub(crate) async fn a_source_of_a_server_under_load_hears_429_and_waits(planes: Shared) -> Result<()> {
    let plane = &planes.streaming;
    let space = Space::new(plane, "load").await?;
    create_pods(&space, 3).await?;
    let jailed = account(plane, &space, "jailed").await?;
    grant(&space, "jailed").await?;
    jail(plane, &space, "jailed").await?;
    let mut pods = transport(&jailed, &space)?;
    let hogs = hogs(&jailed, &space)?;
    let error = wait::until("the server to be busy", PATIENCE, async || match pods.list(&first_page()).await {
        Err(machinery::client::CallError::Refused(error)) if error.code == 429 => Ok(error),
        other => anyhow::bail!("{:?}", other.map(|body| body.len())),
    })
    .await?;
    // Flow control speaks before any content type is known: this one is plain text with a header.
    assert_eq!(error.message, "Too many requests, please try again later.");
    // More than a second if it has refused many.
    assert!(error.retry_after >= Some(Duration::from_secs(1)), "{error:?}");

    let seen = Seen::default();
    let mut source = start(of(&PODS, &space.namespace), pods, PodDecoder::new(), seen.clone())?;
    assert!(held_up(&source, 429).await?.retry_after >= Some(Duration::from_secs(1)));
    // A list that is no source's is repeated by the client itself.
    let repeated = {
        let path = format!("/api/v1/namespaces/{}/pods?limit=1", space.namespace);
        let request = Request::get(path).header("accept", PROTOBUF).body(bytes::Bytes::new())?;
        let client = client(&jailed)?;
        tokio::spawn(async move { client.send(request, Class::List).await })
    };
    drop(hogs);
    synced(&mut source, &seen, 3).await?;
    let answer = repeated.await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    assert_eq!(answer.content_type, PROTOBUF);
    Ok(())
}

pub(crate) async fn an_eviction_against_a_budget_is_429_with_a_delay(planes: Shared) -> Result<()> {
    let plane = &planes.streaming;
    let space = Space::new(plane, "budget").await?;
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "web"}}, "spec": pod_spec()});
    space.create("pods", &pod).await?;
    space.patch_pod_status("p", crate::support::ready_status(60)).await?;
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    space.request(Method::POST, "/apis/policy/v1", "poddisruptionbudgets", &budget).await?;

    // Nobody looks after budgets here, so that this one stays unprocessed: a Status, which says when to come back.
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}).to_string();
    let request = Request::post(format!("/api/v1/namespaces/{}/pods/p/eviction", space.namespace));
    let request = request.header("accept", PROTOBUF).header("content-type", "application/json").body(eviction.into())?;
    let error = refusal(client(&config(plane, None).await?)?.send(request, Class::Write).await);
    assert_eq!((error.code, error.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(error.message, "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(error.retry_after, Some(Duration::from_secs(10)));
    Ok(())
}

pub(crate) async fn a_version_of_the_future_is_504_and_is_waited_for(planes: Shared) -> Result<()> {
    let plane = &planes.streaming;
    let space = Space::new(plane, "future").await?;
    create_pods(&space, 3).await?;
    let admin = config(plane, None).await?;
    let mut pods = transport(&admin, &space)?;
    let error = refusal(pods.list(&page(PageStart::First(Freshness::NotOlderThan(FUTURE)))).await);
    assert_eq!((error.code, error.reason.as_str()), (504, "Timeout"), "{error:?}");
    assert!(error.message.contains("Too large resource version: "), "{error:?}");
    assert_eq!(error.retry_after, Some(Duration::from_secs(1)));
    let path = format!("/api/v1/namespaces/{}/pods?resourceVersion={FUTURE}&resourceVersionMatch=NotOlderThan", space.namespace);
    assert_eq!(content_type(&admin, &path).await?, PROTOBUF);

    let alter = |request: &mut WatchRequest| {
        request.start = WatchStart::InitialEvents(Freshness::NotOlderThan(FUTURE));
        true
    };
    let (seen, altered) = (Seen::default(), Altered { inner: pods, watch: Some(alter), outlive: false });
    let mut source = start(of(&PODS, &space.namespace), altered, PodDecoder::new(), seen.clone())?;
    held_up(&source, 504).await?;
    synced(&mut source, &seen, 3).await
}
