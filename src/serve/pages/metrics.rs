//! `/metrics`, and `/metrics/slis` about the health checks (component-base `metrics/prometheus/slis`).

use http::{Method, Response, StatusCode};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

use super::{Listed, Pages};
use crate::serve::answer::{self, Body};

/// The text format, whatever else a scraper would like: all of them read it.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What became of health checks.
#[derive(Clone)]
pub(super) struct Slis {
    registry: Registry,
    healthcheck: IntGaugeVec,
    total: IntCounterVec,
}

// === impl Slis ===

impl Slis {
    pub(super) fn new() -> anyhow::Result<Self> {
        let healthcheck = Opts::new("kubernetes_healthcheck", "This metric records the result of a single healthcheck.");
        let healthcheck = IntGaugeVec::new(healthcheck, &["name", "type"])?;
        let total = Opts::new("kubernetes_healthchecks_total", "This metric records the results of all healthcheck.");
        let total = IntCounterVec::new(total, &["name", "type", "status"])?;
        let registry = Registry::new();
        registry.register(Box::new(healthcheck.clone()))?;
        registry.register(Box::new(total.clone()))?;
        Ok(Self { registry, healthcheck, total })
    }

    /// Upstream `ObserveHealthcheck`.
    pub(super) fn observe(&self, check: &str, kind: &str, passed: bool) {
        self.healthcheck.with_label_values(&[check, kind]).set(i64::from(passed));
        self.total.with_label_values(&[check, kind, if passed { "success" } else { "error" }]).inc();
    }

    /// Upstream `HandlerWithReset`.
    fn reset(&self) {
        self.healthcheck.reset();
        self.total.reset();
    }
}

pub(super) fn install(pages: &Pages, registry: &Registry, slis: Slis, disabled: &[String]) {
    let (all, hidden) = (registry.clone(), disabled.to_vec());
    pages.add("/metrics", Listed::Yes, move |_| page(&shown(all.gather(), &hidden)));
    let (all, hidden) = (registry.clone(), disabled.to_vec());
    pages.add("/metrics/slis", Listed::Yes, move |asked| {
        if asked.method == Method::DELETE {
            slis.reset();
            return answer::text("metrics reset\n");
        }
        let mut families = slis.registry.gather();
        families.extend(all.gather().into_iter().filter(|family| family.name() == "process_start_time_seconds"));
        page(&shown(families, &hidden))
    });
}

fn shown(mut families: Vec<MetricFamily>, hidden: &[String]) -> Vec<MetricFamily> {
    families.retain(|family| !hidden.iter().any(|name| name == family.name()));
    families
}

fn page(families: &[MetricFamily]) -> Response<Body> {
    match TextEncoder::new().encode_to_string(families) {
        Ok(text) => answer::answer(StatusCode::OK, FORMAT, text),
        Err(error) => answer::error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}
