//! `metav1.LabelSelector`: parsed once, matched often.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::intern::Interner;
use crate::labels::{Keys, LabelSet, Labels, storable};

/// A label selector in the form it is matched in. The default one is upstream's null selector, which matches nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Selector {
    /// Absent: matches nothing.
    #[default]
    Nothing,
    /// The values that these keys have in that set: what nearly every object's selector says of the object's own labels, so that it has
    /// nothing of its own to hold.
    Labels {
        /// Which labels.
        keys: Keys,
        /// Where their values are.
        of: Arc<LabelSet>,
    },
    /// All of these; none at all matches everything.
    All(Box<[Requirement]>),
}

/// One condition of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: Box<str>,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Box<[Box<str>]>),
    NotIn(Box<[Box<str>]>),
    Exists,
    DoesNotExist,
}

/// Why a selector cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// An operator other than the four.
    #[error("matchExpressions: {0:?} is not a valid label selector operator")]
    Operator(String),
    /// `In` and `NotIn` need values, `Exists` and `DoesNotExist` bear none.
    #[error("matchExpressions: the values of {key:?} do not fit the operator {operator}")]
    Values {
        /// The label's key.
        key: String,
        /// The operator.
        operator: String,
    },
}

/// The selector as it travels.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct WireSelector {
    match_labels: Option<BTreeMap<String, String>>,
    match_expressions: Option<Vec<WireRequirement>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireRequirement {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
}

// === impl Selector ===

impl Selector {
    /// Upstream `k8s.io/apimachinery/pkg/apis/meta/v1` `LabelSelectorAsSelector`.
    ///
    /// # Errors
    /// When an operator or its values are not valid.
    pub fn from_wire(wire: Option<WireSelector>) -> Result<Self, SelectorError> {
        let Some(wire) = wire else { return Ok(Self::Nothing) };
        let labels = wire
            .match_labels
            .unwrap_or_default()
            .into_iter()
            .map(|(key, value)| Ok(Requirement { key: key.into(), test: Test::In(Box::new([value.into()])) }));
        let expressions = wire.match_expressions.unwrap_or_default().into_iter().map(Requirement::from_wire);
        Ok(Self::All(labels.chain(expressions).collect::<Result<_, _>>()?))
    }

    /// As [`Self::from_wire`], sharing what can be shared, with `labels` first of all: the object's own.
    ///
    /// # Errors
    /// When an operator or its values are not valid.
    pub fn interned(wire: Option<WireSelector>, labels: &Arc<LabelSet>, interner: &mut Interner) -> Result<Self, SelectorError> {
        match &wire {
            // A value that a label set would have to cut must be compared as it is.
            Some(WireSelector { match_labels: Some(wanted), match_expressions })
                if match_expressions.as_ref().is_none_or(Vec::is_empty) && wanted.values().all(|value| storable(value) == value) =>
            {
                let mut pairs: Vec<_> = wanted.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
                // Both are in the order of their keys: one pass, however many there are.
                let mut own = labels.iter();
                if pairs.iter().all(|pair| own.find(|(key, _)| *key >= pair.0) == Some(*pair)) {
                    return Ok(Self::Labels { keys: interner.keys(&pairs), of: Arc::clone(labels) });
                }
                let of = interner.label_set(&mut pairs);
                Ok(Self::Labels { keys: Arc::clone(of.keys()), of })
            }
            _ => Self::from_wire(wire),
        }
    }

    /// Whether the labels satisfy every condition.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        match self {
            Self::Nothing => false,
            Self::Labels { keys, of } => keys.iter().all(|key| labels.get(key).is_some_and(|value| of.get(key) == Some(value))),
            Self::All(requirements) => requirements.iter().all(|requirement| requirement.matches(labels)),
        }
    }

    /// Whether it has no condition: such an owner is skipped when an orphan looks for one.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Labels { keys, .. } => keys.is_empty(),
            Self::All(requirements) => requirements.is_empty(),
        }
    }
}

// === impl Requirement ===

impl Requirement {
    fn from_wire(wire: WireRequirement) -> Result<Self, SelectorError> {
        let WireRequirement { key, operator, values } = wire;
        let values: Box<[Box<str>]> = values.unwrap_or_default().into_iter().map(Into::into).collect();
        let test = match operator.as_str() {
            "In" if !values.is_empty() => Test::In(values),
            "NotIn" if !values.is_empty() => Test::NotIn(values),
            "Exists" if values.is_empty() => Test::Exists,
            "DoesNotExist" if values.is_empty() => Test::DoesNotExist,
            "In" | "NotIn" | "Exists" | "DoesNotExist" => return Err(SelectorError::Values { key, operator }),
            _ => return Err(SelectorError::Operator(operator)),
        };
        Ok(Self { key: key.into(), test })
    }

    fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let value = labels.get(&self.key);
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.iter().any(|one| &**one == value)),
            Test::NotIn(values) => value.is_none_or(|value| values.iter().all(|one| &**one != value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::LabelSet;

    fn parse(json: &str) -> Result<Selector, SelectorError> {
        Selector::from_wire(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn matches_as_upstream_does() {
        let labels: LabelSet = [("app", "web"), ("tier", "front"), ("empty", "")].into_iter().collect();
        for (json, want) in [
            ("null", false),
            ("{}", true),
            (r#"{"matchLabels":{"app":"web"}}"#, true),
            (r#"{"matchLabels":{"app":"web","tier":"back"}}"#, false),
            (r#"{"matchLabels":{"empty":""}}"#, true),
            (r#"{"matchLabels":{"absent":""}}"#, false),
            (r#"{"matchExpressions":[{"key":"app","operator":"In","values":["db","web"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"app","operator":"NotIn","values":["db","web"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"absent","operator":"NotIn","values":["web"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"empty","operator":"Exists"}]}"#, true),
            (r#"{"matchExpressions":[{"key":"absent","operator":"DoesNotExist","values":null}]}"#, true),
            (r#"{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"app","operator":"DoesNotExist"}]}"#, false),
            (r#"{"matchLabels":{"app":"web\u0000"}}"#, false),
            (r#"{"matchLabels":{}}"#, true),
        ] {
            let selector = parse(json).unwrap();
            assert_eq!(selector.matches(&labels), want, "{json}");
            // What the object itself is labelled with makes no difference.
            for own in [LabelSet::from_iter([("app", "web"), ("tier", "front"), ("empty", "")]), LabelSet::from_iter([("app", "db")])] {
                let wire = serde_json::from_str(json).unwrap();
                let interned = Selector::interned(wire, &Arc::new(own), &mut Interner::new()).unwrap();
                assert_eq!((interned.matches(&labels), interned.is_empty()), (want, selector.is_empty()), "{json}");
            }
        }
    }

    #[test]
    fn invalid_selectors_name_what_is_wrong() {
        for (json, text) in [
            (r#"{"matchExpressions":[{"key":"a","operator":"Like","values":["b"]}]}"#, "\"Like\""),
            (r#"{"matchExpressions":[{"key":"a","operator":"In"}]}"#, "\"a\""),
            (r#"{"matchExpressions":[{"key":"a","operator":"Exists","values":["b"]}]}"#, "Exists"),
        ] {
            let error = parse(json).unwrap_err().to_string();
            assert!(error.contains(text), "{error} should name {text}");
        }
    }
}
