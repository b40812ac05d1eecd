//! Walks over a namespace: it can hold every object there is, so going through one must let go of the lock between steps.

use super::slab::Id;

/// The walks under way, by number.
#[derive(Default)]
pub(super) struct Walks(Vec<Walk>);

/// Where a walk stands. Removals move it on, so that it sees each object that stays exactly once; objects that come later are not seen.
#[derive(Clone, Copy)]
pub(super) enum Walk {
    /// This number is free.
    Unused,
    /// Nothing is left to be seen.
    Done,
    /// Both ends of what is left.
    At {
        /// The next to be seen.
        next: Id,
        /// The last to be seen.
        last: Id,
    },
}

// === impl Walks ===

impl Walks {
    /// Begins a walk; [`Self::end`] must follow.
    pub(super) fn begin(&mut self, walk: Walk) -> usize {
        let unused = self.0.iter().position(|walk| matches!(walk, Walk::Unused));
        let number = unused.unwrap_or(self.0.len());
        match self.0.get_mut(number) {
            Some(slot) => *slot = walk,
            None => self.0.push(walk),
        }
        number
    }

    /// Moves a walk on by one object, which is handed back.
    pub(super) fn step(&mut self, number: usize, behind: impl FnOnce(Id) -> Id) -> Option<Id> {
        let walk = self.0.get_mut(number)?;
        let Walk::At { next, last } = *walk else { return None };
        *walk = if next == last { Walk::Done } else { Walk::At { next: behind(next), last } };
        Some(next)
    }

    /// Takes an object that is about to go out of all walks.
    pub(super) fn remove(&mut self, gone: Id, before: Id, behind: Id) {
        for walk in &mut self.0 {
            let Walk::At { next, last } = *walk else { continue };
            if next == gone && last == gone {
                *walk = Walk::Done;
            } else if next == gone {
                *walk = Walk::At { next: behind, last };
            } else if last == gone {
                *walk = Walk::At { next, last: before };
            }
        }
    }

    /// Ends a walk and frees its number.
    pub(super) fn end(&mut self, number: usize) {
        if let Some(walk) = self.0.get_mut(number) {
            *walk = Walk::Unused;
        }
        while matches!(self.0.last(), Some(Walk::Unused)) {
            self.0.pop();
        }
    }
}
