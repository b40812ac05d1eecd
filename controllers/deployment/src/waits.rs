//! What a rollout that is not complete waits for, besides what keeps its sizes.

use model::deployment::DeploymentStatus;
use model::plan::{Rule, Wait};

use crate::conditions::{NEW_REPLICA_SET_AVAILABLE, PROGRESS_DEADLINE_EXCEEDED, PROGRESSING};
use crate::member::Member;
use crate::status::due;
use crate::sync::Sync;

// === impl Sync ===

impl Sync<'_> {
    pub(crate) fn note_waits(&mut self, status: &DeploymentStatus) {
        self.wait_for_replica_failure();
        if self.is_complete(status) {
            return;
        }
        self.wait_for_new_pods();
        self.wait_for_statuses();
        self.wait_for_progress(status);
    }

    /// A Deployment that is paused with nothing left to roll out waits for nothing.
    pub(crate) fn note_paused(&mut self) {
        if !self.deployment.spec.paused {
            return;
        }
        let old: i32 = self.old.iter().map(|member| member.replicas).sum();
        if self.new.is_none() || old > 0 || self.rollback_to().is_some() {
            let new = self.new.as_ref().map_or(0, |new| new.replicas);
            self.waits.push(Wait::new(Rule::Paused).counting(&[("new", new), ("old", old)]));
        }
        self.wait_for_replica_failure();
        self.wait_for_new_pods();
        self.wait_for_statuses();
    }

    fn wait_for_replica_failure(&mut self) {
        let failing = self.failing();
        let wait = failing.map(|(member, failure)| Wait::on(Rule::ReplicaFailure, &member.key.name).saying(failure.message.as_str()));
        self.waits.extend(wait);
    }

    fn wait_for_new_pods(&mut self) {
        let Some(new) = self.new.as_ref().filter(|new| new.available() < new.replicas) else { return };
        let (ready, available) = (new.status().map_or(0, |status| status.ready_replicas), new.available());
        let wait = if ready < new.replicas {
            Wait::on(Rule::PodsNotReady, &new.key.name).counting(&[("new", new.replicas), ("ready", ready), ("available", available)])
        } else {
            let seconds = self.deployment.spec.min_ready_seconds;
            let figures = [("ready", ready), ("available", available), ("minReadySeconds", seconds)];
            Wait::on(Rule::MinReadySeconds, &new.key.name).counting(&figures)
        };
        self.waits.push(wait);
    }

    /// Where nothing else is in the way: pods that a ReplicaSet was told to let go, and still counts.
    fn wait_for_statuses(&mut self) {
        if !self.waits.is_empty() {
            return;
        }
        let counted = |member: &Member| member.status().map_or(0, |status| status.replicas);
        let behind = self.all().find(|member| counted(member) > member.replicas);
        let wait = behind.map(|member| {
            let figures = [("size", member.replicas), ("pods", counted(member))];
            Wait::on(Rule::ReplicaSetStatusBehind, &member.key.name).counting(&figures)
        });
        self.waits.extend(wait);
    }

    fn wait_for_progress(&mut self, status: &DeploymentStatus) {
        let Some(seconds) = self.deployment.spec.progress_deadline() else { return };
        let Some(progressing) = status.condition(PROGRESSING) else { return };
        let rule = match progressing.reason.as_str() {
            // The rollout is over, and nothing that happens to its pods begins another.
            NEW_REPLICA_SET_AVAILABLE => return,
            PROGRESS_DEADLINE_EXCEEDED => Rule::ProgressDeadlineExceeded,
            _ => Rule::ProgressDeadline,
        };
        let until = due(progressing, seconds).filter(|_| rule == Rule::ProgressDeadline);
        self.waits.push(Wait::new(rule).counting(&[("progressDeadlineSeconds", seconds)]).until(until));
    }
}
