//! Who is let in.

use anyhow::{Context as _, Result, ensure};
use e2e::access::Authority;
use e2e::endpoint::Endpoint;
use e2e::{ControlPlane, wait};
use http::Request;
use serde_json::json;

use super::rig::{Rig, Shared, answers, get, may_read_metrics, patch, post, reviews};
use crate::support::PATIENCE;

/// A token of a new service account.
async fn token(plane: &ControlPlane, namespace: &str, account: &str) -> Result<String> {
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    post(plane, &accounts, &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}})).await?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let made = post(plane, &format!("{accounts}/{account}/token"), &request).await?;
    Ok(made.pointer("/status/token").and_then(|token| token.as_str()).context("no token")?.to_owned())
}

pub async fn tokens_are_reviewed_and_so_is_what_they_may_read(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let rig = Rig::start(&plane, &reviews(&plane)).await?;
    let namespace = plane.namespace("tokens").await?;
    let (scraper, stranger) = (token(&plane, &namespace, "scraper").await?, token(&plane, &namespace, "stranger").await?);
    let account = json!({"kind": "ServiceAccount", "name": "scraper", "namespace": namespace});
    may_read_metrics(&plane, &format!("scrapers-{namespace}"), &account).await?;
    let page = answers(&rig.token(&scraper)?, "/metrics", 200).await?;
    assert!(page.contains("workqueue_depth{name=\"replicaset\"} 0"), "{page}");
    // The permission is for one path and one verb.
    assert_eq!(rig.token(&scraper)?.get("/configz").await?.0, 403);
    let (head, _) = rig.token(&scraper)?.send(Request::delete("/metrics").body(Vec::new())?).await?;
    assert_eq!(head.status, 403);
    let (code, body) = rig.token(&stranger)?.get("/metrics").await?;
    let user = format!("system:serviceaccount:{namespace}:stranger");
    assert_eq!(code, 403, "{body}");
    let body: serde_json::Value = serde_json::from_str(&body)?;
    assert_eq!(body["message"], format!("forbidden: User \"{user}\" cannot get path \"/metrics\""));
    assert_eq!((body["reason"].as_str(), body["kind"].as_str()), (Some("Forbidden"), Some("Status")));
    // Who says something wrong is nobody, and not even told of health; who says nothing is anonymous.
    for path in ["/metrics", "/healthz"] {
        let (code, body) = rig.token("nonsense")?.get(path).await?;
        assert!(code == 401 && body.contains("\"message\":\"Unauthorized\""), "{path}: {code} {body}");
    }
    let (code, body) = rig.nobody()?.get("/metrics").await?;
    assert!(code == 403 && body.contains("system:anonymous"), "{code} {body}");
    assert_eq!(rig.nobody()?.text("/healthz").await?, "ok");
    Ok(())
}

pub async fn client_certificates_name_a_user_and_its_group(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let rig = Rig::start(&plane, &reviews(&plane)).await?;
    let authority = &rig.authority;
    let jane = rig.with(&authority.client("jane", Some("scrapers"))?)?;
    let (code, body) = jane.get("/metrics").await?;
    assert!(code == 403 && body.contains("\\\"jane\\\" cannot get"), "{code} {body}");
    let group = json!({"kind": "Group", "name": "scrapers", "apiGroup": "rbac.authorization.k8s.io"});
    may_read_metrics(&plane, "scrapers", &group).await?;
    answers(&jane, "/metrics", 200).await?;
    assert_eq!(rig.master()?.get("/configz").await?.0, 200);
    // A certificate of somebody else's proves nothing; nor does one without a name, which is no proxy's either.
    let stranger = rig.with(&Authority::create("strangers")?.client("jane", Some("system:masters"))?)?;
    assert_eq!(stranger.get("/metrics").await?.0, 401);
    let nameless = rig.with(&authority.client("", Some("system:masters"))?)?;
    assert_eq!(nameless.get("/metrics").await?.0, 401);
    // Nobody trusts these headers.
    let forged = Request::get("/metrics").header("X-Remote-User", "x").header("X-Remote-Group", "system:masters").body(Vec::new())?;
    assert_eq!(rig.nobody()?.send(forged).await?.0.status, 403);
    Ok(())
}

/// A request that a proxy passes on for a user.
async fn proxied(proxy: &Endpoint, headers: &[(&str, &str)]) -> Result<u16> {
    let request = headers.iter().fold(Request::get("/metrics"), |request, (name, value)| request.header(*name, *value));
    Ok(proxy.send(request.body(Vec::new())?).await?.0.status.as_u16())
}

pub async fn a_trusted_proxy_says_in_headers_who_is_asking(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let proxies = Authority::create("proxies")?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("proxies.crt");
    std::fs::write(&file, proxies.pem())?;
    let mut flags = reviews(&plane);
    flags.extend([
        format!("--requestheader-client-ca-file={}", file.display()),
        "--requestheader-allowed-names=front".to_owned(),
        "--requestheader-group-headers=X-Remote-Group,X-Team".to_owned(),
    ]);
    let rig = Rig::start(&plane, &flags).await?;
    let front = rig.with(&proxies.client("front", None)?)?;
    assert_eq!(proxied(&front, &[("X-Remote-User", "jim"), ("X-Remote-Group", "system:masters")]).await?, 200);
    assert_eq!(proxied(&front, &[("X-Remote-User", "jim"), ("x-team", "system:masters")]).await?, 200);
    assert_eq!(proxied(&front, &[("X-Remote-User", "jim"), ("X-Remote-Group", "devs")]).await?, 403);
    // Naming nobody, the proxy is only a client whose certificate is not a user's.
    assert_eq!(proxied(&front, &[("X-Remote-Group", "system:masters")]).await?, 401);
    let other = rig.with(&proxies.client("other", None)?)?;
    assert_eq!(proxied(&other, &[("X-Remote-User", "jim"), ("X-Remote-Group", "system:masters")]).await?, 401);
    // A user's certificate does not make a proxy.
    let jane = rig.with(&rig.authority.client("front", None)?)?;
    assert_eq!(proxied(&jane, &[("X-Remote-User", "jim"), ("X-Remote-Group", "system:masters")]).await?, 403);
    Ok(())
}

pub async fn what_the_cluster_publishes_of_proxies_is_looked_up(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let proxies = Authority::create("published proxies")?;
    let published = wait::until("the API server to publish its authorities", PATIENCE, async || get(&plane, path).await).await?;
    let before = published["data"]["requestheader-client-ca-file"].as_str().context("no CA is published")?;
    // The server keeps what others have added.
    let data = json!({
        "requestheader-client-ca-file": format!("{before}{}", proxies.pem()),
        "requestheader-allowed-names": json!(["front-proxy-client", "published"]).to_string(),
    });
    patch(&plane, path, &json!({"data": data})).await?;
    let rig = Rig::start(&plane, &reviews(&plane)).await?;
    let front = rig.with(&proxies.client("published", None)?)?;
    wait::until("the proxy to be trusted", PATIENCE, async || {
        let code = proxied(&front, &[("X-Remote-User", "jim"), ("X-Remote-Group", "system:masters")]).await?;
        ensure!(code == 200, "{code}");
        Ok(())
    })
    .await
}

pub async fn a_lookup_that_is_forbidden_ends_the_start_unless_it_is_tolerated(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let kubeconfig = format!("--authentication-kubeconfig={}", plane.service_account_kubeconfig().display());
    let mut refused = plane.launch().flag(kubeconfig.clone()).spawn()?;
    let status = wait::until("the program to end", PATIENCE, async || refused.process_mut().exited()?.context("it runs")).await?;
    let log = refused.printed()?;
    assert!(status.code() == Some(1) && log.contains("extension-apiserver-authentication-reader"), "{status} {log}");
    for flag in ["--authentication-tolerate-lookup-failure", "--authentication-skip-lookup"] {
        let rig = Rig::start(&plane, &[kubeconfig.clone(), flag.to_owned()]).await?;
        answers(&rig.master()?, "/readyz", 200).await?;
    }
    Ok(())
}

pub async fn paths_can_be_open_to_everybody(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let rig = Rig::start(&plane, &["--authorization-always-allow-paths=/healthz,metrics*".to_owned()]).await?;
    for (path, code) in [("/healthz", 200), ("/metrics", 200), ("/metrics/slis", 200), ("/livez", 403), ("/configz", 403)] {
        assert_eq!(rig.nobody()?.get(path).await?.0, code, "{path}");
    }
    Ok(())
}
