//! The client's metrics, under the names and buckets of upstream's
//! `k8s.io/component-base/metrics/prometheus/restclient`.

use std::time::Duration;

use http::{Method, StatusCode};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use crate::error::Error;

/// `rest_client_*`, shared by all clients of the process.
#[derive(Clone, Debug)]
pub struct ClientMetrics {
    duration: HistogramVec,
    rate_limiter: HistogramVec,
    request_size: HistogramVec,
    response_size: HistogramVec,
    requests: IntCounterVec,
    retries: IntCounterVec,
}

const DURATIONS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// 64 B to 16 MiB.
const SIZES: &[f64] = &[64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0];

// === impl ClientMetrics ===

impl ClientMetrics {
    /// Registers them.
    pub fn register(registry: &Registry) -> Result<Self, Error> {
        let histogram = |name: &str, help: &str, buckets: &[f64]| -> Result<HistogramVec, Error> {
            let vec = HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), &["verb", "host"])?;
            registry.register(Box::new(vec.clone()))?;
            Ok(vec)
        };
        let counter = |name: &str, help: &str, labels: &[&str]| -> Result<IntCounterVec, Error> {
            let vec = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(vec.clone()))?;
            Ok(vec)
        };
        Ok(Self {
            duration: histogram(
                "rest_client_request_duration_seconds",
                "Request latency in seconds. Broken down by verb, and host.",
                DURATIONS,
            )?,
            rate_limiter: histogram(
                "rest_client_rate_limiter_duration_seconds",
                "Client side rate limiter latency in seconds. Broken down by verb, and host.",
                DURATIONS,
            )?,
            request_size: histogram("rest_client_request_size_bytes", "Request size in bytes. Broken down by verb and host.", SIZES)?,
            response_size: histogram("rest_client_response_size_bytes", "Response size in bytes. Broken down by verb and host.", SIZES)?,
            requests: counter(
                "rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host.",
                &["code", "method", "host"],
            )?,
            retries: counter(
                "rest_client_request_retries_total",
                "Number of request retries, partitioned by status code, verb, and host.",
                &["code", "verb", "host"],
            )?,
        })
    }

    pub(super) fn throttled(&self, method: &Method, host: &str, wait: Duration) {
        self.rate_limiter.with_label_values(&[method.as_str(), host]).observe(wait.as_secs_f64());
    }

    pub(super) fn sent(&self, method: &Method, host: &str, size: usize) {
        self.request_size.with_label_values(&[method.as_str(), host]).observe(size as f64);
    }

    /// Counts an answer; no status stands for none (upstream `client-go/rest` `updateURLMetrics`).
    pub(super) fn answered(&self, method: &Method, host: &str, status: Option<StatusCode>) {
        let code = status.as_ref().map_or("<error>", StatusCode::as_str);
        self.requests.with_label_values(&[code, method.as_str(), host]).inc();
    }

    pub(super) fn finished(&self, method: &Method, host: &str, took: Duration, size: usize) {
        self.duration.with_label_values(&[method.as_str(), host]).observe(took.as_secs_f64());
        self.response_size.with_label_values(&[method.as_str(), host]).observe(size as f64);
    }

    pub(super) fn retried(&self, method: &Method, host: &str, code: u16) {
        self.retries.with_label_values(&[code.to_string().as_str(), method.as_str(), host]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_labels_and_buckets_are_upstreams() {
        let registry = Registry::new();
        let metrics = ClientMetrics::register(&registry).unwrap();
        metrics.throttled(&Method::POST, "10.0.0.1:6443", Duration::from_millis(50));
        metrics.sent(&Method::POST, "10.0.0.1:6443", 700);
        metrics.answered(&Method::POST, "10.0.0.1:6443", Some(StatusCode::CREATED));
        metrics.answered(&Method::POST, "10.0.0.1:6443", None);
        metrics.finished(&Method::POST, "10.0.0.1:6443", Duration::from_millis(3), 900);
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            r#"rest_client_request_duration_seconds_bucket{host="10.0.0.1:6443",verb="POST",le="0.005"} 1"#,
            r#"rest_client_rate_limiter_duration_seconds_bucket{host="10.0.0.1:6443",verb="POST",le="0.1"} 1"#,
            r#"rest_client_request_size_bytes_bucket{host="10.0.0.1:6443",verb="POST",le="1024"} 1"#,
            r#"rest_client_response_size_bytes_bucket{host="10.0.0.1:6443",verb="POST",le="16777216"} 1"#,
            r#"rest_client_requests_total{code="201",host="10.0.0.1:6443",method="POST"} 1"#,
            r#"rest_client_requests_total{code="<error>",host="10.0.0.1:6443",method="POST"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_second_registration_is_an_error_not_a_panic() {
        let registry = Registry::new();
        ClientMetrics::register(&registry).unwrap();
        assert!(ClientMetrics::register(&registry).is_err());
    }
}
