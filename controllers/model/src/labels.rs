//! Label sets: shared between objects that carry equal ones.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Read access to a set of labels.
pub trait Labels: Send + Sync {
    /// The value of a label.
    fn get(&self, key: &str) -> Option<&str>;
    /// How many labels there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The labels of what is kept without any.
#[derive(Clone, Copy, Debug)]
pub struct NoLabels;

/// Label keys in ascending order, shared between all sets that have the same ones.
pub type Keys = Arc<[Arc<str>]>;

/// An immutable label set. Keys are shared by shape; values stand in one string, since some (a Job's) are as many as there are pods.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LabelSet {
    keys: Keys,
    /// The values in the keys' order, each ended by [`END`]. One that equals an earlier value is [`REPEAT`] and the earlier one's
    /// position: a Job writes its name and its UID twice. Equal sets are spelled alike.
    values: Box<str>,
}

/// Ends a value; no label value can contain it.
const END: char = '\0';
/// Begins a value that stands for an earlier one; no label value can contain it.
const REPEAT: char = '\x01';
/// Only the first so many values are looked for again, so that the search stays linear and the position one character.
const REPEATABLE: usize = 64;
/// Position zero, as a character.
const FIRST: u8 = b' ';

/// A value as a [`LabelSet`] can hold it: cut before the first character that has a meaning there, which no API server lets through.
pub(crate) fn storable(value: &str) -> &str {
    value.split([END, REPEAT]).next().unwrap_or_default()
}

// === impl LabelSet ===

impl LabelSet {
    /// A set of keys in strictly ascending order and the [`storable`] values that belong to them.
    pub(crate) fn from_sorted<'v>(keys: Keys, values: impl Iterator<Item = &'v str> + Clone) -> Self {
        debug_assert!(keys.is_sorted_by(|one, next| one < next), "keys must be in strictly ascending order");
        debug_assert_eq!(values.clone().count(), keys.len(), "one value for each key");
        let mut encoded = String::with_capacity(values.clone().map(|value| value.len() + 1).sum());
        let all = values.clone();
        for (at, value) in values.enumerate() {
            // Two characters stand for a repeated value: nothing is won with shorter ones.
            let earlier = if value.len() > 2 { all.clone().take(at.min(REPEATABLE)).position(|other| other == value) } else { None };
            if let Some(position) = earlier {
                encoded.push(REPEAT);
                encoded.push(char::from(FIRST + position as u8));
            } else {
                encoded.push_str(value);
            }
            encoded.push(END);
        }
        Self { keys, values: encoded.into_boxed_str() }
    }

    /// Labels in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keys.iter().map(|key| &**key).zip(self.spellings().map(|spelling| self.resolve(spelling)))
    }

    fn spellings(&self) -> impl Iterator<Item = &str> {
        self.values.split_terminator(END)
    }

    fn resolve<'s>(&'s self, spelling: &'s str) -> &'s str {
        let Some(position) = spelling.strip_prefix(REPEAT).and_then(|rest| rest.bytes().next()) else { return spelling };
        self.spellings().nth(position.saturating_sub(FIRST).into()).unwrap_or_default()
    }

    /// The shared keys.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for LabelSet {
    /// The last value of a repeated key wins. A value is cut at NUL or U+0001, which no API server lets through.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let sorted: BTreeMap<String, String> =
            pairs.into_iter().map(|(key, value)| (key.as_ref().to_owned(), storable(value.as_ref()).to_owned())).collect();
        let keys = sorted.keys().map(|key| Arc::from(key.as_str())).collect();
        Self::from_sorted(keys, sorted.values().map(String::as_str))
    }
}

impl Labels for LabelSet {
    fn get(&self, key: &str) -> Option<&str> {
        let at = self.keys.iter().position(|have| &**have == key)?;
        self.spellings().nth(at).map(|spelling| self.resolve(spelling))
    }

    fn len(&self) -> usize {
        self.keys.len()
    }
}

impl fmt::Debug for LabelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

// === impl NoLabels ===

impl Labels for NoLabels {
    fn get(&self, _: &str) -> Option<&str> {
        None
    }

    fn len(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn repeated_values_are_spelled_once() {
        let job = "nightly-29384720";
        let set: LabelSet =
            [("a", "batch"), ("b", job), ("c", "batch"), ("d", job), ("e", job), ("f", "no"), ("g", "no")].into_iter().collect();
        assert_eq!(set.values.matches(job).count(), 1);
        assert_eq!(set.values.matches("no\0").count(), 2);
        assert_eq!((set.get("c"), set.get("e"), set.get("g"), set.get("h")), (Some("batch"), Some(job), Some("no"), None));
    }

    #[test]
    fn characters_with_a_meaning_cut_a_value() {
        let set: LabelSet = [("a", "x\0y"), ("b", "\x01 "), ("c", "z")].into_iter().collect();
        assert_eq!((set.get("a"), set.get("b"), set.get("c")), (Some("x"), Some(""), Some("z")));
    }

    proptest! {
        #[test]
        fn a_set_gives_back_what_it_was_made_of(pairs in proptest::collection::vec(("[a-c]{1,4}", "[x-z]{0,3}"), 0..100)) {
            let want: BTreeMap<String, String> = pairs.iter().cloned().collect();
            let set: LabelSet = pairs.into_iter().collect();
            prop_assert_eq!(set.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<BTreeMap<_, _>>(), want.clone());
            prop_assert_eq!(set.len(), want.len());
            for (key, value) in &want {
                prop_assert_eq!(set.get(key), Some(value.as_str()));
            }
        }
    }
}
