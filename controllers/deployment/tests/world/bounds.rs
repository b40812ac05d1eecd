//! The promises that hold at every revision of the world, each as far as upstream gives it.
//!
//! - **Sizes.** The sizes of all ReplicaSets together are never more than replicas + maxSurge. After a change of the Deployment's size, surge
//!   or strategy the higher bound of before holds until our process has seen the change and what is there has come down to the new one: nothing
//!   is taken away in one step. It does not hold while a write whose answer was lost has not been seen: if the template changes in between, the
//!   other ReplicaSet is sized without it (upstream has no guard at all here, and so has this gap after every write).
//! - **Pods of one ReplicaSet.** Never more than the largest size it has had since it last had no more pods than its size says.
//! - **Pods in all.** That follows from these two, with the pods added that ReplicaSets were told to remove and have not removed yet: the
//!   Deployment counts sizes, not pods. As long as every ReplicaSet has done its part before the next sync of the Deployment, they are never
//!   more than replicas + maxSurge.
//! - **Availability.** The Deployment goes by what its ReplicaSets' statuses say. So the promise begins when everything is seen and told (see
//!   [`Bounds::may_rely`]) with at least replicas - maxUnavailable available, and lasts, however late our process sees anything
//!   from then on, until somebody else changes something for the worse.
//! - **One new ReplicaSet.** No template has two.
//! - **Revisions.** The Deployment's never goes back, unless the ReplicaSets that had the higher ones are gone: paused with a new template, it
//!   may clean all of them up (upstream `sync`).

use std::collections::BTreeMap;

use super::WEB;
use super::cache::Cache;
use super::server::{Kind, Server};
use super::truth::{Have, Wanted};

#[derive(Clone, Debug)]
pub struct Bounds {
    /// How much all sizes together may be.
    most: i64,
    /// The version of a write to a ReplicaSet whose answer was lost.
    unseen: u64,
    /// How many pods each ReplicaSet may have.
    peaks: BTreeMap<String, i64>,
    /// How many pods there may be in all, while ReplicaSets keep up.
    most_pods: Option<i64>,
    /// How many pods must be available, while that is promised.
    fewest: Option<i64>,
    revision: i64,
}

// === impl Bounds ===

impl Bounds {
    pub fn new(server: &Server) -> Self {
        let most = Wanted::read(server).most();
        Self { most, unseen: 0, peaks: BTreeMap::new(), most_pods: None, fewest: None, revision: 0 }
    }

    /// Somebody has changed the Deployment.
    pub fn deployment_changed(&mut self, server: &Server) {
        self.most = self.most.max(Wanted::read(server).most());
        self.most_pods = None;
        self.fewest = None;
    }

    /// The answer to a write of a ReplicaSet was lost.
    pub fn answer_lost(&mut self, server: &Server) {
        self.unseen = server.version_of(Kind::ReplicaSet);
    }

    /// Somebody has made something worse: a pod, a ReplicaSet.
    pub fn made_worse(&mut self) {
        self.most_pods = None;
        self.fewest = None;
    }

    /// The Deployment is about to be synced.
    pub fn deployment_sync(&mut self, server: &Server, cache: &Cache) {
        let (wanted, have) = (Wanted::read(server), Have::read_all(server));
        let keeps_up = cache.is_all_current(server) && have.values().all(|have| have.active <= have.size);
        let sizes: i64 = have.values().map(|have| have.size).sum();
        self.most_pods = (keeps_up && sizes <= wanted.most()).then_some(wanted.most());
    }

    /// To be called when our process has nothing in hand.
    pub fn rest(&mut self, server: &Server, cache: &Cache) {
        let wanted = Wanted::read(server);
        if self.fewest.is_none() && Self::may_rely(&wanted, server, cache) {
            self.fewest = Some(wanted.fewest());
        }
    }

    /// Whether everything is seen, and told by the statuses; no change of size is under way; ready is available; and enough of it is there.
    /// A paused rollout is shared out by size, whoever is available.
    fn may_rely(wanted: &Wanted, server: &Server, cache: &Cache) -> bool {
        let have = Have::read_all(server);
        let ready: i64 = have.values().map(|have| have.ready).sum();
        let size = wanted.replicas.to_string();
        let settled = |have: &Have| {
            have.told && have.active <= have.size && (have.size == 0 || have.noted.as_ref().is_none_or(|noted| *noted == size))
        };
        cache.is_all_current(server)
            && wanted.rolling
            && wanted.observed
            && !wanted.paused
            && wanted.min_ready == 0
            && ready >= wanted.fewest()
            && have.values().all(settled)
    }

    pub fn look(&mut self, server: &Server, cache: &Cache) -> Result<(), String> {
        let (wanted, have) = (Wanted::read(server), Have::read_all(server));
        self.look_at_sizes(&wanted, &have, server, cache)?;
        let pods: i64 = have.values().map(|have| have.active).sum();
        if self.most_pods.is_some_and(|most| pods > most) {
            return Err(format!("{pods} pods, where {:?} are the most: {have:?}", self.most_pods));
        }
        let ready: i64 = have.values().map(|have| have.ready).sum();
        if self.fewest.is_some_and(|fewest| ready < fewest) {
            return Err(format!("{ready} pods are available, where {:?} are the fewest: {have:?}", self.fewest));
        }
        let mut images: Vec<_> = have.values().map(|have| &have.image).collect();
        images.sort();
        if images.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("two ReplicaSets of one template: {have:?}"));
        }
        let annotation = &server.get(Kind::Deployment, WEB).unwrap()["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
        let revision = annotation.as_str().map_or(0, |revision| revision.parse().unwrap());
        let highest = have.values().map(|have| have.revision).max().unwrap_or(0);
        if revision < self.revision.min(highest) {
            return Err(format!("the revision went back from {} to {revision}", self.revision));
        }
        self.revision = revision;
        Ok(())
    }

    fn look_at_sizes(&mut self, wanted: &Wanted, have: &BTreeMap<String, Have>, server: &Server, cache: &Cache) -> Result<(), String> {
        let sizes: i64 = have.values().map(|have| have.size).sum();
        if cache.reached(Kind::ReplicaSet) < self.unseen {
            self.most = self.most.max(sizes);
        }
        if sizes > self.most {
            return Err(format!("sizes of {sizes} in all, where {} are the most: {have:?}", self.most));
        }
        let seen = |kind| cache.is_current(server, kind);
        if sizes <= wanted.most() && seen(Kind::Deployment) && seen(Kind::ReplicaSet) {
            self.most = wanted.most();
        }
        for (name, have) in have {
            let peak = self.peaks.entry(name.clone()).or_default();
            *peak = have.size.max(*peak);
            if have.active > *peak {
                return Err(format!("{} pods of {name}, whose size never was more than {peak}", have.active));
            }
            if have.active <= have.size && seen(Kind::ReplicaSet) {
                *peak = have.size;
            }
        }
        Ok(())
    }
}
