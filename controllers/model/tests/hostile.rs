//! No input makes a decoder panic, hang or allocate out of proportion: it is read, or it is refused.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test outside of test functions")]

use std::alloc::System;
use std::time::{Duration, Instant};

use model::protobuf::write::Writer;
use model::{ControllerRevisionDecoder, Decode, PersistentVolumeClaimDecoder, ReplicaSetDecoder};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that may be allocated, all in all, for each byte of input: a list item of three bytes becomes a structure of a few hundred.
const PROPORTION: usize = 256;
/// And for whatever small thing comes in.
const BASE: usize = 16 * 1024;

const UID: &str = "0e1b4a9c-6a4e-4c53-9f0a-3f6f1f0f4a11";

/// Decodes twice, since the second time meets what the first has left behind.
fn survives<D: Decode + Default>(input: &[u8]) {
    let mut decoder = D::default();
    for _ in 0..2 {
        let (before, started) = (ALLOCATOR.stats(), Instant::now());
        let _ = decoder.decode(input);
        let all = ALLOCATOR.stats().bytes_allocated - before.bytes_allocated;
        assert!(all <= input.len() * PROPORTION + BASE, "{all} bytes were allocated for {}", input.len());
        // A thousand times what it takes; the square of these sizes takes longer.
        assert!(started.elapsed() < Duration::from_secs(10), "{:?} for {} bytes", started.elapsed(), input.len());
    }
}

fn run<S: Strategy>(cases: u32, inputs: &S, survives: impl Fn(S::Value)) {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases) });
    runner
        .run(inputs, |input| {
            survives(input);
            Ok(())
        })
        .unwrap();
}

/// A valid input, cut or with some bytes overwritten.
fn damaged(valid: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let damage = prop::collection::vec((any::<Index>(), any::<u8>()), 0..4);
    (damage, any::<Index>(), any::<bool>()).prop_map(move |(damage, end, cut)| {
        let mut bytes = valid.clone();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        bytes
    })
}

fn arbitrary() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

// --- JSON

/// Where something odd may stand in a ReplicaSet, and what usually stands there.
const FIELDS: [(&str, &str); 22] = [
    ("/", r#""apiVersion":"apps/v1""#),
    ("/metadata", r#""name":"web""#),
    ("/metadata", r#""namespace":"shop""#),
    ("/metadata", r#""uid":"0e1b4a9c-6a4e-4c53-9f0a-3f6f1f0f4a11""#),
    ("/metadata", r#""resourceVersion":"7""#),
    ("/metadata", r#""generation":1"#),
    ("/metadata", r#""creationTimestamp":"2026-01-01T00:00:00Z""#),
    ("/metadata", r#""deletionTimestamp":null"#),
    ("/metadata", r#""labels":{"app":"web"}"#),
    ("/metadata", r#""annotations":{"deployment.kubernetes.io/revision":"1"}"#),
    (
        "/metadata",
        r#""ownerReferences":[{"kind":"Deployment","name":"web","uid":"0e1b4a9c-6a4e-4c53-9f0a-3f6f1f0f4a12","controller":true}]"#,
    ),
    ("/metadata", r#""managedFields":[{}]"#),
    ("/spec", r#""replicas":0"#),
    ("/spec", r#""minReadySeconds":5"#),
    ("/spec", r#""selector":{"matchLabels":{"app":"web"}}"#),
    ("/spec", r#""template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[]}}"#),
    ("/status", r#""replicas":0"#),
    ("/status", r#""terminatingReplicas":0"#),
    ("/status", r#""observedGeneration":1"#),
    ("/status", r#""conditions":[{"type":"ReplicaFailure","status":"True"}]"#),
    ("/status", r#""fieldOfTheFuture":[1]"#),
    ("/status", r#""readyReplicas":0"#),
];

/// What nobody would send.
fn odd_value() -> impl Strategy<Value = String> {
    let fixed = select(vec![
        "null",
        "true",
        "\"\"",
        "\"x\"",
        "{}",
        "[]",
        "-1",
        "0.0",
        "1e999",
        "-0",
        "2147483648",
        "99999999999999999999999999",
        "[null]",
        "{\"a\":null}",
        "{\"a\":1}",
        "\"\\u0000\\u0001\"",
        "\"\\ud800\"",
        "{\"a\":\"b\",\"a\":\"c\"}",
        "{\"matchLabels\":null,\"matchExpressions\":[{}]}",
        "\"",
        "{\"metadata\":{\"labels\":{\"pod-template-hash\":1.5}}}",
        "tru",
        "",
    ]);
    let deep = (1_usize..60_000, select(vec![("[", "]"), ("{\"a\":", "}"), ("[{\"metadata\":", "}]")]), any::<bool>()).prop_map(
        |(depth, (open, close), closed)| format!("{}1{}", open.repeat(depth), if closed { close.repeat(depth) } else { String::new() }),
    );
    let wide = (1_usize..20_000, select(vec!["{}", "[]", "0", "\"\"", "null", "{\"controller\":true}"]))
        .prop_map(|(count, item)| format!("[{}]", vec![item; count].join(",")));
    let labels = (1_usize..20_000, any::<bool>()).prop_map(|(count, same)| {
        let entry = |n: usize| format!("\"k{n}\":\"value-{}\"", if same { 0 } else { n });
        format!("{{{}}}", (0..count).map(entry).collect::<Vec<_>>().join(","))
    });
    let selector = labels.clone().prop_map(|labels| format!("{{\"matchLabels\":{labels}}}"));
    let template = labels.clone().prop_map(|labels| format!("{{\"metadata\":{{\"labels\":{labels}}}}}"));
    prop_oneof![12 => fixed.prop_map(str::to_owned), 2 => deep, 2 => wide, 1 => labels, 1 => selector, 1 => template]
}

/// A ReplicaSet with such values in some of its fields, instead of the usual ones or besides them.
fn replica_set_with(odd: &[(usize, String, bool)]) -> Vec<u8> {
    let section = |wanted: &str| {
        let mut fields = Vec::new();
        for (at, (_, field)) in FIELDS.iter().enumerate().filter(|(_, (section, _))| *section == wanted) {
            let key = field.split(':').next().unwrap();
            let here = || odd.iter().filter(|(there, ..)| *there == at);
            if here().all(|(.., besides)| *besides) {
                fields.push((*field).to_owned());
            }
            fields.extend(here().map(|(_, value, _)| format!("{key}:{value}")));
        }
        fields.join(",")
    };
    let [top, metadata, spec, status] = ["/", "/metadata", "/spec", "/status"].map(section);
    format!(r#"{{{top},"metadata":{{{metadata}}},"spec":{{{spec}}},"status":{{{status}}}}}"#).into_bytes()
}

fn replica_set() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec((0..FIELDS.len(), odd_value(), any::<bool>()), 0..5).prop_map(|odd| replica_set_with(&odd))
}

// --- protobuf

fn metadata() -> Writer {
    let owner = Writer::new().text(1, "StatefulSet").text(3, "db").text(4, UID).text(5, "apps/v1").varint(6, 1);
    let meta = Writer::new().text(1, "db-0").text(3, "shop").text(5, UID).text(6, "7").message(8, &Writer::new().varint(1, 9));
    meta.entry(11, "app", "db").entry(11, "controller.kubernetes.io/hash", "0").entry(12, "a", "b").message(13, &owner).message(13, &owner)
}

fn object() -> Vec<u8> {
    Writer::new().message(1, &metadata()).message(2, &Writer::new().bytes(1, b"{}")).varint(3, 5).into_bytes()
}

/// As many of the smallest field of one number as a megabyte holds, around a valid object.
fn swollen() -> impl Strategy<Value = Vec<u8>> {
    (select(vec![8_u8, 9, 11, 12, 13, 17]), 0_usize..500_000).prop_map(|(number, count)| {
        let entries = [number << 3 | 2, 0].repeat(count);
        Writer::new().bytes(1, &entries).message(1, &metadata()).message(2, &Writer::new().bytes(1, b"{}")).into_bytes()
    })
}

/// One test, for the allocator counts what all threads do.
#[test]
fn every_input_is_read_or_refused() {
    let usual = replica_set_with(&[]);
    assert!(ReplicaSetDecoder::new().decode(&usual).unwrap().template().is_none(), "it is at zero");
    let many = format!("{{{}}}", (0..100_000).map(|n| format!("\"k{n}\":\"v\"")).collect::<Vec<_>>().join(","));
    let odd = [(8, many.clone()), (14, format!("{{\"matchLabels\":{many}}}")), (15, format!("{{\"metadata\":{{\"labels\":{many}}}}}"))];
    survives::<ReplicaSetDecoder>(&replica_set_with(&odd.map(|(at, value)| (at, value, false))));
    run(600, &replica_set(), |input| survives::<ReplicaSetDecoder>(&input));
    run(600, &damaged(usual), |input| survives::<ReplicaSetDecoder>(&input));
    run(200, &arbitrary(), |input| survives::<ReplicaSetDecoder>(&input));

    assert!(PersistentVolumeClaimDecoder::new().decode(&object()).is_ok());
    assert!(ControllerRevisionDecoder::new().decode(&object()).is_ok());
    for (cases, inputs) in [(600, damaged(object()).boxed()), (200, arbitrary().boxed()), (20, swollen().boxed())] {
        run(cases, &inputs, |input| {
            survives::<PersistentVolumeClaimDecoder>(&input);
            survives::<ControllerRevisionDecoder>(&input);
        });
    }
}
