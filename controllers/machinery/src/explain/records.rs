//! What the last syncs of each object came to: a few records an object, and none for one that has always been as it should be.

use std::collections::HashMap;

use model::plan::{Rule, Wait};
use model::{ObjectKey, Time, Uid};
use parking_lot::Mutex;

/// What a sync came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is as it should be.
    Settled,
    /// Something was done, and nothing is waited for.
    Acted,
    /// Something is waited for.
    Waits,
    /// Something went wrong: it is tried again.
    Failed,
}

/// What one sync came to, or several in a row that came to the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it was.
    pub verdict: Verdict,
    /// The end of the first of these syncs.
    pub since: Time,
    /// The end of the last.
    pub last: Time,
    /// How many.
    pub syncs: u32,
    /// What was waited for, each since when, with the numbers of the last sync.
    pub waits: Vec<(Time, Wait)>,
    /// What was done, by rule.
    pub steps: Vec<(Rule, u32)>,
    /// What went wrong.
    pub error: Option<Box<str>>,
}

/// The records of one controller's objects.
#[derive(Debug, Default)]
pub struct Records(Mutex<HashMap<ObjectKey, Ring>>);

#[derive(Debug)]
struct Ring {
    owner: Uid,
    /// Oldest first.
    records: Vec<Record>,
}

/// So many records an object: a rollout's phases, and how the one before it ended.
const RECORDS: usize = 8;
/// So many are kept of an object that is as it should be.
const SETTLED_RECORDS: usize = 3;
/// So many objects have records at most; each has a few hundred bytes.
const OBJECTS: usize = 5_000;
/// How many are looked at to find one that is long over, when there are too many.
const SAMPLE: usize = 16;

// === impl Verdict ===

impl Verdict {
    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Acted => "acted",
            Self::Waits => "waits",
            Self::Failed => "failed",
        }
    }
}

// === impl Record ===

impl Record {
    /// The record of a sync that ends now.
    pub fn new(waits: Vec<Wait>, steps: Vec<(Rule, u32)>, error: Option<&str>, now: Time) -> Self {
        let verdict = match error {
            Some(_) => Verdict::Failed,
            None if !waits.is_empty() => Verdict::Waits,
            None if !steps.is_empty() => Verdict::Acted,
            None => Verdict::Settled,
        };
        let waits = waits.into_iter().map(|wait| (now, wait)).collect();
        Self { verdict, since: now, last: now, syncs: 1, waits, steps, error: error.map(Into::into) }
    }

    /// Whether it came to the same, whatever was done on the way and whatever numbers it counted.
    fn is_same(&self, other: &Self) -> bool {
        let same_waits = || self.waits.iter().zip(&other.waits).all(|((_, one), (_, other))| one.is_same(other));
        self.verdict == other.verdict && self.error == other.error && self.waits.len() == other.waits.len() && same_waits()
    }

    /// What is still waited for has been waited for since then.
    fn continues(&mut self, before: &Self) {
        for (since, wait) in &mut self.waits {
            if let Some((earlier, _)) = before.waits.iter().find(|(_, other)| other.is_same(wait)) {
                *since = *earlier;
            }
        }
    }

    fn merge(&mut self, next: Self) {
        (self.last, self.syncs, self.waits) = (next.last, self.syncs.saturating_add(1), next.waits);
        for (rule, count) in next.steps {
            match self.steps.iter_mut().find(|(known, _)| *known == rule) {
                Some((_, sum)) => *sum = sum.saturating_add(count),
                None => self.steps.push((rule, count)),
            }
        }
    }
}

// === impl Records ===

impl Records {
    /// Takes what a sync came to.
    pub fn push(&self, key: &ObjectKey, owner: Uid, mut record: Record) {
        let mut rings = self.0.lock();
        if !rings.contains_key(key) {
            if record.verdict == Verdict::Settled {
                return;
            }
            make_room(&mut rings);
        }
        let ring = rings.entry(key.clone()).or_insert_with(|| Ring { owner, records: Vec::new() });
        if ring.owner != owner {
            *ring = Ring { owner, records: Vec::new() };
        }
        if let Some(last) = ring.records.last_mut() {
            record.continues(last);
            if last.is_same(&record) {
                last.merge(record);
                return;
            }
        }
        let limit = if record.verdict == Verdict::Settled { SETTLED_RECORDS } else { RECORDS };
        let surplus = (ring.records.len() + 1).saturating_sub(limit);
        ring.records.drain(..surplus);
        ring.records.push(record);
        if limit == SETTLED_RECORDS {
            ring.records.shrink_to_fit();
        }
    }

    /// The object's records, oldest first.
    pub fn of(&self, key: &ObjectKey, owner: Uid) -> Vec<Record> {
        let rings = self.0.lock();
        rings.get(key).filter(|ring| ring.owner == owner).map(|ring| ring.records.clone()).unwrap_or_default()
    }

    /// The last record of every object that is not as it should be, by key.
    pub fn open(&self) -> Vec<(ObjectKey, Record)> {
        let rings = self.0.lock();
        let last = rings.iter().filter_map(|(key, ring)| Some((key.clone(), ring.records.last()?.clone())));
        let mut open: Vec<_> = last.filter(|(_, record)| matches!(record.verdict, Verdict::Waits | Verdict::Failed)).collect();
        open.sort_by(|(one, _), (other, _)| one.cmp(other));
        open
    }

    /// The object is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }

    /// How many objects have records.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether no object has records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Of a few that come to hand the one goes whose last sync is longest ago.
fn make_room(rings: &mut HashMap<ObjectKey, Ring>) {
    if rings.len() < OBJECTS {
        return;
    }
    let age = |ring: &Ring| ring.records.last().map(|record| (record.verdict != Verdict::Settled, record.last));
    let oldest = rings.iter().take(SAMPLE).min_by_key(|(_, ring)| age(ring)).map(|(key, _)| key.clone());
    if let Some(key) = oldest {
        rings.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Uid = Uid(1);

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    fn waits(rule: Rule, ready: i32, at: i64) -> Record {
        Record::new(vec![Wait::new(rule).counting(&[("ready", ready)])], Vec::new(), None, Time(at))
    }

    fn settled(at: i64) -> Record {
        Record::new(Vec::new(), Vec::new(), None, Time(at))
    }

    #[test]
    fn what_was_always_settled_has_no_record() {
        let sut = Records::default();
        sut.push(&key("a"), OWNER, settled(1));
        assert!(sut.is_empty());
        sut.push(&key("a"), OWNER, waits(Rule::PodsNotReady, 0, 2));
        sut.push(&key("a"), OWNER, settled(3));
        let verdicts: Vec<_> = sut.of(&key("a"), OWNER).iter().map(|record| record.verdict).collect();
        assert_eq!(verdicts, [Verdict::Waits, Verdict::Settled]);
        sut.forget(&key("a"));
        assert!(sut.is_empty());
    }

    #[test]
    fn the_same_wait_is_one_record_with_the_last_numbers() {
        let sut = Records::default();
        for ready in 0..5 {
            let mut record = waits(Rule::PodsNotReady, ready, 10 + i64::from(ready));
            record.steps = vec![(Rule::TooFewReplicas, 2)];
            sut.push(&key("a"), OWNER, record);
        }
        let records = sut.of(&key("a"), OWNER);
        let [record] = records.as_slice() else { panic!("one record: {records:?}") };
        assert_eq!((record.since, record.last, record.syncs), (Time(10), Time(14), 5));
        assert_eq!(record.steps, [(Rule::TooFewReplicas, 10)]);
        assert_eq!(record.waits, [(Time(10), Wait::new(Rule::PodsNotReady).counting(&[("ready", 4)]))]);
    }

    #[test]
    fn a_wait_that_goes_on_beside_a_new_one_keeps_its_beginning() {
        let sut = Records::default();
        sut.push(&key("a"), OWNER, waits(Rule::PodsNotReady, 0, 10));
        let both = vec![Wait::new(Rule::Paused), Wait::new(Rule::PodsNotReady)];
        sut.push(&key("a"), OWNER, Record::new(both, Vec::new(), None, Time(20)));
        let since: Vec<_> = sut.of(&key("a"), OWNER).last().unwrap().waits.iter().map(|(since, _)| *since).collect();
        assert_eq!(since, [Time(20), Time(10)]);
    }

    #[test]
    fn an_object_has_few_records_and_fewer_when_it_is_settled() {
        let sut = Records::default();
        for at in 0..100 {
            let rule = if at % 2 == 0 { Rule::SurgeCeiling } else { Rule::AvailabilityFloor };
            sut.push(&key("a"), OWNER, waits(rule, 0, at));
        }
        assert_eq!(sut.of(&key("a"), OWNER).len(), RECORDS);
        sut.push(&key("a"), OWNER, settled(200));
        assert_eq!(sut.of(&key("a"), OWNER).len(), SETTLED_RECORDS);
    }

    #[test]
    fn another_object_of_the_name_begins_anew() {
        let sut = Records::default();
        sut.push(&key("a"), OWNER, waits(Rule::Paused, 0, 1));
        sut.push(&key("a"), Uid(2), waits(Rule::Paused, 0, 2));
        assert!(sut.of(&key("a"), OWNER).is_empty());
        assert_eq!(sut.of(&key("a"), Uid(2)).first().map(|record| record.since), Some(Time(2)));
    }

    #[test]
    fn a_failure_is_told_apart_by_its_text() {
        let sut = Records::default();
        for (at, error) in ["quota", "quota", "webhook"].into_iter().enumerate() {
            sut.push(&key("a"), OWNER, Record::new(Vec::new(), Vec::new(), Some(error), Time(at as i64)));
        }
        let records = sut.of(&key("a"), OWNER);
        assert_eq!(
            records.iter().map(|record| (record.error.as_deref(), record.syncs)).collect::<Vec<_>>(),
            [(Some("quota"), 2), (Some("webhook"), 1)]
        );
    }

    #[test]
    fn the_number_of_objects_is_bounded() {
        let sut = Records::default();
        for n in 0..OBJECTS + 50 {
            sut.push(&key(&format!("a-{n}")), OWNER, waits(Rule::Paused, 0, n as i64));
        }
        assert_eq!(sut.len(), OBJECTS);
    }
}
