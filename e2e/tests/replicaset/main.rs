//! The ReplicaSet controller against a real API server, with upstream's garbage collector and quota controller beside it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod at_zero;
mod deletion_order;
mod endings;
mod failures;
mod ownership;
mod replicas;
mod template;

use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Result, ensure};
use e2e::controlplane::{ControlPlane, ControllerManager};
use e2e::{Server, process};

use support::scenarios::{Context, Scenario, run};
use support::{Space, minor_release};

/// What all scenarios share: a control plane, and our ReplicaSet controller at work on it.
struct Cluster {
    plane: ControlPlane,
    manager: Server,
}

impl Cluster {
    async fn space(&self, prefix: &str) -> Result<Space> {
        Space::new(&self.plane, prefix).await
    }

    /// What our program has logged so far.
    fn log(&self) -> Result<String> {
        self.manager.printed()
    }
}

impl Context for Cluster {
    async fn start() -> Result<Self> {
        process::binary()?;
        // The Deployment controller is upstream's own: ours has to live with its ReplicaSets.
        let beside = ControllerManager::default().with("resourcequota-controller").with("deployment-controller").unlimited();
        let mut builder = ControlPlane::builder().controller_manager(beside).audit();
        // A field of the pod that came with 1.37, for the template's way.
        if minor_release() >= 37 {
            builder = builder.feature_gate("EmptyDirVolumeMode", true);
        }
        let plane = builder.start().await?;
        let manager = plane.launch().controllers(["replicaset-controller"]).rate(1000, 1000).start().await?;
        Ok(Self { plane, manager })
    }

    async fn stop(&mut self) -> Result<()> {
        let status = self.manager.terminate().await?;
        ensure!(status.success(), "the program ended with {status}");
        ensure!(!self.log()?.contains("panicked"), "the program's log speaks of a panic");
        Ok(())
    }
}

const SCENARIOS: &[Scenario<Cluster>] = scenarios! {
    replicas::{
        pods_come_go_and_are_replaced,
        evicted_pods_are_replaced,
        availability_waits_for_min_ready_seconds,
        rs_24_terminating_pods_are_replaced_at_once_and_counted_apart,
        rs_25_pods_that_are_not_available_yet_are_scaled_down_at_once,
        rs_27_failed_pods_stay_and_are_not_counted,
    },
    at_zero::{a_set_at_zero_is_written_through_a_live_read_and_comes_back},
    ownership::{
        orphans_that_match_are_adopted,
        a_relabelled_pod_is_released_and_comes_back,
        a_foreground_delete_takes_the_pods_first,
        a_background_delete_takes_the_pods,
        orphaned_pods_are_adopted_by_a_look_alike,
        rs_12_orphans_of_a_dying_set_go_to_the_living_one,
        rs_13_the_survivor_of_two_look_alikes_never_falls_below_its_size,
    },
    deletion_order::{
        pods_go_in_upstreams_order,
        of_two_like_pods_the_younger_goes,
        the_fuller_node_loses_a_pod_first,
    },
    failures::{
        a_quota_sets_replica_failure_until_it_is_raised,
        rs_06_a_quota_ends_a_pass_at_the_first_refused_batch,
        creates_and_deletes_are_events,
    },
    endings::{
        a_namespace_being_deleted_gets_no_more_pods,
        ctl_21_a_set_in_foreground_deletion_makes_nothing_and_tells_its_status,
        rs_04_pods_that_fail_at_once_are_replaced_without_a_ceiling,
    },
    template::{a_template_newer_than_our_library_survives},
};

fn main() -> ExitCode {
    run(SCENARIOS)
}

/// Shortens the scenarios' signatures.
type Shared = Rc<Cluster>;
