//! Leader migration: controllers under a lease that programs hand to each other.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::ControllerManager;
use e2e::process::Launch;
use e2e::proxy::Match;
use e2e::wait;
use serde_json::json;

use crate::rig::{Candidate, Rig, Shared};
use crate::support::{PATIENCE, minor_release, replica_set};

const MAIN: &str = "workloads-controller-manager";
const SECOND: &str = "workloads-migration";
const CONTROLLERS: [&str; 3] = ["deployment", "replicaset", "statefulset"];

/// A file that gives each of these controllers to a program, or to all.
struct File {
    folder: tempfile::TempDir,
}

impl File {
    fn new(leaders: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let leaders: Vec<_> =
            leaders.iter().map(|(name, component)| format!("- name: {name}-controller\n  component: {component:?}\n")).collect();
        let head = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n";
        let file = Self { folder };
        std::fs::write(file.path(), format!("{head}leaderName: {SECOND}\ncontrollerLeaders:\n{}", leaders.concat()))?;
        Ok(file)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("migration.yaml")
    }

    fn flags(&self) -> [String; 2] {
        ["--enable-leader-migration=true".to_owned(), format!("--leader-migration-config={}", self.path().display())]
    }

    async fn candidate(&self, rig: &Rig) -> Result<Candidate> {
        rig.candidate_with(|launch| self.flags().into_iter().fold(launch, Launch::flag)).await
    }
}

async fn held(rig: &Rig, lease: &str, but: &str) -> Result<String> {
    wait::until(&format!("somebody else to hold {lease}"), PATIENCE, async || {
        let holder = rig.holder(lease).await?;
        ensure!(!holder.is_empty() && holder != but, "{holder:?} does");
        Ok(holder)
    })
    .await
}

/// The way to move a cluster's controllers: first they run under the second lease in both programs, then in ours alone; and back.
///
/// kube-controller-manager of 1.36 and 1.37 has two leases and only one name for its informers, and ends as soon as it holds both: it can
/// hand over, but not take back.
pub async fn controllers_move_from_kube_controller_manager_and_back_without_a_gap(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    let file = File::new(&CONTROLLERS.map(|name| (name, "*")))?;
    let both = file.flags().into_iter().fold(theirs(&CONTROLLERS), ControllerManager::flag);
    let mut before = rig.plane.spawn_controller_manager(&both)?;
    let first = held(&rig, SECOND, "").await?;
    let mut ours = file.candidate(&rig).await?;
    ours.works().await?;
    held(&rig, MAIN, "").await?;
    ours.stands_by().await?;
    rig.create_set("web", 3).await?;
    if minor_release() < 36 {
        rig.settled("web", 3).await?;
        assert_eq!((ours.writes().len(), ours.master(MAIN).await?, ours.master(SECOND).await?), (0, Some(1.0), Some(0.0)));
        before.kill9()?;
    } else {
        let ended = wait::until("its end", PATIENCE, async || before.process_mut().exited()?.context("it runs")).await?;
        assert_eq!(ended.code(), Some(1));
        assert!(before.printed()?.contains("is already registered"), "{}", before.printed()?);
    }
    // It is started again without its controllers, and is not missed.
    let mut without = rig.plane.run_controller_manager(&theirs(&[])).await?;
    ours.logs("Migrated controllers started").await?;
    let second = held(&rig, SECOND, &first).await?;
    rig.settled("web", 3).await?;
    let made = ours.proxy.seen(&Match::creates("pods"));
    rig.scale("web", 5).await?;
    rig.settled("web", 5).await?;
    assert_eq!(ours.proxy.seen(&Match::creates("pods")), made + 2);
    without.kill9()?;
    let back = if minor_release() < 36 { Some(rig.plane.run_controller_manager(&both).await?) } else { None };
    rig.scale("web", 6).await?;
    rig.settled("web", 6).await?;
    assert_eq!((rig.holder(SECOND).await?, ours.proxy.seen(&Match::creates("pods"))), (second.clone(), made + 3));
    assert_eq!(ours.server.terminate().await?.code(), Some(0));
    assert_eq!(rig.holder(MAIN).await?, "");
    rig.told(&format!("{second} stopped leading")).await?;
    // It has the lease once we have given it up.
    if let Some(mut back) = back {
        held(&rig, SECOND, &second).await?;
        rig.scale("web", 8).await?;
        rig.settled("web", 8).await?;
        back.kill9()?;
    }
    rig.end(&planes).await
}

/// kube-controller-manager with these controllers. It competes for the second lease once the one for tokens has started.
fn theirs(controllers: &[&str]) -> ControllerManager {
    let names = controllers.iter().map(|name| format!("{name}-controller"));
    let times = ["--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=1s"];
    let options = ControllerManager::only(names).with("serviceaccount-token-controller").flag("--leader-elect=true");
    times.into_iter().fold(options, ControllerManager::flag)
}

/// Deployments stay under the main lease, ReplicaSets are migrated, StatefulSets are another program's.
pub async fn two_of_ours_share_what_the_file_gives_them(planes: Shared) -> Result<()> {
    let rig = Rig::new(&planes).await?;
    let file = File::new(&[("replicaset", MAIN), ("statefulset", "kube-controller-manager")])?;
    let mut leader = file.candidate(&rig).await?;
    leader.works().await?;
    leader.logs("Migrated controllers started").await?;
    let mut standby = file.candidate(&rig).await?;
    standby.stands_by().await?;
    let spec = replica_set("web", 2)["spec"].clone();
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec});
    rig.apps(http::Method::POST, "deployments", &web).await?;
    let pods = async |count: usize| {
        wait::until(&format!("{count} pods"), PATIENCE, async || {
            let pods = rig.all_pods().await?.len();
            ensure!(pods == count, "{pods}");
            Ok(())
        })
        .await
    };
    pods(2).await?;
    assert_eq!((leader.master(MAIN).await?, leader.master(SECOND).await?), (Some(1.0), Some(1.0)));
    assert_eq!(rig.holder(MAIN).await?, rig.holder(SECOND).await?);
    let stores = leader.server.endpoint().text("/metrics").await?;
    assert!(!stores.contains("cached_objects{resource=\"statefulsets\"}"), "what is another program's is not watched");
    assert_eq!(standby.all_writes(), 0);
    // Only the main lease is waited for before the other one is.
    assert_eq!((standby.master(MAIN).await?, standby.master(SECOND).await?), (Some(0.0), None));
    leader.server.kill9()?;
    standby.works().await?;
    standby.logs("Migrated controllers started").await?;
    rig.apps(http::Method::PATCH, "deployments/web", &json!({"spec": {"replicas": 4}})).await?;
    pods(4).await?;
    assert_eq!(standby.server.terminate().await?.code(), Some(0));
    assert_eq!((rig.holder(MAIN).await?, rig.holder(SECOND).await?), (String::new(), String::new()));
    rig.end(&planes).await
}
