//! What a sync waits for.

use super::Rule;
use crate::meta::Time;

/// A reason why a sync did not go further, with the numbers it was decided from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Which.
    pub rule: Rule,
    /// The object that is waited for, if it is one: a pod, a ReplicaSet, a claim.
    pub on: Option<Box<str>>,
    /// What was counted, and how many there are.
    pub figures: Vec<(&'static str, i64)>,
    /// When time alone ends it.
    pub until: Option<Time>,
    /// What else there is to say: an answer of the API server, a command.
    pub detail: Option<Box<str>>,
}

// === impl Wait ===

impl Wait {
    /// A wait for nothing in particular.
    pub fn new(rule: Rule) -> Self {
        Self { rule, on: None, figures: Vec::new(), until: None, detail: None }
    }

    /// A wait for one object.
    pub fn on(rule: Rule, name: &str) -> Self {
        Self { on: Some(name.into()), ..Self::new(rule) }
    }

    /// With these numbers.
    #[must_use]
    pub fn counting(mut self, figures: &[(&'static str, i32)]) -> Self {
        self.figures.extend(figures.iter().map(|(name, count)| (*name, i64::from(*count))));
        self
    }

    /// Until then, if that is known.
    #[must_use]
    pub fn until(self, until: Option<Time>) -> Self {
        Self { until, ..self }
    }

    /// With something to say besides.
    #[must_use]
    pub fn saying(self, detail: impl Into<Box<str>>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// Whether it is the same wait, though it may count other numbers by now.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.rule, &self.on) == (other.rule, &other.on)
    }
}
