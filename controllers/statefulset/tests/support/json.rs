//! Changes of JSON objects.

use serde_json::{Value, json};

/// Two changes as one.
pub fn both(mut one: Value, other: Value) -> Value {
    merge_keeping_nulls(&mut one, other);
    one
}

/// RFC 7386.
pub fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (field, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(&field);
        } else {
            merge(&mut target[field], value);
        }
    }
}

fn merge_keeping_nulls(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (field, value) in patch {
                merge_keeping_nulls(target.entry(field).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}
