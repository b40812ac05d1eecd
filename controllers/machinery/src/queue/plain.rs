//! The queue's core against client-go's queue, told plainly.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::core::{Core, Priority};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[derive(Default)]
struct Plain {
    queue: VecDeque<u8>,
    dirty: HashSet<u8>,
    processing: HashMap<u8, u64>,
    waiting: BTreeSet<(u64, u64, u8)>,
    failures: HashMap<u8, (u32, u64)>,
    order: u64,
}

impl Plain {
    fn add(&mut self, key: u8) {
        if self.dirty.insert(key) && !self.processing.contains_key(&key) {
            self.queue.push_back(key);
        }
    }

    fn add_at(&mut self, key: u8, at: u64, now: u64) {
        if at <= now {
            return self.add(key);
        }
        self.order += 1;
        let known = self.waiting.iter().find(|(_, _, waits)| *waits == key).copied();
        if known.is_none_or(|(before, _, _)| at < before) {
            known.map(|entry| self.waiting.remove(&entry));
            self.waiting.insert((at, self.order, key));
        }
    }

    fn fail(&mut self, key: u8, now: u64) {
        let (failures, until) = self.failures.get(&key).copied().unwrap_or_default();
        let began = self.processing.get(&key).copied().unwrap_or(now);
        if began < until {
            return self.add_at(key, until, now);
        }
        let until = now + 5 * (1 << failures.min(12));
        self.failures.insert(key, (failures + 1, until));
        self.add_at(key, until, now);
    }

    fn take(&mut self, now: u64) -> Option<u8> {
        while let Some(first) = self.waiting.first().copied().filter(|(at, _, _)| *at <= now) {
            self.waiting.remove(&first);
            self.add(first.2);
        }
        let key = self.queue.pop_front()?;
        self.dirty.remove(&key);
        assert_eq!(self.processing.insert(key, now), None, "one key, one worker");
        Some(key)
    }

    fn done(&mut self, key: u8) {
        self.processing.remove(&key);
        if self.dirty.contains(&key) {
            self.queue.push_back(key);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    AddAfter(u8, u16),
    Advance(u16),
    Take,
    /// The worker of that number (modulo those at work) ends: well, or with a failure.
    Succeed(u8),
    Fail(u8),
    Forget(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..10_u8;
    prop_oneof![
        4 => key.clone().prop_map(Step::Add),
        2 => (key.clone(), 0..200_u16).prop_map(|(key, delay)| Step::AddAfter(key, delay)),
        3 => (0..100_u16).prop_map(Step::Advance),
        6 => Just(Step::Take),
        3 => any::<u8>().prop_map(Step::Succeed),
        3 => any::<u8>().prop_map(Step::Fail),
        1 => key.prop_map(Step::Forget),
    ]
}

struct Race {
    sut: Core<u8>,
    plain: Plain,
    start: Instant,
    now: u64,
    at_work: Vec<u8>,
    /// When each key was last added and last taken, in steps.
    added: HashMap<u8, usize>,
    taken: HashMap<u8, usize>,
}

impl Race {
    fn instant(&self) -> Instant {
        self.start + millis(self.now)
    }

    fn take(&mut self, tick: usize) -> bool {
        let now = self.instant();
        let taken = self.sut.take(now);
        assert_eq!(taken, self.plain.take(self.now), "the same key at the same time");
        if let Some(key) = taken {
            assert!(!self.at_work.contains(&key), "no key in two workers");
            self.at_work.push(key);
            self.taken.insert(key, tick);
        }
        taken.is_some()
    }

    fn finish(&mut self, worker: u8, fails: bool) {
        if self.at_work.is_empty() {
            return;
        }
        let key = self.at_work.remove(usize::from(worker) % self.at_work.len());
        let now = self.instant();
        if fails {
            self.sut.add_rate_limited(key, now);
            self.plain.fail(key, self.now);
        } else {
            self.forget(key);
        }
        self.sut.done(&key, now);
        self.plain.done(key);
    }

    fn forget(&mut self, key: u8) {
        self.sut.forget(&key);
        self.plain.failures.remove(&key);
    }

    fn run(&mut self, step: &Step, tick: usize, workers: usize) {
        let now = self.instant();
        match *step {
            Step::Add(key) => {
                self.sut.add(key, Priority::Normal, now);
                self.plain.add(key);
                self.added.insert(key, tick);
            }
            Step::AddAfter(key, delay) => {
                self.sut.add_after(key, millis(delay.into()), now);
                self.plain.add_at(key, self.now + u64::from(delay), self.now);
                self.added.insert(key, tick);
            }
            Step::Advance(by) => self.now += u64::from(by),
            Step::Take if self.at_work.len() < workers => {
                self.take(tick);
            }
            Step::Take => {}
            Step::Succeed(worker) => self.finish(worker, false),
            Step::Fail(worker) => self.finish(worker, true),
            Step::Forget(key) => self.forget(key),
        }
        let failures = |key: u8| self.plain.failures.get(&key).map_or(0, |(failures, _)| *failures);
        assert!((0..10).all(|key| self.sut.num_requeues(&key) == failures(key)));
        assert_eq!(self.sut.len(), self.plain.queue.len());
        assert_eq!(self.sut.processing(), self.at_work.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    // CTL-12. At most 90 failures: the common limit, tested above, is not part of the plain telling.
    #[test]
    fn ctl_12_core_equals_the_plain_telling(steps in prop::collection::vec(step(), 1..300), workers in 1..=8_usize) {
        let mut race = Race {
            sut: Core::new(()), plain: Plain::default(), start: Instant::now(), now: 0,
            at_work: Vec::new(), added: HashMap::new(), taken: HashMap::new(),
        };
        let mut fails = 0;
        for (tick, step) in steps.iter().enumerate() {
            fails += usize::from(matches!(step, Step::Fail(_)));
            if fails <= 90 || !matches!(step, Step::Fail(_)) {
                race.run(step, tick, workers);
            }
        }
        // Afterwards everybody succeeds, and time goes on until nothing is left.
        let end = steps.len();
        loop {
            while race.take(end) {}
            if !race.at_work.is_empty() {
                race.finish(0, false);
            } else if let Some(next) = race.sut.next_timer() {
                race.now = u64::try_from((next - race.start).as_millis()).unwrap();
            } else {
                break;
            }
        }
        prop_assert!(race.plain.dirty.is_empty() && race.plain.waiting.is_empty());
        for (key, added) in &race.added {
            prop_assert!(race.taken.get(key) >= Some(added), "key {key} was added and never worked on again");
        }
    }
}
