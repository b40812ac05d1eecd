//! Why an object waits, as the running program tells it: on its pages, and through its command `explain`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod command;
mod deployments;
mod replicasets;
mod rig;
mod statefulsets;

use std::process::ExitCode;

use rig::Cluster;
use support::scenarios::{Scenario, run};

const SCENARIOS: &[Scenario<Cluster>] = scenarios! {
    deployments::{
        a_rollout_whose_new_pods_never_become_ready,
        a_rollout_that_is_paused,
        pods_that_a_quota_forbids,
    },
    statefulsets::{
        a_rollout_that_a_broken_pod_stalls_and_the_command_that_ends_it,
        pods_that_a_partition_or_a_hand_keeps,
    },
    replicasets::{the_pods_that_would_go_first_do},
    command::{
        the_command_asks_with_a_client_certificate,
        the_command_goes_on_when_told_to,
        what_is_asked_wrongly_is_said,
    },
};

fn main() -> ExitCode {
    run(SCENARIOS)
}
