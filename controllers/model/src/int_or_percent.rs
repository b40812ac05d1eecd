//! Counts that may be parts of others (upstream `k8s.io/apimachinery/pkg/util/intstr`).

use std::borrow::Cow;

use serde::Deserialize;

/// A count, or a part of `spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    /// So many.
    Int(i32),
    /// So many of a hundred.
    Percent(i32),
    /// Neither; no API server lets it through.
    Invalid(Box<str>),
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum WireIntOrString<'a> {
    Int(i32),
    #[serde(borrow)]
    String(Cow<'a, str>),
}

/// Which way a fraction goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To the next larger count.
    Up,
    /// To the next smaller count.
    Down,
}

// === impl IntOrPercent ===

impl IntOrPercent {
    /// The count, out of a total; `None` for what is neither (upstream `GetScaledValueFromIntOrPercent`).
    pub fn of(&self, total: i32, round: Round) -> Option<i32> {
        match self {
            Self::Int(count) => Some(*count),
            Self::Percent(percent) => {
                let part = f64::from(*percent) * f64::from(total) / 100.0;
                Some(match round {
                    Round::Up => part.ceil(),
                    Round::Down => part.floor(),
                } as i32)
            }
            Self::Invalid(_) => None,
        }
    }
}

impl From<WireIntOrString<'_>> for IntOrPercent {
    fn from(wire: WireIntOrString<'_>) -> Self {
        match wire {
            WireIntOrString::Int(count) => Self::Int(count),
            WireIntOrString::String(text) => {
                let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
                percent.map_or_else(|| Self::Invalid(Box::from(&*text)), Self::Percent)
            }
        }
    }
}
