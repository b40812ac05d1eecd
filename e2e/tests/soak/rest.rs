//! Coming to rest: no faults any more, and a world in which everything can be done that is asked for.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::differential::settled;
use e2e::differential::snapshot::{Kind, Snapshot, has_finalizer, is_deleted, label, name, text};
use e2e::soak::schedule::Who;
use e2e::wait;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::footprint::{Footprint, is_idle};
use crate::player::Player;
use crate::replicas::Faults;
use crate::world::World;

/// How long it may take. A create whose answer was lost for good is looked up after 65 s only, connections that were half-open are found
/// after 45 s, and a watch that was refused is tried again after 30 s.
const PATIENCE: Duration = Duration::from_mins(6);

/// So long nothing may happen: no write of ours but the lease's, and no change of anything.
const QUIET: Duration = Duration::from_secs(8);

/// The finalizer of claims.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// The class of pods that admission refuses as long as it is not there.
const MISSING_CLASS: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

/// The same without the deletion of claims that are kept for as long as a pod on a node uses them.
fn with_kept_claims(mut snapshot: Snapshot) -> Snapshot {
    let claims = |pod: &Value| -> Vec<String> {
        let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
        volumes.map(|volume| text(volume, "/persistentVolumeClaim/claimName").to_owned()).collect()
    };
    let placed = snapshot.of(Kind::Pod).filter(|pod| !is_deleted(pod) && !text(pod, "/spec/nodeName").is_empty());
    let mounted: BTreeSet<_> = placed.flat_map(claims).collect();
    for ((kind, name), claim) in &mut snapshot.objects {
        let is_kept = *kind == Kind::PersistentVolumeClaim && has_finalizer(claim, PROTECTION) && mounted.contains(name);
        if is_kept && let Some(metadata) = Rc::make_mut(claim).get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("deletionTimestamp");
        }
    }
    snapshot
}

impl World {
    /// Makes everything possible that scripts have asked for: pods of a class that was missing, pods whose names are taken by pods that were
    /// lent. Then all owners are touched, since whoever has failed for a while may be tried again only much later.
    pub(crate) async fn calm(&mut self, players: &[Rc<Player>]) -> Result<()> {
        self.replicas.set_faults(Faults::None)?;
        let class = json!({"metadata": {"name": "missing"}, "value": 1});
        self.ask(Method::POST, MISSING_CLASS, &class).await?;
        for player in players {
            let space = player.view.space();
            for pod in space.snapshot.of(Kind::Pod) {
                if let Some(app) = label(pod, "app").and_then(|app| app.strip_prefix("loose-")) {
                    let path = format!("/api/v1/namespaces/{}/pods/{}", player.namespace, name(pod));
                    self.ask(Method::PATCH, &path, &json!({"metadata": {"labels": {"app": app}}})).await?;
                }
            }
            for kind in [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet] {
                for object in space.snapshot.of(kind) {
                    let path = format!("{}/namespaces/{}/{}/{}", kind.group(), player.namespace, kind.plural(), name(object));
                    self.ask(Method::PATCH, &path, &json!({"metadata": {"annotations": {"example.com/touched": "now"}}})).await?;
                }
            }
        }
        Ok(())
    }

    /// Takes away what [`World::calm`] has made.
    pub(crate) async fn disturb(&self) -> Result<()> {
        self.ask(Method::DELETE, &format!("{MISSING_CLASS}/missing"), &Value::Null).await
    }

    /// Waits until nothing is left to be done and nothing happens. Of each namespace all that is promised holds then.
    pub(crate) async fn rest(&mut self, players: &[Rc<Player>]) -> Result<()> {
        let mut last = (Instant::now(), (0, 0, 0));
        wait::until("everything to come to rest", PATIENCE, async || {
            self.replicas.keep_up(&self.side.plane).await.map_err(wait::give_up)?;
            let deeds = self.replicas.running().map(|replica| (replica.server.pid(), replica.writes()));
            let (pids, writes) = deeds.fold((0, 0), |(pids, writes), (pid, more)| (pids + pid, writes + more));
            let now = (pids, writes, self.side.cache.changes());
            if now != last.1 {
                last = (Instant::now(), now);
            }
            // Only then the looks that are work, and are many.
            ensure!(last.0.elapsed() >= QUIET, "something has happened {:.1?} ago", last.0.elapsed());
            for player in players {
                let snapshot = with_kept_claims(player.view.space().snapshot);
                settled::check(&snapshot).with_context(|| format!("namespace {}", player.namespace))?;
            }
            for replica in self.replicas.running() {
                replica.server.endpoint().text("/readyz").await?;
            }
            let leader = self.replicas.find(Who::Leader).filter(|leader| leader.renewed().is_some()).context("nobody leads")?;
            // The other one keeps what has changed lately in its queues, for the moment it leads.
            is_idle(&leader.server).await.with_context(|| leader.name.clone())?;
            Ok(())
        })
        .await
    }

    /// Takes the round's namespaces away.
    pub(crate) async fn clear(&mut self, players: &[Rc<Player>]) -> Result<()> {
        for player in players {
            self.ask(Method::DELETE, &format!("/api/v1/namespaces/{}", player.namespace), &Value::Null).await?;
        }
        wait::until("the namespaces to be gone", PATIENCE, async || {
            self.replicas.keep_up(&self.side.plane).await.map_err(wait::give_up)?;
            let list: Value = self.client().request(http::Request::get("/api/v1/namespaces").body(Vec::new())?).await?;
            let names = list["items"].as_array().into_iter().flatten().map(name);
            let left: Vec<_> = names.filter(|name| players.iter().any(|player| player.namespace == *name)).collect();
            ensure!(left.is_empty(), "{left:?} are there");
            Ok(())
        })
        .await
    }

    /// What each process takes, by its name.
    pub(crate) async fn footprints(&self) -> Result<Vec<(String, Footprint)>> {
        let mut found = Vec::new();
        for replica in self.replicas.running() {
            found.push((replica.name.clone(), Footprint::of(&replica.server).await?));
        }
        Ok(found)
    }
}
