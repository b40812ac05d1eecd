//! What a cached pod costs: the decoder with all it shares, and the pods it made, without any store.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test outside of test functions")]

mod support;

use std::alloc::System;
use std::sync::Arc;

use model::labels::Labels;
use model::protobuf::write::Writer;
use model::{Decode, Pod, PodDecoder};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What glibc's malloc adds to a block at most, on average: 8 bytes of header and half of the 16 that sizes are rounded up to.
const BLOCK: usize = 16;

const PODS: usize = 100_000;
const NODES: usize = 2_000;
const NAMESPACES: usize = 200;

/// Bytes per pod, over all classes: the whole product may use 450, of which its indexes take 60.
const BUDGET: usize = 320;

/// A UUID that no other number has.
fn uid(class: u64, n: usize) -> String {
    let high = (class << 32 | n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let low = high.rotate_left(29) ^ 0x5bd1_e995_7b7d_159b;
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
    format!("{a:08x}-{b:04x}-4{c:03x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
}

/// Five characters as generated names have them.
fn suffix(n: usize) -> String {
    let alphabet = b"bcdfghjklmnpqrstvwxz2456789";
    let mut rest = n.wrapping_mul(7_919) + 531_441;
    let characters = std::iter::repeat_with(|| {
        let one = alphabet[rest % 27];
        rest /= 27;
        char::from(one)
    });
    characters.take(5).collect()
}

fn pod(class: u64, n: usize, name: &str, labels: &Value, owner: &Value, volumes: &Value) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": format!("team-{}-production", n / 7 % NAMESPACES), "uid": uid(class, n),
            "resourceVersion": (10_000_000 + n).to_string(), "creationTimestamp": "2026-03-01T10:00:00Z",
            "labels": labels, "ownerReferences": [owner],
        },
        "spec": {"nodeName": format!("ip-10-{}-{}.eu-central-1.compute.internal", n % NODES / 250, n % NODES % 250), "volumes": volumes},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T10:00:05Z"}],
            "containerStatuses": [{"name": "app", "restartCount": n % 3}],
        },
    })
}

fn replica_set_pod(n: usize) -> Value {
    let (set, hash) = (n / 50, format!("{:x}", 0x5d_4f8c_7b9d_u64 + n as u64 / 50));
    let owner = format!("checkout-service-{set}-{hash}");
    let app = format!("checkout-service-{set}");
    let labels = json!({
        "app.kubernetes.io/name": app, "app.kubernetes.io/instance": app, "app.kubernetes.io/version": "1.27.3", "pod-template-hash": hash,
    });
    let owner_ref = json!({"kind": "ReplicaSet", "name": owner, "uid": uid(2, set), "controller": true});
    pod(1, n, &format!("{owner}-{}", suffix(n)), &labels, &owner_ref, &json!([]))
}

fn stateful_set_pod(n: usize) -> Value {
    let (set, ordinal) = (n / 20, n % 20);
    let app = format!("postgres-cluster-{set}");
    let name = format!("{app}-{ordinal}");
    let labels = json!({
        "app.kubernetes.io/name": app, "apps.kubernetes.io/pod-index": ordinal.to_string(),
        "controller-revision-hash": format!("{app}-6f7d9c8b5d"), "statefulset.kubernetes.io/pod-name": name,
    });
    let owner_ref = json!({"kind": "StatefulSet", "name": app, "uid": uid(4, set), "controller": true});
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{name}")}}, {"name": "tmp"}]);
    pod(3, n, &name, &labels, &owner_ref, &volumes)
}

fn job_pod(n: usize) -> Value {
    let (job, job_uid) = (format!("nightly-report-{}", 29_384_720 + n), uid(6, n));
    let labels = json!({
        "app": "nightly-report", "batch.kubernetes.io/controller-uid": job_uid, "batch.kubernetes.io/job-name": job,
        "controller-uid": job_uid, "job-name": job,
    });
    let owner_ref = json!({"kind": "Job", "name": job, "uid": job_uid, "controller": true});
    pod(5, n, &format!("{job}-{}", suffix(n)), &labels, &owner_ref, &json!([]))
}

/// What is allocated now, as malloc counts it: bytes, and the number of blocks.
fn allocated(stats: Stats) -> (usize, usize) {
    let blocks = stats.allocations - stats.deallocations;
    (stats.bytes_allocated - stats.bytes_deallocated + blocks * BLOCK, blocks)
}

fn cost(before: Stats) -> usize {
    allocated(ALLOCATOR.stats()).0.saturating_sub(allocated(before).0)
}

/// Decodes so many pods as a store would hold them, and reports what each costs.
fn fill(decoder: &mut PodDecoder, pods: &mut Vec<Arc<Pod>>, class: &str, count: usize, make: fn(usize) -> Value, first: usize) {
    let before = ALLOCATOR.stats();
    for n in first..first + count {
        pods.push(Arc::new(decoder.decode(&support::encode(&make(n))).unwrap()));
    }
    println!("{class}: {} bytes a pod", cost(before) / count);
}

/// One test, for the allocator counts what all threads do.
#[test]
fn pods_cost_what_the_budget_allows() {
    let mut pods = Vec::with_capacity(PODS);
    let before = ALLOCATOR.stats();
    let mut decoder = PodDecoder::new();
    fill(&mut decoder, &mut pods, "ReplicaSet", PODS / 2, replica_set_pod, 0);
    fill(&mut decoder, &mut pods, "StatefulSet", PODS / 5, stateful_set_pod, 0);
    let jobs = PODS * 3 / 10;
    fill(&mut decoder, &mut pods, "Job", jobs, job_pod, 0);
    let each = cost(before) / PODS;
    println!("all: {each} bytes a pod, {} of them the pod itself; {:?}", size_of::<Pod>(), decoder.interned());
    assert!(each <= BUDGET, "{each} bytes a pod");

    decoding_a_known_pod_allocates_its_name_only(&mut decoder);

    a_hostile_pod_costs_in_proportion_to_its_size(&mut decoder);

    // Jobs come and go: their label sets must not stay.
    for n in jobs..3 * jobs {
        let gone = PODS - jobs + n % jobs;
        pods[gone] = Arc::new(decoder.decode(&support::encode(&job_pod(n))).unwrap());
    }
    let each = cost(before) / PODS;
    println!("after two more generations of Jobs: {each} bytes a pod; {:?}", decoder.interned());
    assert!(each <= BUDGET * 9 / 8, "{each} bytes a pod with what Jobs left behind");

    pods.clear();
    drop(decoder);
    // The harness keeps what this test printed.
    assert!(cost(before) < 8192, "{} bytes are left", cost(before));
}

/// The smallest label is two bytes on the wire and two borrowed strings while it is sorted.
fn a_hostile_pod_costs_in_proportion_to_its_size(decoder: &mut PodDecoder) {
    let entries = [0x5a, 0].repeat(500_000);
    let identity = Writer::new().text(1, "a").text(3, "b").text(5, &uid(7, 0)).into_bytes();
    let bytes = Writer::new().bytes(1, &entries).bytes(1, &identity).into_bytes();
    let before = ALLOCATOR.stats();
    let pod = decoder.decode(&bytes).unwrap();
    assert_eq!(pod.label_set.len(), 1);
    let all = ALLOCATOR.stats().bytes_allocated - before.bytes_allocated;
    assert!(all <= bytes.len() * 64, "{all} bytes were allocated for {}", bytes.len());
    drop(pod);
    assert!(cost(before) < 1024, "{} bytes are left", cost(before));
}

fn decoding_a_known_pod_allocates_its_name_only(decoder: &mut PodDecoder) {
    for make in [replica_set_pod, job_pod] {
        let bytes = support::encode(&make(11));
        let before = ALLOCATOR.stats();
        let pod = decoder.decode(&bytes).unwrap();
        assert_eq!(allocated(ALLOCATOR.stats()).1 - allocated(before).1, 1);
        assert_eq!(ALLOCATOR.stats().allocations - before.allocations, 1, "{pod:?}");
    }
}
