//! What decoding allocates. What the decoded objects cost is measured where they are held, by machinery's `memory_budget`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test outside of test functions")]

mod support;

use std::alloc::System;

use model::labels::Labels;
use model::protobuf::write::Writer;
use model::{Decode, PodDecoder};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const UID: &str = "0e1b4a9c-6a4e-4c53-9f0a-3f6f1f0f4a11";

fn pod(name: &str, labels: &Value, owner: &Value) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "team-7-production", "uid": UID, "resourceVersion": "10000000",
            "creationTimestamp": "2026-03-01T10:00:00Z", "labels": labels, "ownerReferences": [owner],
        },
        "spec": {"nodeName": "ip-10-0-7.eu-central-1.compute.internal", "volumes": [{"name": "tmp"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T10:00:05Z"}],
            "containerStatuses": [{"name": "app", "restartCount": 2}],
        },
    })
}

/// One test, for the allocator counts what all threads do.
#[test]
fn decoding_allocates_little() {
    decoding_a_known_pod_allocates_its_name_only();
    a_hostile_pod_costs_in_proportion_to_its_size();
}

fn decoding_a_known_pod_allocates_its_name_only() {
    let labels = json!({"app": "web", "pod-template-hash": "5d4f8c7b9d"});
    let set =
        pod("web-5d4f8c7b9d-x2z4q", &labels, &json!({"kind": "ReplicaSet", "name": "web-5d4f8c7b9d", "uid": UID, "controller": true}));
    let labels = json!({"controller-uid": UID, "job-name": "nightly-1"});
    let job = pod("nightly-1-x2z4q", &labels, &json!({"kind": "Job", "name": "nightly-1", "uid": UID, "controller": true}));
    let mut decoder = PodDecoder::new();
    for json in [set, job] {
        let bytes = support::encode(&json);
        let _known = decoder.decode(&bytes).unwrap();
        let before = ALLOCATOR.stats();
        let pod = decoder.decode(&bytes).unwrap();
        assert_eq!(ALLOCATOR.stats().allocations - before.allocations, 1, "{pod:?}");
        assert_eq!(ALLOCATOR.stats().deallocations, before.deallocations);
    }
}

/// The smallest label is two bytes on the wire and two borrowed strings while it is sorted.
fn a_hostile_pod_costs_in_proportion_to_its_size() {
    let mut decoder = PodDecoder::new();
    let entries = [0x5a, 0].repeat(500_000);
    let identity = Writer::new().text(1, "a").text(3, "b").text(5, UID).into_bytes();
    let bytes = Writer::new().bytes(1, &entries).bytes(1, &identity).into_bytes();
    let before = ALLOCATOR.stats();
    let pod = decoder.decode(&bytes).unwrap();
    assert_eq!(pod.label_set.len(), 1);
    let after = ALLOCATOR.stats();
    let all = after.bytes_allocated - before.bytes_allocated;
    assert!(all <= bytes.len() * 64, "{all} bytes were allocated for {}", bytes.len());
    let held = all - (after.bytes_deallocated - before.bytes_deallocated);
    assert!(held < 4096, "{held} bytes are held");
}
