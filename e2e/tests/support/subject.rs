//! Whose controllers the scenarios are about.

use anyhow::{Result, bail, ensure};
use e2e::controlplane::{AuditedRequest, ControlPlane, ControllerManager, SERVICE_ACCOUNT_USER};
use e2e::{Server, process};

use super::Space;

/// Who runs the controllers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// Our program.
    Ours,
    /// kube-controller-manager: it proves the expectations.
    Upstream,
}

/// A subject at work.
pub struct Running {
    subject: Subject,
    server: Server,
}

// === impl Subject ===

impl Subject {
    /// The one that the environment's `SUBJECT` names; without it, ours.
    pub fn chosen() -> Result<Self> {
        let subject = match std::env::var("SUBJECT").as_deref() {
            Err(_) | Ok("" | "workloads-controller-manager") => Self::Ours,
            Ok("kube-controller-manager") => Self::Upstream,
            Ok(other) => bail!("SUBJECT={other}: it is workloads-controller-manager or kube-controller-manager"),
        };
        if subject == Self::Ours {
            process::binary()?;
        }
        Ok(subject)
    }

    /// Starts these controllers.
    pub async fn start(self, plane: &ControlPlane, controllers: &[&str]) -> Result<Running> {
        let controllers = controllers.iter().copied();
        let server = match self {
            Self::Ours => plane.launch().controllers(controllers).rate(1000, 1000).start().await?,
            Self::Upstream => plane.run_controller_manager(&ControllerManager::only(controllers).unlimited()).await?,
        };
        Ok(Running { subject: self, server })
    }

    /// How many requests of these controllers `which` accepts, in this namespace. The log is late by a moment: wait for a count.
    pub fn requests(
        self,
        plane: &ControlPlane,
        controllers: &[&str],
        space: &Space,
        which: impl Fn(&AuditedRequest) -> bool,
    ) -> Result<usize> {
        let users: Vec<_> = match self {
            Self::Ours => vec![SERVICE_ACCOUNT_USER.to_owned()],
            Self::Upstream => controllers.iter().map(|name| format!("system:serviceaccount:kube-system:{name}")).collect(),
        };
        let is_ours = |request: &AuditedRequest| users.contains(&request.kind.user) && request.namespace == space.namespace;
        plane.audit()?.count(|request| is_ours(request) && which(request))
    }
}

// === impl Running ===

impl Running {
    /// What it has logged so far.
    pub fn log(&self) -> Result<String> {
        self.server.printed()
    }

    /// Ends it in order, and looks for traces of panics.
    pub async fn stop(&mut self) -> Result<()> {
        match self.subject {
            Subject::Ours => {
                let status = self.server.terminate().await?;
                ensure!(status.success(), "the program ended with {status}");
            }
            // It has no orderly end without leader election.
            Subject::Upstream => drop(self.server.kill9()?),
        }
        ensure!(!self.log()?.to_lowercase().contains("panic"), "the log speaks of a panic");
        Ok(())
    }
}
