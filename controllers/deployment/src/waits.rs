//! What a rollout that is not complete waits for, besides what keeps its sizes.

use model::deployment::DeploymentStatus;
use model::plan::{Rule, Wait};

use crate::conditions::{PROGRESS_DEADLINE_EXCEEDED, PROGRESSING};
use crate::status::due;
use crate::sync::Sync;

// === impl Sync ===

impl Sync<'_> {
    pub(crate) fn note_waits(&mut self, status: &DeploymentStatus) {
        let failure = self.replica_failure().map(|failure| Wait::new(Rule::ReplicaFailure).saying(failure.message.as_str()));
        self.waits.extend(failure);
        if self.is_complete(status) {
            return;
        }
        if let Some(new) = self.new.as_ref().filter(|new| new.available() < new.replicas) {
            let figures = [("new", new.replicas), ("available", new.available())];
            self.waits.push(Wait::on(Rule::PodsNotReady, &new.key.name).counting(&figures));
        }
        let Some(seconds) = self.deployment.spec.progress_deadline() else { return };
        let Some(progressing) = status.condition(PROGRESSING) else { return };
        let rule = if progressing.reason == PROGRESS_DEADLINE_EXCEEDED { Rule::ProgressDeadlineExceeded } else { Rule::ProgressDeadline };
        let until = due(progressing, seconds).filter(|_| rule == Rule::ProgressDeadline);
        self.waits.push(Wait::new(rule).counting(&[("progressDeadlineSeconds", seconds)]).until(until));
    }
}
