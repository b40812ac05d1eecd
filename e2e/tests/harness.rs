//! The harness itself: what it starts works, is separated by rights, survives restarts, and leaves nothing behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::{ControlPlane, ControllerManager, RequestKind, SERVICE_ACCOUNT_USER};
use e2e::wait;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

/// Set for the child that [`nothing_is_left_behind`] runs: the file to write its processes to, and how to end.
const VICTIM: &str = "E2E_HARNESS_VICTIM";

#[tokio::test]
async fn the_service_account_has_only_its_rights() -> Result<()> {
    let started = Instant::now();
    let control_plane = ControlPlane::builder().audit().start().await?;
    println!("started in {:?}", started.elapsed());
    let namespace = control_plane.namespace("rights").await?;
    let ours = control_plane.service_account()?;

    let pods: Api<Pod> = Api::namespaced(ours.clone(), &namespace);
    assert!(pods.list(&ListParams::default()).await?.items.is_empty());
    let container = json!({"name": "c", "image": "i"});
    let pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}}))?;
    pods.create(&PostParams::default(), &pod).await?;

    let secrets: Api<Secret> = Api::namespaced(ours, &namespace);
    let code = |error| if let kube::Error::Api(status) = error { status.code } else { 0 };
    assert_eq!(secrets.get("s").await.map_err(code).unwrap_err(), 403);
    assert_eq!(secrets.list(&ListParams::default()).await.map_err(code).unwrap_err(), 403);
    let watch = secrets.watch(&kube::api::WatchParams::default(), "0").await.map(drop);
    assert_eq!(watch.map_err(code).unwrap_err(), 403);

    let audit = control_plane.audit()?;
    wait::until("the audit log", Duration::from_secs(10), async || {
        let counts = audit.counts()?;
        for (verb, resource, code) in [("list", "pods", 200), ("create", "pods", 201), ("get", "secrets", 403), ("watch", "secrets", 403)] {
            let (user, verb, resource) = (SERVICE_ACCOUNT_USER.to_owned(), verb.to_owned(), resource.to_owned());
            let kind = RequestKind { user, verb, resource, subresource: String::new(), code };
            ensure!(counts.get(&kind) == Some(&1), "{kind}: {:?}", counts.get(&kind));
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn upstream_controllers_delete_a_namespace() -> Result<()> {
    let mut control_plane = ControlPlane::builder().controller_manager(ControllerManager::default()).scheduler().start().await?;
    let name = control_plane.namespace("deleted").await?;
    let namespaces: Api<Namespace> = Api::all(control_plane.admin().clone());
    namespaces.delete(&name, &DeleteParams::default()).await?;
    wait::until("the namespace to go", Duration::from_mins(1), async || {
        let phase = namespaces.get_opt(&name).await?.map(|namespace| namespace.status.and_then(|status| status.phase));
        ensure!(phase.is_none(), "its phase is {phase:?}");
        Ok(())
    })
    .await?;
    let listed = control_plane.kubectl(&["get", "namespaces", "-o", "name"]).await?;
    assert!(listed.contains("namespace/kube-system") && !listed.contains(&name), "{listed}");

    let server = control_plane.controller_manager()?;
    let depth = server.endpoint().metric(r#"workqueue_depth{name="namespace"}"#).await?;
    assert_eq!(depth, Some(0.0));
    assert!(server.usage()?.peak > 1 << 20);
    server.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn two_api_servers_share_one_etcd_and_restart() -> Result<()> {
    let mut control_plane = ControlPlane::builder().api_servers(2).start().await?;
    let namespace = control_plane.namespace("shared").await?;
    let map = |name: &str| ConfigMap {
        metadata: kube::api::ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        ..Default::default()
    };
    let maps = |client: &kube::Client| Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    let (first, second) = (maps(control_plane.admin()), maps(control_plane.admin_of(1)?));

    first.create(&PostParams::default(), &map("a")).await?;
    second.get("a").await?;

    control_plane.stop_api_server(0).await?;
    assert!(first.get("a").await.is_err());
    second.create(&PostParams::default(), &map("b")).await?;
    control_plane.start_api_server(0).await?;
    first.get("b").await?;

    control_plane.kill9_api_server(1)?;
    control_plane.start_api_server(1).await?;
    second.get("b").await?;
    control_plane.restart_api_server(0).await?;
    first.get("b").await?;
    Ok(())
}

#[tokio::test]
async fn a_restored_backup_takes_the_cluster_back() -> Result<()> {
    let mut control_plane = ControlPlane::builder().start().await?;
    let before = control_plane.namespace("before").await?;
    let backup = control_plane.back_up_etcd().await?;
    let after = control_plane.namespace("after").await?;
    let namespaces: Api<Namespace> = Api::all(control_plane.admin().clone());
    let version =
        async || anyhow::Ok(namespaces.list(&ListParams::default()).await?.metadata.resource_version.context("none")?.parse::<u64>()?);
    let later = version().await?;
    control_plane.restore_etcd(&backup).await?;
    assert!(namespaces.get_opt(&before).await?.is_some());
    assert!(namespaces.get_opt(&after).await?.is_none());
    assert!(version().await? < later + 100, "the restart itself writes a little");
    Ok(())
}

#[tokio::test]
async fn a_failed_start_shows_the_log() {
    let error = ControlPlane::builder().api_server_flag("--no-such-flag").start().await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("has ended") && text.contains("unknown flag: --no-such-flag"), "{text}");
}

/// Not a test of its own: [`nothing_is_left_behind`] runs it in a process of its own.
#[tokio::test]
async fn victim() -> Result<()> {
    let Some(file) = std::env::var_os(VICTIM) else { return Ok(()) };
    let mut control_plane = ControlPlane::builder().start().await?;
    let pids = [control_plane.etcd_process().pid(), control_plane.api_server_process(0)?.pid()];
    let folder = control_plane.folder().display().to_string();
    // In one step, so that the reader never sees half of it.
    let partial = PathBuf::from(&file).with_extension("partial");
    std::fs::write(&partial, serde_json::to_string(&(pids, folder))?)?;
    std::fs::rename(partial, &file)?;
    if std::env::var_os("E2E_HARNESS_HANG").is_some() {
        std::future::pending::<()>().await;
    }
    panic!("as asked");
}

#[tokio::test]
async fn nothing_is_left_behind() -> Result<()> {
    for hang in [false, true] {
        let folder = tempfile::tempdir()?;
        let report = folder.path().join("report");
        let mut test = Command::new(std::env::current_exe()?);
        test.args(["victim", "--exact", "--nocapture"]).env(VICTIM, &report).stdout(Stdio::null()).stderr(Stdio::null());
        if hang {
            test.env("E2E_HARNESS_HANG", "1");
        }
        let mut test = test.spawn()?;
        let reported = wait::until("the other test to start", Duration::from_mins(2), async || {
            if !hang && test.try_wait()?.is_some() {
                ensure!(report.exists(), wait::give_up("it ended early"));
            }
            std::fs::read_to_string(&report).context("no report yet")
        });
        let (pids, kept): (BTreeSet<u32>, PathBuf) = serde_json::from_str(&reported.await?)?;
        assert_eq!(pids.len(), 2);
        if hang {
            test.kill()?;
        }
        test.wait()?;
        // The kernel kills the children of a killed test, so their end may come a moment after its own.
        let gone = wait::until("its processes to end", Duration::from_secs(10), async || {
            let alive: Vec<_> = pids.iter().filter(|pid| is_alive(**pid)).collect();
            ensure!(alive.is_empty(), "{alive:?} are alive");
            Ok(())
        });
        gone.await.with_context(|| format!("hang: {hang}"))?;
        assert!(kept.join("kube-apiserver-0.log").exists());
        std::fs::remove_dir_all(kept)?;
    }
    Ok(())
}

/// Whether a process exists and is no zombie.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
