//! The chart's rights against what the program asks of a real API server: no less, and no more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::ControllerManager;
use e2e::{ControlPlane, wait};
use http::Request;
use serde_json::{Value, json};

use crate::installed::{Installed, binding, post, put, reader};
use crate::rig::Shared;
use crate::rights::{self, Follower, Right};
use crate::support::{PATIENCE, Space};
use crate::{features, helm};

const CONTROLLERS: [&str; 3] = ["deployment-controller", "replicaset-controller", "statefulset-controller"];

/// How often the audit log is looked at.
const PERIOD: Duration = Duration::from_millis(100);

/// The chart's own roles.
const EXPLICIT: &str = r#"rbac.mode="explicit""#;
/// It decides, and writes nothing.
const OBSERVE: &str = r#"mode="observe""#;
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
    let names = ["only-deployments", "only-replicasets", "only-statefulsets"];
    let installed: Vec<_> = names.into_iter().zip(&sets).map(|(name, set)| (name, &set[..])).collect();
    enough(&plane, &installed).await
}

pub(crate) async fn under_built_in_roles_nothing_is_refused(world: Shared) -> Result<()> {
    let plane = world.turn().await;
    enough(&plane, &[("builtin", &[])]).await
}

/// Beside kube-controller-manager, which does the work.
pub(crate) async fn who_observes_may_only_read(world: Shared) -> Result<()> {
    let plane = world.turn().await;
    let mut theirs = plane.run_controller_manager(&ControllerManager::only(CONTROLLERS).unlimited()).await?;
    for (name, set) in [("observing", vec![OBSERVE]), ("observing-explicit", vec![OBSERVE, EXPLICIT, CREDENTIALS])] {
        let installed = Installed::new(&plane, name, &set).await?;
        let beyond: Vec<_> = installed.rights()?.into_iter().filter(|right| !is_reading(right)).collect();
        ensure!(beyond.is_empty(), "{name} may {}", list(&beyond));
        used(&plane, &[installed]).await?;
    }
    theirs.kill9()?;
    Ok(())
}

/// Reviews are asked by creating them, and change nothing.
fn is_reading(right: &Right) -> bool {
    matches!(&*right.verb, "get" | "list" | "watch") || matches!(&*right.resource, "tokenreviews" | "subjectaccessreviews")
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
            tokio::time::sleep(PERIOD).await;
        }
    };
    let work = async { tokio::try_join!(features::all(&space), running.read_by(&token), installed.renewed(plane)).map(drop) };
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

/// Every feature works with these installations beside each other, nothing is refused, and every right of their own roles is used.
async fn enough(plane: &ControlPlane, installations: &[(&str, &[&str])]) -> Result<()> {
    let mut installed = Vec::new();
    for (name, set) in installations {
        installed.push(Installed::new(plane, name, set).await?);
    }
    let used = used(plane, &installed).await?;
    for one in &installed {
        let rights = one.rights()?;
        let used = used.get(&one.user).with_context(|| format!("{} asks for nothing", one.name))?;
        let idle: Vec<_> = rights.difference(used).filter(|right| !is_asked_by_admission(right)).collect();
        ensure!(idle.is_empty(), "{} never asks for {}", one.name, list(idle));
    }
    Ok(())
}

/// Has every feature work with these installations, and returns which rights who has used. Nothing may be refused.
async fn used(plane: &ControlPlane, installed: &[Installed]) -> Result<BTreeMap<String, BTreeSet<Right>>> {
    let mut log = follow(plane)?;
    let mut running = Vec::new();
    let space = Space::new(plane, &installed.first().context("nothing is installed")?.name).await?;
    let token = reader(plane, &space.namespace).await?;
    for one in installed {
        one.grant(plane).await?;
        granted(plane, one).await?;
        running.push(one.start(plane, 2)?);
    }
    let mut used = Used { installed, rights: BTreeMap::new() };
    let work = async {
        features::all(&space).await?;
        for (one, running) in installed.iter().zip(&running) {
            running.read_by(&token).await?;
            one.renewed(plane).await?;
        }
        anyhow::Ok(())
    };
    // What is refused is waited for in vain.
    let watch = async {
        loop {
            used.note(log.next()?)?;
            tokio::time::sleep(PERIOD).await;
        }
    };
    let worked: Result<()> = tokio::select! {
        refused = watch => refused,
        worked = work => worked,
    };
    worked?;
    for one in running {
        one.stop().await?;
    }
    used.note(log.next()?)?;
    Ok(used.rights)
}

/// Rights by user.
struct Used<'a> {
    installed: &'a [Installed],
    rights: BTreeMap<String, BTreeSet<Right>>,
}

impl Used<'_> {
    /// Takes note of requests; it is an error if one of ours was refused.
    fn note(&mut self, requests: Vec<rights::Request>) -> Result<()> {
        for request in requests {
            let is_installed = self.installed.iter().any(|one| one.user == request.user);
            let is_ours = is_installed || CONTROLLERS.iter().any(|name| request.user.ends_with(name));
            match request.missed {
                Some(right) => ensure!(!is_ours, "{right} is refused: {}", request.text),
                None => drop(self.rights.entry(request.user).or_default().insert(request.right)),
            }
        }
        Ok(())
    }
}

fn cluster_role(name: &str, rights: &BTreeSet<Right>) -> Value {
    let rules: Vec<_> = rights.iter().map(Right::rule).collect();
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn follow(plane: &ControlPlane) -> Result<Follower> {
    Follower::new(plane.audit()?.files().next().context("no audit log")?.to_owned())
}

/// Waits until the API server has seen the roles.
async fn granted(plane: &ControlPlane, installed: &Installed) -> Result<()> {
    for right in installed.rights()?.into_iter().chain([Right::new("", "pods", "list")]) {
        let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": installed.user, "resourceAttributes": {
                "group": right.group, "resource": resource, "subresource": subresource, "verb": right.verb, "name": right.name,
                "namespace": helm::NAMESPACE,
            }},
        });
        wait::until(&format!("{right} to be granted"), PATIENCE, async || {
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
