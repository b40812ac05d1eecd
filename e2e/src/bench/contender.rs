//! The two that are compared.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::controlplane::{ControlPlane, ControllerManager};
use crate::{Server, wait};

/// The limiter is open for both: it is not what is measured.
const RATE: u32 = 5000;

/// The only controller that both run.
const CONTROLLER: &str = "replicaset-controller";

/// Who runs the ReplicaSet controller.
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
    /// Starts it and returns at once: the start itself is measured.
    pub(super) fn spawn(self, plane: &ControlPlane) -> Result<Server> {
        match self {
            Self::Ours => plane.launch().controllers([CONTROLLER]).rate(RATE, RATE).spawn(),
            Self::Kcm => plane.spawn_controller_manager(&ControllerManager::only([CONTROLLER]).unlimited()),
        }
    }

    /// Waits until it has read the cluster and begins to work, as its log says.
    pub(super) async fn synced(self, server: &mut Server, within: Duration) -> Result<()> {
        wait::until(&format!("the caches of {self}"), within, async || {
            server.process_mut().ensure_running().map_err(wait::give_up)?;
            let log = std::fs::read_to_string(server.log())?;
            ensure!(log.lines().any(|line| self.says_synced(line)), "{} lines of log, none of them about it", log.lines().count());
            Ok(())
        })
        .await
    }

    fn says_synced(self, line: &str) -> bool {
        match self {
            Self::Ours => line.contains("Caches synced"),
            // KCM's own configuration is cached too, and says the same.
            Self::Kcm => line.contains("Caches are synced") && line.to_lowercase().contains("replicaset"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kcm_is_synced_when_its_controller_is() {
        let line = |rest: &str| {
            Contender::Kcm.says_synced(&format!(r#"I0101 00:00:00.000000 1 shared_informer.go:531] "Caches are synced" {rest}"#))
        };
        assert!(line(r#"logger="replicaset-controller""#));
        assert!(line(r#"controller="ReplicaSet""#));
        assert!(!line(r#"controller="client-ca::kube-system::extension-apiserver-authentication::requestheader-client-ca-file""#));
    }
}
