//! What others do to the world: users and kubelets.

use serde_json::{Value, json};

use super::server::{Kind, finished};
use super::truth::is_ready;
use super::{WEB, World};
use crate::support::merge;

/// What a user does.
#[derive(Clone, Copy, Debug)]
pub enum User {
    SetTemplate(u8),
    Scale(u8),
    Pause(bool),
    Recreate,
    /// Surge and unavailable, out of [`FENCEPOSTS`].
    Roll(u8),
    SetMinReady(bool),
    Annotate(u8),
    /// By the annotation.
    RollBack(u8),
    /// Takes a ReplicaSet's owner away.
    Orphan(u8),
    /// Notes another size on a ReplicaSet.
    Mislead(u8),
    DeletePod(u8),
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

pub const FENCEPOSTS: [(&str, &str); 7] = [("1", "0"), ("0", "1"), ("2", "1"), ("1", "2"), ("25%", "25%"), ("100%", "0"), ("0", "50%")];

// === impl World ===

impl World {
    pub fn user(&mut self, user: User) {
        self.tell(format!("user: {user:?}"));
        match user {
            User::SetTemplate(version) => {
                self.change_web(
                    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": format!("web:v{version}")}]}}}}),
                );
            }
            User::Scale(replicas) => self.change_web(json!({"spec": {"replicas": replicas}})),
            User::Pause(paused) => self.change_web(json!({"spec": {"paused": paused}})),
            User::Recreate => self.change_web(json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}})),
            User::Roll(which) => {
                let (surge, unavailable) = FENCEPOSTS[which as usize % FENCEPOSTS.len()];
                let [surge, unavailable] = [surge, unavailable].map(|text| text.parse::<i32>().map_or(json!(text), |count| json!(count)));
                let fenceposts = json!({"maxSurge": surge, "maxUnavailable": unavailable});
                self.change_web(json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": fenceposts}}}));
            }
            User::SetMinReady(slow) => self.change_web(json!({"spec": {"minReadySeconds": if slow { 3 } else { 0 }}})),
            User::Annotate(note) => self.change_web(json!({"metadata": {"annotations": {"note": note.to_string()}}})),
            User::RollBack(to) => {
                self.change_web(json!({"metadata": {"annotations": {"deprecated.deployment.rollback.to": to.to_string()}}}));
            }
            User::Orphan(which) => self.change_set(which, json!({"metadata": {"ownerReferences": null}})),
            User::Mislead(which) => {
                self.change_set(which, json!({"metadata": {"annotations": {"deployment.kubernetes.io/desired-replicas": "77"}}}));
            }
            User::DeletePod(which) => {
                let now = self.server.timestamp();
                self.change_pod(
                    which,
                    |pod| pod["metadata"].get("deletionTimestamp").is_none(),
                    |pod| pod["metadata"]["deletionTimestamp"] = json!(now),
                );
            }
        }
        self.look();
    }

    pub fn kubelet(&mut self, what: Kubelet, which: u8) {
        let now = self.server.timestamp();
        let ready =
            |status: &str| json!({"phase": "Running", "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": now}]});
        let terminates = |pod: &Value| pod["metadata"].get("deletionTimestamp").is_some();
        match what {
            Kubelet::Ready => {
                // Which makes nothing worse.
                let names = self.pod_names();
                let Some(name) = names.get(which as usize % names.len().max(1)) else { return };
                self.make_ready(name);
            }
            Kubelet::Unready => self.change_pod(which, is_ready, |pod| pod["status"] = ready("False")),
            Kubelet::Failed => self.change_pod(which, |pod| !finished(pod), |pod| pod["status"] = json!({"phase": "Failed"})),
            Kubelet::Ended => self.end_pod(which, terminates),
            Kubelet::Lost => {
                self.bounds.made_worse();
                self.end_pod(which, |_| true);
            }
        }
        self.look();
    }

    /// All pods that are to come up come up, all that are to end end.
    pub fn good_kubelets(&mut self) {
        for name in self.pod_names() {
            let Some(pod) = self.server.get(Kind::Pod, &name).cloned() else { continue };
            if pod["metadata"].get("deletionTimestamp").is_some() {
                self.server.remove(Kind::Pod, &name).unwrap();
            } else {
                self.make_ready(&name);
            }
            self.look();
        }
    }

    fn make_ready(&mut self, name: &str) {
        let now = self.server.timestamp();
        let node = self.server.version_of(Kind::Pod) % 3;
        let changed = self.server.update(Kind::Pod, name, |pod| {
            if is_ready(pod) || finished(pod) {
                return;
            }
            pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}]});
            if pod["spec"].get("nodeName").is_none() {
                pod["spec"]["nodeName"] = json!(format!("n{node}"));
            }
        });
        changed.unwrap();
    }

    fn change_web(&mut self, change: Value) {
        self.server.update(Kind::Deployment, WEB, |web| merge(web, change)).unwrap();
        self.bounds.deployment_changed(&self.server);
    }

    fn change_set(&mut self, which: u8, change: Value) {
        let names = self.set_names();
        let Some(name) = names.get(which as usize % names.len().max(1)) else { return };
        self.server.update(Kind::ReplicaSet, name, |set| merge(set, change)).unwrap();
        self.bounds.made_worse();
    }

    fn change_pod(&mut self, which: u8, fits: impl Fn(&Value) -> bool, change: impl FnOnce(&mut Value)) {
        let names: Vec<_> = self.server.all(Kind::Pod).filter(|(_, pod)| fits(pod)).map(|(name, _)| name.to_owned()).collect();
        let Some(name) = names.get(which as usize % names.len().max(1)) else { return };
        self.server.update(Kind::Pod, name, change).unwrap();
        self.bounds.made_worse();
    }

    fn end_pod(&mut self, which: u8, fits: impl Fn(&Value) -> bool) {
        let names: Vec<_> = self.server.all(Kind::Pod).filter(|(_, pod)| fits(pod)).map(|(name, _)| name.to_owned()).collect();
        if let Some(name) = names.get(which as usize % names.len().max(1)) {
            self.server.remove(Kind::Pod, name).unwrap();
        }
    }
}
