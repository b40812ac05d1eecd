//! From standing by to working: nobody works before they lead, and on nothing that the leader before has changed since.

use std::time::Duration;

use anyhow::bail;
use machinery::events::{self, ApiWriter};
use machinery::fence::{BootClock, Fence};
use machinery::queue::WorkQueue;
use model::ObjectKey;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::app::App;
use crate::caches::Filling;
use crate::leader::{self, Candidacy, Role};

/// How long the first look at the lease is waited for before the caches are filled. A list that begins after we lead is known to be as
/// new as need be.
const FIRST_LOOK: Duration = Duration::from_secs(2);
/// By how much what a standby notes of changes reaches back beyond the lease's duration: the leader before was late with some of it.
const BACKLOG: Duration = Duration::from_secs(5);
/// A cache that has not caught up for so long is complained about.
const COMPLAINT: Duration = Duration::from_secs(10);

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
        self.spawn("event sink", |ending| sink.run(ending));
        let leadership = leader::start(Candidacy {
            options: &self.options.leader_election,
            config: &self.config,
            client: &self.client_options,
            client_metrics: &self.client_metrics,
            registry: &self.registry,
            recorder,
            fence: self.fence.clone(),
        })?;
        self.checks.add("leaderElection", leadership.check());
        self.leadership = Some(leadership);
        Ok(())
    }

    /// A controller's queue. While we stand by it only notes what has changed lately.
    pub(crate) fn queue(&mut self, name: &str) -> anyhow::Result<WorkQueue<ObjectKey>> {
        let queue = WorkQueue::new(name, self.clock.clone(), &self.registry)?;
        if self.leadership.is_some() {
            queue.hold(self.options.leader_election.leader_elect_lease_duration + BACKLOG);
            self.queues.push(queue.clone());
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
        // What has changed lately is in line; everything else comes behind it.
        self.queues.drain(..).for_each(|queue| queue.resume());
        for cache in caches.iter().filter(|cache| cache.resync) {
            cache.store.resync().await;
        }
        Ok(())
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
