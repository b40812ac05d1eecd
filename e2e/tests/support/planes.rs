//! Control planes that are lent out one scenario at a time: two programs at work on one would do each other's work.

use std::sync::{Arc, Mutex};

use anyhow::Result;
use e2e::{ControlPlane, process};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::scenarios::Context;

/// No more than `AT_ONCE` of them are lent at a time: more would only wait for each other's processor time.
pub struct Planes<const AT_ONCE: usize> {
    idle: Mutex<Vec<ControlPlane>>,
    turns: Arc<Semaphore>,
}

impl<const AT_ONCE: usize> Context for Planes<AT_ONCE> {
    async fn start() -> Result<Self> {
        process::binary()?;
        Ok(Self { idle: Mutex::default(), turns: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    async fn stop(&mut self) -> Result<()> {
        Ok(())
    }
}

impl<const AT_ONCE: usize> Planes<AT_ONCE> {
    /// One that is idle, or else a new one; and the turn, to be held for as long.
    pub async fn lend(&self) -> Result<(ControlPlane, OwnedSemaphorePermit)> {
        let turn = Arc::clone(&self.turns).acquire_owned().await?;
        let idle = self.idle.lock().unwrap().pop();
        let plane = match idle {
            Some(plane) => plane,
            None => ControlPlane::builder().start().await?,
        };
        Ok((plane, turn))
    }

    /// For the next scenario; the last one has left it clean.
    pub fn take_back(&self, plane: ControlPlane) {
        self.idle.lock().unwrap().push(plane);
    }
}
