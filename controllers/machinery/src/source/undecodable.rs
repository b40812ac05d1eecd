//! Objects that cannot be read: each gets a second look, then it is left out, so that it stops nobody else.

use std::collections::HashMap;

/// What to do about an object that could not be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Read it again: bytes may have been damaged on the way.
    Again,
    /// Leave it out. Somebody has to be told.
    Skip,
    /// Leave it out, as before.
    SkipKnown,
}

/// The objects that failed, by [`super::wire::identity`].
#[derive(Debug, Default)]
pub(super) struct Undecodable {
    /// Whether it has been reported.
    failed: HashMap<u64, bool>,
}

/// More than this is no set of bad objects but a resource that we cannot read; beyond it all is forgotten and reported again.
const LIMIT: usize = 10_000;

// === impl Undecodable ===

impl Undecodable {
    /// Judges a failure. On a `last_look` nothing is put off any more: a list must end some time, even if its bad objects keep changing.
    pub(super) fn judge(&mut self, identity: u64, last_look: bool) -> Verdict {
        if self.failed.len() >= LIMIT {
            self.failed.clear();
        }
        match self.failed.get_mut(&identity) {
            Some(true) => Verdict::SkipKnown,
            Some(reported) => {
                *reported = true;
                Verdict::Skip
            }
            None => {
                self.failed.insert(identity, last_look);
                if last_look { Verdict::Skip } else { Verdict::Again }
            }
        }
    }

    /// Whether nothing has failed, so that [`Undecodable::recovered`] need not be asked.
    pub(super) fn is_empty(&self) -> bool {
        self.failed.is_empty()
    }

    /// It could be decoded after all: its next failure gets a second look again.
    pub(super) fn recovered(&mut self, identity: u64) {
        self.failed.remove(&identity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_failure_is_reported_once_and_skipped() {
        let mut undecodable = Undecodable::default();
        assert!(undecodable.is_empty());
        assert_eq!(undecodable.judge(1, false), Verdict::Again);
        assert_eq!(undecodable.judge(1, false), Verdict::Skip);
        assert_eq!(undecodable.judge(1, false), Verdict::SkipKnown);
        assert_eq!(undecodable.judge(2, true), Verdict::Skip);
        undecodable.recovered(1);
        assert_eq!(undecodable.judge(1, false), Verdict::Again);
    }
}
