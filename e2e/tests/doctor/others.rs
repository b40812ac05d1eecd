//! Somebody else who does the same work: seen by the doctor, waited for, and not worked beside.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::child::Child;
use e2e::controlplane::{ControlPlane, ControllerManager, SERVICE_ACCOUNT_USER};
use e2e::{Server, process, wait};
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use serde_json::{Value, json};

use super::rig::{CONTROLLERS, Shared, command, doctor, elected, logs, object, system};
use crate::support::{PATIENCE, Space};

/// What is left to kube-controller-manager; its other controllers need more than is here.
const OTHERS: [&str; 2] = ["garbage-collector-controller", "namespace-controller"];

fn all() -> ControllerManager {
    elected(ControllerManager::only(CONTROLLERS))
}

/// Does something for kube-controller-manager to do until the doctor knows what it runs; then what it says.
async fn seen(plane: &ControlPlane, space: &Space) -> Result<(Option<i32>, String)> {
    let mut replicas = 0;
    wait::until("the doctor to see who does the work", PATIENCE, async || {
        replicas = 1 + replicas % 5;
        space.resize("replicasets/web", replicas).await?;
        space.settled("web", usize::try_from(replicas)?).await?;
        let found = doctor(plane.service_account_kubeconfig(), &[]).await?;
        let (finding, said) = found.check("other-writers")?;
        ensure!(finding == "failed", "{finding}: {said}");
        Ok((found.code, said))
    })
    .await
}

async fn holder(plane: &ControlPlane, lease: &str) -> Result<String> {
    let leases: Api<Lease> = Api::namespaced(plane.admin().clone(), "kube-system");
    Ok(leases.get_opt(lease).await?.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default())
}

/// Starts ours, which must refuse; then what it says.
async fn refused(plane: &ControlPlane) -> Result<String> {
    let mut ours = plane.launch().leader_elect().spawn()?;
    let process = ours.process_mut();
    let status = wait::until("our program to end", PATIENCE, async || process.exited()?.context("it runs")).await?;
    let log = ours.printed()?;
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("--allow-other-writers") && log.contains("-replicaset-controller"), "{log}");
    assert!(!log.contains("Controllers started"), "{log}");
    // Others need not wait for its lease.
    assert_eq!(holder(plane, "workloads-controller-manager").await?, "");
    Ok(log)
}

/// Starts ours, which must work.
async fn works(plane: &ControlPlane, flags: &[&str]) -> Result<Server> {
    let launch = flags.iter().fold(plane.launch().leader_elect(), |launch, flag| launch.flag(*flag));
    let ours = launch.start().await?;
    logs(&ours, "Controllers started").await?;
    Ok(ours)
}

/// A pod of kube-controller-manager, as kubelets show those of a control plane's nodes.
async fn put_pod(space: &Space, controllers: &str) -> Result<()> {
    let system = system(space);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "kube-controller-manager-a", "labels": {"component": "kube-controller-manager", "tier": "control-plane"}},
        "spec": {
            "nodeName": "a", "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "kube-controller-manager", "image": "registry.example/kube-controller-manager",
                "command": ["kube-controller-manager", "--leader-elect=true", format!("--controllers={controllers}")],
            }],
        },
    });
    let pods = system.pods();
    if pods.get_opt("kube-controller-manager-a").await?.is_some() {
        pods.delete("kube-controller-manager-a", &kube::api::DeleteParams::default().grace_period(0)).await?;
    }
    system.create("pods", &pod).await?;
    system.make_ready("kube-controller-manager-a", 10).await
}

pub(crate) async fn the_doctor_examines_rights_and_what_it_cannot_reach(machine: Shared) -> Result<()> {
    let _turn = machine.turn().await?;
    let plane = ControlPlane::builder().start().await?;
    let account = plane.service_account_kubeconfig();
    // Only what makes adoption work under an admission plugin is not there.
    let found = doctor(account, &[]).await?;
    assert_eq!(found.code, Some(0), "{:#}", found.report);
    for (name, finding) in [("api-server", "ok"), ("clock", "ok"), ("rights", "warning"), ("lease", "ok"), ("other-writers", "warning")] {
        assert_eq!(found.finding(name)?, finding, "{:#}", found.report);
    }
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/workloads-controller-manager";
    let request = http::Request::get(role).body(Vec::new())?;
    let mut changed: Value = plane.admin().request(request).await?;
    for rule in changed["rules"].as_array_mut().context("no rules")? {
        if rule["resources"] == json!(["pods"]) {
            rule["verbs"] = json!(["get", "list", "watch", "create", "patch"]);
        }
    }
    let request = http::Request::put(role).header("content-type", "application/json").body(changed.to_string().into_bytes())?;
    plane.admin().request::<Value>(request).await?;
    let user = ["--as", SERVICE_ACCOUNT_USER];
    for (kubeconfig, args) in [(account, &[][..]), (plane.admin_kubeconfig(), &user[..])] {
        // The authorizer hears of it a moment later.
        wait::until("the missing right to be found", PATIENCE, async || {
            let found = doctor(kubeconfig, args).await?;
            let (finding, said) = found.check("rights")?;
            ensure!(finding == "failed" && said.contains("missing: delete pods") && found.code == Some(1), "{said}");
            Ok(())
        })
        .await?;
    }
    // Who observes does not need it.
    assert_eq!(doctor(account, &["--mode=observe"]).await?.code, Some(0));
    // Nor is it asked of who runs others.
    assert_eq!(doctor(account, &["--controllers=deployment"]).await?.code, Some(0));
    let found = doctor(account, &["--master=https://127.0.0.1:1"]).await?;
    assert_eq!((found.code, found.finding("api-server")?.as_str()), (Some(2), "unknown"), "{:#}", found.report);
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let port = format!("--secure-port={}", taken.local_addr()?.port());
    let found = doctor(plane.admin_kubeconfig(), &["--bind-address=127.0.0.1", &port]).await?;
    assert_eq!((found.code, found.finding("port")?.as_str()), (Some(1), "failed"), "{:#}", found.report);
    let printed = command(&["doctor", "--kubeconfig=/no/such/file"]).await?;
    assert!(printed.code == Some(2) && printed.stderr.contains("--kubeconfig"), "{printed:?}");
    Ok(())
}

pub(crate) async fn beside_a_live_kube_controller_manager_nobody_works_unless_told(machine: Shared) -> Result<()> {
    let _turn = machine.turn().await?;
    let plane = ControlPlane::builder().start().await?;
    let space = Space::new(&plane, "beside").await?;
    let mut theirs = plane.run_controller_manager(&all()).await?;
    space.apps(Method::POST, "replicasets", &object("ReplicaSet", "web", 1)).await?;
    let (code, said) = seen(&plane, &space).await?;
    assert_eq!(code, Some(1));
    assert!(said.contains("replicaset-controller") && said.contains(&format!("{}/web", space.namespace)), "{said}");
    let lease = holder(&plane, "kube-controller-manager").await?;
    assert!(said.contains(&lease), "{said}");
    // It is what there is to be observed.
    assert_eq!(doctor(plane.service_account_kubeconfig(), &["--mode=observe"]).await?.code, Some(0));
    let log = refused(&plane).await?;
    assert!(log.contains(&lease), "{log}");
    let mut told = works(&plane, &["--allow-other-writers"]).await?;
    logs(&told, "working all the same").await?;
    assert_eq!(told.terminate().await?.code(), Some(0));

    // It is started again with the three off.
    let waiting = waiting(&plane)?;
    wait::until("the doctor to say whom it waits for", PATIENCE, async || {
        let printed = std::fs::read_to_string(waiting.log())?;
        ensure!(printed.contains("holds the lease"), "{printed}");
        Ok(())
    })
    .await?;
    theirs.kill9()?;
    let mut waiting = waiting;
    let off = plane.run_controller_manager(&elected(ControllerManager::only(OTHERS))).await?;
    let status = wait::until("the doctor to have waited", PATIENCE, async || waiting.exited()?.context("it waits")).await?;
    let printed = std::fs::read_to_string(waiting.log())?;
    assert_eq!(status.code(), Some(0), "{printed}");
    assert!(printed.contains("nobody does the same work now"), "{printed}");
    let mut ours = works(&plane, &[]).await?;
    space.resize("replicasets/web", 7).await?;
    space.settled("web", 7).await?;
    assert_eq!(ours.terminate().await?.code(), Some(0));

    // Where its pods are to be seen, their flags decide.
    put_pod(&space, "*,bootstrapsigner,tokencleaner").await?;
    let (finding, said) = doctor(plane.service_account_kubeconfig(), &[]).await?.check("other-writers")?;
    assert!(finding == "failed" && said.contains("pod kube-system/kube-controller-manager-a on node a runs"), "{said}");
    let log = refused(&plane).await?;
    assert!(log.contains("pod kube-system/kube-controller-manager-a on node a runs"), "{log}");
    put_pod(&space, "*,bootstrapsigner,tokencleaner,-deployment-controller,-replicaset-controller,-statefulset-controller").await?;
    let (finding, said) = doctor(plane.service_account_kubeconfig(), &[]).await?.check("other-writers")?;
    assert!(finding == "ok" && said.contains("runs none of them"), "{said}");
    let mut ours = works(&plane, &[]).await?;
    assert_eq!(ours.terminate().await?.code(), Some(0));
    drop(off);
    Ok(())
}

/// As k3s runs it on a single server: no lease, no pod. What it writes is all that shows it.
pub(crate) async fn nor_beside_one_that_takes_part_in_no_election(machine: Shared) -> Result<()> {
    let _turn = machine.turn().await?;
    let plane = ControlPlane::builder().start().await?;
    let space = Space::new(&plane, "unelected").await?;
    let mut theirs = plane.run_controller_manager(&ControllerManager::only(CONTROLLERS).unlimited()).await?;
    space.apps(Method::POST, "replicasets", &object("ReplicaSet", "web", 1)).await?;
    space.settled("web", 1).await?;
    let busy = async {
        for replicas in (1..=5).cycle() {
            space.resize("replicasets/web", replicas).await?;
            space.settled("web", usize::try_from(replicas)?).await?;
        }
        anyhow::Ok(String::new())
    };
    let log = tokio::select! { log = refused(&plane) => log, ended = busy => ended }?;
    assert!(log.contains("takes part in no election") && log.contains(&format!("{}/web", space.namespace)), "{log}");
    theirs.kill9()?;
    let mut ours = works(&plane, &[]).await?;
    assert_eq!(ours.terminate().await?.code(), Some(0));
    let (finding, said) = doctor(plane.service_account_kubeconfig(), &[]).await?.check("other-writers")?;
    assert!(finding == "warning" && said.contains("has done work of the replicaset-controller"), "{finding}: {said}");
    Ok(())
}

/// `doctor --wait`, which goes on until it is quiet.
fn waiting(plane: &ControlPlane) -> Result<Child> {
    let mut command = Command::new(process::binary()?);
    command.args(["doctor", "--secure-port=0", "--wait", "--wait-quiet=3s", "--wait-timeout=5m"]);
    command.arg("--kubeconfig").arg(plane.service_account_kubeconfig());
    Child::spawn("doctor", &command, plane.folder().join("doctor.log"))
}

pub(crate) async fn one_that_has_just_been_stopped_hinders_nobody(machine: Shared) -> Result<()> {
    let _turn = machine.turn().await?;
    let plane = ControlPlane::builder().start().await?;
    let space = Space::new(&plane, "stopped").await?;
    let mut theirs = plane.run_controller_manager(&all()).await?;
    space.apps(Method::POST, "replicasets", &object("ReplicaSet", "web", 1)).await?;
    seen(&plane, &space).await?;
    // Too short a time for it to be quiet.
    let found = doctor(plane.service_account_kubeconfig(), &["--wait", "--wait-quiet=1h", "--wait-timeout=1s"]).await?;
    assert_eq!((found.code, found.finding("wait")?.as_str()), (Some(1), "failed"), "{:#}", found.report);
    theirs.kill9()?;
    // Its lease is good still.
    let mut ours = works(&plane, &[]).await?;
    space.resize("replicasets/web", 7).await?;
    space.settled("web", 7).await?;
    assert_eq!(ours.terminate().await?.code(), Some(0));
    Ok(())
}
