//! Running `workloads-controller-manager` as a child process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::access::{self, Files};
use crate::child::Child;
use crate::controlplane::gates;
use crate::endpoint::Endpoint;
use crate::{Server, ports};

const PROGRAM: &str = "workloads-controller-manager";

/// How long the start may take, caches included, on a loaded machine.
const START: Duration = Duration::from_mins(1);

/// How to run the program. A [`Server`] comes of it.
#[derive(Debug, Clone)]
pub struct Launch {
    binary: Option<PathBuf>,
    kubeconfig: PathBuf,
    log: PathBuf,
    controllers: Vec<String>,
    feature_gates: Vec<(String, bool)>,
    leader_elect: bool,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Launch {
    /// Runs with this kubeconfig and appends what is printed to the file `log`.
    pub fn new(kubeconfig: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            binary: None,
            kubeconfig: kubeconfig.into(),
            log: log.into(),
            controllers: Vec::new(),
            feature_gates: Vec::new(),
            leader_elect: false,
            flags: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Another file than [`binary`]'s.
    #[must_use]
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = Some(binary.into());
        self
    }

    /// Another kubeconfig.
    #[must_use]
    pub fn kubeconfig(mut self, kubeconfig: impl Into<PathBuf>) -> Self {
        self.kubeconfig = kubeconfig.into();
        self
    }

    /// The controllers to run; without a call the program's default.
    #[must_use]
    pub fn controllers<I: IntoIterator<Item = S>, S: Into<String>>(mut self, controllers: I) -> Self {
        self.controllers = controllers.into_iter().map(Into::into).collect();
        self
    }

    /// Switches a feature gate.
    #[must_use]
    pub fn feature_gate(mut self, gate: &str, on: bool) -> Self {
        self.feature_gates.push((gate.to_owned(), on));
        self
    }

    /// Takes part in leader election, which is off without this.
    #[must_use]
    pub fn leader_elect(mut self) -> Self {
        self.leader_elect = true;
        self
    }

    /// Sets the client's rate limit.
    #[must_use]
    pub fn rate(self, qps: u32, burst: u32) -> Self {
        self.flag(format!("--kube-api-qps={qps}")).flag(format!("--kube-api-burst={burst}"))
    }

    /// One more argument, `--flag=value`.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// One more environment variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.environment.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Starts the program and waits until its `/healthz` answers.
    pub async fn start(&self) -> Result<Server> {
        let mut server = self.spawn()?;
        server.ready("/healthz", START).await?;
        Ok(server)
    }

    /// Starts the program without waiting: for starts that are meant to fail or to be watched.
    pub fn spawn(&self) -> Result<Server> {
        let binary = self.binary.clone().map_or_else(binary, Ok)?;
        let port = ports::free()?;
        Files::beside(&self.log).write()?;
        let child = Child::spawn(PROGRAM, &self.command(&binary, port), &self.log)?;
        let (reader, ca) = access::reader()?;
        Ok(Server::new(child, Endpoint::secure(&format!("https://127.0.0.1:{port}"), &ca, Some(reader))?))
    }

    fn command(&self, binary: &Path, port: u16) -> Command {
        let mut command = Command::new(binary);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        if !self.controllers.is_empty() {
            command.arg(format!("--controllers={}", self.controllers.join(",")));
        }
        if !self.feature_gates.is_empty() {
            command.arg(format!("--feature-gates={}", gates(&self.feature_gates)));
        }
        command.arg(format!("--leader-elect={}", self.leader_elect));
        command.arg("--bind-address=127.0.0.1").arg(format!("--secure-port={port}"));
        command.args(Files::beside(&self.log).flags());
        command.args(&self.flags).envs(self.environment.iter().map(|(key, value)| (key, value)));
        command
    }
}

/// The program to test: the environment's `WCM_BIN`, else the one of the same cargo profile as the running test.
pub fn binary() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("WCM_BIN") {
        let binary = PathBuf::from(binary);
        ensure!(binary.is_file(), "WCM_BIN names {}, which is no file", binary.display());
        return Ok(binary);
    }
    let here = std::env::current_exe().context("path of the running program")?;
    // Tests are in target/PROFILE/deps, programs in target/PROFILE.
    let candidates: Vec<_> = here.ancestors().skip(1).take(2).map(|folder| folder.join(PROGRAM)).collect();
    let found = candidates.iter().find(|file| file.is_file()).cloned();
    found.with_context(|| format!("{PROGRAM} is not built: run `cargo build` first, or name it in WCM_BIN (looked for {candidates:?})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_settings_come_last() {
        let launch = Launch::new("/k", "/l").controllers(["a", "b"]).feature_gate("G", false).rate(5, 6).flag("--v=2");
        let command = launch.command(Path::new("p"), 1);
        let args: Vec<_> = command.get_args().map(|arg| arg.to_str().unwrap()).collect();
        let expected = "--kubeconfig /k --controllers=a,b --feature-gates=G=false --leader-elect=false --bind-address=127.0.0.1 \
                        --secure-port=1 --tls-cert-file /l.serving/server.crt --tls-private-key-file /l.serving/server.key \
                        --client-ca-file /l.serving/ca.crt --kube-api-qps=5 --kube-api-burst=6 --v=2";
        assert_eq!(args.join(" "), expected);
    }
}
