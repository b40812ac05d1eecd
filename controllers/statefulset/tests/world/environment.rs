//! What others do to the world: users, kubelets and the garbage collector.

use serde_json::{Value, json};

use super::server::{Kind, claims_of, is_finished, is_ready, is_terminating, owners_of};
use super::{DB, World};
use crate::support::{DB_UID, merge, template_of};

/// What a user does.
#[derive(Clone, Copy, Debug)]
pub enum User {
    SetTemplate(u8),
    Scale(u8),
    /// `spec.ordinals.start`.
    Start(u8),
    Partition(u8),
    /// Out of [`MAX_UNAVAILABLE`].
    MaxUnavailable(u8),
    /// Out of [`STRATEGIES`].
    Strategy(u8),
    /// whenDeleted and whenScaled are Delete.
    Retain(bool, bool),
    SetMinReady(bool),
    Annotate(u8),
    DeletePod(u8),
    DeleteClaim(u8),
    DeleteRevision(u8),
    /// Takes the owner of a pod or revision away.
    Orphan(Kind, u8),
    /// Takes a pod's name label away.
    Unlabel(u8),
    /// Has a claim controlled by somebody else.
    Seize(u8),
    /// Takes the set away from its pods and makes it anew, maybe with one more claim template.
    Anew(bool),
}

/// What a kubelet does with a pod, or its node with it.
#[derive(Clone, Copy, Debug)]
pub enum Kubelet {
    Ready,
    Unready,
    Failed,
    /// A terminating pod ends.
    Ended,
    /// Gone without a grace period.
    Lost,
}

pub const MAX_UNAVAILABLE: [&str; 4] = ["1", "2", "3", "50%"];

/// The type, and whether there is a `rollingUpdate`.
pub const STRATEGIES: [(&str, bool); 5] =
    [("RollingUpdate", true), ("RollingUpdate", true), ("RollingUpdate", false), ("OnDelete", false), ("Recreate", false)];

// === impl World ===

impl World {
    pub fn user(&mut self, user: User) {
        self.tell(format!("user: {user:?}"));
        if !self.is_harmless(user) {
            self.bounds.made_worse();
        }
        match user {
            User::SetTemplate(version) => self.change_db(json!({"spec": {"template": template_of(u32::from(version) + 1)}})),
            User::Scale(replicas) => self.change_db(json!({"spec": {"replicas": replicas}})),
            User::Start(ordinal) => self.change_db(json!({"spec": {"ordinals": {"start": ordinal}}})),
            User::Partition(partition) => self.change_rolling_update(&json!({"partition": partition})),
            User::MaxUnavailable(which) => {
                let limit = MAX_UNAVAILABLE[which as usize % MAX_UNAVAILABLE.len()];
                let limit = limit.parse::<i32>().map_or(json!(limit), |count| json!(count));
                self.change_rolling_update(&json!({"maxUnavailable": limit}));
            }
            User::Strategy(which) => {
                let (name, has_parameters) = STRATEGIES[which as usize % STRATEGIES.len()];
                let parameters = has_parameters.then(|| json!({"partition": 0}));
                self.change_db(json!({"spec": {"updateStrategy": {"type": name, "rollingUpdate": parameters}}}));
            }
            User::Retain(with_set, when_scaled) => {
                let [when_deleted, when_scaled] = [with_set, when_scaled].map(|deletes| if deletes { "Delete" } else { "Retain" });
                let policy = json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
                self.change_db(json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}}));
            }
            User::SetMinReady(slow) => self.change_db(json!({"spec": {"minReadySeconds": if slow { 3 } else { 0 }}})),
            User::Annotate(note) => self.change_db(json!({"metadata": {"annotations": {"note": note.to_string()}}})),
            User::DeletePod(which) => self.terminate(Kind::Pod, which),
            User::DeleteClaim(which) => self.terminate(Kind::Claim, which),
            User::DeleteRevision(which) => self.remove(Kind::Revision, which, |_| true),
            User::Orphan(kind, which) => self.change(kind, which, |_| true, |object| object["metadata"]["ownerReferences"] = json!([])),
            User::Unlabel(which) => {
                self.change(Kind::Pod, which, |_| true, |pod| {
                    merge(pod, json!({"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": null}}}));
                });
            }
            User::Seize(which) => self.change(Kind::Claim, which, |claim| !is_seized(claim), |claim| {
                let mut owners = owners_of(claim);
                owners.push(json!({"apiVersion": "example.com/v1", "kind": "Backup", "name": "nightly", "uid": DB_UID.to_string(), "controller": true}));
                claim["metadata"]["ownerReferences"] = json!(owners);
            }),
            User::Anew(with_more_claims) => self.make_anew(with_more_claims),
        }
        self.look();
    }

    /// Whether a rollout goes on to keep its promise. In parallel and without the gate, the highest outdated pod goes whatever is down below
    /// it: a template that changes amid a rollout takes one more.
    fn is_harmless(&self, user: User) -> bool {
        match user {
            User::SetTemplate(_) => self.gates.max_unavailable || self.db()["spec"]["podManagementPolicy"] != "Parallel",
            User::Partition(_) | User::Annotate(_) => true,
            _ => false,
        }
    }

    pub fn kubelet(&mut self, what: Kubelet, which: u8) {
        let now = self.server.timestamp();
        match what {
            Kubelet::Ready => {
                // Which makes nothing worse.
                let names = self.server.names(Kind::Pod);
                if let Some(name) = names.get(which as usize % names.len().max(1)) {
                    self.make_ready(name);
                }
            }
            Kubelet::Unready => {
                self.bounds.made_worse();
                self.change(Kind::Pod, which, is_ready, |pod| pod["status"] = ready("False", &now));
            }
            Kubelet::Failed => {
                self.bounds.made_worse();
                let phase = if which.is_multiple_of(2) { "Failed" } else { "Succeeded" };
                self.change(Kind::Pod, which, |pod| !is_finished(pod), |pod| pod["status"] = json!({"phase": phase}));
            }
            Kubelet::Ended => self.remove(Kind::Pod, which, is_terminating),
            Kubelet::Lost => {
                self.bounds.made_worse();
                self.remove(Kind::Pod, which, |_| true);
            }
        }
        self.look();
    }

    /// All pods that are to end end, what nobody owns or uses any more goes, and all pods that can come up do.
    pub fn good_kubelets(&mut self) {
        for name in self.server.names(Kind::Pod) {
            if self.server.get(Kind::Pod, &name).is_some_and(|pod| is_terminating(pod)) {
                self.server.remove(Kind::Pod, &name).unwrap();
            }
            self.look();
        }
        self.collect_garbage();
        for name in self.server.names(Kind::Pod) {
            self.make_ready(&name);
            self.look();
        }
    }

    /// What had owners that are all gone goes, and so do claims that were deleted and that no pod uses.
    pub fn collect_garbage(&mut self) {
        let owners = [Kind::Pod, Kind::Set].into_iter().flat_map(|kind| self.server.all(kind));
        let uids: Vec<_> = owners.map(|(_, object)| object["metadata"]["uid"].clone()).collect();
        for kind in [Kind::Pod, Kind::Claim, Kind::Revision] {
            for name in self.server.names(kind) {
                self.collect(kind, &name, &uids);
            }
        }
    }

    fn collect(&mut self, kind: Kind, name: &str, uids: &[Value]) {
        let object = self.server.get(kind, name).unwrap();
        let is_alive = |owner: &Value| owner["kind"] == "Backup" || uids.contains(&owner["uid"]);
        let (alive, gone): (Vec<_>, Vec<_>) = owners_of(object).into_iter().partition(is_alive);
        let is_unused = || !self.server.all(Kind::Pod).any(|(_, pod)| claims_of(pod).iter().any(|claim| claim == name));
        let is_lost = alive.is_empty() && !gone.is_empty();
        if is_lost || kind == Kind::Claim && is_terminating(object) && is_unused() {
            self.server.remove(kind, name).unwrap();
        } else if !gone.is_empty() {
            self.server.update(kind, name, |object| object["metadata"]["ownerReferences"] = json!(alive)).unwrap();
        }
    }

    /// A pod comes up once all its claims are there.
    fn make_ready(&mut self, name: &str) {
        let now = self.server.timestamp();
        let pod = self.server.get(Kind::Pod, name).unwrap();
        let can_run = claims_of(pod).iter().all(|claim| self.server.get(Kind::Claim, claim).is_some());
        if can_run && !is_ready(pod) && !is_finished(pod) {
            self.server.update(Kind::Pod, name, |pod| pod["status"] = ready("True", &now)).unwrap();
        }
    }

    fn change_db(&mut self, change: Value) {
        self.server.update(Kind::Set, DB, |set| merge(set, change)).unwrap();
    }

    /// Only a rolling update has parameters.
    fn change_rolling_update(&mut self, change: &Value) {
        if self.db()["spec"]["updateStrategy"]["type"] == "RollingUpdate" {
            self.change_db(json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}));
            self.change_db(json!({"spec": {"updateStrategy": {"rollingUpdate": change}}}));
        }
    }

    fn make_anew(&mut self, with_more_claims: bool) {
        let mut set = Value::clone(self.db());
        self.server.remove(Kind::Set, DB).unwrap();
        let uid = set["metadata"]["uid"].clone();
        for kind in [Kind::Pod, Kind::Revision, Kind::Claim] {
            for name in self.server.names(kind) {
                self.server
                    .update(kind, &name, |object| {
                        let mut owners = owners_of(object);
                        owners.retain(|owner| owner["uid"] != uid);
                        object["metadata"]["ownerReferences"] = json!(owners);
                    })
                    .unwrap();
            }
        }
        set["status"] = json!({"replicas": 0});
        if let Some(templates) = set["spec"].get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).filter(|_| with_more_claims) {
            templates.push(json!({"metadata": {"name": format!("more{}", templates.len())}, "spec": {}}));
        }
        self.server.create(Kind::Set, set).unwrap();
        // What is known is known of one set.
        self.known_same = None;
    }

    /// Deletes something, which goes when it has ended.
    fn terminate(&mut self, kind: Kind, which: u8) {
        let now = self.server.timestamp();
        self.change(kind, which, |object| !is_terminating(object), |object| object["metadata"]["deletionTimestamp"] = json!(now));
    }

    fn change(&mut self, kind: Kind, which: u8, fits: impl Fn(&Value) -> bool, change: impl FnOnce(&mut Value)) {
        if let Some(name) = self.choose(kind, which, fits) {
            self.server.update(kind, &name, change).unwrap();
        }
    }

    fn remove(&mut self, kind: Kind, which: u8, fits: impl Fn(&Value) -> bool) {
        if let Some(name) = self.choose(kind, which, fits) {
            self.server.remove(kind, &name).unwrap();
        }
    }

    fn choose(&self, kind: Kind, which: u8, fits: impl Fn(&Value) -> bool) -> Option<String> {
        let names: Vec<_> = self.server.all(kind).filter(|(_, object)| fits(object)).map(|(name, _)| name).collect();
        names.get(which as usize % names.len().max(1)).map(|name| (*name).to_owned())
    }
}

/// Somebody else controls it.
pub fn is_seized(claim: &Value) -> bool {
    owners_of(claim).iter().any(|owner| owner["kind"] == "Backup")
}

fn ready(status: &str, now: &str) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": now}]})
}
