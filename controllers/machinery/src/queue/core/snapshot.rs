//! A look into a queue, for debug pages.

use super::{Core, Key, Observer, Stage};

/// What a queue holds, as far as a page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot<K> {
    /// Keys in line.
    pub waiting: usize,
    /// Keys being worked on.
    pub processing: usize,
    /// Keys with a timer.
    pub delayed: usize,
    /// Keys put aside.
    pub parked: usize,
    /// The first in line, those of low priority behind the others.
    pub first_waiting: Vec<K>,
    /// Some that are worked on.
    pub in_work: Vec<K>,
    /// Some that are put aside.
    pub first_parked: Vec<K>,
}

impl<K: Key, O: Observer> Core<K, O> {
    /// What the queue holds, with at most `shown` keys of each kind.
    pub fn snapshot(&self, shown: usize) -> Snapshot<K> {
        let queued = |key: &K, ticket| self.entries.get(key).is_some_and(|entry| entry.stage == Stage::Queued(ticket));
        let line = self.normal.iter().chain(&self.low).filter(|place| queued(&place.key, place.ticket));
        let at = |wanted: fn(Stage) -> bool| self.entries.iter().filter(move |(_, entry)| wanted(entry.stage)).map(|(key, _)| key.clone());
        let parked = |stage| stage == Stage::Parked;
        Snapshot {
            waiting: self.len(),
            processing: self.processing(),
            delayed: self.timers.len(),
            parked: at(parked).count(),
            first_waiting: line.take(shown).map(|place| place.key.clone()).collect(),
            in_work: at(|stage| matches!(stage, Stage::Processing { .. })).take(shown).collect(),
            first_parked: at(parked).take(shown).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::super::Priority;
    use super::*;

    #[test]
    fn each_key_is_where_it_is() {
        let (mut core, now) = (Core::new(()), Instant::now());
        for key in ["a", "b", "c", "d"] {
            core.add(key, Priority::Normal, now);
        }
        core.add("l", Priority::Low, now);
        core.add_after("t", Duration::from_secs(5), now);
        core.take(now).unwrap();
        core.take(now).unwrap();
        core.park(&"b", now);
        let expected = Snapshot {
            waiting: 3,
            processing: 1,
            delayed: 1,
            parked: 1,
            first_waiting: vec!["c", "d"],
            in_work: vec!["a"],
            first_parked: vec!["b"],
        };
        assert_eq!(core.snapshot(2), expected);
    }
}
