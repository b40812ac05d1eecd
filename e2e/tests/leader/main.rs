//! Two of ours, or one of ours beside kube-controller-manager, on one lease. Scenarios are named after the rows of the bug corpus.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]
#![allow(unreachable_pub, reason = "modules of one program")]

#[path = "../support/mod.rs"]
mod support;

mod catching_up;
mod faults;
mod handover;
mod migration;
mod rig;
mod upstream;

use std::process::ExitCode;

use rig::Planes;
use support::scenarios::{Scenario, run};

const SCENARIOS: &[Scenario<Planes>] = scenarios! {
    handover::{
        kill_9_of_the_leader_in_a_rollout_costs_no_more_than_the_lease,
        sigterm_hands_over_at_once_and_loses_no_work,
        a_standby_ends_at_once,
        without_a_release_the_lease_is_waited_for,
    },
    catching_up::{
        a_takeover_with_a_late_watch_makes_no_pod_twice,
        a_large_cache_catches_up_without_a_list,
    },
    faults::{
        ctl_06_a_leader_that_was_frozen_beyond_its_lease_writes_nothing,
        ctl_07_one_error_is_survived_and_silence_is_not,
        a_lease_that_is_deleted_stays_with_its_leader,
        a_server_that_is_away_for_longer_than_the_deadline_ends_the_leader,
        without_the_right_to_the_lease_the_log_says_so,
    },
    migration::{
        controllers_move_from_kube_controller_manager_and_back_without_a_gap,
        two_of_ours_share_what_the_file_gives_them,
    },
    upstream::{kube_controller_manager_and_we_wait_for_each_other},
};

fn main() -> ExitCode {
    run(SCENARIOS)
}
