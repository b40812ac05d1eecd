//! A map that forgets what was not used for longest.

use std::collections::{BTreeMap, HashMap};

/// At most so many entries; keys are fingerprints.
#[derive(Debug)]
pub(super) struct Lru<V> {
    capacity: usize,
    entries: HashMap<u128, (u64, V)>,
    /// Keys by their last use.
    by_use: BTreeMap<u64, u128>,
    uses: u64,
}

// === impl Lru ===

impl<V> Lru<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, entries: HashMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// The entry of a key, which is now the last used; a new one may push out the least used.
    pub(super) fn get_or_insert_with(&mut self, key: u128, new: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        let uses = self.uses;
        if !self.entries.contains_key(&key)
            && self.entries.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.by_use.insert(uses, key);
        let (last_use, value) = self.entries.entry(key).or_insert_with(|| (uses, new()));
        if *last_use != uses {
            self.by_use.remove(last_use);
            *last_use = uses;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_goes() {
        let mut sut = Lru::new(2);
        *sut.get_or_insert_with(1, || 0) = 10;
        *sut.get_or_insert_with(2, || 0) = 20;
        assert_eq!(*sut.get_or_insert_with(1, || 0), 10);
        assert_eq!(*sut.get_or_insert_with(3, || 30), 30);
        assert_eq!(*sut.get_or_insert_with(1, || 0), 10);
        assert_eq!(*sut.get_or_insert_with(2, || 0), 0, "pushed out by 3");
        assert_eq!((sut.entries.len(), sut.by_use.len()), (2, 2));
    }
}
