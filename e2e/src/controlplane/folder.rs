//! The temporary folder of one control plane.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

/// Removed on drop; but after a panic, or where the environment has `WCM_KEEP`, the logs stay and their place is printed.
#[derive(Debug)]
pub(super) struct Folder {
    temporary: Option<TempDir>,
    path: PathBuf,
    logs: AtomicUsize,
}

impl Folder {
    pub(super) fn create() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("controlplane-").tempdir().context("temporary folder")?;
        let path = folder.path().to_owned();
        Ok(Self { temporary: Some(folder), path, logs: AtomicUsize::new(0) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Where etcd keeps its data.
    pub(super) fn data(&self) -> PathBuf {
        self.join("etcd")
    }

    /// A log file that no other process writes.
    pub(super) fn new_log(&self, program: &str) -> PathBuf {
        self.join(format!("{program}-{}.log", self.logs.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() && std::env::var_os("WCM_KEEP").is_none() {
            return;
        }
        if let Some(folder) = self.temporary.take() {
            let kept = folder.keep();
            // Large, and of no use to a reader.
            let _ = fs::remove_dir_all(self.data());
            eprintln!("the control plane's logs are kept in {}", kept.display());
        }
    }
}
