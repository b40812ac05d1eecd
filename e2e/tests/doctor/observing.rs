//! `--mode=observe`, beside kube-controller-manager at work.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::{ADMIN_USER, ControlPlane, ControllerManager};
use e2e::{Server, wait};
use http::Method;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

use super::rig::{CONTROLLERS, Shared, doctor, logs, object, our_writes};
use crate::support::pods::fleet;
use crate::support::{PATIENCE, Space, name_of};

async fn observer(plane: &ControlPlane) -> Result<Server> {
    // Flags that an active process would write for.
    let launch = plane.launch().leader_elect().flag("--use-service-account-credentials");
    let server = launch.flag("--mode=observe").flag("--observe-overdue-after=3s").start().await?;
    wait::until("the observer to be ready", PATIENCE, async || server.endpoint().text("/readyz").await.map(drop)).await?;
    logs(&server, "Observing: nothing is written").await?;
    Ok(server)
}

async fn observed(observer: &Server) -> Result<Value> {
    Ok(serde_json::from_str(&observer.endpoint().text("/debug/observe").await?)?)
}

/// All that was seen, of all resources.
fn sum(observed: &Value, field: &str) -> u64 {
    let controllers = observed["controllers"].as_object().into_iter().flatten();
    controllers.filter_map(|(_, tally)| tally[field].as_u64()).sum()
}

/// Everything that an installer's first day has: rollouts, other sizes, deletions.
async fn work(space: &Space) -> Result<()> {
    space.apps(Method::POST, "deployments", &object("Deployment", "web", 4)).await?;
    space.apps(Method::POST, "statefulsets", &object("StatefulSet", "db", 2)).await?;
    space.create_set("bare", 2).await?;
    for (path, replicas) in [("deployments/web", 4), ("statefulsets/db", 2), ("replicasets/bare", 2)] {
        space.rolled_out(path, replicas).await?;
    }
    let template = json!({"spec": {"template": {"metadata": {"annotations": {"changed": "once"}}}}});
    for path in ["deployments/web", "statefulsets/db"] {
        space.patch(path, template.clone()).await?;
    }
    space.rolled_out("deployments/web", 4).await?;
    space.rolled_out("statefulsets/db", 2).await?;
    space.resize("deployments/web", 6).await?;
    space.resize("replicasets/bare", 1).await?;
    space.rolled_out("deployments/web", 6).await?;
    space.rolled_out("replicasets/bare", 1).await?;
    let pods = space.active_pods("bare").await?;
    space.delete_pod(&name_of(pods.first().context("no pod")?)).await?;
    let sets: Api<k8s_openapi::api::apps::v1::StatefulSet> = Api::namespaced(space.client.clone(), &space.namespace);
    sets.delete("db", &DeleteParams::foreground()).await?;
    space.rolled_out("replicasets/bare", 1).await?;
    wait::until("the StatefulSet to be gone", PATIENCE, async || {
        ensure!(sets.get_opt("db").await?.is_none(), "it is there");
        Ok(())
    })
    .await
}

/// A kubeconfig for both: the API server believes the token, the observer the certificate.
fn kubeconfig(plane: &ControlPlane, observer: &Server) -> Result<PathBuf> {
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(plane.admin_kubeconfig())?)?;
    let file = |name: &str| format!("{}.serving/{name}", observer.log().display());
    config["users"][0]["user"]["client-certificate"] = json!(file("reader.crt"));
    config["users"][0]["user"]["client-key"] = json!(file("reader.key"));
    let path = plane.folder().join("both.kubeconfig");
    std::fs::write(&path, config.to_string())?;
    Ok(path)
}

async fn told(observer: &Server, space: &Space, path: &str) -> Result<Value> {
    let (resource, name) = path.split_once('/').context("RESOURCE/NAME")?;
    Ok(serde_json::from_str(&observer.endpoint().text(&format!("/explain/{resource}/{}/{name}", space.namespace)).await?)?)
}

pub(crate) async fn observing_writes_nothing_and_tells_what_nobody_does(machine: Shared) -> Result<()> {
    let _turn = machine.turn().await?;
    let all = CONTROLLERS.into_iter().fold(ControllerManager::default(), ControllerManager::with).unlimited();
    let mut plane = ControlPlane::builder().audit().controller_manager(all).start().await?;
    let fleet = fleet(&plane).await?;
    // Several do not mind each other.
    let mut observers = [observer(&plane).await?, observer(&plane).await?];
    let space = Space::new(&plane, "observed").await?;
    work(&space).await?;
    for observer in &observers {
        wait::until("everything to be as the observer would have it", PATIENCE, async || {
            let observed = observed(observer).await?;
            ensure!(sum(&observed, "open") == 0 && observed["differences"] == json!([]), "{observed:#}");
            let told = told(observer, &space, "deployments/web").await?;
            ensure!(told["observes"] == true && told["verdict"] == "settled", "{told:#}");
            Ok(())
        })
        .await?;
        for page in ["/healthz", "/livez", "/readyz"] {
            observer.endpoint().text(page).await?;
        }
    }
    nobody_does_it(&mut plane, &observers, &space).await?;
    let reads =
        plane.audit()?.count(|request| request.kind.user == e2e::controlplane::SERVICE_ACCOUNT_USER && request.kind.verb == "watch")?;
    assert!(reads >= 12, "the audit log has {reads} watches of two observers");
    for observer in &mut observers {
        assert_eq!(observer.terminate().await?.code(), Some(0), "{}", observer.printed()?);
    }
    // Not the end of them either.
    assert_eq!(our_writes(&plane, ADMIN_USER)?, Vec::<String>::new());
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> = Api::namespaced(plane.admin().clone(), "kube-system");
    assert!(leases.get_opt("workloads-controller-manager").await?.is_none());
    drop(fleet);
    Ok(())
}

/// While kube-controller-manager is frozen, what would be done is a difference; once it goes on, it is none.
async fn nobody_does_it(plane: &mut ControlPlane, observers: &[Server], space: &Space) -> Result<()> {
    let before = sum(&observed(&observers[0]).await?, "doneByOthers");
    plane.controller_manager()?.process_mut().freeze()?;
    space.resize("deployments/web", 8).await?;
    for observer in observers {
        let difference = wait::until("the difference", PATIENCE, async || {
            let observed = observed(observer).await?;
            let differences = observed["differences"].as_array().into_iter().flatten();
            let web = differences.into_iter().find(|one| one["kind"] == "Deployment" && one["namespace"] == *space.namespace);
            web.cloned().with_context(|| format!("{observed:#}"))
        })
        .await?;
        assert_eq!((&difference["name"], &difference["rules"]), (&json!("web"), &json!(["deployment-scaled"])), "{difference:#}");
        assert!(difference["wouldDo"][0].as_str().is_some_and(|step| step.starts_with("change ReplicaSet web-")), "{difference:#}");
        let told = told(observer, space, "deployments/web").await?;
        assert_eq!((&told["verdict"], &told["waits"][0]["rule"]), (&json!("waits"), &json!("left-to-others")), "{told:#}");
        let gauge = "workloads_controller_manager_observed_differences{controller=\"deployment\",rule=\"deployment-scaled\"}";
        assert_eq!(observer.endpoint().metric(gauge).await?, Some(1.0));
        logs(observer, "Nobody has done what is called for").await?;
    }
    let (server, ca) = (observers[0].endpoint().url(), format!("{}.serving/ca.crt", observers[0].log().display()));
    let asked = ["--mode=observe", "--server", server, "--server-certificate-authority", &ca];
    let found = doctor(&kubeconfig(plane, &observers[0])?, &asked).await?;
    let (finding, said) = found.check("observed")?;
    assert!(finding == "warning" && said.contains(&format!("Deployment {}/web for ", space.namespace)), "{said}");
    assert_eq!(found.code, Some(0), "{:#}", found.report);
    plane.controller_manager()?.process_mut().thaw()?;
    space.rolled_out("deployments/web", 8).await?;
    for observer in observers {
        wait::until("the difference to be gone", PATIENCE, async || {
            let observed = observed(observer).await?;
            ensure!(sum(&observed, "differences") == 0 && sum(&observed, "open") == 0, "{observed:#}");
            Ok(())
        })
        .await?;
    }
    let after = observed(&observers[0]).await?;
    let (would_act, done) = (sum(&after, "wouldAct"), sum(&after, "doneByOthers"));
    assert!(done > before && done <= would_act, "{after:#}");
    Ok(())
}
