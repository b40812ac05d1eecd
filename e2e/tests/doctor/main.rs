//! What is run beside kube-controller-manager before the controllers change hands, and around it: the doctor, a process that observes,
//! the refusal to work beside it, and the static pod.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod observing;
mod others;
mod rig;
mod static_pod;

use std::process::ExitCode;

use rig::Machine;
use support::scenarios::{Scenario, run};

const SCENARIOS: &[Scenario<Machine>] = scenarios! {
    observing::{observing_writes_nothing_and_tells_what_nobody_does},
    others::{
        the_doctor_examines_rights_and_what_it_cannot_reach,
        beside_a_live_kube_controller_manager_nobody_works_unless_told,
        nor_beside_one_that_takes_part_in_no_election,
        one_that_has_just_been_stopped_hinders_nobody,
    },
    static_pod::{the_static_pod_is_a_pod_and_its_rights_are_enough},
};

fn main() -> ExitCode {
    run(SCENARIOS)
}
