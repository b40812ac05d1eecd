//! Who else writes what these controllers write: what can be seen of kube-controller-manager, and what it proves.
//!
//! Three things are looked at. *Pods* of kube-controller-manager say by their flags which controllers they run. Its *lease* says whether
//! one of them leads, and since when. *Statuses* that it has written since then say which controllers that one runs, where there is no
//! pod to be seen. What was written before it led is its predecessor's, and proves nothing of it.

mod flags;
mod look;

use std::time::Duration;

use model::{Time, Timestamp};

pub(crate) use self::flags::ManagerFlags;
pub(crate) use self::look::{Extent, LABELS, Looker, NAMESPACE, date};
use crate::options::ControllerName;

/// The namespace and the name of a lease.
pub(crate) type LeaseName = (String, String);

/// What was seen at one time. An error is why it could not be seen.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    /// When, by the API server's clock.
    pub(crate) now: Time,
    /// Its pods.
    pub(crate) pods: Result<Vec<ManagerPod>, String>,
    /// Its lease.
    pub(crate) lease: Result<Option<ManagerLease>, String>,
    /// For each controller and writer, the latest status among those that were looked at.
    pub(crate) writes: Result<Vec<StatusWrite>, String>,
}

/// A pod of kube-controller-manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManagerPod {
    /// Its name.
    pub(crate) name: String,
    /// Its node.
    pub(crate) node: String,
    /// What its status says of it.
    pub(crate) state: PodState,
    /// What it was started with.
    pub(crate) flags: ManagerFlags,
}

/// What a pod's status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodState {
    /// It runs, and is ready.
    Ready,
    /// It may run: the kubelet shows a static pod's state many seconds later than its process works.
    Unready,
    /// It has ended, or is to end.
    Ended,
}

/// The lease of kube-controller-manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManagerLease {
    /// Who holds it; empty if nobody does.
    pub(crate) holder: String,
    /// Its last renewal, as the holder wrote it.
    pub(crate) renewal: String,
    /// The same by the API server's clock.
    pub(crate) renewed: Option<Time>,
    /// Since when its holder has held it, by the API server's clock.
    pub(crate) acquired: Option<Time>,
    /// For how long a renewal is good.
    pub(crate) duration: Duration,
}

/// That somebody wrote a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatusWrite {
    /// The controller whose work it is.
    pub(crate) controller: ControllerName,
    /// Who wrote it: a name of `managedFields`.
    pub(crate) manager: String,
    /// When, by the API server's clock.
    pub(crate) at: Timestamp,
    /// Of what: `namespace/name`.
    pub(crate) object: String,
}

/// Whose place is to be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ours {
    /// What runs here.
    pub(crate) controllers: Vec<ControllerName>,
    /// The lease that is competed for, if there is leader election.
    pub(crate) lease: Option<LeaseName>,
}

/// What the evidence comes to, in sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// Somebody is alive who does the same work.
    pub(crate) proofs: Vec<String>,
    /// Somebody may be.
    pub(crate) doubts: Vec<String>,
    /// What else was seen.
    pub(crate) notes: Vec<String>,
}

/// What our own writes say.
pub(crate) const OUR_MANAGER: &str = "workloads-controller-manager";

/// The names that kube-controller-manager writes under: its own, and those of distributions whose binary it is a part of.
const MANAGERS: &[&str] = &["kube-controller-manager", "k3s", "rke2", "kubelite", "hyperkube"];

/// So long after a lease was acquired, what is written is the new holder's work. Times of writes are cut to seconds.
const MARGIN: Duration = Duration::from_secs(2);

/// Who has written lately, and is alive, writes again soon.
const LATELY: Duration = Duration::from_secs(60);

/// Writes older than this say nothing about the present.
const RECENT: Duration = Duration::from_secs(10 * 60);

// === impl ManagerLease ===

impl ManagerLease {
    /// Its lease's name, unless its flags say otherwise.
    pub(crate) fn default_name() -> LeaseName {
        ("kube-system".to_owned(), "kube-controller-manager".to_owned())
    }

    /// Whether its holder may be alive.
    pub(crate) fn is_held(&self, now: Time) -> bool {
        !self.holder.is_empty() && self.renewed.is_some_and(|renewed| renewed.after(self.duration) >= now)
    }
}

// === impl StatusWrite ===

impl StatusWrite {
    /// Whether it is kube-controller-manager's.
    pub(crate) fn is_upstreams(&self) -> bool {
        MANAGERS.contains(&&*self.manager)
    }
}

// === impl Ours ===

impl Ours {
    /// Whether kube-controller-manager's own lease is competed for: then one of both works.
    pub(crate) fn competes(&self) -> bool {
        self.lease.as_ref() == Some(&ManagerLease::default_name())
    }
}

// === impl Evidence ===

impl Evidence {
    /// The lease, if its holder may be alive.
    pub(crate) fn held(&self) -> Option<&ManagerLease> {
        self.lease.iter().flatten().find(|lease| lease.is_held(self.now))
    }

    /// The pods that run, as far as is known: they are ready, or the lease's holder has their node's name.
    pub(crate) fn live_pods(&self) -> impl Iterator<Item = &ManagerPod> {
        self.pods.iter().flatten().filter(|pod| self.is_alive(pod))
    }

    /// Upstream `cmd/kube-controller-manager/app/controllermanager.go` `Run`: the holder is called by the host, an underscore and a UUID.
    fn is_alive(&self, pod: &ManagerPod) -> bool {
        let leads = || self.held().and_then(|lease| lease.holder.rsplit_once('_')).is_some_and(|(host, _)| host == pod.node);
        match pod.state {
            PodState::Ready => true,
            PodState::Unready => leads(),
            PodState::Ended => false,
        }
    }

    /// Whether there is neither a pod nor a lease of kube-controller-manager, although every cluster has one: k3s runs it in its own
    /// process, and on a single server without an election. Then nothing shows what it runs but what it writes.
    pub(crate) fn is_unseen(&self, ours: &Ours) -> bool {
        !ours.competes() && self.held().is_none() && self.live_pods().next().is_none()
    }

    /// What one who is not to be seen otherwise has written lately.
    pub(crate) fn wrote_lately(&self, ours: &Ours) -> Option<&StatusWrite> {
        self.latest_write(ours).filter(|write| self.is_unseen(ours) && write.at.time().after(LATELY) > self.now)
    }

    /// That it goes on, by this later evidence.
    pub(crate) fn goes_on(&self, later: &Self, ours: &Ours) -> Option<String> {
        let before = self.wrote_lately(ours)?;
        let StatusWrite { controller, manager, at, object } = later.latest_write(ours).filter(|write| write.at > before.at)?;
        let controller = controller.as_str();
        Some(format!("{manager} takes part in no election, and does work of the {controller}: the status of {object}, at {at}"))
    }

    /// What it proves.
    pub(crate) fn judge(&self, ours: &Ours) -> Judgement {
        let mut judgement = Judgement::default();
        let flags_seen = self.judge_pods(ours, &mut judgement);
        self.judge_lease(ours, flags_seen, &mut judgement);
        judgement
    }

    /// The latest status that kube-controller-manager wrote, of the controllers that run here.
    pub(crate) fn latest_write(&self, ours: &Ours) -> Option<&StatusWrite> {
        let writes = self.writes.iter().flatten().filter(|write| write.is_upstreams() && ours.controllers.contains(&write.controller));
        // Of several at one time always the same one: whoever waits is told what changes.
        writes.max_by(|one, other| (one.at, &one.object).cmp(&(other.at, &other.object)))
    }

    /// Whether there is a live pod whose flags say what kube-controller-manager runs.
    fn judge_pods(&self, ours: &Ours, judgement: &mut Judgement) -> bool {
        if let Err(error) = &self.pods {
            judgement.doubts.push(format!("the pods of kube-controller-manager cannot be seen: {error}"));
        }
        for seen @ ManagerPod { name, node, flags, .. } in self.pods.iter().flatten() {
            let pod = format!("pod {name} on node {node}");
            let shared: Vec<_> = ours.controllers.iter().filter(|controller| controller.is_enabled(&flags.controllers)).collect();
            let shared = shared.iter().map(|controller| controller.as_str()).collect::<Vec<_>>().join(", ");
            let list = flags.controllers.join(",");
            if !self.is_alive(seen) {
                judgement.notes.push(format!("{pod} is not running"));
            } else if shared.is_empty() {
                judgement.notes.push(format!("{pod} runs none of them (--controllers={list})"));
            } else if flags.leader_elect && ours.lease.as_ref() == Some(&flags.lease) {
                judgement.notes.push(format!("{pod} runs {shared}, and competes for the same lease"));
            } else if flags.leader_migration {
                judgement.doubts.push(format!("{pod} runs {shared}, under leases that its leader migration names"));
            } else {
                judgement.proofs.push(format!("{pod} runs {shared} (--controllers={list})"));
            }
        }
        self.live_pods().next().is_some()
    }

    fn judge_lease(&self, ours: &Ours, flags_seen: bool, judgement: &mut Judgement) {
        if ours.competes() {
            return;
        }
        let (namespace, name) = ManagerLease::default_name();
        let lease = match (&self.lease, self.held()) {
            (_, Some(lease)) => lease,
            (Ok(lease), None) => {
                let state = lease.as_ref().map_or("does not exist", |_| "is held by nobody who is alive");
                judgement.notes.push(format!("the lease {namespace}/{name} {state}"));
                return self.judge_recent(ours, judgement);
            }
            (Err(error), None) => {
                judgement.doubts.push(format!("the lease {namespace}/{name} cannot be read: {error}"));
                return self.judge_recent(ours, judgement);
            }
        };
        if let Err(error) = &self.writes {
            judgement.doubts.push(format!("statuses cannot be read: {error}"));
        }
        let since = lease.acquired.map(|at| at.after(MARGIN));
        let own = |write: &&StatusWrite| since.is_some_and(|since| write.at.time() > since);
        match self.latest_write(ours).filter(own) {
            Some(StatusWrite { controller, at, object, .. }) => judgement.proofs.push(format!(
                "{} holds the lease {namespace}/{name} and, since it does, has done work of the {}: the status of {object}, at {at}",
                lease.holder,
                controller.as_str()
            )),
            None if flags_seen => judgement.notes.push(format!("{} holds the lease {namespace}/{name}", lease.holder)),
            None => judgement.doubts.push(format!(
                "{} holds the lease {namespace}/{name}, and what it runs cannot be seen; it has written no status that these controllers \
                 write, as far as was looked",
                lease.holder
            )),
        }
    }

    /// Nobody leads: what was written lately may be the work of one that takes part in no election.
    fn judge_recent(&self, ours: &Ours, judgement: &mut Judgement) {
        let recent = |write: &&StatusWrite| write.at.time().after(RECENT) > self.now;
        if let Some(StatusWrite { controller, manager, at, object }) = self.latest_write(ours).filter(recent) {
            let controller = controller.as_str();
            judgement.doubts.push(format!("{manager} has done work of the {controller}: the status of {object}, at {at}"));
        }
    }
}

#[cfg(test)]
mod tests;
