//! What is called for and left to others, object by object: since when, and whether that is too long.

use std::collections::HashMap;
use std::time::Duration;

use model::plan::Rule;
use model::{ObjectKey, Uid};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Why something is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A step's rule.
    Step(Rule),
    /// The status is not what it should be.
    Status,
}

/// Something that is called for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) cause: Cause,
    /// What exactly: another number is another thing.
    pub(super) content: u64,
}

/// What has come of looking at one object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// What was not called for before.
    pub(super) begun: Vec<Cause>,
    /// What is not called for any more: somebody has done it.
    pub(super) done: Vec<Cause>,
    /// What has now been called for, and done by nobody, for too long.
    pub(super) overdue: Vec<Cause>,
    /// When the next of it is overdue.
    pub(super) look_again: Option<Duration>,
}

/// What one object calls for, and nobody does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which object.
    pub key: ObjectKey,
    /// Since when the oldest of it has been called for.
    pub since: Instant,
    /// Why.
    pub causes: Vec<Cause>,
}

/// What the objects of one controller call for.
#[derive(Debug)]
pub(super) struct Ledger {
    overdue_after: Duration,
    objects: Mutex<HashMap<ObjectKey, Entry>>,
}

#[derive(Debug)]
struct Entry {
    owner: Uid,
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    want: Want,
    since: Instant,
    /// Other things come first now, so that it is not known whether this is still called for.
    hidden: bool,
    overdue: bool,
}

// === impl Cause ===

impl Cause {
    /// As in metrics and on pages: the rule, or `status`.
    pub fn id(self) -> &'static str {
        match self {
            Self::Step(rule) => rule.id(),
            Self::Status => "status",
        }
    }

    /// All that there can be.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Rule::ALL.iter().filter(|rule| rule.ends().is_none()).map(|rule| Self::Step(*rule)).chain([Self::Status])
    }
}

// === impl Ledger ===

impl Ledger {
    pub(super) fn new(overdue_after: Duration) -> Self {
        Self { overdue_after, objects: Mutex::default() }
    }

    /// Takes what an object calls for now. `whole`: nothing else is called for; else other things may be, which come later.
    pub(super) fn see(&self, key: &ObjectKey, owner: Uid, wants: &[Want], whole: bool, now: Instant) -> Seen {
        let mut seen = Seen::default();
        let mut objects = self.objects.lock();
        if wants.is_empty() && !objects.contains_key(key) {
            return seen;
        }
        let entry = objects.entry(key.clone()).or_insert_with(|| Entry { owner, open: Vec::new() });
        if entry.owner != owner {
            *entry = Entry { owner, open: Vec::new() };
        }
        entry.open.retain_mut(|open| {
            open.hidden |= !wants.iter().any(|want| want.cause == open.want.cause);
            if open.hidden && whole {
                seen.done.push(open.want.cause);
            }
            !(open.hidden && whole)
        });
        for want in wants {
            self.wanted(&mut entry.open, *want, now, &mut seen);
        }
        if entry.open.is_empty() {
            objects.remove(key);
        }
        seen
    }

    fn wanted(&self, open: &mut Vec<Open>, want: Want, now: Instant, seen: &mut Seen) {
        let Some(known) = open.iter_mut().find(|open| open.want.cause == want.cause) else {
            open.push(Open { want, since: now, hidden: false, overdue: false });
            seen.begun.push(want.cause);
            return look_again(seen, self.overdue_after);
        };
        if known.hidden || known.want != want {
            // Some of it has been done, or it is another thing now.
            *known = Open { want, since: now, hidden: false, overdue: false };
        }
        let left = self.overdue_after.saturating_sub(now.duration_since(known.since));
        if !left.is_zero() {
            look_again(seen, left);
        } else if !known.overdue {
            known.overdue = true;
            seen.overdue.push(want.cause);
        }
    }

    /// The object is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.objects.lock().remove(key);
    }

    /// What is overdue, oldest first.
    pub(super) fn differences(&self) -> Vec<Difference> {
        let objects = self.objects.lock();
        let mut all: Vec<_> = objects.iter().filter_map(|(key, entry)| entry.difference(key)).collect();
        all.sort_by(|one, other| (one.since, &one.key).cmp(&(other.since, &other.key)));
        all
    }

    /// How many objects call for something.
    pub(super) fn len(&self) -> usize {
        self.objects.lock().len()
    }
}

// === impl Entry ===

impl Entry {
    fn difference(&self, key: &ObjectKey) -> Option<Difference> {
        let overdue = || self.open.iter().filter(|open| open.overdue);
        let since = overdue().map(|open| open.since).min()?;
        Some(Difference { key: key.clone(), since, causes: overdue().map(|open| open.want.cause).collect() })
    }
}

fn look_again(seen: &mut Seen, after: Duration) {
    seen.look_again = Some(seen.look_again.map_or(after, |other| other.min(after)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Uid = Uid(1);
    const CREATE: Cause = Cause::Step(Rule::TooFewReplicas);
    const ADOPT: Cause = Cause::Step(Rule::OrphanMatches);

    struct Fixture {
        sut: Ledger,
        start: Instant,
    }

    impl Fixture {
        fn new() -> Self {
            Self { sut: Ledger::new(Duration::from_secs(60)), start: Instant::now() }
        }

        /// What has come of a look so many seconds after the start: begun, done, overdue, and when to look again.
        fn see(&self, at: u64, wants: &[(Cause, u64)], whole: bool) -> (Vec<Cause>, Vec<Cause>, Vec<Cause>, Option<u64>) {
            let wants: Vec<_> = wants.iter().map(|(cause, content)| Want { cause: *cause, content: *content }).collect();
            let seen = self.sut.see(&ObjectKey::new("ns", "a"), OWNER, &wants, whole, self.start + Duration::from_secs(at));
            (seen.begun, seen.done, seen.overdue, seen.look_again.map(|after| after.as_secs()))
        }
    }

    #[test]
    fn what_somebody_does_in_time_is_done() {
        let fixture = Fixture::new();
        assert_eq!(fixture.see(0, &[(CREATE, 3)], false), (vec![CREATE], vec![], vec![], Some(60)));
        assert_eq!(fixture.see(10, &[(CREATE, 3)], false), (vec![], vec![], vec![], Some(50)));
        // Two of the three are there: the time begins anew.
        assert_eq!(fixture.see(50, &[(CREATE, 1)], false), (vec![], vec![], vec![], Some(60)));
        assert_eq!(fixture.see(70, &[(Cause::Status, 7)], true), (vec![Cause::Status], vec![CREATE], vec![], Some(60)));
        assert_eq!(fixture.see(71, &[], true), (vec![], vec![Cause::Status], vec![], None));
        assert_eq!(fixture.sut.len(), 0);
    }

    #[test]
    fn what_nobody_does_is_a_difference_until_somebody_does_it() {
        let fixture = Fixture::new();
        fixture.see(0, &[(CREATE, 3)], false);
        assert_eq!(fixture.see(59, &[(CREATE, 3)], false).2, []);
        assert_eq!(fixture.see(60, &[(CREATE, 3)], false), (vec![], vec![], vec![CREATE], None));
        // Told once.
        assert_eq!(fixture.see(61, &[(CREATE, 3)], false), (vec![], vec![], vec![], None));
        let difference = Difference { key: ObjectKey::new("ns", "a"), since: fixture.start, causes: vec![CREATE] };
        assert_eq!(fixture.sut.differences(), [difference]);
        assert_eq!(fixture.see(90, &[], true), (vec![], vec![CREATE], vec![], None));
        assert_eq!(fixture.sut.differences(), []);
    }

    #[test]
    fn what_is_hidden_behind_other_things_is_neither_done_nor_overdue() {
        let fixture = Fixture::new();
        fixture.see(0, &[(CREATE, 3)], false);
        assert_eq!(fixture.see(59, &[(ADOPT, 1)], false), (vec![ADOPT], vec![], vec![], Some(60)));
        // It may have been done meanwhile, and be called for again.
        assert_eq!(fixture.see(80, &[(CREATE, 3)], false), (vec![], vec![], vec![], Some(60)));
        assert_eq!(fixture.see(81, &[], true), (vec![], vec![CREATE, ADOPT], vec![], None));
    }

    #[test]
    fn another_object_of_the_name_begins_anew() {
        let fixture = Fixture::new();
        fixture.see(0, &[(CREATE, 3)], false);
        let want = [Want { cause: CREATE, content: 3 }];
        let seen = fixture.sut.see(&ObjectKey::new("ns", "a"), Uid(2), &want, false, fixture.start + Duration::from_secs(70));
        assert_eq!((seen.begun, seen.done, seen.overdue), (vec![CREATE], vec![], vec![]));
        fixture.sut.forget(&ObjectKey::new("ns", "a"));
        assert_eq!(fixture.sut.len(), 0);
    }
}
