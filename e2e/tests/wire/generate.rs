//! Pods of all sorts that a server accepts, out of a seed.

use fastrand::Rng;
use model::pod::{POD_INDEX_LABEL, POD_NAME_LABEL};
use serde_json::{Map, Value, json};

use crate::support::ago;

pub(crate) const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A pod as it is created, and what is written to it later.
pub(crate) struct Generated {
    pub(crate) pod: Value,
    pub(crate) status: Value,
    /// It is deleted, and stays for a finalizer.
    pub(crate) deleted: bool,
}

pub(crate) fn pod(rng: &mut Rng, n: usize) -> Generated {
    let name = match rng.usize(..3) {
        0 => format!("db-{n}"),
        1 => format!("web-{n}-x{}z", rng.u32(..100)),
        _ => format!("a.b.{n}"),
    };
    let deleted = rng.u8(..8) == 0;
    let sidecars = rng.usize(..4);
    let containers = 1 + rng.usize(..3);
    let mut metadata = json!({"name": name, "labels": labels(rng, &name), "annotations": annotations(rng)});
    metadata["ownerReferences"] = owners(rng);
    if deleted {
        metadata["finalizers"] = json!(["example.com/kept"]);
    }
    let mut spec = json!({
        "terminationGracePeriodSeconds": 0, "containers": list(containers, |n| container("c", n, None)),
        "initContainers": list(sidecars, |n| container("i", n, [None, Some("Always")][rng.usize(..2)])),
        "volumes": volumes(rng, &name),
    });
    if rng.bool() {
        spec["nodeName"] = json!(format!("node-{}", rng.u8(..5)));
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    Generated { pod, status: status(rng, containers, sidecars), deleted }
}

fn one_of<'a>(rng: &mut Rng, texts: &[&'a str]) -> &'a str {
    texts[rng.usize(..texts.len())]
}

fn list(count: usize, item: impl FnMut(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn container(prefix: &str, n: usize, restart_policy: Option<&str>) -> Value {
    let mut container = json!({
        "name": format!("{prefix}{n}"), "image": "registry.example/app:1", "env": [{"name": "MODE", "value": "Always"}],
        "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
    });
    if let Some(policy) = restart_policy {
        container["restartPolicy"] = json!(policy);
    }
    container
}

fn labels(rng: &mut Rng, name: &str) -> Value {
    let mut labels = Map::new();
    for key in ["app", "example.com/tier", "a", "z_z", "pod-template-hash"] {
        if rng.bool() {
            labels.insert(key.to_owned(), json!(["", "a", "B-2", "x".repeat(63).as_str()][rng.usize(..4)]));
        }
    }
    let index = name.rsplit('-').next().unwrap();
    for (key, own) in [(POD_NAME_LABEL, name), (POD_INDEX_LABEL, index)] {
        match rng.u8(..3) {
            0 => {}
            1 => drop(labels.insert(key.to_owned(), json!(own))),
            _ => drop(labels.insert(key.to_owned(), json!("7"))),
        }
    }
    labels.into()
}

fn annotations(rng: &mut Rng) -> Value {
    let mut annotations = Map::new();
    if rng.bool() {
        annotations.insert("example.com/text".to_owned(), json!("\u{e4}\u{1f980}\u{0}<&>".repeat(rng.usize(..200))));
    }
    if rng.bool() {
        let edge = [i64::from(i32::MAX), i64::from(i32::MIN), i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1][rng.usize(..4)];
        let cost = match rng.u8(..4) {
            0 => rng.i32(..).to_string(),
            1 => edge.to_string(),
            2 => rng.i32(-20..20).to_string(),
            _ => ["0", "-0", "-007", "007", "+1", "", " 1", "1 ", "1.0", "1e3", "0x1", "--1", "-", "ten"][rng.usize(..14)].to_owned(),
        };
        annotations.insert(COST.to_owned(), json!(cost));
    }
    annotations.into()
}

/// At most one of them controls: the server refuses more.
fn owners(rng: &mut Rng) -> Value {
    let kinds = [
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
        ("example.com/v1", "ReplicaSet"),
        ("v1", "Node"),
    ];
    let count = rng.usize(..4);
    let controller = rng.usize(..4);
    list(count, |n| {
        let (version, kind) = kinds[rng.usize(..kinds.len())];
        let uid = if rng.u8(..6) == 0 { format!("Not-A-UUID-{n}") } else { uuid(rng) };
        let mut owner = json!({"apiVersion": version, "kind": kind, "name": format!("owner-{n}"), "uid": uid});
        if n == controller {
            owner["controller"] = json!(true);
            owner["blockOwnerDeletion"] = json!(rng.bool());
        } else if rng.bool() {
            owner["controller"] = json!(false);
        }
        owner
    })
}

fn uuid(rng: &mut Rng) -> String {
    let hex = format!("{:032x}", rng.u128(..));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn volumes(rng: &mut Rng, pod: &str) -> Value {
    let mut names: Vec<_> = ["data", "cache", "logs", "b", "a"].into_iter().collect();
    rng.shuffle(&mut names);
    names.truncate(rng.usize(..5));
    let volumes = names.iter().map(|name| {
        let source = match rng.u8(..6) {
            0 => json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}),
            1 => json!({"configMap": {"name": "settings"}}),
            2 => json!({"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}),
            3 => json!({"persistentVolumeClaim": {"claimName": "shared", "readOnly": true}}),
            _ => json!({"persistentVolumeClaim": {"claimName": format!("{name}-{pod}")}}),
        };
        let mut volume = source;
        volume["name"] = json!(name);
        volume
    });
    volumes.collect()
}

fn status(rng: &mut Rng, containers: usize, sidecars: usize) -> Value {
    let mut conditions = Vec::new();
    for kind in ["PodScheduled", "Ready", "ContainersReady", "example.com/gate"] {
        if rng.u8(..3) > 0 {
            let mut condition = json!({"type": kind, "status": one_of(rng, &["True", "False", "Unknown"]), "reason": "Because"});
            if rng.u8(..4) > 0 {
                condition["lastTransitionTime"] = json!(ago(rng.i64(-1000..1_000_000_000)));
            }
            conditions.push(condition);
        }
    }
    rng.shuffle(&mut conditions);
    // One more than there are, as nothing forbids.
    let mut statuses = |prefix: &str, count: usize| {
        list(rng.usize(..count + 2), |n| {
            let restarts = [0, 1, 5, i32::MAX][rng.usize(..4)];
            json!({
                "name": format!("{prefix}{n}"), "restartCount": restarts, "ready": rng.bool(), "image": "app:1", "imageID": "",
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            })
        })
    };
    let (regular, init) = (statuses("c", containers), statuses("i", sidecars));
    let phase = one_of(rng, &["Pending", "Running", "Succeeded", "Failed", "Unknown"]);
    json!({
        "phase": phase, "conditions": conditions,
        "containerStatuses": regular, "initContainerStatuses": init, "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
    })
}
