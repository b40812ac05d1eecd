//! What the scenarios share: a control plane whose API server guards owner references, and simulated nodes.

use std::rc::Rc;

use anyhow::Result;
use e2e::controlplane::{ControlPlane, ControllerManager};
use e2e::process;
use nodes::Fleet;
use tokio::sync::{Mutex, MutexGuard};

use crate::support::pods::fleet;
use crate::support::scenarios::Context;

/// Programs that run the controllers take turns: they would do each other's work.
pub(crate) struct World {
    // Fields are dropped in this order: clients end before their servers.
    _fleet: Fleet,
    plane: Mutex<ControlPlane>,
}

/// Shortens the scenarios' signatures.
pub(crate) type Shared = Rc<World>;

// === impl World ===

impl World {
    /// The control plane, for as long as nobody else may have it.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ControlPlane> {
        self.plane.lock().await
    }
}

impl Context for World {
    async fn start() -> Result<Self> {
        process::binary()?;
        // A streaming list is a watch: the right to list is needed where there is none, and to look for what got no answer.
        let builder = ControlPlane::builder().feature_gate("WatchList", false);
        let builder = builder.admission_plugin("OwnerReferencesPermissionEnforcement").audit();
        let plane = builder.controller_manager(ControllerManager::default().unlimited()).start().await?;
        Ok(Self { _fleet: fleet(&plane).await?, plane: Mutex::new(plane) })
    }

    async fn stop(&mut self) -> Result<()> {
        Ok(())
    }
}
