//! The programs of a node, built from Go modules into a cache folder outside the clone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::controlplane::source_folder;

/// Kubernetes' own end-to-end tests, and the program of their main image.
pub const TESTS: [&str; 2] = ["e2e.test", "agnhost"];

/// What `build.sh` builds for a node; Helm is for those who use the cluster.
const PROGRAMS: [&str; 6] = ["helm", "containerd", "containerd-shim-runc-v2", "ctr", "kubelet", "kube-proxy"];

/// The folders with the programs.
#[derive(Debug, Clone)]
pub struct Programs {
    folders: Vec<PathBuf>,
}

impl Programs {
    /// Builds what is not there yet: minutes the first time; progress goes to standard error.
    pub async fn build() -> Result<Self> {
        Self::build_all(&PROGRAMS).await
    }

    /// Builds these instead: [`TESTS`].
    pub async fn build_all(programs: &[&str]) -> Result<Self> {
        let script = source_folder().join("build.sh");
        let mut build = Command::new(&script);
        build.args(programs).stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = tokio::task::spawn_blocking(move || build.output()).await?.with_context(|| format!("run {}", script.display()))?;
        ensure!(output.status.success(), "{} failed ({}); see its messages above", script.display(), output.status);
        let folders = String::from_utf8(output.stdout).context("names of the build folders")?;
        Ok(Self { folders: folders.lines().map(PathBuf::from).collect() })
    }

    /// The file of a program.
    pub fn path(&self, program: &str) -> Result<PathBuf> {
        let found = self.folders.iter().map(|folder| folder.join(program)).find(|file| file.is_file());
        found.with_context(|| format!("{program} is in none of {:?}", self.folders))
    }

    /// `PATH` with these programs in front, and with the folders of system programs at its end.
    pub(super) fn search_path(&self) -> Result<OsString> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let system = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).to_owned());
        let folders = self.folders.iter().cloned().chain(std::env::split_paths(&path)).chain(system);
        std::env::join_paths(folders).context("PATH")
    }
}
