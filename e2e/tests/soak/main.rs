//! Two replicas of ours for minutes under random scripts, faults and changes of hands, and what must be true of it in the end.
//!
//! ```text
//! make soak MINUTES=15                                   three minutes of trouble without it
//! SEEDS=17 cargo test -p e2e --test soak                 another schedule than that of seed 1; also 5,9 or 1..10
//! ```
//!
//! A seed is a schedule: which scripts are played in which namespace, and what befalls the processes and their servers when. It is played in
//! three rounds. Behind each one there are no faults any more, and everything must come to rest as the objects ask for it. Behind the
//! second one, in which nobody ends the leader, memory and files are compared with those behind the first. Behind the last one, in which the
//! lease changes hands all the time, kube-controller-manager takes over, and must find nothing to do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]

mod blows;
mod cache;
mod faults;
mod footprint;
mod handover;
mod player;
mod replicas;
mod rest;
mod sides;
mod verdict;
mod world;

#[path = "../support/mod.rs"]
mod support;
#[path = "../differential/view.rs"]
#[allow(dead_code, reason = "the differential tests look at the nodes' work and at what was written, too")]
mod view;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use e2e::differential::seeds;
use e2e::process;
use e2e::soak::schedule::{Round, Schedule};
use tokio::task::{JoinSet, LocalSet};

use blows::Blows;
use footprint::Footprint;
use player::Player;
use replicas::{Faults, SHORT};
use world::World;

const NAME: &str = "two_replicas_in_trouble_lose_nothing_and_leak_nothing";

/// What the test command runs.
const SEED: u64 = 1;
const MINUTES: u64 = 3;

/// Not `scenarios::run`: that ends what takes longer than a test may, and here any number of minutes may be asked for.
fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return println!("{NAME}: test");
    }
    let filters: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if !filters.is_empty() && !filters.into_iter().any(|filter| NAME.contains(filter.as_str())) {
        return;
    }
    let (seeds, minutes) = from_environment().expect("SEEDS and MINUTES");
    process::binary().expect("the program");
    // Proxies and nodes run beside what is looked at here, which is work now and then: a lease would be renewed too late.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    for seed in seeds {
        let schedule = Schedule::new(seed, Duration::from_secs(60 * minutes));
        println!("seed {seed}, {minutes} minutes. Again: SEEDS={seed} MINUTES={minutes} cargo test -p e2e --test soak");
        LocalSet::new().block_on(&runtime, async {
            let began = Instant::now();
            let mut world = World::start(seed).await.expect("the control plane starts");
            let soaked = soak(&mut world, &schedule).await;
            println!("test {NAME} ... {} ({:.0?})", if soaked.is_ok() { "ok" } else { "FAILED" }, began.elapsed());
            // While the world lives: its logs are kept when the thread panics.
            soaked.with_context(|| format!("seed {seed}, {minutes} minutes")).unwrap_or_else(|error| panic!("{error:#}"));
        });
    }
}

fn from_environment() -> Result<(Vec<u64>, u64)> {
    let seeds = if std::env::var_os("SEEDS").is_some() { seeds::from_environment()? } else { vec![SEED] };
    let minutes = match std::env::var("MINUTES") {
        Ok(text) => text.parse().with_context(|| format!("MINUTES={text}: expected a number of minutes"))?,
        Err(_) => MINUTES,
    };
    Ok((seeds, minutes))
}

async fn soak(world: &mut World, schedule: &Schedule) -> Result<()> {
    world.rest(&[]).await.context("before the first round")?;
    let mut measured = Vec::new();
    for (n, round) in schedule.rounds.iter().enumerate() {
        println!("round {:?}, {:.0?}", round.name, round.length);
        let is_last = n + 1 == schedule.rounds.len();
        play(world, round, &mut measured, is_last).await.with_context(|| format!("round {:?}", round.name))?;
    }
    Ok(())
}

/// Plays a round, and looks at everything behind it.
async fn play(world: &mut World, round: &Round, measured: &mut Vec<Vec<(String, Footprint)>>, is_last: bool) -> Result<()> {
    world.disturb().await?;
    if round.hands_change {
        world.replicas.set_times(SHORT).await?;
        world.rest(&[]).await?;
    } else {
        world.spare_leader().await?;
    }
    let mut players = Vec::new();
    for (n, play) in round.plays.iter().enumerate() {
        players.push(Player::new(&world.side, n, play).await?);
    }
    world.replicas.set_faults(if round.hands_change { Faults::All } else { Faults::LeaseSpared })?;
    let (mut playing, mut releasing, began) = (JoinSet::new(), JoinSet::new(), tokio::time::Instant::now());
    for player in &players {
        playing.spawn_local(std::rc::Rc::clone(player).play(began + round.length));
        releasing.spawn_local(std::rc::Rc::clone(player).release());
    }
    Blows::new(world, &players).strike(round, began).await?;
    let words: usize = playing.join_all().await.into_iter().sum();
    println!("  {words} words in {} namespaces; {}", players.len(), world.replicas.ends);
    let calmed = Instant::now();
    world.calm(&players).await?;
    world.rest(&players).await?;
    println!("  everything came to rest after {:.1?}", calmed.elapsed());
    world.judge().await?;
    if is_last {
        return world.hand_over(&players).await;
    }
    world.clear(&players).await?;
    world.rest(&[]).await?;
    measured.push(world.footprints().await?);
    verdict::compare(measured)
}
