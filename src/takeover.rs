//! From standing by to working: nobody works before they lead, and on nothing that the leader before has changed since.

use std::time::Duration;

use anyhow::{bail, ensure};
use machinery::events::{self, ApiWriter, EventRecorder};
use machinery::fence::{BootClock, Fence};
use machinery::queue::WorkQueue;
use model::ObjectKey;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::app::App;
use crate::caches::Filling;
use crate::leader::{self, Candidacy, ElectionMetrics, Leadership, MigrationConfig, Place, Role};
use crate::observe::Work;
use crate::options::ControllerName;

/// How long the first look at the lease is waited for before the caches are filled. A list that begins after we lead is known to be as
/// new as need be.
const FIRST_LOOK: Duration = Duration::from_secs(2);
/// By how much what a standby notes of changes reaches back beyond the lease's duration: the leader before was late with some of it.
const BACKLOG: Duration = Duration::from_secs(5);
/// A cache that has not caught up for so long is complained about.
const COMPLAINT: Duration = Duration::from_secs(10);

/// How long the event is waited for that tells that we stop leading.
const GOODBYE: Duration = Duration::from_secs(2);

/// What our candidacies for several leases have in common.
pub(crate) struct Candidate {
    identity: String,
    recorder: EventRecorder,
    metrics: ElectionMetrics,
    /// Once everything has been told.
    told: oneshot::Receiver<()>,
}

/// Controllers that run under a second lease, for which another program competes.
pub(crate) struct Migration {
    lease: String,
    controllers: Vec<ControllerName>,
    /// Open while we hold that lease.
    fence: Fence,
    /// Our part in the election, once it has begun.
    leadership: Option<Leadership>,
    /// On hold until we lead.
    queues: Vec<WorkQueue<ObjectKey>>,
}

// === impl Migration ===

impl Migration {
    /// Whether a controller runs under it.
    pub(crate) fn runs(&self, name: &str) -> bool {
        self.controllers.iter().any(|controller| controller.is_named(name))
    }
}

// === impl App ===

impl App {
    /// Takes part in leader election, if that is asked for and there is something to be led. From now on nothing is written unless we lead.
    pub(crate) fn elect(&mut self) -> anyhow::Result<()> {
        if !self.options.leader_election.leader_elect || self.observes() {
            return Ok(());
        }
        self.fence = Fence::closed(BootClock::default());
        let writer = ApiWriter::new(self.clients.events.clone(), self.fence.clone());
        let (recorder, sink) = events::recorder("workloads-controller-manager", writer, self.clock.clone(), &self.registry)?;
        let (done, told) = oneshot::channel();
        self.spawn("event sink", |ending| async move {
            sink.run(ending).await;
            // Nobody waits for it unless we lead in the end.
            let _ = done.send(());
        });
        let metrics = ElectionMetrics::register(&self.registry)?;
        let candidate = Candidate { identity: leader::identity(), recorder, metrics, told };
        let lease = self.options.leader_election.leader_elect_resource_name.clone();
        let leadership = self.candidacy(&candidate, &lease, &self.fence)?;
        self.checks.add("leaderElection", leadership.check());
        self.leadership = Some(leadership);
        self.candidate = Some(candidate);
        Ok(())
    }

    fn candidacy(&self, candidate: &Candidate, lease: &str, fence: &Fence) -> anyhow::Result<Leadership> {
        leader::start(Candidacy {
            options: &self.options.leader_election,
            lease,
            identity: &candidate.identity,
            config: &self.config,
            client: &self.client_options,
            client_metrics: &self.client_metrics,
            metrics: &candidate.metrics,
            recorder: candidate.recorder.clone(),
            fence: fence.clone(),
        })
    }

    /// Which of the controllers run here, after those are gone that leader migration leaves to others; notes those that run under the
    /// second lease.
    ///
    /// # Errors
    /// When the file of leader migration cannot be used, or leaves nothing to do.
    pub(crate) fn migrate(&mut self, controllers: Vec<ControllerName>) -> anyhow::Result<Vec<ControllerName>> {
        let options = &self.options.leader_migration;
        if !options.enable_leader_migration || self.observes() {
            return Ok(controllers);
        }
        let Some(path) = &options.leader_migration_config else {
            // Upstream's default is about controllers of clouds, and whoever else competes for its lease runs them.
            warn!("--enable-leader-migration without --leader-migration-config concerns no controller here");
            return Ok(controllers);
        };
        let config = MigrationConfig::read(path)?;
        let main = &self.options.leader_election.leader_elect_resource_name;
        ensure!(config.lease() != main, "--leader-migration-config: leaderName: {main:?} is the name of --leader-elect-resource-name");
        let places: Vec<_> = controllers.into_iter().map(|controller| (controller, config.place(controller))).collect();
        let at = |wanted| places.iter().filter(move |(_, place)| *place == wanted).map(|(controller, _)| *controller);
        let elsewhere: Vec<_> = at(Place::Elsewhere).map(ControllerName::as_str).collect();
        let migrated: Vec<_> = at(Place::MigrationLease).collect();
        let here: Vec<_> = at(Place::MainLease).chain(migrated.iter().copied()).collect();
        let lease = config.lease().to_owned();
        ensure!(!here.is_empty(), "--leader-migration-config leaves {} to other programs, and nothing to this one", elsewhere.join(", "));
        if !elsewhere.is_empty() {
            info!(controllers = ?elsewhere, "Leader migration leaves controllers to other programs");
        }
        if !migrated.is_empty() {
            let fence = Fence::closed(BootClock::default());
            self.migration = Some(Migration { lease, controllers: migrated, fence, leadership: None, queues: Vec::new() });
        }
        Ok(here)
    }

    /// Whether a controller, by one of its names, may write.
    pub(crate) fn fence_of(&self, controller: &str) -> Fence {
        let migration = self.migration.as_ref().filter(|migration| migration.runs(controller));
        migration.map_or(&self.fence, |migration| &migration.fence).clone()
    }

    /// A controller's queue. While we stand by it only notes what has changed lately.
    pub(crate) fn queue(&mut self, name: &str) -> anyhow::Result<WorkQueue<ObjectKey>> {
        let queue = WorkQueue::new(name, self.clock.clone(), &self.registry)?;
        if self.leadership.is_some() {
            queue.hold(self.options.leader_election.leader_elect_lease_duration + BACKLOG);
            let queues = match &mut self.migration {
                Some(migration) if migration.runs(name) => &mut migration.queues,
                _ => &mut self.queues,
            };
            queues.push(queue.clone());
        }
        Ok(queue)
    }

    /// Waits for the first look at the lease, for a short while.
    pub(crate) async fn look_at_lease(&mut self) {
        if let Some(leadership) = &mut self.leadership {
            // Whoever cannot tell fills the caches as a standby.
            let _ = tokio::time::timeout(FIRST_LOOK, leadership.decided()).await;
        }
    }

    /// Whether we lead already; without leader election there is nothing to wait for.
    pub(crate) fn leads(&self) -> bool {
        self.leadership.as_ref().is_none_or(|leadership| leadership.role() == Role::Leader)
    }

    /// Waits until we lead and the caches show everything that was written before that. `fresh`: their first lists began after we did.
    pub(crate) async fn take_over(&mut self, caches: &[Filling], fresh: bool) -> anyhow::Result<()> {
        let Some(leadership) = &mut self.leadership else { return Ok(()) };
        if leadership.role() != Role::Leader {
            info!("Standing by");
        }
        let lead = async {
            leadership.leading().await;
            if !fresh {
                catch_up(caches).await;
            }
        };
        tokio::select! {
            () = lead => {}
            Some(ended) = self.tasks.join_next() => bail!("the task {:?} ended early", ended),
        }
        resume(self.queues.drain(..), caches).await;
        Ok(())
    }

    /// Competes for the second lease, now that we hold the first, as upstream does: nobody holds one of them while somebody else holds the
    /// other. Its controllers work once we hold it, and the caches show what was written before that.
    pub(crate) fn compete(&mut self, caches: Vec<Filling>, workers: Vec<(&'static str, Work)>) -> anyhow::Result<()> {
        let Some(mut migration) = self.migration.take() else { return Ok(()) };
        if let Some(candidate) = &self.candidate {
            let leadership = self.candidacy(candidate, &migration.lease, &migration.fence)?;
            self.checks.add("leaderMigration", leadership.check());
            let (leading, queues) = (leadership.leading(), std::mem::take(&mut migration.queues));
            let lead = async move {
                leading.await;
                catch_up(&caches).await;
                resume(queues.into_iter(), &caches).await;
                info!("Migrated controllers started");
            };
            self.run_workers(workers, lead);
            migration.leadership = Some(leadership);
        }
        self.migration = Some(migration);
        Ok(())
    }

    /// Tells that we stop leading, if we do. The leases are still ours.
    pub(crate) async fn say_goodbye(&mut self) {
        let Some(Candidate { told, recorder, .. }) = self.candidate.take() else { return };
        let migration = self.migration.as_ref().and_then(|migration| migration.leadership.as_ref());
        let leaderships: Vec<_> = migration.into_iter().chain(&self.leadership).collect();
        let leads = leaderships.iter().any(|leadership| leadership.role() == Role::Leader);
        for leadership in &leaderships {
            leadership.stopping();
        }
        drop(recorder);
        if leads && self.options.leader_election.leader_elect_release_on_exit {
            // It ends when nobody is left who could tell it anything.
            let _ = tokio::time::timeout(GOODBYE, told).await;
        }
    }

    /// Gives the leases up. Nobody may work any more.
    pub(crate) async fn resign(&mut self) {
        let migration = self.migration.take().and_then(|migration| migration.leadership);
        for leadership in migration.into_iter().chain(self.leadership.take()) {
            leadership.resign().await;
        }
    }
}

/// What has changed lately is in line; everything else comes behind it.
async fn resume(queues: impl Iterator<Item = WorkQueue<ObjectKey>>, caches: &[Filling]) {
    queues.for_each(|queue| queue.resume());
    for cache in caches.iter().filter(|cache| cache.resync) {
        cache.store.resync().await;
    }
}

async fn catch_up(caches: &[Filling]) {
    let began = Instant::now();
    // All are asked before one is waited for.
    let caught_up: Vec<_> = caches.iter().map(|cache| cache.source.catch_up(cache.store.len())).collect();
    for (cache, caught_up) in caches.iter().zip(caught_up) {
        tokio::pin!(caught_up);
        while tokio::time::timeout(COMPLAINT, &mut caught_up).await.is_err() {
            warn!(resource = cache.resource.plural, "Still waiting for a cache to catch up; no controller works until then");
        }
    }
    info!(took = ?began.elapsed(), "Caches have caught up");
}
