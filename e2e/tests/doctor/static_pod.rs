//! `generate static-pod`: what it prints is taken by the API server, and is enough to work.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::{ControlPlane, ControllerManager};
use e2e::wait;
use http::Method;
use serde_json::{Value, json};

use super::rig::{Shared, command, doctor, logs, object};
use crate::support::pods::fleet;
use crate::support::{PATIENCE, Space};

/// kubeadm's.
const USER: &str = "system:kube-controller-manager";

/// What kubelets reject in a static pod (upstream `pkg/api/pod/util.go` `HasAPIObjectReference`), by the fields that name it.
const REFERENCES: [&str; 17] = [
    "serviceAccountName",
    "serviceAccount",
    "imagePullSecrets",
    "ephemeralContainers",
    "envFrom",
    "valueFrom",
    "secret",
    "configMap",
    "projected",
    "persistentVolumeClaim",
    "resourceClaims",
    "secretRef",
    "nodePublishSecretRef",
    "controllerExpandSecretRef",
    "cephfs",
    "csi",
    "ephemeral",
];

async fn generated(args: &[&str]) -> Result<Vec<Value>> {
    let mut all = vec!["generate", "static-pod"];
    all.extend(args);
    let printed = command(&all).await?;
    ensure!(printed.code == Some(0), "{printed:?}");
    let documents = printed.stdout.split("---\n").filter(|document| !document.trim().is_empty());
    documents.map(|document| serde_saphyr::from_str(document).with_context(|| document.to_owned())).collect()
}

/// Every field name in it.
fn fields<'a>(value: &'a Value, names: &mut Vec<&'a str>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                names.push(name);
                fields(value, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, names)),
        _ => {}
    }
}

/// Applies what was printed, which is new.
async fn create(plane: &ControlPlane, objects: &[Value]) -> Result<()> {
    for object in objects {
        let resource = format!("{}s", object["kind"].as_str().context("no kind")?.to_lowercase());
        let namespace = object["metadata"]["namespace"].as_str().map_or_else(String::new, |namespace| format!("/namespaces/{namespace}"));
        let path = format!("/apis/rbac.authorization.k8s.io/v1{namespace}/{resource}?fieldValidation=Strict");
        let request = http::Request::post(path).header("content-type", "application/json").body(object.to_string().into_bytes())?;
        plane.admin().request::<Value>(request).await.with_context(|| format!("create {object}"))?;
    }
    Ok(())
}

async fn rights(kubeconfig: &Path, args: &[&str], finding: &str) -> Result<String> {
    wait::until(&format!("the user's rights to be {finding}"), PATIENCE, async || {
        let (found, said) = doctor(kubeconfig, args).await?.check("rights")?;
        ensure!(found == finding, "{found}: {said}");
        Ok(said)
    })
    .await
}

async fn converges(plane: &ControlPlane, prefix: &str) -> Result<()> {
    let space = Space::new(plane, prefix).await?;
    space.apps(Method::POST, "deployments", &object("Deployment", "web", 2)).await?;
    space.apps(Method::POST, "statefulsets", &object("StatefulSet", "db", 2)).await?;
    space.create_set("bare", 2).await?;
    for path in ["deployments/web", "statefulsets/db", "replicasets/bare"] {
        space.rolled_out(path, 2).await?;
    }
    let template = json!({"spec": {"template": {"metadata": {"annotations": {"changed": "once"}}}}});
    for path in ["deployments/web", "statefulsets/db"] {
        space.patch(path, template.clone()).await?;
        space.rolled_out(path, 2).await?;
    }
    Ok(())
}

/// Starts ours with these flags, which must do what all three controllers do.
async fn works(plane: &ControlPlane, kubeconfig: &Path, flags: &[&str], prefix: &str) -> Result<()> {
    let launch = plane.launch().kubeconfig(kubeconfig).leader_elect();
    let mut ours = flags.iter().fold(launch, |launch, flag| launch.flag(*flag)).start().await?;
    logs(&ours, "Controllers started").await?;
    converges(plane, prefix).await.with_context(|| ours.printed().unwrap_or_default())?;
    assert_eq!(ours.terminate().await?.code(), Some(0));
    Ok(())
}

pub(crate) async fn the_static_pod_is_a_pod_and_its_rights_are_enough(machine: Shared) -> Result<()> {
    let _turn = machine.turn().await?;
    let builder = ControlPlane::builder().ungranted().user(USER, "kubeadm:control-plane").audit();
    let plane = builder.controller_manager(ControllerManager::default().unlimited()).start().await?;
    let [pod] = &*generated(&["--", "--kube-api-qps=1000", "--kube-api-burst=1000"]).await? else { anyhow::bail!("not one document") };
    let dry = "/api/v1/namespaces/kube-system/pods?dryRun=All&fieldValidation=Strict";
    let request = http::Request::post(dry).header("content-type", "application/json").body(pod.to_string().into_bytes())?;
    let made: Value = plane.admin().request(request).await.context("the pod")?;
    assert_eq!(made["spec"]["priorityClassName"], "system-node-critical");
    let mut names = Vec::new();
    fields(pod, &mut names);
    assert!(names.iter().all(|name| !REFERENCES.contains(name)), "{names:?}");

    let kubeconfig = plane.folder().join("kubeadm.kubeconfig");
    plane.write_kubeconfig(USER, &kubeconfig)?;
    let _fleet = fleet(&plane).await?;
    let args = pod["spec"]["containers"][0]["args"].as_array().context("no arguments")?.iter().filter_map(Value::as_str);
    // Paths and ports are this machine's.
    let flags: Vec<_> = args.filter(|arg| !arg.contains("kubeconfig=") && !arg.contains("-port=") && !arg.contains("-address=")).collect();
    assert!(flags.contains(&"--use-service-account-credentials=true"), "{flags:?}");
    // As kubeadm leaves it, the user has every right.
    let printed = command(&["generate", "static-pod", "--print-rbac"]).await?;
    assert!(printed.stdout.starts_with("# The user has every right"), "{printed:?}");
    rights(&kubeconfig, &["--use-service-account-credentials"], "ok").await?;
    works(&plane, &kubeconfig, &flags, "accounts").await?;
    assert_eq!(forbidden(&plane)?, Vec::<String>::new());

    // Not where it writes itself, nor to another namespace's leases.
    let other = "--leader-elect-resource-namespace=default";
    let said = rights(&kubeconfig, &[other], "failed").await?;
    assert!(said.contains("missing: create pods") && said.contains("missing: get leases"), "{said}");
    create(&plane, &generated(&["--print-rbac", "--use-service-account-credentials=false", "--", other]).await?).await?;
    rights(&kubeconfig, &[other], "ok").await?;
    // The doctor looked at the lease before.
    let refused = forbidden(&plane)?;
    works(&plane, &kubeconfig, &["--kube-api-qps=1000", "--kube-api-burst=1000", other], "itself").await?;
    assert_eq!(forbidden(&plane)?, refused);
    Ok(())
}

/// What our program, the doctor included, was refused.
fn forbidden(plane: &ControlPlane) -> Result<Vec<String>> {
    let requests = plane.audit()?.requests()?;
    let ours = requests.iter().filter(|request| request.user_agent.starts_with("workloads-controller-manager"));
    Ok(ours.filter(|request| request.kind.code == 403).map(|request| request.uri.clone()).collect())
}
