//! The Helm chart: what it makes of its values, that a real API server takes that, and that its rights are what the program needs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]

mod demanded;
mod documents;
mod dry_run;
mod features;
mod helm;
mod installed;
mod rendering;
mod rig;
mod rights;
#[path = "../support/mod.rs"]
mod support;
mod verification;

use std::process::ExitCode;

use rig::World;
use support::scenarios::{Scenario, run};

const SCENARIOS: &[Scenario<World>] = scenarios! {
    demanded::{
        explicit_rules_are_exactly_what_is_refused_without_them,
        with_credentials_too,
        under_explicit_rules_nothing_is_refused_and_each_is_used,
        so_it_is_with_credentials,
        so_it_is_with_one_controller_each,
        under_built_in_roles_nothing_is_refused,
        who_observes_may_only_read,
    },
    rendering::{
        bad_values_are_refused_and_named,
        other_releases_are_refused,
        helm_finds_nothing_to_complain_about,
        every_mode_is_rendered_as_in_its_golden_file_on_every_release,
        dashboards_and_alerts_are_those_of_the_repository,
        the_chart_is_of_the_programs_release,
        the_schema_knows_the_values_and_no_others,
        the_program_takes_the_arguments_of_the_pods,
    },
    dry_run::{
        the_api_server_takes_every_mode,
        pods_are_restricted,
    },
    verification::{
        verify_tells_whether_the_controllers_work_and_whose_they_are,
        what_its_pods_run_waits_for_its_end,
    },
    documents::{
        blocks_of_yaml_can_be_read,
        lists_of_controllers_take_all_three_away,
        kube_controller_manager_takes_those_lists,
        commands_have_the_flags_that_they_are_shown_with,
        values_are_those_of_the_chart,
    },
};

fn main() -> ExitCode {
    run(SCENARIOS)
}
