//! Whether a revision says what a template says, though in other bytes.

use serde_json::value::RawValue;

use crate::go_json::{Members, Value};

/// Whether the data of the last revision, as a live GET serves them, stand for the template.
pub fn is_same(last: &RawValue, template: &RawValue) -> bool {
    let (Some(last), Some(Value::Object(template))) = (restored(last), Value::read(template.get())) else { return false };
    without_nulls(last) == without_nulls(template)
}

fn restored(data: &RawValue) -> Option<Members> {
    let Value::Object(mut data) = Value::read(data.get())? else { return None };
    let Some(Value::Object(mut spec)) = data.remove("spec") else { return None };
    let Some(Value::Object(mut template)) = spec.remove("template") else { return None };
    (template.remove("$patch")? == Value::Text("replace".to_owned())).then_some(template)
}

fn without_nulls(members: Members) -> Members {
    let inner = |value| match value {
        Value::Object(members) => Value::Object(without_nulls(members)),
        value => value,
    };
    members.into_iter().filter(|(_, value)| *value != Value::Null).map(|(name, value)| (name, inner(value))).collect()
}
