//! A template has one normal form, however it is spelled, and no other template has it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test outside of test functions")]

use std::fmt::Write as _;

use model::Fingerprint;
use model::normal_form::{Kind, pod_template};
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

/// No value in it is the zero value of its type.
const TEMPLATE: &str = include_str!("support/template.json");

/// Choices, drawn by proptest; once they have run out, always the first of what there is.
struct Choices(std::vec::IntoIter<u8>);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.0.next().unwrap_or(0)) % limit
    }

    fn yes(&mut self) -> bool {
        self.below(2) == 1
    }
}

fn choices() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..600)
}

/// The ways to say nothing, as far as the type has them. All are among the zero values that go with `null`.
fn nothing(kind: Kind, choices: &mut Choices) -> &'static str {
    let other = match kind {
        Kind::Text => "\"\"",
        Kind::Integer | Kind::IntOrString => "0",
        Kind::Boolean => "false",
        Kind::Quantity => "\"0\"",
        Kind::Time => "\"0001-01-01T00:00:00Z\"",
        Kind::Struct(_) | Kind::Map(_) => "{}",
        Kind::List(_) => "[]",
        Kind::Pointer(_) | Kind::Raw => "null",
    };
    if choices.yes() { other } else { "null" }
}

/// Another spelling of the same.
fn respell(value: &Value, kind: Option<Kind>, choices: &mut Choices) -> String {
    let kind = match kind {
        Some(Kind::Pointer(to)) => Some(*to),
        kind => kind,
    };
    match (value, kind) {
        (Value::Object(members), kind) => {
            let of = |name: &str| match kind {
                Some(Kind::Struct(fields)) => fields.iter().find(|(field, _)| *field == name).map(|(_, kind)| kind),
                Some(Kind::Map(of)) => Some(*of),
                _ => None,
            };
            let mut spelled: Vec<_> =
                members.iter().map(|(name, value)| member(name, &respell(value, of(name), choices), choices)).collect();
            if let Some(Kind::Struct(fields)) = kind {
                let absent: Vec<_> = fields.iter().filter(|(name, _)| !members.contains_key(*name)).collect();
                for _ in 0..choices.below(3).min(absent.len()) {
                    let (name, kind) = absent[choices.below(absent.len())];
                    spelled.push(member(name, nothing(kind, choices), choices));
                }
            }
            let first = choices.below(spelled.len().max(1));
            spelled.rotate_left(first);
            format!("{{{}{}}}", [" ", "", "\n"][choices.below(3)], spelled.join(","))
        }
        (Value::Array(items), Some(Kind::List(of))) => list(items, Some(*of), choices),
        (Value::Array(items), _) => list(items, None, choices),
        (Value::String(text), Some(Kind::Quantity)) => {
            let spellings: &[&str] = match text.as_str() {
                "250m" => &["250m", "0.25", ".250", "25e-2"],
                "1500m" => &["1500m", "1.5", "15e-1"],
                "256Mi" => &["256Mi", "0.25Gi", "268435456", "262144Ki"],
                "1Gi" => &["1Gi", "1024Mi", "1073741824", "1073741824000m"],
                changed => &[changed],
            };
            quote(spellings[choices.below(spellings.len())], choices)
        }
        (Value::String(text), _) => quote(text, choices),
        (value, _) => value.to_string(),
    }
}

fn list(items: &[Value], kind: Option<Kind>, choices: &mut Choices) -> String {
    let items: Vec<_> = items.iter().map(|item| respell(item, kind, choices)).collect();
    format!("[{}]", items.join(", "))
}

fn member(name: &str, value: &str, choices: &mut Choices) -> String {
    format!("{}:{value}", quote(name, choices))
}

fn quote(text: &str, choices: &mut Choices) -> String {
    if text.is_ascii() && choices.below(8) == 1 {
        let mut escaped = String::new();
        text.bytes().for_each(|byte| write!(escaped, "\\u{byte:04X}").unwrap());
        return format!("\"{escaped}\"");
    }
    serde_json::to_string(text).unwrap()
}

/// Changes one value for good.
fn change(value: &mut Value, choices: &mut Choices) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let name = members.keys().nth(choices.below(members.len())).unwrap().clone();
            if choices.below(4) == 1 {
                members.remove(&name);
            } else {
                change(&mut members[&name], choices);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = choices.below(items.len());
            if choices.below(4) == 1 {
                items.remove(at);
            } else {
                change(&mut items[at], choices);
            }
        }
        Value::String(text) => text.push('1'),
        Value::Number(number) => *value = Value::from(number.as_i64().unwrap() + 1),
        Value::Bool(true) => *value = Value::Bool(false),
        value => panic!("the template has {value}, which equals nothing"),
    }
}

fn fingerprint(json: &str) -> Fingerprint {
    Fingerprint::of_template(&RawValue::from_string(json.to_owned()).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn any_spelling_has_the_same_fingerprint(bytes in choices()) {
        let template: Value = serde_json::from_str(TEMPLATE).unwrap();
        let spelled = respell(&template, Some(pod_template()), &mut Choices(bytes.into_iter()));
        prop_assert_eq!(fingerprint(&spelled), fingerprint(TEMPLATE), "{}", spelled);
    }

    #[test]
    fn any_change_has_another_fingerprint(bytes in choices()) {
        let mut choices = Choices(bytes.into_iter());
        let mut template: Value = serde_json::from_str(TEMPLATE).unwrap();
        change(&mut template, &mut choices);
        let spelled = respell(&template, Some(pod_template()), &mut choices);
        prop_assert_ne!(fingerprint(&spelled), fingerprint(TEMPLATE), "{}", spelled);
    }
}
