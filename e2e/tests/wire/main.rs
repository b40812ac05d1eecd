//! What real API servers say, as our client, sources and decoders read it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod generate;
mod lists;
/// The comparison that the model's own tests make with pods they have encoded themselves.
#[path = "../../../controllers/model/tests/support/plain.rs"]
mod plain;
mod pods;
mod reading;
mod refusals;
mod sets;

use std::process::ExitCode;
use std::rc::Rc;

use anyhow::Result;
use e2e::controlplane::ControlPlane;

use support::scenarios::{Context, Scenario, run};

/// What all scenarios share.
struct Planes {
    /// As it is by default: lists are streamed.
    streaming: ControlPlane,
    /// Without streaming lists, and with a storage that forgets its history after some seconds.
    paging: ControlPlane,
}

impl Context for Planes {
    async fn start() -> Result<Self> {
        let paging = ControlPlane::builder().feature_gate("WatchList", false).api_server_flag("--etcd-compaction-interval=3s").audit();
        let paging = async {
            let mut paging = paging.start().await?;
            // Its caches begin now, behind the storage's first versions.
            paging.restart_api_server(0).await?;
            anyhow::Ok(paging)
        };
        let (streaming, paging) = tokio::try_join!(ControlPlane::builder().start(), paging)?;
        Ok(Self { streaming, paging })
    }

    async fn stop(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Shortens the scenarios' signatures.
type Shared = Rc<Planes>;

const SCENARIOS: &[Scenario<Planes>] = scenarios! {
    pods::{pods_read_as_protobuf_are_those_read_as_json},
    sets::{replica_sets_are_read_whole_and_their_status_is_written_back_unchanged},
    lists::{
        all_pages_are_known_before_the_first_sync,
        a_streamed_list_is_known_as_a_whole,
    },
    refusals::{
        a_source_without_rights_hears_403_until_it_has_them,
        a_list_whose_history_is_gone_hears_410_and_begins_again,
        a_watch_from_the_distant_past_hears_410_and_lists_again,
        a_source_of_a_server_under_load_hears_429_and_waits,
        an_eviction_against_a_budget_is_429_with_a_delay,
        a_version_of_the_future_is_504_and_is_waited_for,
    },
};

fn main() -> ExitCode {
    run(SCENARIOS)
}
