//! The chart's rights against what the program asks of a real API server: no less, and no more.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use e2e::{ControlPlane, wait};
use http::Request;
use serde_json::{Value, json};

use crate::installed::{Installed, Running, binding, post, put, reader};
use crate::rig::Shared;
use crate::rights::{Follower, Right};
use crate::support::{PATIENCE, Space};
use crate::{features, helm};

const CONTROLLERS: [&str; 3] = ["deployment-controller", "replicaset-controller", "statefulset-controller"];

/// The chart's own roles.
const EXPLICIT: &str = r#"rbac.mode="explicit""#;
/// Each controller writes in the name of its own account.
const CREDENTIALS: &str = "serviceAccountCredentials=true";

/// What no request asks for by itself: admission looks at these rights when owners are written.
fn is_asked_by_admission(right: &Right) -> bool {
    right.resource.ends_with("/finalizers") || (right.resource == "persistentvolumeclaims" && right.verb == "delete")
}

pub(crate) async fn explicit_rules_are_exactly_what_is_refused_without_them(world: Shared) -> Result<()> {
    let plane = world.turn().await;
    grown(&plane, "grown", &[EXPLICIT]).await
}

pub(crate) async fn with_credentials_too(world: Shared) -> Result<()> {
    let plane = world.turn().await;
    forget_accounts(&plane).await?;
    grown(&plane, "grown-credentials", &[EXPLICIT, CREDENTIALS]).await
}

pub(crate) async fn under_explicit_rules_nothing_is_refused_and_each_is_used(world: Shared) -> Result<()> {
    let plane = world.turn().await;
    enough(&plane, &[("explicit", &[EXPLICIT])]).await
}

pub(crate) async fn so_it_is_with_credentials(world: Shared) -> Result<()> {
    let plane = world.turn().await;
    forget_accounts(&plane).await?;
    enough(&plane, &[("explicit-credentials", &[EXPLICIT, CREDENTIALS])]).await
}

pub(crate) async fn so_it_is_with_one_controller_each(world: Shared) -> Result<()> {
    let plane = world.turn().await;
    let one = CONTROLLERS.map(|controller| format!("controllers={}", json!([controller])));
    let sets = one.each_ref().map(|one| [EXPLICIT, one.as_str()]);
    let installed: Vec<_> = CONTROLLERS.iter().zip(&sets).map(|(name, set)| (*name, &set[..])).collect();
    enough(&plane, &installed).await
}

pub(crate) async fn under_built_in_roles_nothing_is_refused(world: Shared) -> Result<()> {
    let plane = world.turn().await;
    enough(&plane, &[("builtin", &[])]).await
}

/// Starts with no right at all, grants whatever is refused, and compares what has come together with the chart's rules when every feature
/// has worked.
async fn grown(plane: &ControlPlane, name: &str, set: &[&str]) -> Result<()> {
    let installed = Installed::new(plane, name, set).await?;
    let chart = installed.rights()?;
    installed.ensure_narrow()?;
    let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": helm::NAMESPACE});
    let role = format!("grown:{name}");
    let mut rights = BTreeSet::new();
    post(plane, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &cluster_role(&role, &rights)).await?;
    post(plane, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding(&role, &subject)).await?;
    let mut log = follow(plane)?;
    let space = Space::new(plane, name).await?;
    let token = reader(plane, &space.namespace).await?;
    let running = installed.start(plane, 2)?;
    let grow = async {
        loop {
            running.keep_up()?;
            let refused: BTreeSet<_> = log.next()?.into_iter().filter(|it| it.user == installed.user).filter_map(|it| it.missed).collect();
            let before = rights.len();
            rights.extend(refused);
            if rights.len() > before {
                let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}");
                put(plane, &path, &cluster_role(&role, &rights)).await?;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let work = async { tokio::try_join!(features::all(&space), running.read_by(&token)).map(drop) };
    let worked: Result<()> = tokio::select! {
        broken = grow => broken,
        worked = work => worked,
    };
    worked.with_context(|| format!("with {}", list(&rights)))?;
    running.stop().await?;
    let (missing, idle): (Vec<_>, Vec<_>) = (rights.difference(&chart).collect(), chart.difference(&rights).collect());
    ensure!(missing.is_empty() && idle.is_empty(), "the chart does not grant {}; nobody asks for {}", list(missing), list(idle));
    Ok(())
}

/// Every feature works with these installations beside each other, nothing is refused, and every right of theirs is used.
async fn enough(plane: &ControlPlane, installations: &[(&str, &[&str])]) -> Result<()> {
    let mut log = follow(plane)?;
    let (mut installed, mut running): (Vec<_>, Vec<Running>) = (Vec::new(), Vec::new());
    for (name, set) in installations {
        let one = Installed::new(plane, name, set).await?;
        one.grant(plane).await?;
        installed.push(one);
    }
    let space = Space::new(plane, installations[0].0).await?;
    let token = reader(plane, &space.namespace).await?;
    // The API server may be late to see a role.
    for one in &installed {
        granted(plane, &one.user).await?;
        running.push(one.start(plane, 2)?);
    }
    features::all(&space).await?;
    for one in &running {
        one.read_by(&token).await?;
    }
    for one in running {
        one.stop().await?;
    }
    let (mut used, mut refused): (BTreeMap<String, BTreeSet<Right>>, Vec<String>) = (BTreeMap::new(), Vec::new());
    for request in log.next()? {
        let is_ours = installed.iter().any(|one| one.user == request.user) || CONTROLLERS.iter().any(|name| request.user.ends_with(name));
        match request.missed {
            Some(right) if is_ours => refused.push(format!("{right}: {}", request.text)),
            Some(_) => {}
            None => drop(used.entry(request.user).or_default().insert(request.right)),
        }
    }
    ensure!(refused.is_empty(), "refused:\n{}", refused.join("\n"));
    for one in &installed {
        let rights = one.rights()?;
        let used = used.remove(&one.user).unwrap_or_default();
        let idle: Vec<_> = rights.difference(&used).filter(|right| !is_asked_by_admission(right)).collect();
        let is_explicit = rights.iter().any(|right| right.resource == "tokenreviews");
        ensure!(!is_explicit || idle.is_empty(), "{} never asks for {}", one.name, list(idle));
    }
    Ok(())
}

fn cluster_role(name: &str, rights: &BTreeSet<Right>) -> Value {
    let rules: Vec<_> = rights.iter().map(Right::rule).collect();
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn follow(plane: &ControlPlane) -> Result<Follower> {
    Follower::new(plane.audit()?.files().next().context("no audit log")?.to_owned())
}

/// Waits until the account may list pods, as the last of its roles says.
async fn granted(plane: &ControlPlane, user: &str) -> Result<()> {
    for (group, resource, verb) in [("", "pods", "list"), ("coordination.k8s.io", "leases", "create")] {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": user, "resourceAttributes": {
                "group": group, "resource": resource, "verb": verb, "namespace": helm::NAMESPACE,
            }},
        });
        wait::until("the roles to be seen", PATIENCE, async || {
            let answer = post(plane, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
            ensure!(answer.pointer("/status/allowed") == Some(&json!(true)), "{}", answer["status"]);
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Deletes the controllers' own accounts, if they are there: whoever needs them makes them.
async fn forget_accounts(plane: &ControlPlane) -> Result<()> {
    for name in CONTROLLERS {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{name}", helm::NAMESPACE);
        match plane.admin().request::<Value>(Request::delete(path).body(Vec::new())?).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            answer => drop(answer?),
        }
    }
    Ok(())
}

fn list<'a>(rights: impl IntoIterator<Item = &'a Right>) -> String {
    let all: Vec<_> = rights.into_iter().map(Right::to_string).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
}
