//! The programs of a control plane, built from Go modules into a cache folder outside the clone.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// A program that `build.sh` builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// The store behind the API servers.
    Etcd,
    /// The API server.
    ApiServer,
    /// Upstream's controllers: those that ours need beside them, and the reference for ours.
    ControllerManager,
    /// Upstream's scheduler.
    Scheduler,
    /// The command line client.
    Kubectl,
}

impl Program {
    /// All of them, cheapest to wait for first.
    pub const ALL: [Self; 5] = [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Kubectl];

    /// The name of its file.
    pub fn file(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file())
    }
}

/// A folder with the programs of one Kubernetes release.
#[derive(Debug, Clone)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// Builds `programs` of `release` (or of `K8S_VERSION`, or of the default release) unless they are there already. Blocks, for minutes
    /// the first time; progress goes to standard error.
    pub fn build(release: Option<&str>, programs: &[Program]) -> Result<Self> {
        let script = source_folder().join("build.sh");
        let mut build = Command::new(&script);
        build.args(programs.iter().map(|program| program.file())).stdin(Stdio::null()).stderr(Stdio::inherit());
        if let Some(release) = release {
            build.env("K8S_VERSION", release);
        }
        let output = build.output().with_context(|| format!("run {}", script.display()))?;
        ensure!(output.status.success(), "{} failed ({}); see its messages above", script.display(), output.status);
        let folder = String::from_utf8(output.stdout).context("name of the build folder")?;
        Ok(Self { folder: PathBuf::from(folder.trim_end()) })
    }

    /// A folder with programs built elsewhere.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a program, which must be there.
    pub fn path(&self, program: Program) -> Result<PathBuf> {
        let path = self.folder.join(program.file());
        ensure!(path.is_file(), "{} is not there: build it with e2e/controlplane/build.sh", path.display());
        Ok(path)
    }

    /// The Kubernetes release, from the folder's name: `build.sh` calls it release-pins.
    pub fn release(&self) -> Result<&str> {
        let name = self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (release, _) = name.split_once('-').with_context(|| format!("{} is not named after a release", self.folder.display()))?;
        Ok(release)
    }
}

/// The folder of the Go module with the pins, in the clone.
pub fn source_folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/controlplane"))
}
