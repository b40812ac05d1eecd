//! What stands in for bytes that are not kept.

use std::fmt;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::normal_form::normal_form;

/// SHA-256 of something that was read and let go.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

/// The label by which the pods of one Deployment's ReplicaSets differ (upstream `k8s.io/api/apps/v1` `DefaultDeploymentUniqueLabelKey`).
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

// === impl Fingerprint ===

impl Fingerprint {
    /// Its 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Of bytes as they are.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Of what a pod template says, whatever its label [`POD_TEMPLATE_HASH`] and its spelling.
    ///
    /// Fingerprints are equal if and only if upstream holds the templates to be equal (`pkg/controller/deployment/util` `EqualIgnoreHash`;
    /// see [`normal_form`]). They mean something only within this process.
    ///
    /// `None` if the text is no object, is nested too deeply, or has a string that is no Unicode. No template that an API server lets
    /// through is like that.
    pub fn of_template(template: &RawValue) -> Option<Self> {
        normal_form(template).map(|form| Self::of_bytes(&form))
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
    fn equal_templates_have_equal_fingerprints() {
        let base = of(r#"{"metadata":{"labels":{"a":"b"}},"spec":{"overhead":{"cpu":"1"},"x":1}}"#);
        let same = r#"{"spec":{"x":1,"volumes":[],"overhead":{"cpu":"1000m"}},"metadata":{"labels":{"pod-template-hash":"1","a":"b"},"creationTimestamp":null}}"#;
        let other = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"overhead":{"cpu":"1"},"x":2}}"#;
        assert!(base.is_some() && of(other).is_some());
        assert_eq!(of(same), base);
        assert_ne!(of(other), base);
    }

    #[test]
    fn what_is_no_template_has_no_fingerprint() {
        let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        for odd in ["null", "[]", &deep] {
            assert_eq!(of(odd), None, "{odd}");
        }
    }
}
