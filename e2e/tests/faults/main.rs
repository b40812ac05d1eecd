//! The program behind a proxy that loses, delays and falsifies what it is told. Scenarios are named after the rows of the bug corpus.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]
#![allow(unreachable_pub, reason = "modules of one program")]

#[path = "../support/mod.rs"]
mod support;

mod away;
mod crowds;
mod deployments;
mod handover;
mod open;
mod restarts;
mod rig;
mod staleness;
mod statefulsets;
mod told;
mod watches;
mod writes;

use std::process::ExitCode;

use rig::Planes;
use support::scenarios::{Scenario, run};

const SCENARIOS: &[Scenario<Planes>] = scenarios! {
    // The long ones first.
    open::{
        a_set_of_ten_thousand,
        a_create_that_never_happened_is_made_up_for,
        a_delete_without_an_answer_takes_one_pod,
        etcd_restored_from_an_older_snapshot,
    },
    crowds::{
        ctl_10_a_rollout_of_everything_at_once_takes_no_memory,
        dep_36_a_deployment_is_synced_for_its_sets_and_not_for_its_pods,
    },
    handover::{ctl_28_a_change_of_hands_and_back_restarts_no_pod},
    writes::{
        rs_03_an_answer_lost_after_the_effect_makes_no_second_pod,
        lost_answers_of_five_percent_make_no_pod_too_many,
        ctl_13_no_try_before_the_time_that_the_server_asks_for,
        ctl_19_a_live_read_tells_whose_the_taken_name_is,
    },
    staleness::{
        rs_01_a_new_set_of_an_old_name_gets_its_pods_at_once,
        rs_09_a_cost_that_the_watch_has_not_brought_does_not_count,
        rs_11_a_pod_released_behind_the_caches_back_survives,
        rs_22_touching_a_set_does_not_make_a_pod_too_many,
        ctl_04_a_late_watch_changes_nothing_in_the_end,
        ctl_27_a_set_made_again_at_once_is_a_new_one,
        a_silent_pod_watch_is_listed_again_once,
    },
    watches::{
        ctl_01_a_delete_in_the_gap_is_found_by_the_relist,
        ctl_03_a_watch_that_ends_in_order_replays_nothing,
        ctl_15_errors_to_a_watch_are_told_apart,
        ctl_16_a_half_open_connection_is_noticed,
    },
    restarts::{
        rs_21_nothing_is_done_before_a_late_list,
        kill_9_in_mid_scale_up_with_creates_in_flight,
        kill_9_with_nothing_in_flight_makes_no_pod_too_many,
        ctl_23_a_server_in_the_past_deletes_nothing,
        ctl_24_all_pages_are_known_before_the_first_sync,
    },
    deployments::{
        dep_03_a_name_that_is_taken_is_tried_once_for_each_status_that_is_written,
        dep_04_its_own_set_behind_the_caches_back_is_no_collision,
        dep_16_a_change_of_size_that_was_interrupted_ends_in_proportion,
        dep_37_a_conflict_is_decided_again_from_what_is_there,
        ctl_04_a_late_watch_changes_no_rollout_in_the_end,
        ctl_27_a_deployment_made_again_at_once_is_a_new_one,
    },
    statefulsets::{
        sts_10_a_late_watch_of_revisions_makes_no_second_one,
        sts_15_a_set_that_goes_adopts_nothing_behind_the_caches_back,
        sts_18_a_create_that_fails_does_not_end_the_rollout,
        sts_24_a_claim_goes_with_its_set_from_the_start,
        sts_37_the_status_is_true_when_a_delete_fails,
        sts_41_a_late_watch_takes_down_no_second_pod,
        ctl_04_a_late_watch_changes_no_stateful_set_in_the_end,
        ctl_27_a_stateful_set_made_again_at_once_is_a_new_one,
        an_identity_has_one_pod_whatever_answers_are_lost,
        a_pod_that_has_taken_a_condemned_ones_name_survives,
    },
    told::{
        what_waits_for_a_late_watch_is_told,
        what_waits_for_a_lost_answer_is_told,
    },
    away::{
        a_program_that_starts_before_its_server_waits_for_it,
        an_api_server_killed_in_mid_scale_up,
        ctl_22_a_server_that_is_away_costs_next_to_nothing,
        ctl_25_three_replicas_keep_trying_and_not_together,
    },
};

fn main() -> ExitCode {
    run(SCENARIOS)
}
