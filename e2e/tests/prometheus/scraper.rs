//! A Prometheus of its own: how it is configured, and asked.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::child::Child;
use e2e::endpoint::Endpoint;
use e2e::{Server, ports};
use serde_json::{Value, json};

use crate::support::text;

/// How often everything is scraped and every rule is evaluated.
const INTERVAL: &str = "1s";
const START: Duration = Duration::from_secs(60);

/// The metrics that kube-prometheus throws away of kube-controller-manager: nothing of ours may bear their names.
const DROPPED: [&str; 6] = [
    "scheduler_(e2e_scheduling_latency_microseconds|scheduling_latency_seconds|binding_latency_microseconds)",
    "apiserver_(request_count|request_latencies|request_latencies_summary|dropped_requests|longrunning_gauge|registered_watchers)",
    "reflector_(items_per_list|items_per_watch|list_duration_seconds|lists_total|short_watches_total|watch_duration_seconds|watches_total)",
    "transformation_(transformation_latencies_microseconds|failures_total)",
    "(rest_client_request_latency_seconds|storage_operation_errors_total|storage_operation_status_count)",
    "etcd_(debugging|disk|request|server).*",
];

/// The programs of Prometheus.
pub struct Programs(PathBuf);

/// One of the things that are scraped, or not.
pub struct Job<'a> {
    /// Its name, and unless there is a `label` the value of the label `job`.
    pub name: &'a str,
    pub label: Option<&'a str>,
    pub path: &'a str,
    /// The file of a token.
    pub token: Option<PathBuf>,
}

/// A running Prometheus.
pub struct Prometheus(Server);

// === impl Programs ===

impl Programs {
    /// Finds them, or gets them.
    pub async fn find() -> Result<Self> {
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prometheus/programs.sh"));
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
    /// Starts it in a folder, on these jobs of a server whose certificate `ca` signed, with these files of rules.
    pub async fn start(programs: &Programs, folder: &Path, server: &str, ca: &Path, jobs: &[Job<'_>], rules: &Path) -> Result<Self> {
        let config = json!({
            "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL},
            "rule_files": [rules],
            "scrape_configs": jobs.iter().map(|job| job.config(server, ca)).collect::<Vec<_>>(),
        });
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
        let found = self.ask(&format!("/api/v1/query?query={encoded}")).await.with_context(|| expression.to_owned())?;
        let series = found["result"].as_array().context("no result")?;
        series.iter().map(|one| Ok((one["metric"].clone(), text(one, "/value/1")?.parse()?))).collect()
    }

    /// The data of an answer of its API.
    pub async fn ask(&self, path: &str) -> Result<Value> {
        let mut answer: Value = serde_json::from_str(&self.0.endpoint().text(path).await?)?;
        ensure!(answer["status"] == "success", "{answer}");
        Ok(answer["data"].take())
    }
}

// === impl Job ===

impl Job<'_> {
    fn config(&self, server: &str, ca: &Path) -> Value {
        let mut config = json!({
            "job_name": self.name,
            "scheme": "https",
            "metrics_path": self.path,
            "tls_config": {"ca_file": ca},
            "static_configs": [{"targets": [server]}],
            // Two paths of one process are two targets.
            "relabel_configs": [
                {"source_labels": ["__metrics_path__"], "target_label": "metrics_path"},
                {"target_label": "job", "replacement": self.label.unwrap_or(self.name)},
            ],
            "metric_relabel_configs":
                DROPPED.map(|regex| json!({"source_labels": ["__name__"], "regex": regex, "action": "drop"})),
        });
        if let Some(token) = &self.token {
            config["authorization"] = json!({"credentials_file": token});
        }
        config
    }
}
