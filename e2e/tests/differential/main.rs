//! The same scripts on kube-controller-manager and on ours, one control plane each, and what came of them compared.
//!
//! ```text
//! cargo test -p e2e --test differential                  30 scripts of each kind
//! KIND=statefulset cargo test …                          of that kind only; also deployment
//! SEEDS=17 cargo test …                                  one of them again; also 5,9 or 1..500
//! SUBJECT=kube-controller-manager cargo test …           KCM beside KCM, which must show no difference first
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]

mod cache;
mod player;
mod sides;
mod view;

#[path = "../support/mod.rs"]
mod support;

use std::rc::Rc;
use std::time::Instant;

use anyhow::{Result, ensure};
use e2e::differential::kinds::{self, Family};
use e2e::differential::seeds;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

use sides::Sides;

/// Scripts played at a time. Most of a script is waiting for controllers; more than these wait for the processors instead.
const AT_ONCE: usize = 10;

/// Not `scenarios::run`: that ends what takes longer than a test may, and here any number of scripts may be asked for.
fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let mut families = kinds::from_environment().expect("KIND");
    families.retain(|family| is_chosen(&arguments, family.test) && is_comparable(family));
    if arguments.iter().any(|argument| argument == "--list") {
        return families.iter().for_each(|family| println!("{}: test", family.test));
    }
    if families.is_empty() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let sides = Rc::new(Sides::start().await.expect("the control planes start"));
        let mut result = Ok(());
        for family in families {
            let played = play_all(&sides, family).await;
            println!("test {} ... {}", family.test, if played.is_ok() { "ok" } else { "FAILED" });
            result = result.and(played);
        }
        let mut sides = Rc::into_inner(sides).expect("all scripts have ended");
        let end = sides.stop().await;
        // While the sides live: their logs are kept when the thread panics.
        result.and(end).unwrap_or_else(|error| panic!("{error:#}"));
    });
}

/// Whether arguments meant for cargo's harness choose a test.
fn is_chosen(arguments: &[String], name: &str) -> bool {
    let (mut filters, mut rest) = (Vec::new(), arguments.iter());
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--skip" if rest.next().is_some_and(|skipped| name.contains(skipped.as_str())) => return false,
            "--test-threads" | "--format" | "--color" | "-Z" => drop(rest.next()),
            option if option.starts_with('-') => {}
            filter => filters.push(filter),
        }
    }
    filters.is_empty() || filters.into_iter().any(|filter| name.contains(filter))
}

/// Our StatefulSets are those of 1.37 on every server; KCM's of before differ (an `OnDelete` set never comes to its new revision, for one).
fn is_comparable(family: &Family) -> bool {
    let comparable = family.kind != "statefulset" || support::minor_release() >= 37;
    if !comparable {
        println!("test {} ... ignored before Kubernetes 1.37", family.test);
    }
    comparable
}

/// Plays the script of each seed in a namespace of its own.
async fn play_all(sides: &Rc<Sides>, family: Family) -> Result<()> {
    let (began, seeds) = (Instant::now(), seeds::from_environment()?);
    let (count, turns) = (seeds.len(), Rc::new(Semaphore::new(AT_ONCE)));
    let mut playing = JoinSet::new();
    for seed in seeds {
        let (sides, turns, script) = (Rc::clone(sides), Rc::clone(&turns), (family.script)(seed));
        playing.spawn_local(async move {
            let _turn = turns.acquire().await?;
            player::play(&sides, family.kind, &script).await
        });
    }
    let mut differences = 0;
    while let Some(played) = playing.join_next().await {
        if let Err(difference) = played? {
            println!("{difference:#}\n");
            differences += 1;
        }
    }
    println!("{count} scripts of {}s in {:.1?}, {differences} with differences", family.kind, began.elapsed());
    ensure!(differences == 0, "{differences} of {count} scripts showed a difference; see above");
    Ok(())
}
