//! A Prometheus: its programs, how it is started, and asked.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::child::Child;
use crate::endpoint::Endpoint;
use crate::{Server, ports};

const START: Duration = Duration::from_secs(60);

/// The folder with the programs of Prometheus.
#[derive(Debug, Clone)]
pub struct Programs(PathBuf);

/// A running Prometheus.
#[derive(Debug)]
pub struct Prometheus(Server);

#[derive(Deserialize)]
struct Answer<T> {
    data: T,
}

#[derive(Deserialize)]
struct Found {
    result: Vec<Sample>,
}

#[derive(Deserialize)]
struct Sample {
    metric: Value,
    /// A time, and the value then.
    value: (f64, String),
}

// === impl Programs ===

impl Programs {
    /// Finds them, or gets them: Debian's package, unpacked into the cache folder.
    pub async fn find() -> Result<Self> {
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/prometheus/programs.sh"));
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = tokio::task::spawn_blocking(move || command.output()).await?.context("run programs.sh")?;
        ensure!(output.status.success(), "programs.sh found no Prometheus");
        Ok(Self(String::from_utf8(output.stdout)?.trim_end().into()))
    }

    /// Runs promtool with an input; it must have nothing to say against it.
    pub async fn promtool(&self, args: &[&str], input: Option<&Path>) -> Result<String> {
        let mut command = Command::new(self.0.join("promtool"));
        let input = input.map_or_else(|| Ok(Stdio::null()), |file| std::fs::File::open(file).map(Stdio::from))?;
        command.args(args).stdin(input);
        let Output { status, stdout, stderr } = tokio::task::spawn_blocking(move || command.output()).await?.context("run promtool")?;
        let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        ensure!(status.success(), "promtool {args:?}: {status}\n{said}");
        Ok(said)
    }
}

// === impl Prometheus ===

impl Prometheus {
    /// Starts it in a folder, with this configuration.
    pub async fn start(programs: &Programs, folder: &Path, config: &Value) -> Result<Self> {
        // Every JSON is YAML.
        let file = folder.join("prometheus.yaml");
        std::fs::write(&file, config.to_string())?;
        let port = ports::free()?;
        let mut command = Command::new(programs.0.join("prometheus"));
        command.arg(format!("--config.file={}", file.display())).arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let child = Child::spawn("prometheus", &command, folder.join("prometheus.log"))?;
        let mut server = Server::new(child, Endpoint::new(&format!("http://127.0.0.1:{port}"), None, None)?);
        server.ready("/-/ready", START).await?;
        Ok(Self(server))
    }

    /// What an expression comes to now: labels and value of each series.
    pub async fn query(&self, expression: &str) -> Result<Vec<(Value, f64)>> {
        let mut encoded = String::new();
        for byte in expression.bytes() {
            write!(encoded, "%{byte:02X}")?;
        }
        let found: Found = self.ask(&format!("/api/v1/query?query={encoded}")).await.with_context(|| expression.to_owned())?;
        found.result.into_iter().map(|Sample { metric, value: (_, value) }| Ok((metric, value.parse()?))).collect()
    }

    /// The data of an answer of its API.
    pub async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let answer: Answer<T> = serde_json::from_str(&self.0.endpoint().text(path).await?)?;
        Ok(answer.data)
    }
}
