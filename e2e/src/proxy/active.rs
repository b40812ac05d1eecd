//! Rules in force: which of them take a request, by chance and by count, and what has been held back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::sync::watch;

use super::rule::{Fault, Rule};
use super::target::Target;
use crate::wait;

/// All rules in force, in the order they were added.
#[derive(Debug)]
pub(super) struct Registry {
    seed: u64,
    next: AtomicU64,
    rules: Mutex<Vec<Arc<Active>>>,
    /// Told of every change, so that open watches look again.
    changed: watch::Sender<()>,
}

/// One rule in force.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) id: u64,
    pub(super) rule: Rule,
    counts: Mutex<Counts>,
    gate: watch::Sender<Gate>,
    /// Requests and events held back now.
    held: AtomicU64,
}

#[derive(Debug)]
struct Counts {
    /// Of this rule alone: other rules do not change what it does.
    random: fastrand::Rng,
    matched: u64,
    taken: u64,
}

/// Whether what is held back may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Closed,
    Released,
    Discarded,
}

/// A rule in force, from outside. It stays in force when this is dropped.
#[derive(Debug, Clone)]
pub struct Handle {
    registry: Arc<Registry>,
    active: Arc<Active>,
}

// === impl Registry ===

impl Registry {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, next: AtomicU64::new(0), rules: Mutex::default(), changed: watch::Sender::new(()) }
    }

    pub(super) fn add(self: &Arc<Self>, rule: Rule) -> Handle {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        // Neighbouring seeds of a small generator give similar first numbers; multiplied by a large odd number they are no neighbours.
        let random = fastrand::Rng::with_seed(self.seed ^ (id + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let counts = Mutex::new(Counts { random, matched: 0, taken: 0 });
        let active = Arc::new(Active { id, rule, counts, gate: watch::Sender::new(Gate::Closed), held: AtomicU64::new(0) });
        self.rules().push(Arc::clone(&active));
        self.changed.send_replace(());
        Handle { registry: Arc::clone(self), active }
    }

    /// Takes every rule out of force, and lets go what it held.
    pub(super) fn clear(&self) {
        let rules = std::mem::take(&mut *self.rules());
        for active in rules {
            active.gate.send_replace(Gate::Released);
        }
        self.changed.send_replace(());
    }

    /// The rules that take this request, faults of watches apart.
    pub(super) fn draw(&self, target: &Target) -> Vec<Arc<Active>> {
        let takes =
            |active: &&Arc<Active>| !matches!(active.rule.fault, Fault::Watch(_)) && active.rule.matcher.accepts(target) && active.takes();
        self.rules().iter().filter(takes).cloned().collect()
    }

    /// The rules for a watch that is open.
    pub(super) fn of_watch(&self, target: &Target) -> Vec<Arc<Active>> {
        let is_for = |active: &&Arc<Active>| matches!(active.rule.fault, Fault::Watch(_)) && active.rule.matcher.accepts(target);
        self.rules().iter().filter(is_for).cloned().collect()
    }

    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn end(&self, active: &Active, gate: Gate) {
        self.rules().retain(|other| other.id != active.id);
        active.gate.send_replace(gate);
        self.changed.send_replace(());
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Arc<Active>>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Active ===

impl Active {
    /// Whether this match, the next one, is taken.
    pub(super) fn takes(&self) -> bool {
        let when = self.rule.when;
        let mut counts = self.counts();
        counts.matched += 1;
        // Drawn for every match, so that the n-th match has the n-th number whatever the limits are.
        let drawn = when.chance >= 1.0 || counts.random.f64() < when.chance;
        let taken = drawn && counts.matched > when.skip && counts.taken < when.limit;
        counts.taken += u64::from(taken);
        taken
    }

    /// Waits until the rule is released or discarded.
    pub(super) async fn hold(&self) -> Gate {
        let mut gate = self.gate.subscribe();
        self.held_more(1);
        // The sender lives in self.
        let opened = gate.wait_for(|gate| *gate != Gate::Closed).await.map_or(Gate::Discarded, |gate| *gate);
        self.held_less(1);
        opened
    }

    /// Until the rule is taken out of force.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let mut gate = self.gate.subscribe();
        async move { drop(gate.wait_for(|gate| *gate != Gate::Closed).await) }
    }

    pub(super) fn gate(&self) -> Gate {
        *self.gate.borrow()
    }

    pub(super) fn held_more(&self, count: u64) {
        self.held.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn held_less(&self, count: u64) {
        self.held.fetch_sub(count, Ordering::Relaxed);
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Handle ===

impl Handle {
    /// How many requests (or events) the rule has looked at.
    pub fn matched(&self) -> u64 {
        self.active.counts().matched
    }

    /// How many of them it has taken.
    pub fn taken(&self) -> u64 {
        self.active.counts().taken
    }

    /// How many requests, or frames of watches, it holds back now.
    pub fn held(&self) -> u64 {
        self.active.held.load(Ordering::Relaxed)
    }

    /// Waits until it holds back at least so many.
    pub async fn holds(&self, count: u64, within: Duration) -> Result<()> {
        wait::until(&format!("{count} to be held back"), within, async || {
            ensure!(self.held() >= count, "{} are", self.held());
            Ok(())
        })
        .await
    }

    /// Waits until it has taken at least so many.
    pub async fn takes(&self, count: u64, within: Duration) -> Result<()> {
        wait::until(&format!("a fault to happen {count} times"), within, async || {
            ensure!(self.taken() >= count, "{} times of {} matches", self.taken(), self.matched());
            Ok(())
        })
        .await
    }

    /// Takes the rule out of force; what it holds back goes on.
    pub fn release(&self) {
        self.registry.end(&self.active, Gate::Released);
    }

    /// Takes the rule out of force; what it holds back is lost.
    pub fn discard(&self) {
        self.registry.end(&self.active, Gate::Discarded);
    }
}
