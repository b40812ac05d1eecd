//! Kubernetes' own integration tests of the three controllers, run against a controller in another process.
//!
//! Upstream's `test/integration/{replicaset,deployment,statefulset}` start an API server and the controllers in the test's own process. Here
//! they are copied out of the module cache into a scratch folder, changed to run a program instead of the controllers (see
//! `patches.rs`; the stand-in is `external.go`), built, and run. Nothing of upstream's is kept in the clone.

mod behind;
mod passed;
mod patches;
mod results;
mod scratch;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

pub use behind::run_behind_faults;
pub use passed::{is_recorded_for, passed_by_reference, record};
pub use results::{Outcome, Results};

use crate::child::Child;
use crate::controlplane::{Binaries, Program, etcd};
use crate::{ports, process, wait};
use patches::Patch;
use scratch::Scratch;

/// One package of upstream's tests.
#[derive(Debug)]
pub struct Package {
    name: &'static str,
    controllers: &'static str,
    patches: &'static [Patch],
    expected_failures: &'static [(&'static str, &'static str)],
}

/// The packages; `expected_failures` are tests that may fail, each with the reason.
static PACKAGES: [Package; 3] = [
    Package { name: "replicaset", controllers: "replicaset-controller", patches: patches::REPLICASET, expected_failures: &[] },
    Package {
        name: "deployment",
        controllers: "deployment-controller,replicaset-controller",
        patches: patches::DEPLOYMENT,
        expected_failures: &[],
    },
    Package { name: "statefulset", controllers: "statefulset-controller", patches: patches::STATEFULSET, expected_failures: &[] },
];

impl Package {
    /// A package by the name of its folder.
    pub fn named(name: &str) -> Result<&'static Self> {
        PACKAGES.iter().find(|package| package.name == name).with_context(|| format!("no package {name} of upstream's tests is known"))
    }

    /// The name of its folder.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Why a test of this package may fail, if it may.
    pub fn expected_failure(&self, test: &str) -> Option<&'static str> {
        self.expected_failures.iter().find(|(name, _)| *name == test).map(|(_, reason)| *reason)
    }
}

/// The program that upstream's tests run against.
#[derive(Debug, Clone)]
pub enum Outside {
    /// `workloads-controller-manager`, this file or where [`process::binary`] finds it.
    Ours(Option<PathBuf>),
    /// kube-controller-manager: shows that it is the program that fails, not the way of testing it.
    Reference,
}

/// Which of a package's tests to run.
#[derive(Debug, Clone)]
pub enum Choice {
    /// Those that this expression, as Go's `-test.run` has it, finds.
    Matching(String),
    /// Those that kube-controller-manager passes behind the fault proxy.
    PassedByReference,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Suite {
    /// A Kubernetes release; by default as [`Binaries::build`] has it.
    pub release: Option<String>,
    /// The program under test.
    pub outside: Outside,
    /// More arguments for it.
    pub flags: Vec<String>,
    /// Whether it runs behind the fault proxy.
    pub faults: bool,
    /// Which tests.
    pub choice: Choice,
    /// The limit for one package.
    pub timeout: Duration,
}

/// A suite ready to run its packages.
#[derive(Debug)]
pub struct Prepared {
    suite: Suite,
    binaries: Binaries,
    scratch: Scratch,
}

impl Suite {
    /// Builds etcd and what else is needed, and opens the scratch folder. Blocks.
    pub fn prepare(self) -> Result<Prepared> {
        let programs: &[Program] = match self.outside {
            Outside::Ours(_) => &[Program::Etcd],
            Outside::Reference => &[Program::Etcd, Program::ControllerManager],
        };
        let binaries = Binaries::build(self.release.as_deref(), programs)?;
        let scratch = Scratch::open(&binaries)?;
        Ok(Prepared { suite: self, binaries, scratch })
    }
}

impl Prepared {
    /// Builds the test program of a package. Blocks, for minutes where nothing is cached.
    pub fn build(&self, package: &Package) -> Result<PathBuf> {
        self.scratch.build(package)
    }

    /// The release whose tests they are.
    pub fn release(&self) -> Result<&str> {
        self.binaries.release()
    }

    /// Where a package's output and the outside process' log are.
    pub fn logs(&self, package: &Package) -> (PathBuf, PathBuf) {
        let log = |what: &str| self.scratch.folder().join(format!("{}.{what}log", package.name));
        (log(""), log("external."))
    }

    /// Runs the tests of a package, and prints each one's end as it comes. Blocks at first, if they are not built yet.
    pub async fn run(&self, package: &Package) -> Result<Results> {
        let program = self.build(package)?;
        let temporary = tempfile::Builder::new().prefix("upstream-").tempdir()?;
        let etcd_port = ports::free()?;
        let command = etcd(&self.binaries, &temporary.path().join("etcd"), etcd_port, ports::free()?)?;
        let mut store = Child::spawn("etcd", &command, temporary.path().join("etcd.log"))?;
        wait::until("etcd to listen", Duration::from_secs(30), async || {
            store.ensure_running().map_err(wait::give_up)?;
            tokio::net::TcpStream::connect(("127.0.0.1", etcd_port)).await.map(drop).context("connect")
        })
        .await?;

        let (log, external_log) = self.logs(package);
        for file in [&log, &external_log] {
            fs::write(file, "")?;
        }
        let mut command = Command::new(program);
        let seconds = self.suite.timeout.as_secs();
        command.args(["-test.v", &format!("-test.run={}", self.suite.choice.expression(package)), &format!("-test.timeout={seconds}s")]);
        command.current_dir(self.scratch.folder().join(package.name));
        command.env("KUBE_INTEGRATION_ETCD_URL", format!("http://127.0.0.1:{etcd_port}"));
        command.env("EXTERNAL_COMMAND", serde_json::to_string(&self.outside(package)?)?);
        command.env("EXTERNAL_LOG", &external_log).env("TMPDIR", temporary.path());
        let tests = Child::spawn(package.name, &command, &log)?;
        self.follow(tests, &log).await
    }

    /// Prints the ends of tests until the program ends.
    async fn follow(&self, mut tests: Child, log: &Path) -> Result<Results> {
        let mut printed = 0;
        // Go ends the tests by itself at the limit; this one is for a program that does not.
        let limit = self.suite.timeout + Duration::from_mins(1);
        let ended = wait::until("the tests", limit, async || {
            let status = tests.exited()?;
            let output = fs::read_to_string(log)?;
            for line in output.lines().filter(|line| line.starts_with("--- ")).skip(printed) {
                writeln!(std::io::stderr(), "{line}")?;
                printed += 1;
            }
            status.with_context(|| format!("running, with {printed} tests done"))
        });
        let status = ended.await?;
        let results = Results::parse(&fs::read_to_string(log)?);
        // A program that fails without a failed test did not run them all.
        if !status.success() && results.count(Outcome::Fail) == 0 {
            bail!("the test program failed ({status}); the end of {}:\n{}", log.display(), tests.log_tail(20));
        }
        Ok(results)
    }

    /// The outside process' command line, to which `external.go` adds kubeconfig, feature gates, and a lease of its own.
    fn outside(&self, package: &Package) -> Result<Vec<String>> {
        let program = match &self.suite.outside {
            Outside::Ours(Some(file)) => fs::canonicalize(file).with_context(|| format!("no program {}", file.display()))?,
            Outside::Ours(None) => process::binary()?,
            Outside::Reference => self.binaries.path(Program::ControllerManager)?,
        };
        let mut command = Vec::new();
        if self.suite.faults {
            command.extend([text(std::env::current_exe()?)?, "behind-faults".to_owned()]);
        }
        command.push(text(program)?);
        command.push(format!("--controllers={}", package.controllers));
        // In-process controllers have no limiter, and some tests need its absence.
        command.extend(["--leader-elect", "--kube-api-qps=5000", "--kube-api-burst=5000", "--bind-address=127.0.0.1"].map(str::to_owned));
        command.push(format!("--secure-port={}", ports::free()?));
        command.extend(self.suite.flags.iter().cloned());
        Ok(command)
    }
}

// === impl Choice ===

impl Choice {
    /// As `-test.run` has it.
    fn expression(&self, package: &Package) -> String {
        match self {
            Self::Matching(expression) => expression.clone(),
            Self::PassedByReference => format!("^({})$", passed_by_reference(package).join("|")),
        }
    }
}

fn text(path: PathBuf) -> Result<String> {
    path.into_os_string().into_string().ok().context("a path that is no text")
}
