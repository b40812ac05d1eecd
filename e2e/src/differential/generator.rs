//! How a script is drawn: words with weights, of which those that make sense now may be said.

use fastrand::Rng;
use serde_json::{Value, json};

use super::script::{Cascade, Nodes, Target, Write};
use super::snapshot::Kind;

/// One thing to do to a subject, which is what the generator knows of a Deployment or StatefulSet.
pub(super) struct Word<T> {
    pub(super) name: &'static str,
    /// How often, beside the others that make sense.
    pub(super) weight: u32,
    /// Whether it makes sense now.
    pub(super) when: fn(&T) -> bool,
    /// What follows the name for people, and what is done.
    pub(super) say: fn(&mut Rng, &mut T) -> (String, Write),
}

macro_rules! words {
    ($subject:ty: $($weight:literal $name:ident if $when:expr),+ $(,)?) => {
        pub(super) const WORDS: &[$crate::differential::generator::Word<$subject>] = &[$(
            $crate::differential::generator::Word { name: stringify!($name), weight: $weight, when: $when, say: $name }
        ),+];
    };
}
pub(super) use words;

/// A word that makes sense now, by the weights of all that do.
pub(super) fn say<T>(words: &[Word<T>], rng: &mut Rng, subject: &mut T, when: impl Fn(&Word<T>, &T) -> bool) -> (String, Write) {
    let able: Vec<_> = words.iter().filter(|word| when(word, subject)).collect();
    let mut draw = rng.u32(..able.iter().map(|word| word.weight).sum::<u32>().max(1));
    for word in able {
        let Some(rest) = draw.checked_sub(word.weight) else {
            let (text, write) = (word.say)(rng, subject);
            return (format!("{} {text}", word.name), write);
        };
        draw = rest;
    }
    nothing()
}

/// What the nodes do after a word about something that is there, or is not any more.
pub(super) fn nodes(rng: &mut Rng, exists: bool) -> Nodes {
    match rng.u8(..100) {
        // What is deleted must be gone before it can be created again.
        _ if !exists => Nodes::All,
        0..50 => Nodes::All,
        50..70 => Nodes::Ready(rng.usize(1..=2)),
        70..80 => Nodes::Release,
        _ => Nodes::Idle,
    }
}

pub(super) fn nothing() -> (String, Write) {
    ("nothing".to_owned(), Write::Patch(Target::Labelled(Kind::Pod, "app", "nobody".to_owned()), None, json!({})))
}

pub(super) fn pick<T: Clone + Default>(rng: &mut Rng, choices: &[T]) -> T {
    rng.choice(choices).cloned().unwrap_or_default()
}

pub(super) fn pick_cascade(rng: &mut Rng, choices: &[Cascade]) -> Cascade {
    rng.choice(choices).copied().unwrap_or(Cascade::Background)
}

/// A merge patch that is to be a whole: without what it takes away.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            object.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key, without_nulls(value))).collect()
        }
        other => other,
    }
}
