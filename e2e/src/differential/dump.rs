//! A namespace as lines of text that can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use serde_json::Value;

/// An object's masked fields: path and value.
pub type Fields = BTreeMap<String, String>;

/// Masked objects by what tells them apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dump {
    /// Fields by object.
    pub objects: BTreeMap<String, Fields>,
    /// Objects with so many events that a recorder may have dropped some. Which ones it drops depends on time, so they are not compared.
    pub crowded: BTreeSet<String>,
}

impl Dump {
    /// The differences to another one as a unified diff without context: paths name the place. Empty if there are none.
    pub fn difference(&self, other: &Self) -> String {
        let mut text = String::new();
        let names: BTreeSet<_> = self.objects.keys().chain(other.objects.keys()).collect();
        for name in names {
            if self.crowded.contains(name) || other.crowded.contains(name) {
                continue;
            }
            let (ours, theirs) = (self.objects.get(name), other.objects.get(name));
            if ours == theirs {
                continue;
            }
            // Writing to a string cannot fail.
            let _ = writeln!(text, "@@ {name} @@");
            let alone = ours.is_none() || theirs.is_none();
            let empty = Fields::new();
            let (ours, theirs) = (ours.unwrap_or(&empty), theirs.unwrap_or(&empty));
            let paths: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
            for path in paths {
                let (one, two) = (ours.get(path), theirs.get(path));
                // Of an object that is on one side only, the specification is mostly a copy of its owner's.
                if one == two || (alone && path.starts_with("spec.") && path != "spec.replicas") {
                    continue;
                }
                for (sign, value) in [('-', one), ('+', two)] {
                    if let Some(value) = value {
                        let _ = writeln!(text, "{sign} {path}: {value}");
                    }
                }
            }
        }
        text
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (object, fields) in &self.objects {
            writeln!(f, "{object}")?;
            for (path, value) in fields {
                writeln!(f, "  {path}: {value}")?;
            }
        }
        Ok(())
    }
}

/// Adds each leaf below `value` with its path. Conditions are named by their type, so that their order does not count: upstream appends a
/// condition again when it changes, and two changes may come in either order.
pub fn flatten(path: &str, value: &Value, fields: &mut Fields) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (key, value) in object {
                flatten(&below(key), value, fields);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (n, element) in list.iter().enumerate() {
                let by_type = if path.ends_with("conditions") { element.get("type").and_then(Value::as_str) } else { None };
                let element_name = by_type.map_or_else(|| n.to_string(), str::to_owned);
                flatten(&format!("{path}[{element_name}]"), element, fields);
            }
        }
        leaf => {
            fields.insert(path.to_owned(), leaf.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dump(objects: &[(&str, Value)]) -> Dump {
        let mut dump = Dump::default();
        for (name, object) in objects {
            flatten("", object, dump.objects.entry((*name).to_owned()).or_default());
        }
        dump
    }

    #[test]
    fn the_difference_names_object_and_path() {
        let one = dump(&[("a", json!({"spec": {"replicas": 3, "paused": true}})), ("b", json!({"x": 1})), ("same", json!({"x": 1}))]);
        let two = dump(&[("a", json!({"spec": {"replicas": 2}})), ("c", json!({"y": []})), ("same", json!({"x": 1}))]);
        let expected = "@@ a @@\n- spec.paused: true\n- spec.replicas: 3\n+ spec.replicas: 2\n@@ b @@\n- x: 1\n@@ c @@\n+ y: []\n";
        assert_eq!(one.difference(&two), expected);
        assert_eq!(one.difference(&one), "");
    }

    #[test]
    fn conditions_are_compared_by_type_and_other_lists_by_place() {
        let conditions = |types: [&str; 2]| json!({"conditions": types.map(|name| json!({"type": name, "status": "True"}))});
        assert_eq!(dump(&[("a", conditions(["A", "B"]))]), dump(&[("a", conditions(["B", "A"]))]));
        assert_ne!(dump(&[("a", json!(["x", "y"]))]), dump(&[("a", json!(["y", "x"]))]));
    }

    #[test]
    fn crowded_objects_are_not_compared() {
        let (mut one, two) = (dump(&[("events", json!({"x": 1}))]), dump(&[("events", json!({"x": 2}))]));
        assert_ne!(one.difference(&two), "");
        one.crowded.insert("events".to_owned());
        assert_eq!(one.difference(&two), "");
        assert_eq!(two.difference(&one), "");
    }
}
