//! The two that are compared.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::controlplane::{ControlPlane, ControllerManager};
use crate::{Server, wait};

/// The limiter is open for both: it is not what is measured.
const RATE: u32 = 5000;

/// Who runs the controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Contender {
    /// `workloads-controller-manager`.
    Ours,
    /// kube-controller-manager.
    Kcm,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "ours",
            Self::Kcm => "KCM",
        })
    }
}

impl Contender {
    /// Starts it with these controllers and returns at once: the start itself is measured.
    pub(super) fn spawn(self, plane: &ControlPlane, controllers: &[&'static str]) -> Result<Server> {
        let controllers = controllers.iter().copied();
        match self {
            Self::Ours => plane.launch().controllers(controllers).rate(RATE, RATE).spawn(),
            Self::Kcm => plane.spawn_controller_manager(&ControllerManager::only(controllers).unlimited()),
        }
    }

    /// Ends it.
    pub(super) async fn stop(self, server: &mut Server) -> Result<()> {
        let status = server.terminate().await?;
        // How KCM ends is its own affair.
        let fine = self == Self::Kcm || status.success();
        ensure!(fine, "{self} ended with {status}:\n{}", server.process().log_tail(20));
        Ok(())
    }

    /// Waits until it has read the cluster and begins to work, as its log says.
    pub(super) async fn synced(self, server: &mut Server, within: Duration) -> Result<()> {
        wait::until(&format!("the caches of {self}"), within, async || {
            server.process_mut().ensure_running().map_err(wait::give_up)?;
            let log = server.printed()?;
            ensure!(self.says_synced(&log), "{} lines of log that do not say so", log.lines().count());
            Ok(())
        })
        .await
    }

    fn says_synced(self, log: &str) -> bool {
        match self {
            Self::Ours => log.contains("Caches synced"),
            // It does not say whose caches: a few of its own configuration's are among them, and quick. So all of them must be there,
            // and the controller must have begun to wait for its own.
            Self::Kcm => {
                let waits = |text: &str| text.matches("Waiting for caches to sync").count();
                let own = log.split_once("\"Starting controller\" name=\"replicaset\"").map_or(0, |(_, after)| waits(after));
                own > 0 && log.matches("Caches are synced").count() == waits(log)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kcm_is_synced_when_everything_is_that_its_controller_waits_for() {
        let wait = r#"I0101 shared_informer.go:524] "Waiting for caches to sync""#;
        let synced = r#"I0101 shared_informer.go:531] "Caches are synced""#;
        let start = r#"I0101 replica_set.go:285] "Starting controller" name="replicaset""#;
        for (log, want) in [
            (vec![], false),
            (vec![wait, synced], false),
            (vec![wait, synced, start], false),
            (vec![wait, start, wait, synced], false),
            (vec![wait, start, wait, synced, synced], true),
        ] {
            assert_eq!(Contender::Kcm.says_synced(&log.join("\n")), want, "{log:?}");
        }
    }
}
