//! What the pages say, beside kube-controller-manager's.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::ControllerManager;
use e2e::endpoint::Endpoint;
use e2e::wait;
use http::Request;
use serde_json::{Value, json};

use super::rig::{Rig, Shared, answers, post};
use crate::support::PATIENCE;

const CONTROLLERS: [&str; 3] = ["deployment-controller", "replicaset-controller", "statefulset-controller"];

/// What is the same on both sides: code, content type, and lines in any order, since upstream's controllers start in any order.
async fn shape(endpoint: &Endpoint, path: &str) -> Result<(u16, String, BTreeSet<String>)> {
    let (head, body) = endpoint.send(Request::get(path).body(Vec::new())?).await?;
    let kind = head.headers.get("content-type").context("no content type")?.to_str()?.to_owned();
    // Theirs always runs that one, too.
    let lines = body.lines().filter(|line| !line.contains("serviceaccount-token-controller"));
    Ok((head.status.as_u16(), kind, lines.map(str::to_owned).collect()))
}

pub async fn health_is_told_as_kube_controller_manager_tells_it(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let theirs = plane.run_controller_manager(&ControllerManager::only(CONTROLLERS)).await?;
    let rig = Rig::start(&plane, &["--controllers=deployment,replicaset,statefulset".to_owned()]).await?;
    let ours = rig.master()?;
    for endpoint in [&ours, theirs.endpoint()] {
        wait::until("all controllers to run", PATIENCE, async || {
            let body = endpoint.text("/healthz?verbose").await?;
            ensure!(CONTROLLERS.iter().all(|name| body.contains(name)), "{body}");
            Ok(())
        })
        .await?;
    }
    for path in [
        "/healthz",
        "/healthz?verbose",
        "/healthz?verbose=false",
        "/healthz?exclude=replicaset-controller",
        "/healthz?verbose&exclude=replicaset-controller",
        "/healthz?verbose&exclude=a&exclude=b%22",
        "/healthz/ping",
        "/healthz/replicaset-controller",
        "/healthz/",
        "/",
        "/nothing",
        "/version",
        "/debug/flags/v",
        "/debug/flags",
    ] {
        assert_eq!(shape(&ours, path).await?, shape(theirs.endpoint(), path).await?, "{path}");
    }
    // Theirs has no others.
    let ready = answers(&ours, "/readyz?verbose", 200).await?;
    for line in ["[+]informer-sync ok", "[+]shutdown ok", "[+]statefulset-controller ok", "readyz check passed"] {
        assert!(ready.lines().any(|other| other == line), "{ready}");
    }
    let alive = ours.text("/livez?verbose").await?;
    assert!(alive.ends_with("livez check passed\n") && !alive.contains("informer-sync"), "{alive}");
    let slis = ours.text("/metrics/slis").await?;
    for sample in [
        "kubernetes_healthcheck{name=\"informer-sync\",type=\"readyz\"} 1",
        "kubernetes_healthcheck{name=\"replicaset-controller\",type=\"healthz\"} 1",
        "kubernetes_healthchecks_total{name=\"replicaset-controller\",status=\"success\",type=\"livez\"} 1",
        "process_start_time_seconds ",
    ] {
        assert!(slis.lines().any(|line| line.starts_with(sample)), "{sample} should be in {slis}");
    }
    Ok(())
}

/// Every leaf of ours that theirs has, or should have, differently.
fn differences(at: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match ours {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| differences(&format!("{at}/{name}"), value, &theirs[name], found)),
        _ if ours.as_f64().is_some() && ours.as_f64() == theirs.as_f64() => {}
        _ if ours != theirs => found.push(at.to_owned()),
        _ => {}
    }
}

pub async fn configuration_flags_and_status_are_kube_controller_managers(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let flags = ["--concurrent-replicaset-syncs=7", "--min-resync-period=90m", "--kube-api-qps=35"];
    let theirs = flags.iter().fold(ControllerManager::only(CONTROLLERS), |options, flag| options.flag(*flag));
    let theirs = plane.run_controller_manager(&theirs).await?;
    let mut all = flags.map(str::to_owned).to_vec();
    all.push(format!("--controllers={}", CONTROLLERS.join(",")));
    let rig = Rig::start(&plane, &all).await?;
    let ours = rig.master()?;
    let config = async |endpoint: &Endpoint| -> Result<Value> { Ok(serde_json::from_str(&endpoint.text("/configz").await?)?) };
    let mut found = Vec::new();
    differences("", &config(&ours).await?, &config(theirs.endpoint()).await?, &mut found);
    let group = "/kubecontrollermanager.config.k8s.io/Generic";
    // Theirs keeps the address of a port that is no more; the lease is ours unless somebody says otherwise.
    let expected =
        ["Address", "ClientConnection/kubeconfig", "Controllers", "LeaderElection/resourceName"].map(|field| format!("{group}/{field}"));
    let surprising: Vec<_> = found.iter().filter(|field| !expected.contains(field)).collect();
    assert!(surprising.is_empty(), "{surprising:?}");
    for (path, kind) in [("/statusz", "Statusz"), ("/flagz", "Flagz")] {
        for version in ["v1beta1", "v1alpha1"] {
            let accept = format!("application/json;v={version};g=config.k8s.io;as={kind}");
            let ask = async |endpoint: &Endpoint| -> Result<(Value, String, bool)> {
                let (head, body) = endpoint.send(Request::get(path).header("accept", &accept).body(Vec::new())?).await?;
                ensure!(head.status == 200, "{path} {}: {body}", head.status);
                let kind = head.headers["content-type"].to_str()?.to_owned();
                Ok((serde_json::from_str(&body)?, kind, head.headers.contains_key("warning")))
            };
            let (ours, theirs) = (ask(&ours).await?, ask(theirs.endpoint()).await?);
            assert_eq!((&ours.1, ours.2), (&theirs.1, theirs.2), "{path} {version}");
            for field in ["kind", "apiVersion"] {
                assert_eq!(ours.0[field], theirs.0[field], "{path} {version}");
            }
            for field in ours.0.as_object().context("no object")?.keys() {
                assert!(theirs.0.get(field).is_some(), "{path} {version}: {field} is not upstream's");
            }
        }
        for (accept, code) in [("text/html", 406), ("application/json", 406), ("*/*", 200), ("text/plain", 200)] {
            for endpoint in [&ours, theirs.endpoint()] {
                let (head, _) = endpoint.send(Request::get(path).header("accept", accept).body(Vec::new())?).await?;
                assert_eq!(head.status, code, "{path} {accept}");
            }
        }
    }
    assert!(ours.text("/flagz").await?.contains("\nconcurrent-replicaset-syncs=7\n"));
    Ok(())
}

pub async fn debug_pages_show_what_is_in_memory(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let rig = Rig::start(&plane, &[]).await?;
    let ours = rig.master()?;
    answers(&ours, "/readyz", 200).await?;
    let namespace = plane.namespace("debug").await?;
    let set = crate::support::replica_set("web", 3);
    post(&plane, &format!("/apis/apps/v1/namespaces/{namespace}/replicasets"), &set).await?;
    let page = async |path: &str| -> Result<Value> { Ok(serde_json::from_str(&ours.text(path).await?)?) };
    wait::until("the pods to be in the store", PATIENCE, async || {
        let stores = page("/debug/stores").await?;
        ensure!(stores["pods"]["objects"].as_u64() >= Some(3), "{stores}");
        ensure!(stores["replicasets"]["source"]["phase"] == "Watching" && stores["pods"]["synced"] == true, "{stores}");
        Ok(())
    })
    .await?;
    wait::until("nothing to be left to do", PATIENCE, async || {
        let (queues, expectations) = (page("/debug/queues").await?, page("/debug/expectations").await?);
        ensure!(queues["replicaset"]["waiting"] == 0 && queues["replicaset"]["processing"] == 0, "{queues}");
        ensure!(expectations["replicaset"] == json!({"pending": 0, "first": []}), "{expectations}");
        Ok(())
    })
    .await?;
    assert_eq!(ours.get("/debug/pprof/profile").await?.0, 501);
    plane.kubectl(&["delete", "namespace", &namespace, "--wait=false"]).await.map(drop)
}

pub async fn verbosity_can_be_changed(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let rig = Rig::start(&plane, &[]).await?;
    let put = async |body: &str| -> Result<(u16, String)> {
        let (head, body) = rig.master()?.send(Request::put("/debug/flags/v").body(body.as_bytes().to_vec())?).await?;
        Ok((head.status.as_u16(), body))
    };
    assert_eq!(rig.nobody()?.get("/metrics").await?.0, 403);
    assert!(!rig.log()?.contains("Forbidden"));
    assert_eq!(put("4").await?, (200, "successfully set klog.logging.verbosity to 4\n".to_owned()));
    assert_eq!(rig.nobody()?.get("/metrics").await?.0, 403);
    wait::until("a line of debugging", PATIENCE, async || {
        ensure!(rig.log()?.contains("Forbidden"), "there is none");
        Ok(())
    })
    .await?;
    assert_eq!(put("much").await?.0, 400);
    assert_eq!(put(&"9".repeat(2000)).await?.0, 400);
    let quiet = Rig::start(&plane, &["--profiling=false".to_owned()]).await?;
    assert_eq!(quiet.master()?.get("/debug/flags/v").await?.0, 404);
    Ok(())
}
