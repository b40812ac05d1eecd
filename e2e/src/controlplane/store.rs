//! Taking a cluster back in time, as the restore of an etcd backup does.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::ControlPlane;
use crate::child::Child;

/// etcd ends in milliseconds unless the machine is busy.
const STOP: Duration = Duration::from_secs(30);

/// Everything that etcd held at one moment.
#[derive(Debug)]
pub struct Backup {
    data: TempDir,
}

impl ControlPlane {
    /// Copies what etcd holds. etcd stops for that; the API servers see it away for a moment, and are ready again at the end.
    pub async fn back_up_etcd(&mut self) -> Result<Backup> {
        self.etcd.terminate(STOP).await?;
        let data = TempDir::new()?;
        copy(&self.folder.data(), data.path())?;
        self.start_etcd().await?;
        Ok(Backup { data })
    }

    /// Puts a backup in the place of what etcd holds now. The running API servers are killed first, since they would serve what they
    /// remember, and started again: resource versions go back with the data.
    pub async fn restore_etcd(&mut self, backup: &Backup) -> Result<()> {
        let running: Vec<_> = (0..self.api_servers.len()).filter(|n| self.api_server(*n).is_ok_and(|it| it.server.is_some())).collect();
        for n in &running {
            self.kill9_api_server(*n)?;
        }
        self.etcd.terminate(STOP).await?;
        let data = self.folder.data();
        fs::remove_dir_all(&data).context("remove etcd's data")?;
        copy(backup.data.path(), &data)?;
        self.start_etcd().await?;
        for n in running {
            self.start_api_server(n).await?;
        }
        Ok(())
    }

    async fn start_etcd(&mut self) -> Result<()> {
        self.etcd = Child::spawn("etcd", &self.etcd_command, self.etcd.log().to_owned())?;
        self.await_api_servers().await
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    // etcd refuses a data folder that others may read.
    fs::set_permissions(to, fs::metadata(from)?.permissions()).context("permissions of etcd's data")
}
