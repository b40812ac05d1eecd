//! A `coordination.k8s.io/v1` Lease as raw JSON: what is not ours, `strategy` and `preferredHolder` among it, survives each write.

use std::time::Duration;

use model::{ResourceVersion, Time, Timestamp, Uid};
use serde_json::{Map, Value, json};

/// A lease as the server told it, or as it is to be told.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lease(Value);

/// Whose name goes into a lease, and for how long it is good.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    /// Unique for each process.
    pub(super) identity: String,
    /// How long the others have to wait.
    pub(super) duration: Duration,
}

// === impl Lease ===

impl Lease {
    /// Reads one. What is wrong with its spec is found by whoever asks for it, and counts as absent.
    ///
    /// # Errors
    /// When it is no JSON object.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        match serde_json::from_slice(body) {
            Ok(value @ Value::Object(_)) => Ok(Self(value)),
            Ok(_) => Err("the lease is no JSON object".to_owned()),
            Err(error) => Err(format!("the lease is no JSON: {error}")),
        }
    }

    /// One that does not exist yet.
    pub(super) fn new(namespace: &str, name: &str, holder: &Holder, now: Time) -> Self {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": namespace}});
        let mut lease = Self(lease).held_by(holder, now);
        lease.set("leaseTransitions", json!(0));
        lease
    }

    /// This one, taken or renewed (upstream `leaderelection.go` `tryAcquireOrRenew`, step 4).
    pub(super) fn held_by(&self, holder: &Holder, now: Time) -> Self {
        let mut lease = self.clone();
        if self.holder() != holder.identity {
            lease.set("acquireTime", json!(micro_time(now)));
            lease.set("leaseTransitions", json!(self.transitions().saturating_add(1)));
        }
        lease.set("holderIdentity", json!(holder.identity));
        lease.set("leaseDurationSeconds", json!(holder.duration.as_secs()));
        lease.set("renewTime", json!(micro_time(now)));
        lease
    }

    /// This one, given up (upstream `leaderelection.go` `tryRelease`).
    pub(super) fn released(&self, now: Time) -> Self {
        let mut lease = self.clone();
        lease.set("holderIdentity", json!(""));
        lease.set("leaseDurationSeconds", json!(1));
        lease.set("acquireTime", json!(micro_time(now)));
        lease.set("renewTime", json!(micro_time(now)));
        lease
    }

    /// As a request's body.
    pub(super) fn body(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }

    /// Who holds it; empty if nobody does.
    pub(super) fn holder(&self) -> &str {
        self.get("holderIdentity").and_then(Value::as_str).unwrap_or_default()
    }

    /// How long it is good for, if it says so.
    pub(super) fn duration(&self) -> Option<Duration> {
        let seconds = self.get("leaseDurationSeconds").and_then(Value::as_u64);
        seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    /// Whether the other one says the same about who holds it since when. Labels and the like are no sign of life.
    pub(super) fn is_same_record(&self, other: &Self) -> bool {
        self.0.get("spec") == other.0.get("spec")
    }

    /// The object's version.
    pub(super) fn version(&self) -> ResourceVersion {
        ResourceVersion::parse(self.metadata("resourceVersion"))
    }

    /// The object's UID.
    pub(super) fn uid(&self) -> Uid {
        Uid::parse(self.metadata("uid")).unwrap_or(Uid::NONE)
    }

    fn transitions(&self) -> i32 {
        let transitions = self.get("leaseTransitions").and_then(Value::as_i64).unwrap_or(0);
        i32::try_from(transitions).unwrap_or(i32::MAX).max(0)
    }

    fn metadata(&self, field: &str) -> &str {
        self.0.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
    }

    fn get(&self, field: &str) -> Option<&Value> {
        self.0.get("spec")?.get(field)
    }

    fn set(&mut self, field: &str, value: Value) {
        let Value::Object(lease) = &mut self.0 else { return };
        let spec = lease.entry("spec").or_insert(Value::Null);
        if !spec.is_object() {
            *spec = Value::Object(Map::new());
        }
        if let Value::Object(spec) = spec {
            spec.insert(field.to_owned(), value);
        }
    }
}

/// `metav1.MicroTime`: always six digits.
fn micro_time(at: Time) -> String {
    let seconds = at.timestamp().as_ref().map(Timestamp::to_string).unwrap_or_default();
    format!("{}.{:06}Z", seconds.trim_end_matches('Z'), at.0.rem_euclid(1_000_000_000) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Holder {
        Holder { identity: "me".to_owned(), duration: Duration::from_secs(15) }
    }

    /// 2026-01-02T03:04:05.000678Z
    const NOW: Time = Time(1_767_323_045_000_678_900);

    #[test]
    fn a_new_lease_is_as_client_gos() {
        let lease = Lease::new("kube-system", "wcm", &me(), NOW);
        assert_eq!(
            lease.0,
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "wcm", "namespace": "kube-system"},
                "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "2026-01-02T03:04:05.000678Z",
                    "renewTime": "2026-01-02T03:04:05.000678Z", "leaseTransitions": 0}})
        );
    }

    #[test]
    fn what_is_not_ours_survives_and_a_renewal_changes_the_renew_time_only() {
        let theirs = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "wcm", "resourceVersion": "7", "uid": "00000000-0000-0000-0000-000000000007", "labels": {"a": "b"}},
            "spec": {"holderIdentity": "other", "leaseDurationSeconds": 30, "acquireTime": "2025-01-01T00:00:00.000000Z",
                "renewTime": "2025-01-01T00:00:00.000000Z", "leaseTransitions": 4, "strategy": "OldestEmulationVersion",
                "preferredHolder": "third", "fieldOfTheFuture": {"x": 1}}});
        let lease = Lease::parse(theirs.to_string().as_bytes()).unwrap();
        assert_eq!((lease.holder(), lease.duration(), lease.version()), ("other", Some(Duration::from_secs(30)), ResourceVersion(7)));
        let taken = lease.held_by(&me(), NOW);
        let mut expected = theirs.clone();
        for (field, value) in [
            ("holderIdentity", json!("me")),
            ("leaseDurationSeconds", json!(15)),
            ("acquireTime", json!("2026-01-02T03:04:05.000678Z")),
            ("renewTime", json!("2026-01-02T03:04:05.000678Z")),
            ("leaseTransitions", json!(5)),
        ] {
            expected["spec"][field] = value;
        }
        assert_eq!(taken.0, expected);
        let renewed = taken.held_by(&me(), NOW.plus_seconds(2));
        expected["spec"]["renewTime"] = json!("2026-01-02T03:04:07.000678Z");
        assert_eq!(renewed.0, expected);
        let released = renewed.released(NOW.plus_seconds(3));
        assert_eq!((released.holder(), released.duration()), ("", Some(Duration::from_secs(1))));
        assert_eq!((&released.0["spec"]["leaseTransitions"], &released.0["spec"]["preferredHolder"]), (&json!(5), &json!("third")));
    }

    #[test]
    fn a_spec_that_says_nothing_is_nobodys() {
        for spec in ["null", "{}", "[]", "7", r#"{"holderIdentity":null,"leaseDurationSeconds":-3,"leaseTransitions":"x"}"#] {
            let lease = Lease::parse(format!(r#"{{"metadata":{{"resourceVersion":"9"}},"spec":{spec}}}"#).as_bytes()).unwrap();
            assert_eq!((lease.holder(), lease.duration()), ("", None), "{spec}");
            let taken = lease.held_by(&me(), NOW);
            assert_eq!(
                (taken.holder(), &taken.0["spec"]["leaseTransitions"], taken.version()),
                ("me", &json!(1), ResourceVersion(9)),
                "{spec}"
            );
        }
        for body in ["", "null", "[]", "<html>"] {
            Lease::parse(body.as_bytes()).unwrap_err();
        }
    }

    #[test]
    fn labels_are_no_sign_of_life() {
        let lease = |version: &str, renewed: &str| {
            Lease::parse(format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"spec":{{"renewTime":"{renewed}"}}}}"#).as_bytes())
                .unwrap()
        };
        assert!(lease("1", "a").is_same_record(&lease("2", "a")));
        assert!(!lease("1", "a").is_same_record(&lease("1", "b")));
    }
}
