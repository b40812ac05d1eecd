//! Before the first write: nobody else may do the same work.

use std::time::Duration;

use anyhow::bail;
use machinery::store::Store;
use model::Pod;
use model::labels::Labels as _;
use tracing::{info, warn};

use super::writers::{Evidence, Extent, Judgement, LABELS, Looker, NAMESPACE, Ours};
use crate::app::App;
use crate::options::ControllerName;

/// How long a look may take before we work without it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a suspect is looked at again.
const PERIOD: Duration = Duration::from_secs(1);
/// Looks at one that takes part in no election before it is believed to be alive.
const LOOKS: u32 = 5;
/// Longer than a lease is good for that nobody renews, whatever its duration: then the suspect is left to the user.
const LIMIT: u32 = 60;

/// What a suspicion has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspect {
    /// Nothing is proven any more.
    Cleared,
    /// Look again.
    Open,
    /// It lives.
    Alive,
}

// === impl App ===

impl App {
    /// Ends the start, after giving up the lease, if a kube-controller-manager is alive that runs the same controllers, unless
    /// `--allow-other-writers` says that this is meant.
    ///
    /// One that has just been stopped still looks alive for as long as its lease is good: whoever is suspected is given the time to
    /// renew it, or to let it expire. What cannot be seen is complained about and hinders nobody.
    ///
    /// # Errors
    /// A sentence that says what was seen, and what to do.
    pub(crate) async fn refuse_other_writers(&mut self, controllers: &[ControllerName], pods: &Store<Pod>) -> anyhow::Result<()> {
        if self.observes() {
            return Ok(());
        }
        let ours = Ours { controllers: controllers.to_vec(), lease: self.options.leader_election.lease() };
        let alive = tokio::select! {
            alive = other_writers(Looker(self.clients.watches.clone()), &ours, pods) => alive,
            Some(ended) = self.tasks.join_next() => bail!("the task {:?} ended early", ended),
        };
        let Some(Judgement { proofs, .. }) = alive else { return Ok(()) };
        if self.options.mode.allow_other_writers {
            warn!(
                seen = proofs.join("; "),
                "Another program runs the same controllers; working all the same, as --allow-other-writers says"
            );
            return Ok(());
        }
        if let Some(leadership) = self.leadership.take() {
            leadership.resign().await;
        }
        let off: Vec<_> = controllers.iter().map(|controller| format!("-{}", controller.as_str())).collect();
        bail!(
            "a kube-controller-manager is alive that runs the same controllers: {}. Two writers undo each other's work. Start it with \
             --controllers=…,{} on every node, or this program with --mode=observe; --allow-other-writers works beside it all the same",
            proofs.join("; "),
            off.join(",")
        )
    }
}

/// What proves that somebody does the same work, once they have been seen to live. One who takes part in no election can be told from one
/// that has ended only while it goes on writing.
async fn other_writers(looker: Looker, ours: &Ours, pods: &Store<Pod>) -> Option<Judgement> {
    let (first, mut judgement) = look(&looker, ours, pods).await?;
    let proven = !judgement.proofs.is_empty();
    if !proven {
        for doubt in &judgement.doubts {
            warn!(doubt, "Cannot tell whether a kube-controller-manager runs the same controllers");
        }
        first.wrote_lately(ours)?;
    }
    let limit = if proven { LIMIT } else { LOOKS + 1 };
    info!(seen = judgement.proofs.join("; "), "Another program may run the same controllers; waiting for a sign of life");
    for looks in 1..limit {
        tokio::time::sleep(PERIOD).await;
        let Some((evidence, again)) = look(&looker, ours, pods).await else { continue };
        judgement = again;
        if let Some(proof) = first.goes_on(&evidence, ours) {
            judgement.proofs.push(proof);
            break;
        }
        match suspect(&first, &evidence, &judgement, looks) {
            Suspect::Cleared if proven => {
                info!("It does not, or not any more");
                return None;
            }
            Suspect::Cleared | Suspect::Open => {}
            Suspect::Alive => break,
        }
    }
    Some(judgement).filter(|judgement| !judgement.proofs.is_empty())
}

async fn look(looker: &Looker, ours: &Ours, pods: &Store<Pod>) -> Option<(Evidence, Judgement)> {
    let Ok(evidence) = tokio::time::timeout(PATIENCE, looker.look(Extent::Brief { pods: has_pods(pods) }, ours)).await else {
        warn!("The API server does not answer in time whether a kube-controller-manager runs the same controllers");
        return None;
    };
    let judgement = evidence.judge(ours);
    Some((evidence, judgement))
}

/// Whether the cache has pods of kube-controller-manager.
fn has_pods(pods: &Store<Pod>) -> bool {
    let mut found = false;
    pods.for_each_in_namespace(NAMESPACE, |pod| found |= LABELS.iter().any(|(label, value)| pod.get(label) == Some(value)));
    found
}

fn suspect(first: &Evidence, now: &Evidence, judgement: &Judgement, looks: u32) -> Suspect {
    let renewal = |evidence: &Evidence| {
        let lease = evidence.lease.as_ref().ok().and_then(Option::as_ref);
        lease.map(|lease| (lease.is_held(evidence.now), lease.renewal.clone()))
    };
    let elects = || now.live_pods().all(|pod| pod.flags.leader_elect);
    match (renewal(first), renewal(now)) {
        _ if judgement.proofs.is_empty() => Suspect::Cleared,
        _ if !elects() => {
            if looks >= LOOKS {
                Suspect::Alive
            } else {
                Suspect::Open
            }
        }
        (Some((_, before)), Some((true, after))) if before != after => Suspect::Alive,
        (None, Some((true, _))) => Suspect::Alive,
        (_, Some((true, _))) => Suspect::Open,
        // Nobody leads: a pod that looks alive may be on its way out, or waiting for its turn.
        _ => {
            if looks >= LOOKS {
                Suspect::Alive
            } else {
                Suspect::Open
            }
        }
    }
}
