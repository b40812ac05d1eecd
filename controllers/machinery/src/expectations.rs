//! What a controller that counts its own writes waits to see before it writes again (upstream
//! `pkg/controller/controller_utils.go` `ControllerExpectations`, `UIDTrackingControllerExpectations`).
//!
//! Ours differ in three ways. A record belongs to an owner's *UID*, so that bookkeeping of a former object of the same name never
//! counts. Deletions are remembered by the child's UID: upstream's set holds `namespace/name` whatever it is called, so a new child that
//! took over an expected name could lower the count of the old one. And a creation whose answer was lost can be marked as
//! unknown: it then outlives the timeout, since a second create would be a second child.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use model::{ObjectKey, Uid};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long missing events are waited for (upstream `ExpectationsTimeout`).
pub const EXPECTATIONS_TIMEOUT: Duration = Duration::from_mins(5);

/// The expectations of all owners of one controller. Times are handed in; the lock is held for one lookup.
#[derive(Debug, Default)]
pub struct Expectations {
    /// By the owner's key: a sync that finds its owner gone knows no UID to clean up by.
    records: Mutex<HashMap<ObjectKey, Record>>,
}

/// What one owner waits for.
#[derive(Debug)]
struct Record {
    owner: Uid,
    /// Creations not seen yet. Goes below zero when children of other origin appear, as upstream.
    creations: i64,
    /// UIDs of children whose end has not been seen.
    deletions: HashSet<Uid>,
    /// Writes that may or may not have happened. They are counted in `creations` or `deletions` too.
    unknown: Vec<UnknownWrite>,
    since: Instant,
}

/// A create or a delete whose answer was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWrite {
    /// The child's name.
    pub name: Arc<str>,
    /// The child's UID, if it was to be deleted.
    pub deleted: Option<Uid>,
    /// When the answer was given up on.
    pub since: Instant,
}

/// What still stands out, for `explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Creations not seen yet.
    pub creations: i64,
    /// Deletions not seen yet.
    pub deletions: usize,
    /// Writes of which it is not known whether they happened.
    pub unknown: Vec<UnknownWrite>,
    /// When they were set.
    pub since: Instant,
}

// === impl Expectations ===

impl Expectations {
    /// Expects `count` new children; replaces what was expected before, except creations that are still unknown.
    pub fn expect_creations(&self, key: &ObjectKey, owner: Uid, count: u32, now: Instant) {
        self.set(key, owner, i64::from(count), HashSet::new(), now);
    }

    /// Expects the end of these children; replaces what was expected before, except creations that are still unknown.
    pub fn expect_deletions(&self, key: &ObjectKey, owner: Uid, children: impl IntoIterator<Item = Uid>, now: Instant) {
        self.set(key, owner, 0, children.into_iter().collect(), now);
    }

    /// A child of that name has appeared in the watch.
    pub fn creation_observed(&self, key: &ObjectKey, owner: Uid, child: &str) {
        self.change(key, owner, |record| {
            record.creations -= 1;
            record.take_unknown(child);
        });
    }

    /// So many creations will never be seen: they failed, or were not sent.
    pub fn creations_failed(&self, key: &ObjectKey, owner: Uid, count: u32) {
        self.change(key, owner, |record| record.creations -= i64::from(count));
    }

    /// The answer to this child's create was lost. The expectation stays raised, also beyond the timeout, until the child is seen or one
    /// of the two methods below says what became of it. Mark first, then look into the store: the child may have been seen already, in
    /// which case [`Self::creation_found`] is due.
    pub fn creation_unknown(&self, key: &ObjectKey, owner: Uid, child: &Arc<str>, now: Instant) {
        self.change(key, owner, |record| {
            record.take_unknown(child);
            record.unknown.push(UnknownWrite { name: Arc::clone(child), deleted: None, since: now });
        });
    }

    /// An unknown creation had happened, and the watch has shown it already: nothing is left to be counted.
    pub fn creation_found(&self, key: &ObjectKey, owner: Uid, child: &str) {
        self.change(key, owner, |record| {
            record.take_unknown(child);
        });
    }

    /// An unknown creation is known not to have happened: it will never be seen.
    pub fn creation_absent(&self, key: &ObjectKey, owner: Uid, child: &str) {
        self.change(key, owner, |record| {
            if record.take_unknown(child) {
                record.creations -= 1;
            }
        });
    }

    /// The answer to this child's delete was lost. As [`Self::creation_unknown`].
    pub fn deletion_unknown(&self, key: &ObjectKey, owner: Uid, child: Uid, name: &Arc<str>, now: Instant) {
        self.change(key, owner, |record| {
            // The watch may have been faster.
            if record.deletions.contains(&child) {
                record.take_unknown_deletion(child);
                record.unknown.push(UnknownWrite { name: Arc::clone(name), deleted: Some(child), since: now });
            }
        });
    }

    /// An unknown deletion had happened; the watch will show it, if it has not.
    pub fn deletion_found(&self, key: &ObjectKey, owner: Uid, child: Uid) {
        self.change(key, owner, |record| record.take_unknown_deletion(child));
    }

    /// When the answer was given up on that has been open for longest.
    pub fn oldest_unknown(&self, key: &ObjectKey) -> Option<Instant> {
        self.records.lock().get(key)?.unknown.iter().map(|unknown| unknown.since).min()
    }

    /// This child is going or gone, or its delete failed. Counts once a child.
    pub fn deletion_observed(&self, key: &ObjectKey, owner: Uid, child: Uid) {
        self.change(key, owner, |record| {
            record.take_unknown_deletion(child);
            if record.deletions.remove(&child) && record.deletions.is_empty() {
                // The record stays until the next write, maybe for days; the room that a large scale-down took need not.
                record.deletions = HashSet::new();
            }
        });
    }

    /// Whether the owner may write again: nothing is expected, or it has been expected for too long.
    pub fn satisfied(&self, key: &ObjectKey, owner: Uid, now: Instant) -> bool {
        let records = self.records.lock();
        let Some(record) = records.get(key).filter(|record| record.owner == owner) else { return true };
        record.unknown.is_empty() && (record.is_fulfilled() || now.duration_since(record.since) > EXPECTATIONS_TIMEOUT)
    }

    /// What the owner still waits for, expired or not.
    pub fn pending(&self, key: &ObjectKey, owner: Uid) -> Option<Pending> {
        let records = self.records.lock();
        records.get(key).filter(|record| record.owner == owner)?.pending()
    }

    /// How many owners wait for something, and what the first `shown` of them wait for: for debug pages.
    pub fn all_pending(&self, shown: usize) -> (usize, Vec<(ObjectKey, Pending)>) {
        let records = self.records.lock();
        let mut pending: Vec<_> = records.iter().filter_map(|(key, record)| Some((key.clone(), record.pending()?))).collect();
        drop(records);
        pending.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let count = pending.len();
        pending.truncate(shown);
        (count, pending)
    }

    /// The owner of that UID is gone; the record of another object of the same name stays.
    pub fn forget(&self, key: &ObjectKey, owner: Uid) {
        let mut records = self.records.lock();
        if records.get(key).is_some_and(|record| record.owner == owner) {
            records.remove(key);
        }
    }

    /// A sync found no owner of that name.
    pub fn forget_absent(&self, key: &ObjectKey) {
        self.records.lock().remove(key);
    }

    fn change(&self, key: &ObjectKey, owner: Uid, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.records.lock().get_mut(key).filter(|record| record.owner == owner) {
            change(record);
        }
    }

    fn set(&self, key: &ObjectKey, owner: Uid, creations: i64, deletions: HashSet<Uid>, now: Instant) {
        let mut records = self.records.lock();
        let unknown = records.remove(key).filter(|record| record.owner == owner).map(|record| record.unknown).unwrap_or_default();
        let unknown_creations = unknown.iter().filter(|write| write.deleted.is_none()).count();
        let creations = creations + i64::try_from(unknown_creations).unwrap_or(0);
        let mut deletions = deletions;
        deletions.extend(unknown.iter().filter_map(|write| write.deleted));
        records.insert(key.clone(), Record { owner, creations, deletions, unknown, since: now });
    }
}

// === impl Record ===

impl Record {
    fn is_fulfilled(&self) -> bool {
        self.creations <= 0 && self.deletions.is_empty()
    }

    fn pending(&self) -> Option<Pending> {
        let open = !self.unknown.is_empty() || !self.is_fulfilled();
        open.then(|| Pending {
            creations: self.creations,
            deletions: self.deletions.len(),
            unknown: self.unknown.clone(),
            since: self.since,
        })
    }

    /// Whether that creation was unknown; it no longer is.
    fn take_unknown(&mut self, child: &str) -> bool {
        let before = self.unknown.len();
        self.unknown.retain(|unknown| unknown.deleted.is_some() || &*unknown.name != child);
        self.unknown.len() < before
    }

    fn take_unknown_deletion(&mut self, child: Uid) {
        self.unknown.retain(|unknown| unknown.deleted != Some(child));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Uid = Uid(1);
    const NEXT_OWNER: Uid = Uid(2);

    fn key() -> ObjectKey {
        ObjectKey::new("ns", "rs")
    }

    #[test]
    fn creations_count_down() {
        let (sut, key, now) = (Expectations::default(), key(), Instant::now());
        assert!(sut.satisfied(&key, OWNER, now), "no record");
        sut.expect_creations(&key, OWNER, 3, now);
        sut.creation_observed(&key, OWNER, "a");
        sut.creations_failed(&key, OWNER, 1);
        assert!(!sut.satisfied(&key, OWNER, now));
        sut.creation_observed(&key, OWNER, "b");
        assert!(sut.satisfied(&key, OWNER, now));
        sut.creation_observed(&key, OWNER, "c");
        assert!(sut.satisfied(&key, OWNER, now), "a negative counter is satisfied");
    }

    #[test]
    fn deletions_count_once_a_child() {
        let (sut, key, now) = (Expectations::default(), key(), Instant::now());
        sut.expect_deletions(&key, OWNER, [Uid(10), Uid(11)], now);
        for child in [10, 10, 12] {
            sut.deletion_observed(&key, OWNER, Uid(child));
        }
        assert!(!sut.satisfied(&key, OWNER, now));
        sut.deletion_observed(&key, OWNER, Uid(11));
        assert!(sut.satisfied(&key, OWNER, now));
    }

    #[test]
    fn former_owner_of_the_name_never_counts() {
        let (sut, key, now) = (Expectations::default(), key(), Instant::now());
        sut.expect_creations(&key, OWNER, 3, now);
        assert!(sut.satisfied(&key, NEXT_OWNER, now), "RS-01: the new object starts without bookkeeping");
        sut.expect_creations(&key, NEXT_OWNER, 1, now);
        sut.creation_observed(&key, OWNER, "late");
        sut.forget(&key, OWNER);
        assert!(!sut.satisfied(&key, NEXT_OWNER, now), "events of the former owner change nothing");
        sut.forget(&key, NEXT_OWNER);
        assert!(sut.satisfied(&key, NEXT_OWNER, now));
    }

    #[test]
    fn expectations_expire_after_five_minutes() {
        let (sut, key, now) = (Expectations::default(), key(), Instant::now());
        sut.expect_creations(&key, OWNER, 1, now);
        assert!(!sut.satisfied(&key, OWNER, now + EXPECTATIONS_TIMEOUT), "upstream compares with >");
        assert!(sut.satisfied(&key, OWNER, now + EXPECTATIONS_TIMEOUT + Duration::from_nanos(1)));
        sut.forget_absent(&key);
        assert_eq!(sut.pending(&key, OWNER), None);
    }

    #[test]
    fn unknown_creation_outlives_the_timeout() {
        let (sut, key, now) = (Expectations::default(), key(), Instant::now());
        let late = now + EXPECTATIONS_TIMEOUT * 2;
        sut.expect_creations(&key, OWNER, 2, now);
        sut.creation_unknown(&key, OWNER, &"lost".into(), now);
        assert!(!sut.satisfied(&key, OWNER, late));
        sut.creation_observed(&key, OWNER, "lost");
        assert!(!sut.satisfied(&key, OWNER, now), "the other one is still expected");
        assert!(sut.satisfied(&key, OWNER, late));
    }

    #[test]
    fn unknown_creation_can_be_absent_or_have_been_seen_before() {
        let (sut, key, now) = (Expectations::default(), key(), Instant::now());
        sut.expect_creations(&key, OWNER, 2, now);
        sut.creation_observed(&key, OWNER, "seen");
        sut.creation_unknown(&key, OWNER, &"seen".into(), now);
        sut.creation_found(&key, OWNER, "seen");
        assert_eq!(sut.pending(&key, OWNER).map(|open| open.creations), Some(1), "what was seen early is not counted twice");
        sut.creation_unknown(&key, OWNER, &"never".into(), now);
        sut.creation_absent(&key, OWNER, "never");
        sut.creation_absent(&key, OWNER, "never");
        assert_eq!(sut.pending(&key, OWNER), None);
    }

    #[test]
    fn unknown_deletion_outlives_the_timeout_until_the_watch_or_a_read_tells() {
        let (sut, key, now) = (Expectations::default(), key(), Instant::now());
        let (late, name) = (now + EXPECTATIONS_TIMEOUT * 2, Arc::from("a"));
        sut.expect_deletions(&key, OWNER, [Uid(10), Uid(11)], now);
        sut.deletion_observed(&key, OWNER, Uid(11));
        sut.deletion_unknown(&key, OWNER, Uid(10), &name, now);
        sut.deletion_unknown(&key, OWNER, Uid(11), &name, now);
        assert_eq!(sut.oldest_unknown(&key), Some(now));
        assert!(!sut.satisfied(&key, OWNER, late));
        sut.deletion_found(&key, OWNER, Uid(10));
        assert!(!sut.satisfied(&key, OWNER, now) && sut.satisfied(&key, OWNER, late), "it is going: the watch is waited for");
        sut.deletion_unknown(&key, OWNER, Uid(10), &name, now);
        sut.deletion_observed(&key, OWNER, Uid(10));
        assert!(sut.satisfied(&key, OWNER, now));
        assert_eq!(sut.oldest_unknown(&key), None);
    }

    #[test]
    fn new_expectations_keep_what_is_unknown() {
        let (sut, key, now) = (Expectations::default(), key(), Instant::now());
        sut.expect_creations(&key, OWNER, 1, now);
        sut.creation_unknown(&key, OWNER, &"lost".into(), now);
        sut.expect_deletions(&key, OWNER, [Uid(10)], now);
        sut.deletion_observed(&key, OWNER, Uid(10));
        assert!(!sut.satisfied(&key, OWNER, now));
        sut.creation_observed(&key, OWNER, "lost");
        assert!(sut.satisfied(&key, OWNER, now));
    }
}
