//! What stands in for bytes that are not kept.

use std::fmt;

use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// SHA-256 of something that was read and let go.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

/// The label by which the pods of one Deployment's ReplicaSets differ (upstream `k8s.io/api/apps/v1` `DefaultDeploymentUniqueLabelKey`).
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

// === impl Fingerprint ===

impl Fingerprint {
    /// Of bytes as they are.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Of what a pod template says, whatever its label [`POD_TEMPLATE_HASH`].
    ///
    /// Equal fingerprints mean equal templates (upstream `pkg/controller/deployment/util` `EqualIgnoreHash`). Different ones mean nothing
    /// yet: a quantity can be spelled in many ways, and a list can be empty or absent; who must know compares what a live read has.
    /// Only what can never make a difference is evened out: the order of keys, the spelling of strings, and the null
    /// `metadata.creationTimestamp` that servers up to 1.33 print.
    ///
    /// `None` if no such promise can be made: the text is no object, is nested too deeply, or has a number that is no 64-bit integer and
    /// would be rounded. No template that an API server lets through is like that.
    pub fn of_template(template: &RawValue) -> Option<Self> {
        let mut template: Value = serde_json::from_str(template.get()).ok()?;
        if let Some(metadata) = template.as_object_mut()?.get_mut("metadata").and_then(Value::as_object_mut) {
            if metadata.get("creationTimestamp").is_some_and(Value::is_null) {
                metadata.remove("creationTimestamp");
            }
            if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
                labels.remove(POD_TEMPLATE_HASH);
            }
        }
        is_exact(&template).then_some(())?;
        // Keys are sorted: serde_json's maps are, without the feature that this workspace bans.
        Some(Self::of_bytes(&serde_json::to_vec(&template).ok()?))
    }
}

/// Whether nothing was lost in reading. The depth is bounded by the reader.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => !number.is_f64(),
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(fields) => fields.values().all(is_exact),
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Option<Fingerprint> {
        Fingerprint::of_template(&RawValue::from_string(json.to_owned()).unwrap())
    }

    #[test]
    fn what_cannot_make_a_difference_makes_none() {
        let base = of(r#"{"metadata":{"labels":{"a":"b"}},"spec":{"x":1,"y":"<"}}"#).unwrap();
        for same in [
            r#"{ "spec": {"y":"\u003c", "x":1}, "metadata": {"labels":{"a":"b"}} }"#,
            r#"{"metadata":{"creationTimestamp":null,"labels":{"pod-template-hash":"1","a":"b"}},"spec":{"x":1,"y":"<"}}"#,
        ] {
            assert_eq!(of(same), Some(base), "{same}");
        }
    }

    #[test]
    fn whatever_may_make_a_difference_makes_one() {
        let base = of(r#"{"metadata":{"labels":{"a":"b"}},"spec":{"x":1,"list":[1,2]}}"#);
        for other in [
            r#"{"metadata":{"labels":{"a":"c"}},"spec":{"x":1,"list":[1,2]}}"#,
            r#"{"metadata":{"labels":{"a":"b"}},"spec":{"x":"1","list":[1,2]}}"#,
            r#"{"metadata":{"labels":{"a":"b"}},"spec":{"x":1,"list":[2,1]}}"#,
            r#"{"metadata":{"labels":{"a":"b"}},"spec":{"x":1,"list":[1,2],"new":null}}"#,
            r#"{"metadata":{"labels":{"a":"b"},"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"x":1,"list":[1,2]}}"#,
            r#"{"metadata":{"labels":{"a":"b"}},"spec":{"x":1,"list":[1,2],"labels":{"pod-template-hash":"1"}}}"#,
        ] {
            assert!(of(other).is_some() && of(other) != base, "{other}");
        }
    }

    #[test]
    fn what_cannot_be_told_apart_has_no_fingerprint() {
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        for odd in ["null", "[]", r#"{"x":1.0}"#, r#"{"x":[18446744073709551616]}"#, r#"{"x":1e999}"#, &format!(r#"{{"x":{deep}}}"#)] {
            assert_eq!(of(odd), None, "{odd}");
        }
        assert!(of(r#"{"x":[18446744073709551615,-9223372036854775808]}"#).is_some());
    }
}
