//! The sandbox around a cluster: namespaces and a cgroup, made by `node/sandbox.sh`.
//!
//! A program [`enter`]s it by running itself once more, inside. What it starts there ends with it, however it ends.

use std::convert::Infallible;
use std::ffi::OsString;
use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// What the script tells by its exit code: this machine cannot.
const CANNOT: i32 = 3;

/// The sandbox that this process is in.
#[derive(Debug, Clone)]
pub struct Sandbox {
    folder: PathBuf,
    cgroup: String,
    address: IpAddr,
}

impl Sandbox {
    /// Where this process is.
    pub fn current() -> Result<Self> {
        let variable = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set: this process is in no sandbox"));
        let address = variable("NODE_ADDRESS")?.parse().context("NODE_ADDRESS")?;
        Ok(Self { folder: variable("NODE_FOLDER")?.into(), cgroup: variable("NODE_CGROUP")?, address })
    }

    /// A folder for everything, by the same name inside and outside.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The address of the machine.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    pub(super) fn cgroup(&self) -> &str {
        &self.cgroup
    }

    pub(super) fn log(&self, program: &str) -> PathBuf {
        self.folder.join("log").join(format!("{program}.log"))
    }
}

/// Whether this process is in a sandbox.
pub fn inside() -> bool {
    std::env::var_os("NODE_FOLDER").is_some()
}

/// Why this machine cannot have one, in a sentence, or nothing if it can. Debian packages that are missing are installed first.
pub fn refusal() -> Result<Option<String>> {
    let mut check = script();
    let output = check.arg("--check").stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("run sandbox.sh --check")?;
    match output.status.code() {
        Some(0) => Ok(None),
        Some(CANNOT) => Ok(Some(String::from_utf8(output.stdout).context("what sandbox.sh printed")?.trim_end().to_owned())),
        _ => bail!("sandbox.sh --check failed ({})", output.status),
    }
}

/// The command that runs another one in a sandbox with this folder, which must not be there yet.
pub fn command(folder: &Path, program: &Path, arguments: impl IntoIterator<Item = OsString>) -> Command {
    let mut command = script();
    command.arg(folder).arg(program).args(arguments);
    command
}

/// Replaces this process by itself, with the same arguments, in a sandbox with a new folder below the cache's `nodes`.
pub fn enter() -> Result<Infallible> {
    let program = std::env::current_exe().context("path of the running program")?;
    let folder = cache()?.join("nodes").join(std::process::id().to_string());
    let error = command(&folder, &program, std::env::args_os().skip(1)).exec();
    Err(error).context("run sandbox.sh")
}

/// The cache folder, as `build.sh` finds it.
pub fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("WCM_CACHE").or_else(|| {
        let caches = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
        Some(caches.join("workloads-controller-manager"))
    });
    folder.context("neither WCM_CACHE nor XDG_CACHE_HOME nor HOME is set")
}

/// The folder of the scripts, in the clone.
pub(super) fn source_folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/node"))
}

fn script() -> Command {
    Command::new(source_folder().join("sandbox.sh"))
}
