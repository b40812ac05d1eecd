//! What is left of a value once it went through upstream's types.

use jiff::Timestamp;

use crate::go_json::{Members, Value};
use crate::normal_form::{Fields, Kind};
use crate::quantity::{Rounding, respell};

/// The value as Go writes it after it has read it into a type (Go `encoding/json` `Unmarshal` and `Marshal`): what the type has no need
/// to print is left out, what it prints in any case is there, amounts and times are spelled in one way. Amounts of resources are
/// rounded on the way if asked for.
///
/// A field that the table does not have is newer than it and stays as it is, where upstream would drop it; so does a value of another
/// type, where upstream would report an error.
pub(super) fn retyped(value: Value, kind: Kind, rounding: Rounding) -> Value {
    match (kind, value) {
        (Kind::Pointer(_), Value::Null) => Value::Null,
        (Kind::Pointer(to), value) => retyped(value, *to, rounding),
        (Kind::Struct(fields), Value::Null) => Value::Object(structure(Members::new(), fields, rounding)),
        (Kind::Struct(fields), Value::Object(members)) => Value::Object(structure(members, fields, rounding)),
        (Kind::List(of), Value::List(items)) => Value::List(items.into_iter().map(|item| retyped(item, *of, rounding)).collect()),
        (Kind::Map(Kind::Quantity), Value::Object(members)) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, amount(value, rounding))).collect())
        }
        (Kind::Map(of), Value::Object(members)) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, retyped(value, *of, rounding))).collect())
        }
        (Kind::Quantity, value) => amount(value, Rounding::None),
        (Kind::Time, Value::Text(text)) => time(text),
        (Kind::Text, Value::Null) => Value::Text(String::new()),
        (Kind::Boolean, Value::Null) => Value::Boolean(false),
        (Kind::Integer | Kind::IntOrString, Value::Null) => Value::Number(0.0),
        // An integer has no negative zero.
        (Kind::Integer | Kind::IntOrString, Value::Number(number)) => Value::Number(number + 0.0),
        (_, value) => value,
    }
}

fn structure(members: Members, fields: &Fields, rounding: Rounding) -> Members {
    let mut printed = Members::new();
    for (name, value) in members {
        let value = match fields.get(&name) {
            Some(kind) => {
                let is_null = value == Value::Null;
                let value = retyped(value, kind, rounding);
                if (is_null || is_empty(&value, kind)) && !fields.printed().contains(&name.as_str()) {
                    continue;
                }
                value
            }
            None => value,
        };
        printed.insert(name, value);
    }
    for name in fields.printed() {
        if let Some(kind) = fields.get(name).filter(|_| !printed.contains_key(*name)) {
            printed.insert((*name).to_owned(), retyped(Value::Null, kind, rounding));
        }
    }
    printed
}

/// Go `encoding/json` `isEmptyValue`, and `metav1.Time.IsZero`. A pointer to something is not empty, whatever that is.
fn is_empty(value: &Value, kind: Kind) -> bool {
    match (kind, value) {
        (Kind::Time, Value::Null) => true,
        (Kind::Text, Value::Text(text)) => text.is_empty(),
        (Kind::Integer, Value::Number(number)) => *number == 0.0,
        (Kind::Boolean, Value::Boolean(value)) => !value,
        (Kind::List(_), Value::List(items)) => items.is_empty(),
        (Kind::Map(_), Value::Object(members)) => members.is_empty(),
        _ => false,
    }
}

fn amount(value: Value, rounding: Rounding) -> Value {
    let text = match &value {
        Value::Null => "0",
        Value::Text(text) => text,
        Value::Number(_) => &value.to_string(),
        _ => return value,
    };
    respell(text, rounding).map_or(value, Value::Text)
}

/// Upstream `k8s.io/apimachinery/pkg/apis/meta/v1/time.go` `Time.MarshalJSON`.
fn time(text: String) -> Value {
    /// Seconds to the first of January of the year 1, which is Go's zero time.
    const ZERO: i128 = -62_135_596_800;
    const NANOS: i128 = 1_000_000_000;
    let Ok(at) = text.parse::<Timestamp>() else { return Value::Text(text) };
    let nanos = at.as_nanosecond();
    if nanos == ZERO * NANOS {
        return Value::Null;
    }
    let seconds = Timestamp::from_second(nanos.div_euclid(NANOS) as i64);
    Value::Text(seconds.map_or(text, |seconds| seconds.to_string()))
}
