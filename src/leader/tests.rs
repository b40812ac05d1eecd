//! The protocol step by step, and whole elections against a scripted API under paused time.

mod decisions;
mod elections;

use std::time::Duration;

use model::Time;
use serde_json::{Value, json};

use super::lease::{Holder, Lease};
use super::protocol::Rules;

const NOW: Time = Time(1_767_323_045_000_678_900);

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn rules(identity: &str) -> Rules {
    Rules {
        namespace: "kube-system".to_owned(),
        name: "wcm".to_owned(),
        me: Holder { identity: identity.to_owned(), duration: seconds(15.0) },
        renew_deadline: seconds(10.0),
        retry_period: seconds(2.0),
    }
}

/// A lease at a version. `renewed` stands for whatever makes its record another one.
fn lease(version: u64, holder: &str, renewed: &str) -> Lease {
    let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed});
    with_spec(version, &spec)
}

fn with_spec(version: u64, spec: &Value) -> Lease {
    let object = json!({"metadata": {"name": "wcm", "resourceVersion": version.to_string()}, "spec": spec});
    Lease::parse(object.to_string().as_bytes()).unwrap()
}
