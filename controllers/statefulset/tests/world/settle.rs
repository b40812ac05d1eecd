//! Calm: everybody does what is to be done, until nothing is left.

use serde_json::{Value, json};

use super::server::{Kind, claims_of, image_in, is_finished, is_ready, is_terminating, owners_of};
use super::{DB, World, environment};
use crate::support::merge;

/// A round brings a set one step further; no rollout of these few pods takes more.
const MOST_ROUNDS: usize = 120;

// === impl World ===

impl World {
    /// Everything is seen, the set is synced, everything is seen, and pods come and go as they should.
    pub fn calm_round(&mut self) {
        self.deliver_all();
        self.sync(&[]);
        self.deliver_all();
        self.good_kubelets();
        self.deliver_all();
        self.server.pass(5);
        self.rest();
    }

    /// From wherever the world is, the set settles; then whatever strategy it had is replaced by one that reaches all pods, and it settles
    /// again, with all pods of the update revision.
    pub fn settle(&mut self) -> Result<(), String> {
        self.tell("settling".to_owned());
        self.bounds.made_worse();
        self.remove_finished();
        if self.db()["spec"]["updateStrategy"]["type"] != "Recreate" || self.gates.recreate {
            self.come_to_rest()?;
            self.look_at_what_came_of_it()?;
        }
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
        self.server.update(Kind::Set, DB, |set| merge(set, json!({"spec": {"updateStrategy": strategy}}))).unwrap();
        self.come_to_rest()?;
        self.look_at_what_came_of_it()?;
        self.look_at_completion()?;
        let before = self.server.log.len();
        for seconds in [0, 5000, 0] {
            self.restart();
            self.server.pass(seconds);
            self.calm_round();
        }
        match self.server.log.get(before) {
            None if self.waits.is_empty() => Ok(()),
            None => Err(format!("settled, and said to wait: {:?}", self.waits)),
            Some(change) => Err(format!("settled, and still there was a write: {change:?}")),
        }
    }

    /// In order, condemned pods that have ended wait for each other, for ever (upstream `processCondemned`), until somebody deletes them.
    fn remove_finished(&mut self) {
        for name in self.server.names(Kind::Pod) {
            if self.server.get(Kind::Pod, &name).is_some_and(|pod| is_finished(pod)) {
                self.server.remove(Kind::Pod, &name).unwrap();
            }
        }
    }

    fn come_to_rest(&mut self) -> Result<(), String> {
        for _ in 0..MOST_ROUNDS {
            let before = self.server.log.len();
            self.calm_round();
            self.calm_round();
            if self.server.log.len() == before {
                return self.failed.clone().map_or(Ok(()), |error| Err(format!("at rest, and syncs fail: {error}")));
            }
        }
        Err(format!("not settled: {}", self.db()))
    }

    fn look_at_what_came_of_it(&self) -> Result<(), String> {
        let (set, pods) = (self.db(), self.pods());
        let ensure = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("settled, but {what}: {set} {pods:?}")) };
        let (spec, status) = (&set["spec"], &set["status"]);
        let (replicas, start) = (spec["replicas"].as_i64().unwrap(), spec["ordinals"]["start"].as_i64().unwrap_or(0));
        let wanted: Vec<_> = (start..start + replicas).map(|ordinal| format!("db-{ordinal}")).collect();
        ensure(pods.iter().map(|(name, _)| name).eq(&wanted), "other pods are there")?;
        ensure(pods.iter().all(|(_, pod)| is_ready(pod) && !is_terminating(pod)), "a pod does not run")?;
        let partition = spec["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or(0);
        let update = &status["updateRevision"];
        for (at, (name, pod)) in (0..).zip(&pods) {
            let labels = &pod["metadata"]["labels"];
            ensure(labels["statefulset.kubernetes.io/pod-name"] == *name, "a pod has lost its name")?;
            ensure(owners_of(pod)[0]["uid"] == set["metadata"]["uid"], "a pod is not the set's")?;
            let is_of_update = labels["controller-revision-hash"] == *update;
            let must_be = spec["updateStrategy"]["type"] != "OnDelete" && at >= partition;
            ensure(is_of_update || !must_be, "a pod is outdated")?;
            ensure(!is_of_update || image_in(&spec["template"]) == image_in(pod), "a pod is not what its revision says")?;
            for claim in claims_of(pod) {
                self.look_at_claim(&claim, set)?;
            }
        }
        let of = |revision: &Value| {
            pods.iter().filter(|(_, pod)| pod["metadata"]["labels"]["controller-revision-hash"] == *revision).count() as i64
        };
        let counts =
            ["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"].map(|field| status[field].as_i64());
        let truth = [replicas, replicas, replicas, of(&status["currentRevision"]), of(update)].map(Some);
        ensure(counts == truth && status["observedGeneration"] == set["metadata"]["generation"], "the status is wrong")
    }

    /// A claim that a pod uses is there, and owned as the policy says.
    fn look_at_claim(&self, name: &str, set: &Value) -> Result<(), String> {
        let claim = self.server.get(Kind::Claim, name).ok_or_else(|| format!("settled, but {name} is not there"))?;
        let policy = &set["spec"]["persistentVolumeClaimRetentionPolicy"];
        let goes_with_set = policy["whenDeleted"] == "Delete";
        let owners = owners_of(claim);
        let ours: Vec<_> = owners.iter().filter(|owner| owner["kind"] != "Backup").collect();
        // Somebody else's is nobody's business, unless nothing is to be deleted: then nobody else's is looked for.
        let is_given = goes_with_set && !environment::is_seized(claim);
        let holds = if is_given { ours.len() == 1 && ours[0]["uid"] == set["metadata"]["uid"] } else { ours.is_empty() };
        if holds { Ok(()) } else { Err(format!("settled, but {name} has the wrong owners: {claim} {policy}")) }
    }

    fn look_at_completion(&self) -> Result<(), String> {
        let (set, pods) = (self.db(), self.pods());
        let ensure = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("complete, but {what}: {set} {pods:?}")) };
        let status = &set["status"];
        ensure(status["currentRevision"] == status["updateRevision"], "the revisions differ")?;
        let templates = set["spec"]["volumeClaimTemplates"].as_array().map_or(0, Vec::len);
        ensure(pods.iter().all(|(_, pod)| claims_of(pod).len() == templates), "a pod lacks a volume")?;
        let owner = &set["metadata"]["uid"];
        let mine: Vec<_> =
            self.server.all(Kind::Revision).filter(|(_, one)| owners_of(one).iter().any(|other| other["uid"] == *owner)).collect();
        let number = |name: &str| mine.iter().find(|(of, _)| *of == name).map(|(_, revision)| revision["revision"].as_i64());
        let last = mine.iter().map(|(_, revision)| revision["revision"].as_i64()).max();
        // One that somebody else had made before us is used as it is.
        let update = number(status["updateRevision"].as_str().unwrap());
        ensure(update.is_none() || update == last, "the update revision is not the last")?;
        if let Some(limit) = set["spec"]["revisionHistoryLimit"].as_u64() {
            ensure(mine.len() as u64 <= limit + 1, "the history is too long")?;
        }
        Ok(())
    }

    fn pods(&self) -> Vec<(String, Value)> {
        self.server.all(Kind::Pod).map(|(name, pod)| (name.to_owned(), pod.clone())).collect()
    }
}
