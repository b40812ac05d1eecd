//! A child process that serves its health.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::child::{Child, Usage};
use crate::endpoint::Endpoint;
use crate::wait;

/// How long a server may take to end after SIGTERM, unless a test says otherwise.
const GRACE: Duration = Duration::from_secs(30);

/// A running server. Dropping it kills it and waits for its end.
#[derive(Debug)]
pub struct Server {
    process: Child,
    endpoint: Endpoint,
}

impl Server {
    /// Joins a process with the address that it serves.
    pub fn new(process: Child, endpoint: Endpoint) -> Self {
        Self { process, endpoint }
    }

    /// Waits until a GET of `path` is answered with 200; fails at once, with the end of the log, if the process ends.
    pub async fn ready(&mut self, path: &str, within: Duration) -> Result<()> {
        let what = format!("{} to answer {path}", self.process.name());
        let answered = wait::until(&what, within, async || {
            self.process.ensure_running().map_err(wait::give_up)?;
            self.endpoint.text(path).await.map(drop)
        });
        let answered = answered.await;
        // A process that has ended has said so already.
        let log = |error: anyhow::Error| match self.process.exited() {
            Ok(None) => error.context(format!("the end of {}:\n{}", self.process.log().display(), self.process.log_tail(20))),
            _ => error,
        };
        answered.map_err(log)
    }

    /// The process.
    pub fn process(&self) -> &Child {
        &self.process
    }

    /// The process, to send it signals.
    pub fn process_mut(&mut self) -> &mut Child {
        &mut self.process
    }

    /// Its address, for health, metrics and debug pages.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The file with everything it printed.
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Everything it has printed so far.
    pub fn printed(&self) -> Result<String> {
        std::fs::read_to_string(self.log()).with_context(|| format!("read {}", self.log().display()))
    }

    /// Memory and processor time so far.
    pub fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }

    /// SIGTERM, and its end within 30 s.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        self.process.terminate(GRACE).await
    }

    /// SIGKILL, and its end.
    pub fn kill9(&mut self) -> Result<ExitStatus> {
        self.process.kill9()
    }
}
