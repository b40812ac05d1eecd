//! What the program serves, to whom, and what clients cannot do to it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]
#![allow(unreachable_pub, reason = "modules of one program")]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod certificates;
mod crowds;
mod outages;
mod pages;
mod rig;

use std::process::ExitCode;

use rig::Plane;
use support::scenarios::{Scenario, run};

const SCENARIOS: &[Scenario<Plane>] = scenarios! {
    access::{
        tokens_are_reviewed_and_so_is_what_they_may_read,
        client_certificates_name_a_user_and_its_group,
        a_trusted_proxy_says_in_headers_who_is_asking,
        what_the_cluster_publishes_of_proxies_is_looked_up,
        a_lookup_that_is_forbidden_ends_the_start_unless_it_is_tolerated,
        paths_can_be_open_to_everybody,
    },
    certificates::{
        certificates_and_authorities_are_read_again,
        without_files_the_certificate_is_for_localhost,
        who_asks_for_a_name_gets_its_certificate,
    },
    outages::{nobody_is_let_in_while_nobody_can_be_asked},
    pages::{
        health_is_told_as_kube_controller_manager_tells_it,
        configuration_flags_and_status_are_kube_controller_managers,
        debug_pages_show_what_is_in_memory,
        verbosity_can_be_changed,
    },
    crowds::{
        plain_http_is_told_so,
        thousands_of_connections_delay_nobody,
        floods_of_tokens_and_bodies_that_never_come_delay_nobody,
        what_is_too_large_is_cut_off,
        streams_that_are_reset_at_once_cost_nothing,
        streams_are_limited_as_the_flag_says_and_ports_are_shared,
    },
};

fn main() -> ExitCode {
    run(SCENARIOS)
}
