//! Deployments, from the user's side, against a real API server: upstream's end-to-end tests as far as they need no container, the
//! command line client, rows of the bug corpus, and a change of hands.
//!
//! The subject, which is whoever runs `deployment-controller` and `replicaset-controller`, is our program; with
//! `SUBJECT=kube-controller-manager` in the environment it is upstream's. Every scenario must pass with both: whoever doubts an
//! expectation asks upstream itself.
//!
//! ```text
//! SUBJECT=kube-controller-manager cargo test -p e2e --test deployment [-- NAME...]
//! ```
//!
//! A scenario that does what one of upstream's tests does (test/e2e/apps, test/e2e/apimachinery) has its name.
//!
//! To add scenarios: a file with `pub(crate) async fn name(cluster: Shared) -> Result<()>`, its `mod`, and its names in [`SCENARIOS`].
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]

#[path = "../support/mod.rs"]
mod support;

// What scenarios are made of.
mod by_hand;
mod rig;

mod commands;
mod deletion;
mod dep_deletion;
mod dep_names;
mod dep_progress;
mod dep_recreate;
mod dep_rollback;
mod dep_sizes;
mod endpoints;
mod iterative;
mod replicasets;
mod rollouts;
mod scaling;
mod takeover;

use std::process::ExitCode;

use rig::Cluster;
use support::scenarios::{Scenario, run};
use support::{history, looking};

const SCENARIOS: &[Scenario<Cluster>] = scenarios! {
    // Upstream's end-to-end tests.
    rollouts::{
        rolling_update_deployment_should_delete_old_pods_and_create_new_ones,
        recreate_deployment_should_delete_old_pods_and_create_new_ones,
        deployment_should_delete_old_replica_sets,
        deployment_should_support_rollover,
        test_deployment_replica_set_orphaning_and_adoption_regarding_controller_ref,
    },
    scaling::{
        deployment_should_support_proportional_scaling,
        deployment_should_have_a_working_scale_subresource,
    },
    endpoints::{
        should_run_the_lifecycle_of_a_deployment,
        should_validate_deployment_status_endpoints,
    },
    deletion::{
        deployment_reaping_should_cascade_to_its_replica_sets_and_pods,
        should_delete_rs_created_by_deployment_when_not_orphaning,
        should_orphan_rs_created_by_deployment_when_delete_options_propagation_policy_is_orphan,
    },
    iterative::{iterative_rollouts_should_eventually_progress},
    replicasets::{
        should_serve_a_basic_image_on_each_replica,
        should_adopt_matching_pods_on_creation_and_release_no_longer_matching_pods,
        replicaset_should_have_a_working_scale_subresource,
        replace_and_patch_tests,
        should_list_and_delete_a_collection_of_replica_sets,
        should_validate_replicaset_status_endpoints,
        should_surface_a_failure_condition_on_a_common_issue_like_exceeded_quota,
    },
    // The command line client.
    commands::{
        kubectl_applies_waits_and_shows,
        kubectl_rollout_history_and_undo,
        kubectl_rollout_pause_and_resume,
        kubectl_rollout_restart_replaces_every_pod,
        kubectl_rollout_status_fails_past_the_progress_deadline,
        kubectl_scales,
    },
    // The bug corpus.
    dep_names::{
        dep_01_of_two_sets_with_one_template_the_oldest_is_the_new_one,
        dep_02_a_name_that_is_taken_is_counted_and_another_one_is_found,
    },
    dep_recreate::{
        dep_06_no_new_pod_before_the_last_old_one_is_gone,
        dep_07_a_pod_that_has_ended_keeps_nobody_waiting,
        dep_08_the_end_of_the_last_live_pod_lets_the_rollout_go_on,
        dep_09_a_deleted_pod_is_replaced_while_it_ends,
        dep_10_pods_that_terminate_do_not_count_for_the_surge,
    },
    dep_progress::{
        dep_12_a_single_replica_that_never_starts_fails_although_it_need_not_be_there,
        dep_13_scaling_up_from_zero_has_no_deadline,
    },
    dep_sizes::{
        dep_15_a_wrong_note_of_the_size_is_repaired_and_stops_no_rollout,
        dep_18_a_change_of_both_scales_first_and_then_rolls,
        dep_19_three_revisions_with_pods_are_scaled_in_one_pass,
        dep_21_scaling_down_takes_a_healthy_pod_beside_a_sick_one,
        dep_22_scaling_down_a_broken_rollout_keeps_upstreams_floor,
        dep_25_a_paused_deployment_scales_what_there_is_and_makes_nothing_new,
        dep_33_the_status_counts_the_surge_as_upstream_does,
        dep_34_a_rollout_that_is_scaled_down_meanwhile_completes,
    },
    dep_rollback::{
        dep_24_undoing_a_bad_template_leaves_the_old_pod_alone,
        dep_27_a_revision_that_is_rolled_back_to_moves_up_and_keeps_its_old_numbers,
        dep_28_the_lowest_revisions_go_first_and_none_with_pods,
        dep_30_a_deployment_at_zero_trims_its_history,
        dep_31_six_hundred_templates_leave_the_last_ones,
    },
    dep_deletion::{ctl_21_of_a_deployment_that_is_being_deleted_only_the_status_is_written},
    // A change of hands.
    takeover::{a_change_of_hands_and_back_makes_no_replica_set_and_replaces_no_pod},
};

fn main() -> ExitCode {
    run(SCENARIOS)
}
