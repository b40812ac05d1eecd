//! How the Prometheus of the scenarios is configured.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// How often everything is scraped and every rule is evaluated.
const INTERVAL: &str = "1s";

/// The metrics that kube-prometheus throws away of kube-controller-manager: nothing of ours may bear their names.
const DROPPED: [&str; 6] = [
    "scheduler_(e2e_scheduling_latency_microseconds|scheduling_latency_seconds|binding_latency_microseconds)",
    "apiserver_(request_count|request_latencies|request_latencies_summary|dropped_requests|longrunning_gauge|registered_watchers)",
    "reflector_(items_per_list|items_per_watch|list_duration_seconds|lists_total|short_watches_total|watch_duration_seconds|watches_total)",
    "transformation_(transformation_latencies_microseconds|failures_total)",
    "(rest_client_request_latency_seconds|storage_operation_errors_total|storage_operation_status_count)",
    "etcd_(debugging|disk|request|server).*",
];

/// One of the things that are scraped, or not.
pub struct Job<'a> {
    /// Its name, and unless there is a `label` the value of the label `job`.
    pub name: &'a str,
    pub label: Option<&'a str>,
    pub path: &'a str,
    /// The file of a token.
    pub token: Option<PathBuf>,
}

/// The configuration for these jobs of a server whose certificate `ca` signed, and for these files of rules.
pub fn config(server: &str, ca: &Path, jobs: &[Job<'_>], rules: &Path) -> Value {
    json!({
        "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": [rules],
        "scrape_configs": jobs.iter().map(|job| job.config(server, ca)).collect::<Vec<_>>(),
    })
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
