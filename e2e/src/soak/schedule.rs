//! What is done when.

use std::time::Duration;

use fastrand::Rng;

use super::scripts::Family;

/// All of a soak.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// It makes the same schedule every time.
    pub seed: u64,
    /// One after the other; between them everything comes to rest and is taken away.
    pub rounds: Vec<Round>,
}

/// A stretch of trouble, from empty namespaces on.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// For people.
    pub name: &'static str,
    /// How long it lasts.
    pub length: Duration,
    /// Whether leaders are attacked. Where they are not, processes live through the round and can be measured behind it.
    pub hands_change: bool,
    /// What is played, each in a namespace of its own.
    pub plays: Vec<Play>,
    /// What befalls the processes and their servers, and how long after the round's beginning.
    pub blows: Vec<(Duration, Blow)>,
}

/// Scripts for one namespace: one after the other, until the round ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Play {
    /// What they are about.
    pub family: Family,
    /// The first script's; each further one has the next.
    pub seed: u64,
}

/// Who is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The process that leads.
    Leader,
    /// The other one.
    Standby,
}

/// What befalls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Blow {
    /// SIGKILL; it is started again.
    Kill(Who),
    /// SIGTERM; it is started again.
    Stop(Who),
    /// SIGSTOP, and SIGCONT so much later.
    Suspend(Who, Duration),
    /// No connection of its lets anything through, and new ones do not either, for so long.
    Part(Who, Duration),
    /// The connections that it has let nothing through any more, and nobody says so. New ones do.
    HalfOpen(Who),
    /// All its connections are closed.
    Disconnect(Who),
    /// All its watches end: with a reset, or in order.
    EndWatches(Who, bool),
    /// What the watches of one resource say is held back for so long.
    Stall(Who, &'static str, Duration),
    /// New connections go to the other API server.
    Move(Who),
    /// The lease is deleted.
    DeleteLease,
    /// Somebody else takes the lease, and lets it expire.
    SeizeLease,
    /// The API server that may end does: with SIGKILL, or in order. It is started again.
    RestartServer(bool),
    /// A node goes silent for so long, and its pods are said not to be ready.
    StopNode(u32, Duration),
    /// So many pods of each namespace are said to have failed.
    FailPods(u32),
}

/// Nodes there are.
pub const NODES: u32 = 6;

/// Longer than the lease, its takeover and a start take: what comes earlier would strike at nobody.
const RECOVERY: Duration = Duration::from_secs(14);

/// The first rounds are warm-up and measurement, and no shorter than this.
const SHORTEST: Duration = Duration::from_secs(20);

impl Schedule {
    /// The schedule of a seed, for so long a time of trouble in all.
    pub fn new(seed: u64, length: Duration) -> Self {
        let mut rng = Rng::with_seed(seed);
        let share = |parts: u32| (length * parts / 6).max(SHORTEST);
        let rounds = vec![
            Round::new("warm-up", share(1), false, &mut rng),
            Round::new("one leader", share(2), false, &mut rng),
            Round::new("changes of hands", share(3), true, &mut rng),
        ];
        Self { seed, rounds }
    }
}

impl Round {
    fn new(name: &'static str, length: Duration, hands_change: bool, rng: &mut Rng) -> Self {
        let families = [(Family::Deployments, 4), (Family::StatefulSets, 4), (Family::ReplicaSets, 2)];
        let families = families.into_iter().flat_map(|(family, count)| std::iter::repeat_n(family, count));
        let plays = families.map(|family| Play { family, seed: u64::from(rng.u32(..)) }).collect();
        let mut blows = timed(length, rng, || Duration::from_secs(4), |rng| harmless(rng, hands_change));
        if hands_change {
            blows.extend(timed(length, rng, || RECOVERY, change_of_hands));
        }
        blows.sort_by_key(|(at, _)| *at);
        Self { name, length, hands_change, plays, blows }
    }
}

/// Blows from a moment after the beginning to a moment before the end, with a pause of about this length between them.
fn timed(length: Duration, rng: &mut Rng, pause: impl Fn() -> Duration, blow: impl Fn(&mut Rng) -> Blow) -> Vec<(Duration, Blow)> {
    let mut blows = Vec::new();
    let mut at = pause().mul_f64(0.3 + rng.f64() / 2.0);
    while at < length {
        blows.push((at, blow(rng)));
        at += pause().mul_f64(0.7 + 0.8 * rng.f64());
    }
    blows
}

fn seconds(rng: &mut Rng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.u64(from * 1000..=to * 1000))
}

/// What costs no leader its lease: not where hands are not to change.
fn harmless(rng: &mut Rng, hands_change: bool) -> Blow {
    const RESOURCES: [&str; 6] = ["pods", "replicasets", "deployments", "statefulsets", "controllerrevisions", "persistentvolumeclaims"];
    let who = if rng.bool() { Who::Leader } else { Who::Standby };
    // A leader whose connections fall silent, or whose server ends, may lose its lease.
    let parted = if hands_change { who } else { Who::Standby };
    match rng.u8(..100) {
        0..15 => Blow::EndWatches(who, rng.bool()),
        15..35 => Blow::Stall(who, rng.choice(RESOURCES).unwrap_or("pods"), seconds(rng, 1, 6)),
        35..47 => Blow::Disconnect(who),
        47..53 => Blow::HalfOpen(parted),
        53..60 => Blow::Part(parted, seconds(rng, 1, 4)),
        60..66 => Blow::Move(parted),
        66..70 if hands_change => Blow::Kill(Who::Standby),
        66..70 => Blow::Disconnect(Who::Standby),
        70..78 => Blow::RestartServer(rng.bool()),
        78..90 => Blow::StopNode(rng.u32(..NODES), seconds(rng, 2, 8)),
        _ => Blow::FailPods(rng.u32(1..=2)),
    }
}

fn change_of_hands(rng: &mut Rng) -> Blow {
    match rng.u8(..100) {
        0..35 => Blow::Kill(Who::Leader),
        35..50 => Blow::Stop(Who::Leader),
        50..70 => Blow::Suspend(Who::Leader, seconds(rng, 10, 14)),
        70..80 => Blow::Part(Who::Leader, seconds(rng, 9, 12)),
        80..86 => Blow::Suspend(Who::Standby, seconds(rng, 5, 14)),
        86..93 => Blow::DeleteLease,
        _ => Blow::SeizeLease,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_makes_the_same_schedule() {
        let schedule = |seed| Schedule::new(seed, Duration::from_mins(3));
        assert_eq!(schedule(5), schedule(5));
        assert_ne!(schedule(5).rounds, schedule(6).rounds);
        let length: Duration = schedule(5).rounds.iter().map(|round| round.length).sum();
        assert_eq!(length, Duration::from_mins(3));
    }

    #[test]
    fn leaders_are_struck_in_the_last_round_only() {
        for seed in 0..50 {
            let rounds = Schedule::new(seed, Duration::from_mins(3)).rounds;
            let ends_leaders = |blow: &Blow| {
                matches!(
                    blow,
                    Blow::Kill(Who::Leader)
                        | Blow::Stop(Who::Leader)
                        | Blow::Suspend(Who::Leader, _)
                        | Blow::Part(Who::Leader, _)
                        | Blow::HalfOpen(Who::Leader)
                        | Blow::Move(Who::Leader)
                        | Blow::DeleteLease
                        | Blow::SeizeLease
                )
            };
            for round in &rounds {
                let strikes = round.blows.iter().filter(|(_, blow)| ends_leaders(blow)).count();
                assert!(if round.hands_change { strikes >= 3 } else { strikes == 0 }, "{seed}: {round:?}");
                assert!(round.blows.iter().all(|(at, _)| *at < round.length));
            }
        }
    }
}
