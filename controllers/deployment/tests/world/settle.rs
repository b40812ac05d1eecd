//! Calm: everybody does what is to be done, until nothing is left.

use serde_json::{Value, json};

use super::World;
use super::server::Kind;
use super::truth::{Have, Wanted};

/// A round brings each ReplicaSet one step further; no rollout of these few pods takes more.
const MOST_ROUNDS: usize = 80;

// === impl World ===

impl World {
    /// Everything is seen, the Deployment is synced, everything is seen, every ReplicaSet is synced, and pods come and go as they should.
    pub fn calm_round(&mut self) {
        self.deliver_all();
        self.sync_deployment(&[]);
        self.deliver_all();
        for name in self.set_names() {
            self.sync_set(&name, &[]);
            self.deliver_all();
        }
        self.good_kubelets();
        self.deliver_all();
        self.server.pass(5);
        self.rest();
    }

    /// To be called between the syncs.
    pub fn rest(&mut self) {
        self.bounds.rest(&self.server, &self.cache);
    }

    /// From wherever the world is, the Deployment completes, in a bounded number of rounds; then nothing is written any more.
    pub fn settle(&mut self) -> Result<(), String> {
        self.tell("settling".to_owned());
        self.user(super::environment::User::Pause(false));
        let mut rounds = 0;
        while !self.is_quiet() {
            rounds += 2;
            if rounds > MOST_ROUNDS {
                return Err(format!("not settled after {rounds} rounds: {}", self.deployment()));
            }
        }
        self.look_at_what_came_of_it()?;
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

    /// Nothing is written in two rounds, between which time passes: what is ready becomes available.
    fn is_quiet(&mut self) -> bool {
        let before = self.server.log.len();
        self.calm_round();
        self.calm_round();
        self.server.log.len() == before
    }

    fn look_at_what_came_of_it(&self) -> Result<(), String> {
        let (wanted, have, web) = (Wanted::read(&self.server), Have::read_all(&self.server), self.deployment());
        let ensure = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("settled, but {what}: {web} {have:?}")) };
        for set in have.values() {
            let size = if set.image == wanted.image { wanted.replicas } else { 0 };
            ensure((set.size, set.active, set.ready, set.terminating) == (size, size, size, 0), "sizes or pods are wrong")?;
            ensure(set.told, "a ReplicaSet does not know")?;
        }
        let new = have.values().find(|set| set.image == wanted.image).ok_or("settled, but there is no new ReplicaSet")?;
        let noted = wanted.replicas == 0 || new.noted == Some(wanted.replicas.to_string());
        ensure(noted, "the new ReplicaSet is noted to be of another size")?;
        ensure(have.values().all(|set| set.revision <= new.revision), "the new revision is not the highest")?;
        let annotation = &web["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
        ensure(annotation.as_str().and_then(|text| text.parse().ok()) == Some(new.revision), "the Deployment has another revision")?;
        if let Some(limit) = web["spec"]["revisionHistoryLimit"].as_u64() {
            ensure(have.len() as u64 <= limit + 1, "the history is too long")?;
        }
        self.look_at_status(&wanted)
    }

    fn look_at_status(&self, wanted: &Wanted) -> Result<(), String> {
        let web = self.deployment();
        let (status, replicas) = (&web["status"], wanted.replicas);
        let count = |field: &str| status[field].as_i64().unwrap_or(0);
        let counts =
            ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "terminatingReplicas"].map(count);
        if counts != [replicas, replicas, replicas, replicas, 0, 0] || !wanted.observed {
            return Err(format!("settled, but the status is wrong: {web}"));
        }
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let reason =
            |of: &str| conditions.iter().find(|condition| condition["type"] == of).map_or(Value::Null, |found| found["reason"].clone());
        let progressing = web["spec"]["progressDeadlineSeconds"].as_i64().map_or(Value::Null, |_| json!("NewReplicaSetAvailable"));
        let reasons = ["Available", "Progressing", "ReplicaFailure"].map(reason);
        if reasons != [json!("MinimumReplicasAvailable"), progressing, Value::Null] {
            return Err(format!("settled, but the conditions are wrong: {web}"));
        }
        Ok(())
    }

    /// The sizes of the ReplicaSets by template, and how many pods of each are there.
    pub fn sizes(&self) -> Vec<(String, i64, i64)> {
        let have = Have::read_all(&self.server).into_values();
        let mut sizes: Vec<_> = have.map(|have| (have.image, have.size, have.active)).collect();
        sizes.sort();
        sizes
    }

    /// What a ReplicaSet of that version of the template is called.
    pub fn set_of(&self, version: u8) -> Option<String> {
        let image = format!("web:v{version}");
        Have::read_all(&self.server).into_iter().find(|(_, have)| have.image == image).map(|(name, _)| name)
    }

    pub fn status(&self) -> &Value {
        &self.deployment()["status"]
    }

    pub fn annotation(&self, set: &str, key: &str) -> Option<String> {
        let set = self.server.get(Kind::ReplicaSet, set)?;
        set["metadata"]["annotations"][format!("deployment.kubernetes.io/{key}")].as_str().map(str::to_owned)
    }
}
