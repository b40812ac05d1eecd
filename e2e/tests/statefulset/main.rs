//! StatefulSets, from the user's side, against a real API server: upstream's end-to-end tests as far as they need no container, the
//! command line client, rows of the bug corpus, and a change of hands.
//!
//! The subject, which is whoever runs `statefulset-controller`, is our program; with `SUBJECT=kube-controller-manager` in the environment it
//! is upstream's. Every scenario must pass with both: whoever doubts an expectation asks upstream itself. Where we differ on purpose, the
//! scenario says so, and asks [`rig::Cluster::is_ours`].
//!
//! ```text
//! SUBJECT=kube-controller-manager cargo test -p e2e --test statefulset [-- NAME...]
//! ```
//!
//! A scenario that does what one of upstream's tests does (test/e2e/apps/statefulset.go) has its name.
//!
//! To add scenarios: a file with `pub(crate) async fn name(cluster: Shared) -> Result<()>`, its `mod`, and its names in [`SCENARIOS`].
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod rig;

mod commands;
mod deletion;
mod endpoints;
mod features;
mod identity;
mod recreate;
mod retention;
mod rolling;
mod scaling;
mod sts_claims;
mod sts_pods;
mod sts_revisions;
mod sts_updates;
mod takeover;
mod unavailable;
mod under_way;

use std::process::ExitCode;

use rig::Cluster;
use support::scenarios::{Scenario, run};
use support::{history, looking};

const SCENARIOS: &[Scenario<Cluster>] = scenarios! {
    // Upstream's end-to-end tests.
    rolling::{
        should_perform_rolling_updates_and_roll_backs_of_template_modifications,
        should_perform_rolling_updates_and_roll_backs_of_template_modifications_with_pvcs,
        should_perform_canary_updates_and_phased_rolling_updates_of_template_modifications,
        canary_updates_for_partition_1_and_delete_pod_0_without_failing_container,
        canary_updates_for_partition_1_and_delete_pod_0_with_failing_container,
        should_implement_legacy_replacement_when_the_update_strategy_is_on_delete,
    },
    scaling::{
        scaling_should_happen_in_predictable_order_and_halt_if_any_stateful_pod_is_unhealthy,
        burst_scaling_should_run_to_completion_even_with_unhealthy_pods,
        should_recreate_evicted_statefulset,
        should_have_a_working_scale_subresource,
    },
    endpoints::{
        should_list_patch_and_delete_a_collection_of_stateful_sets,
        should_validate_statefulset_status_endpoints,
    },
    identity::{
        should_provide_basic_identity,
        should_adopt_matching_orphans_and_release_non_matching_pods,
        should_not_deadlock_when_a_pods_predecessor_fails,
        an_identity_that_somebody_takes_away_is_given_back,
    },
    features::{
        min_ready_seconds_should_be_honored_when_enabled,
        available_replicas_should_get_updated_accordingly_when_min_ready_seconds_is_enabled,
        setting_start_ordinal,
        increasing_start_ordinal,
        decreasing_start_ordinal,
        removing_start_ordinal,
        a_partition_counts_from_the_start_ordinal,
    },
    retention::{
        should_delete_pvcs_with_a_when_deleted_policy,
        should_delete_pvcs_with_a_on_scaledown_policy,
        should_delete_pvcs_after_adopting_pod_when_deleted,
        should_delete_pvcs_after_adopting_pod_when_scaled,
        should_not_delete_pvc_with_on_scaledown_policy_if_another_controller_owns_the_pvc,
        should_not_delete_pvcs_when_there_is_another_controller,
        pvc_should_be_recreated_when_pod_is_pending_due_to_missing_pvc,
        sts_27_a_claim_of_another_controller_is_left_alone,
        another_policy_writes_claims_and_no_pod,
    },
    unavailable::{
        rolling_updates_with_max_unavailable_for_ordered_ready,
        rolling_updates_with_max_unavailable_for_parallel,
        broken_pods_of_an_old_revision_do_not_count_against_max_unavailable,
    },
    recreate::{recreate_ends_all_old_pods_before_it_makes_new_ones},
    // The command line client.
    commands::{
        kubectl_applies_waits_and_shows,
        kubectl_rollout_history_and_undo,
        kubectl_rollout_restart_replaces_every_pod_in_order,
        kubectl_rollout_status_waits_and_knows_partitions,
        kubectl_scales,
    },
    // The bug corpus, and what is like it.
    sts_updates::{
        sts_01_a_broken_pod_holds_back_its_own_repair,
        sts_03_a_parallel_update_begins_with_the_pod_that_is_not_ready,
        sts_16_the_current_revision_moves_with_on_delete,
        sts_19_scaling_to_zero_and_up_forgets_the_partition,
        sts_21_a_pod_deleted_in_a_rollout_comes_back_as_its_ordinal_says,
        sts_48_a_template_that_no_pod_can_be_made_of_costs_one_pod,
        a_strategy_that_is_switched_off_touches_no_pod,
    },
    sts_pods::{
        sts_28_pods_beyond_the_size_go_although_others_cannot_be_made,
        sts_31_a_pod_that_has_succeeded_is_replaced,
        sts_33_nothing_comes_before_the_one_that_goes_is_gone,
        sts_34_pods_removed_by_force_come_back_one_after_the_other,
        sts_36_the_status_is_true_when_a_quota_refuses_pods,
        sts_39_a_failed_pod_is_replaced_and_somebody_says_so,
        sts_42_a_pod_that_does_not_go_stops_nobody_in_parallel,
    },
    sts_claims::{
        sts_22_a_claim_that_is_on_its_way_out_is_waited_for,
        sts_25_a_pod_without_a_new_volume_is_replaced,
        sts_45_another_window_of_ordinals_has_exactly_its_pods_and_claims,
        sts_49_a_set_made_again_takes_its_pods_and_revision,
    },
    sts_revisions::{
        sts_09_what_admission_does_to_pods_rolls_nothing,
        sts_12_revisions_are_trimmed_although_no_pod_can_be_made,
        sts_13_a_revision_name_that_is_taken_is_counted,
        sts_15_a_set_that_goes_adopts_nothing,
        a_revision_that_somebody_deletes_is_made_again,
    },
    deletion::{ctl_21_of_a_stateful_set_that_is_being_deleted_only_the_status_is_written},
    // A change of hands.
    takeover::{
        sts_08_fields_that_nobody_knew_go_to_pods_and_revisions,
        revisions_are_upstreams_to_the_byte_and_sets_change_hands_both_ways,
    },
};

fn main() -> ExitCode {
    run(SCENARIOS)
}
