//! Everything that the program can do, switched on at once, and used as a user does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::access::Authority;
use e2e::controlplane::{ControllerManager, SERVICE_ACCOUNT_USER};
use e2e::endpoint::Endpoint;
use e2e::{ControlPlane, Server, process, wait};
use http::Method;
use serde_json::{Value, json};

use crate::support::identities::account_of;
use crate::support::kubectl::Kubectl;
use crate::support::pods::fleet;
use crate::support::{PATIENCE, Space, minor_release, pod_spec};

/// What a user has: kubectl, and a place for files.
struct User {
    plane: ControlPlane,
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Kubectl for User {
    fn plane(&self) -> &ControlPlane {
        &self.plane
    }
}

/// Gates that are off in some release and that both sides know.
fn gates() -> Vec<&'static str> {
    let always = ["DeploymentReplicaSetTerminatingReplicas", "MaxUnavailableStatefulSet"];
    let newer = ["StatefulSetRecreateStrategy"].into_iter().filter(|_| minor_release() >= 37);
    always.into_iter().chain(newer).collect()
}

impl User {
    async fn start() -> Result<Self> {
        let builder = ControlPlane::builder().audit().controller_manager(ControllerManager::default());
        let builder = gates().into_iter().fold(builder, |builder, gate| builder.feature_gate(gate, true));
        let (folder, authority) = (tempfile::tempdir()?, Authority::create("user")?);
        authority.server()?.write(folder.path(), "server")?;
        authority.client("user", Some("system:masters"))?.write(folder.path(), "user")?;
        std::fs::write(folder.path().join("ca.crt"), authority.pem())?;
        Ok(Self { plane: builder.start().await?, folder, authority })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with all of it.
    fn everything_on(&self) -> Result<Server> {
        let reviewer = self.plane.admin_kubeconfig().display();
        let own = ["PodDeletionCost", "StatefulSetSemanticRevisionComparison"];
        let own = own.into_iter().chain(["StaleControllerConsistencyReplicaSet", "StaleControllerConsistencyStatefulSet"]);
        let launch = gates().into_iter().chain(own).fold(self.plane.launch(), |launch, gate| launch.feature_gate(gate, true));
        let files = [("tls-cert-file", "server.crt"), ("tls-private-key-file", "server.key"), ("client-ca-file", "ca.crt")];
        let launch = files.into_iter().fold(launch, |launch, (flag, name)| launch.flag(format!("--{flag}={}", self.file(name).display())));
        let launch = ["deployment", "replicaset", "statefulset"]
            .into_iter()
            .fold(launch, |launch, kind| launch.flag(format!("--concurrent-{kind}-syncs=5")));
        launch
            .leader_elect()
            .rate(1000, 1000)
            .flag("--use-service-account-credentials")
            .flag(format!("--authentication-kubeconfig={reviewer}"))
            .flag(format!("--authorization-kubeconfig={reviewer}"))
            .flag("--logging-format=json")
            .flag("--v=2")
            .spawn()
    }

    /// `explain` of the program, in JSON.
    async fn explain(&self, program: &Server, args: &[&str]) -> Result<Value> {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": self.file("ca.crt")}}],
            "users": [{"name": "c", "user": {"client-certificate": self.file("user.crt"), "client-key": self.file("user.key")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        std::fs::write(self.file("kubeconfig"), config.to_string())?;
        let mut command = Command::new(process::binary()?);
        command.arg("explain").arg("--server").arg(program.endpoint().url()).arg("--kubeconfig").arg(self.file("kubeconfig"));
        command.args(["-o", "json"]).args(args);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        ensure!(output.status.success(), "explain {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Whoever has this certificate or token, at the program's pages.
    fn asking(&self, program: &Server, token: &str) -> Result<Endpoint> {
        Endpoint::new(program.endpoint().url(), Some(&self.authority.der()), Some(token))
    }

    async fn rolled_out(&self, space: &Space, objects: &[&str]) -> Result<()> {
        for object in objects {
            self.kubectl(space, &["rollout", "status", object, "--timeout=120s"]).await?;
        }
        Ok(())
    }
}

fn object(kind: &str, name: &str, replicas: i32, spec: &Value) -> Value {
    let mut template = pod_spec();
    template["containers"][0]["image"] = json!("registry.example/app:1");
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template},
        },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

#[tokio::test]
async fn everything_at_once() -> Result<()> {
    let user = User::start().await?;
    let space = Space::new(&user.plane, "everything").await?;
    space.let_program_ask_for_tokens().await?;
    let fleet = fleet(&user.plane).await?;
    let mut program = user.everything_on()?;
    as_a_user_does(&user, &space, &program).await?;
    pages_are_for_those_who_may_read_them(&user, &space, &program).await?;
    each_wrote_in_its_own_name(&user, &space).await?;
    let status = program.terminate().await?;
    let log = program.printed()?;
    ensure!(status.success() && !log.contains("panicked"), "the program ended with {status}: {log}");
    fleet.shutdown().await?;
    Ok(())
}

/// `kubectl apply`, `set image`, `scale`, `rollout` with all three kinds.
async fn as_a_user_does(user: &User, space: &Space, program: &Server) -> Result<()> {
    user.apply(space, &object("Deployment", "web", 4, &json!({}))).await?;
    user.apply(space, &object("ReplicaSet", "bare", 3, &json!({}))).await?;
    let two = json!({"serviceName": "db", "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}});
    user.apply(space, &object("StatefulSet", "db", 4, &two)).await?;
    let mut rolling = vec!["deployment/web", "statefulset/db"];
    if minor_release() >= 37 {
        let all = json!({"serviceName": "batch", "updateStrategy": {"type": "Recreate"}});
        user.apply(space, &object("StatefulSet", "batch", 3, &all)).await?;
    }
    user.rolled_out(space, &rolling).await?;
    space.settled("bare", 3).await?;

    let bad = json!({"metadata": {"annotations": {"nodes.wcm.dev/behaviour": "never-start"}}});
    let never = json!({"spec": {"template": bad}}).to_string();
    user.kubectl(space, &["patch", "deployment/web", "-p", &never]).await?;
    wait::until("explain to say why the rollout waits", PATIENCE, async || {
        let told = user.explain(program, &["deploy/web", "-n", &space.namespace]).await?;
        let rules: Vec<_> = told["waits"].as_array().into_iter().flatten().map(|wait| wait["rule"].as_str()).collect();
        ensure!(rules.contains(&Some("pods-not-ready")), "{told:#}");
        Ok(())
    })
    .await?;
    user.kubectl(space, &["rollout", "undo", "deployment/web"]).await?;
    user.rolled_out(space, &rolling).await?;

    if minor_release() >= 37 {
        rolling.push("statefulset/batch");
    }
    for object in &rolling {
        user.kubectl(space, &["set", "image", object, "main=registry.example/app:2"]).await?;
    }
    user.kubectl(space, &["scale", "deployment/web", "--replicas=6"]).await?;
    user.kubectl(space, &["scale", "statefulset/db", "--replicas=5"]).await?;
    user.kubectl(space, &["scale", "replicaset/bare", "--replicas=1"]).await?;
    for (object, replicas) in [("deployments/web", 6), ("statefulsets/db", 5), ("replicasets/bare", 1)] {
        has(space, object, replicas).await?;
    }
    user.rolled_out(space, &rolling[..2]).await?;
    if minor_release() >= 37 {
        has(space, "statefulsets/batch", 3).await?;
    }
    let history = user.kubectl(space, &["rollout", "history", "statefulset/db"]).await?;
    ensure!(history.lines().filter(|line| line.starts_with(['1', '2'])).count() == 2, "{history}");
    Ok(())
}

/// Waits until all replicas are there, available, and of the newest template.
async fn has(space: &Space, object: &str, replicas: i64) -> Result<()> {
    wait::until(&format!("{object} to have {replicas} replicas"), PATIENCE, async || {
        let found = space.apps(Method::GET, object, &Value::Null).await?;
        let count = |field: &str| found.pointer(&format!("/status/{field}")).and_then(Value::as_i64).unwrap_or_default();
        ensure!(found["metadata"]["generation"] == found["status"]["observedGeneration"], "the status is of another generation");
        let updated = if object.starts_with("replicasets") { replicas } else { count("updatedReplicas") };
        ensure!((count("replicas"), count("availableReplicas"), updated) == (replicas, replicas, replicas), "{}", found["status"]);
        Ok(())
    })
    .await
}

/// A scraper with a token may read metrics, and nothing else; what it reads shows that everything is on.
async fn pages_are_for_those_who_may_read_them(user: &User, space: &Space, program: &Server) -> Result<()> {
    space.create("serviceaccounts", &json!({"metadata": {"name": "scraper"}})).await?;
    let scraper = user.asking(program, &space.token_of("scraper", &json!({})).await?)?;
    assert_eq!(scraper.get("/metrics").await?.0, 403);
    let role = json!({"metadata": {"name": "scraper"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
    let binding = json!({
        "metadata": {"name": "scraper"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraper"},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": space.namespace}],
    });
    for (resource, body) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let request =
            http::Request::post(format!("/apis/rbac.authorization.k8s.io/v1/{resource}")).header("content-type", "application/json");
        space.client.request::<Value>(request.body(body.to_string().into_bytes())?).await.with_context(|| resource.to_owned())?;
    }
    // The refusal is remembered for ten seconds.
    let page = wait::until("the scraper to be let in", PATIENCE, async || scraper.text("/metrics").await).await?;
    assert_eq!(scraper.get("/debug/queues").await?.0, 403);
    let mut wanted: Vec<_> = gates().iter().map(|gate| format!("kubernetes_feature_enabled{{name=\"{gate}\"")).collect();
    wanted.push("leader_election_master_status{name=\"workloads-controller-manager\"".to_owned());
    for sample in wanted {
        let line = page.lines().find(|line| line.starts_with(&sample)).with_context(|| format!("no {sample}"))?;
        ensure!(line.ends_with(" 1"), "{line}");
    }
    for queue in ["deployment", "replicaset", "statefulset"] {
        let sample = format!("workqueue_adds_total{{name=\"{queue}\"}} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&*sample)).with_context(|| format!("no {sample}"))?;
        ensure!(line != "0", "{queue} has had nothing to do");
    }
    let master =
        Endpoint::secure(program.endpoint().url(), &user.authority.der(), Some(&user.authority.client("master", Some("system:masters"))?))?;
    assert_eq!(master.text("/readyz").await?, "ok");
    let settings = master.text("/configz").await?;
    ensure!(settings.contains("\"ConcurrentDeploymentSyncs\":5"), "{settings}");
    Ok(())
}

/// Pods by the controllers of ReplicaSets and StatefulSets, ReplicaSets by that of Deployments; by the process itself nothing but its own
/// affairs.
async fn each_wrote_in_its_own_name(user: &User, space: &Space) -> Result<()> {
    wait::until("the writes in the audit log", PATIENCE, async || {
        let requests = user.plane.audit()?.requests()?;
        let mine = |user: &str| user == SERVICE_ACCOUNT_USER || user.starts_with("system:serviceaccount:kube-system:");
        let mut writers: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for request in requests.iter().filter(|request| request.namespace == space.namespace && mine(&request.kind.user)) {
            if request.kind.verb == "create" && request.kind.code == 201 {
                *writers.entry(&request.kind.resource).or_default().entry(&request.kind.user).or_default() += 1;
            }
        }
        let by = |resource: &str| -> Vec<&str> { writers.get(resource).into_iter().flatten().map(|(user, _)| *user).collect() };
        ensure!(by("pods") == [account_of("replicaset"), account_of("statefulset")], "{writers:?}");
        ensure!(by("replicasets") == [account_of("deployment")], "{writers:?}");
        ensure!(by("controllerrevisions") == [account_of("statefulset")], "{writers:?}");
        ensure!(!by("events").contains(&SERVICE_ACCOUNT_USER) && by("events").len() == 3, "{writers:?}");
        Ok(())
    })
    .await
}
