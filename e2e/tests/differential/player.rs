//! Plays a script on both sides, and compares them at every barrier.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use e2e::differential::mask::dump;
use e2e::differential::script::{Script, Step};
use e2e::differential::settled;
use e2e::differential::snapshot::{Kind, text};
use e2e::wait;
use futures::future::try_join_all;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cache::Space;
use crate::sides::Sides;
use crate::support::PATIENCE;
use crate::view::{View, Written};

/// How long two sides may take to become equal.
const BARRIER: Duration = Duration::from_secs(30);

/// Sides that are equal and have settled must stay so for this long before the script goes on. It is no wait for anything: a controller that
/// still has something on its mind cannot be asked, and the next write would come between its steps on one side only.
const QUIET: Duration = Duration::from_millis(200);

/// More rounds than any rollout of a script has.
const ROUNDS: usize = 100;

/// Plays a script; fails with the first difference.
pub(crate) async fn play(sides: &Sides, kind: &str, script: &Script) -> Result<()> {
    let [reference, subject] = &sides.0;
    let views = [View::new(reference, kind, script.seed).await?, View::new(subject, kind, script.seed).await?];
    for (n, step) in script.steps.iter().enumerate() {
        if let Err(error) = play_step(&views, step).await {
            let story: Vec<_> = script.steps.iter().take(n + 1).map(|step| format!("  {} | then {:?}", step.text, step.nodes)).collect();
            let seed = script.seed;
            for (view, side) in views.iter().zip(&sides.0) {
                keep(&view.space(), &side.plane.folder().join(format!("{kind}-{seed}.json")))?;
            }
            return Err(anyhow!(
                "seed {seed}, step {} of {}: {error:#}\nThe script up to here:\n{}\nAgain: KIND={kind} SEEDS={seed} cargo test -p e2e --test differential\n\
                 Objects: {kind}-{seed}.json in {} and {}",
                n + 1,
                script.steps.len(),
                story.join("\n"),
                reference.plane.folder().display(),
                subject.plane.folder().display(),
            ));
        }
    }
    Ok(())
}

async fn play_step(views: &[View; 2], step: &Step) -> Result<()> {
    next_second(views).await?;
    let written = try_join_all(views.iter().map(|view| view.write(&step.write))).await?;
    let [(one, one_written), (two, two_written)]: [_; 2] = written.try_into().ok().context("two sides")?;
    ensure!(one == two, "the API servers' answers differ: {one:?} and {two:?}");
    barrier(views, [one_written, two_written], "after the write").await?;
    for round in 1..=ROUNDS {
        let work = views.each_ref().map(|view| view.work(step.nodes));
        if work.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let done = views.iter().zip(work).map(|(view, work)| view.do_work(work));
        let done: [_; 2] = try_join_all(done).await?.try_into().ok().context("two sides")?;
        barrier(views, done, &format!("after round {round} of the nodes")).await?;
        if !step.nodes.is_repeated() {
            return Ok(());
        }
    }
    bail!("the nodes still have work after {ROUNDS} rounds")
}

/// Waits until no ReplicaSet was created in the running second: of two that are equally old the name decides, and in it is a hash.
async fn next_second(views: &[View; 2]) -> Result<()> {
    let created = |view: &View| {
        let sets = view.space().snapshot;
        sets.of(Kind::ReplicaSet).filter_map(|set| text(set, "/metadata/creationTimestamp").parse::<Timestamp>().ok()).max()
    };
    let Some(newest) = views.iter().filter_map(created).max() else { return Ok(()) };
    wait::until("the next second", PATIENCE, async || {
        ensure!(Timestamp::now().as_second() > newest.as_second(), "it is the same");
        Ok(())
    })
    .await
}

/// Waits until both sides have settled, are equal, and stay so.
async fn barrier(views: &[View; 2], written: [Vec<Written>; 2], when: &str) -> Result<()> {
    let deadline = Instant::now() + BARRIER;
    let mut feeds = views.each_ref().map(|view| view.cache.changes());
    loop {
        feeds.iter_mut().for_each(tokio::sync::watch::Receiver::mark_unchanged);
        let spaces = views.each_ref().map(View::space);
        let seen = views.iter().zip(&written).all(|(view, written)| written.iter().all(|written| view.shows(written)));
        // Most looks end at the first question; to compare is work.
        let settled = || spaces.iter().all(|space| settled::check(&space.snapshot).is_ok());
        if seen && settled() && look(&spaces).is_ok() && stays(views, &spaces, deadline).await {
            return Ok(());
        }
        let [one, two] = &mut feeds;
        let either = async {
            tokio::select! { news = one.changed() => news, news = two.changed() => news }
        };
        if timeout_at(deadline, either).await.is_err() {
            let names = views.each_ref().map(|view| view.side);
            return look(&views.each_ref().map(View::space))
                .map_err(|why| why.context(format!("{when}, {} beside {}", names[0], names[1])));
        }
    }
}

/// Whether both sides remain as they are.
async fn stays(views: &[View; 2], spaces: &[Space; 2], deadline: Instant) -> bool {
    let changed = || views.iter().zip(spaces).any(|(view, space)| view.space().changes != space.changes);
    let mut feeds = views.each_ref().map(|view| view.cache.changes());
    let change = async {
        while !changed() {
            let [one, two] = &mut feeds;
            let _ = tokio::select! { news = one.changed() => news, news = two.changed() => news };
        }
    };
    timeout(QUIET.min(deadline - Instant::now()), change).await.is_err()
}

/// Fails with what is not settled, and with what differs.
fn look(spaces: &[Space; 2]) -> Result<()> {
    let unsettled: Vec<_> = spaces.iter().map(|space| settled::check(&space.snapshot).err()).collect();
    let [one, two] = spaces.each_ref().map(|space| dump(&space.snapshot, &space.names));
    let difference = one.difference(&two);
    if unsettled.iter().all(Option::is_none) && difference.is_empty() {
        return Ok(());
    }
    let mut message = String::new();
    for (sign, unsettled) in ["-", "+"].iter().zip(unsettled) {
        if let Some(unsettled) = unsettled {
            let _ = write!(message, "\n{sign} has not settled: {unsettled}");
        }
    }
    let _ = write!(message, "\n{difference}");
    bail!("{message}")
}

/// Writes everything down, unmasked.
fn keep(space: &Space, file: &std::path::Path) -> Result<()> {
    let objects: Vec<&Value> = space.snapshot.objects.values().map(std::rc::Rc::as_ref).collect();
    std::fs::write(file, serde_json::to_string_pretty(&objects)?).with_context(|| format!("write {}", file.display()))
}
