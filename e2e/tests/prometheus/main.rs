//! A real Prometheus scrapes the program as one of kube-prometheus' would, and finds what dashboards and alerts ask for.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]
#![allow(unreachable_pub, reason = "modules of one program")]

#[path = "../support/mod.rs"]
mod support;

mod alerts;
mod dashboards;
mod expression;
mod pages;
mod rig;
mod scraper;
mod targets;

use std::process::ExitCode;

use rig::Cluster;
use support::scenarios::{Scenario, run};

const SCENARIOS: &[Scenario<Cluster>] = scenarios! {
    targets::{
        prometheus_scrapes_with_a_service_accounts_token,
        who_may_not_read_metrics_scrapes_nothing,
    },
    pages::{the_pages_of_a_busy_process_pass_promtool},
    dashboards::{
        the_queries_of_kubernetes_mixin_have_answers,
        the_queries_of_our_dashboard_have_answers,
    },
    alerts::{
        the_rules_pass_promtool_and_their_tests,
        every_alert_asks_for_what_is_on_the_page,
        prometheus_evaluates_the_rules_and_no_alert_fires,
    },
    expression::{names_and_matchers_are_found_in_expressions},
};

fn main() -> ExitCode {
    run(SCENARIOS)
}
