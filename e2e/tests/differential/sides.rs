//! Two control planes, one with the reference and one with the subject.

use std::rc::Rc;

use anyhow::{Result, bail, ensure};
use e2e::controlplane::{ControlPlane, ControllerManager};
use e2e::{Server, process};

use crate::cache::Cache;

/// What is compared.
const CONTROLLERS: [&str; 3] = ["deployment-controller", "replicaset-controller", "statefulset-controller"];

/// Claims have a finalizer, which it takes away.
const CLAIM_PROTECTION: &str = "persistentvolumeclaim-protection-controller";

/// A control plane with its controllers at work.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    pub(crate) plane: ControlPlane,
    pub(crate) cache: Rc<Cache>,
    subject: Server,
}

/// Both, the reference first.
pub(crate) struct Sides(pub(crate) [Side; 2]);

/// Who stands against KCM.
#[derive(Clone, Copy)]
enum Subject {
    Ours,
    Kcm,
}

impl Subject {
    fn from_environment() -> Result<Self> {
        match std::env::var("SUBJECT").as_deref() {
            Err(_) | Ok("workloads-controller-manager") => Ok(Self::Ours),
            Ok("kube-controller-manager") => Ok(Self::Kcm),
            Ok(other) => bail!("SUBJECT={other}: it is workloads-controller-manager or kube-controller-manager"),
        }
    }

    async fn start(self, plane: &ControlPlane) -> Result<Server> {
        match self {
            Self::Ours => plane.launch().controllers(CONTROLLERS).rate(5000, 5000).start().await,
            Self::Kcm => plane.run_controller_manager(&ControllerManager::only(CONTROLLERS).unlimited()).await,
        }
    }
}

impl Side {
    async fn start(name: &'static str, subject: Subject) -> Result<Self> {
        let plane =
            ControlPlane::builder().controller_manager(ControllerManager::default().with(CLAIM_PROTECTION).unlimited()).start().await?;
        let cache = Cache::start(plane.admin()).await?;
        let subject = subject.start(&plane).await?;
        Ok(Self { name, plane, cache, subject })
    }
}

impl Sides {
    /// Starts everything.
    pub(crate) async fn start() -> Result<Self> {
        let subject = Subject::from_environment()?;
        let name = match subject {
            Subject::Ours => {
                process::binary()?;
                "ours"
            }
            Subject::Kcm => "KCM again",
        };
        let (reference, subject) = tokio::try_join!(Side::start("KCM", Subject::Kcm), Side::start(name, subject))?;
        Ok(Self([reference, subject]))
    }

    /// Ends the subject in order, and looks at what it has said.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        let [_, subject] = &mut self.0;
        let status = subject.subject.terminate().await?;
        let log = subject.subject.printed()?;
        ensure!(!log.contains("panicked"), "the program's log speaks of a panic");
        ensure!(status.success() || subject.name != "ours", "the program ended with {status}");
        Ok(())
    }
}
