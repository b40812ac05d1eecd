//! Changing single fields of raw JSON: whatever is not named stays as it is, byte for byte.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};

/// The fields of a JSON object; their values byte for byte.
pub type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// An object without fields.
pub fn empty() -> Box<RawValue> {
    to_raw_value(&Fields::new()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The object's fields; null has none.
///
/// # Errors
/// When it is neither an object nor null.
pub fn fields(object: &RawValue) -> Result<Fields<'_>, serde_json::Error> {
    Ok(serde_json::from_str::<Option<Fields<'_>>>(object.get())?.unwrap_or_default())
}

/// What is at a path, if it is there.
///
/// # Errors
/// When something on the way is neither an object nor null.
pub fn get<'a>(object: &'a RawValue, path: &[&str]) -> Result<Option<&'a RawValue>, serde_json::Error> {
    let Some((field, rest)) = path.split_first() else { return Ok(Some(object)) };
    let inner = fields(object)?.get(*field).copied();
    inner.map_or(Ok(None), |inner| get(inner, rest))
}

/// The object with another value at a path; objects on the way are made if they are not there.
///
/// # Errors
/// When something on the way is neither an object nor null.
pub fn with(object: &RawValue, path: &[&str], value: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    let Some((field, rest)) = path.split_first() else { return Ok(value.to_owned()) };
    let mut fields = fields(object)?;
    let inner = match fields.get(*field) {
        Some(inner) if !rest.is_empty() => with(inner, rest, value)?,
        _ => with(RawValue::NULL, rest, value)?,
    };
    fields.insert(Cow::Borrowed(field), &inner);
    to_raw_value(&fields)
}

/// The object with a text at a path.
///
/// # Errors
/// As [`with`].
pub fn with_text(object: &RawValue, path: &[&str], text: &str) -> Result<Box<RawValue>, serde_json::Error> {
    with(object, path, &to_raw_value(text)?)
}

/// The object without what is at a path.
///
/// # Errors
/// As [`with`].
pub fn without(object: &RawValue, path: &[&str]) -> Result<Box<RawValue>, serde_json::Error> {
    let Some((field, rest)) = path.split_first() else { return Ok(RawValue::NULL.to_owned()) };
    let mut fields = fields(object)?;
    let inner = match fields.get(*field) {
        None => return Ok(object.to_owned()),
        Some(inner) if !rest.is_empty() => Some(without(inner, rest)?),
        Some(_) => None,
    };
    match &inner {
        Some(inner) => fields.insert(Cow::Borrowed(field), inner),
        None => fields.remove(*field),
    };
    to_raw_value(&fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn only_what_is_named_changes() {
        let object = raw(r#"{"b": {"x":1.50, "y":"\u003c"},"a":[ 1 ]}"#);
        for (path, value, expected) in [
            (&["b", "x"][..], "2", r#"{"a":[ 1 ],"b":{"x":2,"y":"\u003c"}}"#),
            (&["c", "d"], "{}", r#"{"a":[ 1 ],"b":{"x":1.50, "y":"\u003c"},"c":{"d":{}}}"#),
            (&["b"], "null", r#"{"a":[ 1 ],"b":null}"#),
            (&[], "7", "7"),
        ] {
            assert_eq!(with(&object, path, &raw(value)).unwrap().get(), expected, "{path:?}");
        }
        assert_eq!(with_text(&raw(r#"{"a":null}"#), &["a", "b/c"], "\"").unwrap().get(), r#"{"a":{"b/c":"\""}}"#);
    }

    #[test]
    fn what_is_taken_out_need_not_be_there() {
        let object = raw(r#"{"a":{"b":1,"c":2}}"#);
        assert_eq!(without(&object, &["a", "b"]).unwrap().get(), r#"{"a":{"c":2}}"#);
        assert_eq!(without(&object, &["x", "b"]).unwrap().get(), object.get());
        assert_eq!(without(&object, &["a"]).unwrap().get(), "{}");
    }

    #[test]
    fn what_is_no_object_is_not_replaced() {
        assert!(with(&raw(r#"{"a":[]}"#), &["a", "b"], &raw("1")).is_err());
        assert!(without(&raw("3"), &["a"]).is_err());
    }
}
