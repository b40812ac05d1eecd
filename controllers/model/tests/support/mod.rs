//! Writes the protobuf of a pod that is given as JSON, as Go's generated code would: fields by ascending number, empty strings included.

use model::protobuf::write::Writer;
use serde_json::Value;

/// The three sections of a pod: metadata, spec and status.
pub(crate) fn sections(pod: &Value) -> [Writer; 3] {
    [metadata(&pod["metadata"]), spec(&pod["spec"]), status(&pod["status"])]
}

/// The message of a pod.
pub(crate) fn encode(pod: &Value) -> Vec<u8> {
    let [metadata, spec, status] = sections(pod);
    Writer::new().message(1, &metadata).message(2, &spec).message(3, &status).into_bytes()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn time(value: &Value) -> Writer {
    match value.as_str().map(str::parse::<jiff::Timestamp>) {
        Some(Ok(at)) => Writer::new().varint(1, at.as_second() as u64).varint(2, 0),
        _ => Writer::new(),
    }
}

fn map(mut writer: Writer, number: u32, map: &Value) -> Writer {
    for (key, value) in map.as_object().into_iter().flatten() {
        writer = writer.entry(number, key, text(value));
    }
    writer
}

fn metadata(meta: &Value) -> Writer {
    let mut writer = Writer::new()
        .text(1, text(&meta["name"]))
        .text(2, text(&meta["generateName"]))
        .text(3, text(&meta["namespace"]))
        .text(4, "")
        .text(5, text(&meta["uid"]))
        .text(6, text(&meta["resourceVersion"]))
        .varint(7, 3)
        .message(8, &time(&meta["creationTimestamp"]));
    if !meta["deletionTimestamp"].is_null() {
        writer = writer.message(9, &time(&meta["deletionTimestamp"])).varint(10, 30);
    }
    writer = map(writer, 11, &meta["labels"]);
    writer = map(writer, 12, &meta["annotations"]);
    for owner in items(&meta["ownerReferences"]) {
        let mut reference =
            Writer::new().text(1, text(&owner["kind"])).text(3, text(&owner["name"])).text(4, text(&owner["uid"])).text(5, "apps/v1");
        if let Some(controller) = owner["controller"].as_bool() {
            reference = reference.varint(6, controller.into()).varint(7, 1);
        }
        writer = writer.message(13, &reference);
    }
    writer.text(14, "example.com/finalizer").message(17, &Writer::new().text(1, "kubelet").text(2, "Update"))
}

fn spec(spec: &Value) -> Writer {
    let mut writer = Writer::new();
    for volume in items(&spec["volumes"]) {
        let source = match volume["persistentVolumeClaim"]["claimName"].as_str() {
            Some(claim) => Writer::new().message(10, &Writer::new().text(1, claim).varint(2, 0)),
            None => Writer::new().message(2, &Writer::new().text(1, "Memory")),
        };
        writer = writer.message(1, &Writer::new().text(1, text(&volume["name"])).message(2, &source));
    }
    for container in items(&spec["containers"]) {
        writer = writer.message(2, &self::container(container));
    }
    writer = writer.text(3, "Always").varint(4, 30).text(6, "ClusterFirst").text(8, "").text(9, "");
    writer = writer.text(10, text(&spec["nodeName"])).varint(11, 0).message(14, &Writer::new());
    for container in items(&spec["initContainers"]) {
        writer = writer.message(20, &self::container(container));
    }
    writer.varint(30, 1).text(31, "PreemptLowerPriority")
}

fn container(container: &Value) -> Writer {
    let mut writer = Writer::new().text(1, text(&container["name"])).text(2, "registry.example/app:1").text(5, "");
    writer = writer.message(7, &Writer::new().text(1, "MODE").text(2, "Always")).message(8, &Writer::new());
    if let Some(policy) = container["restartPolicy"].as_str() {
        writer = writer.text(24, policy);
    }
    writer
}

fn status(status: &Value) -> Writer {
    let mut writer = Writer::new().text(1, text(&status["phase"]));
    for condition in items(&status["conditions"]) {
        let condition = Writer::new()
            .text(1, text(&condition["type"]))
            .text(2, text(&condition["status"]))
            .message(3, &Writer::new())
            .message(4, &time(&condition["lastTransitionTime"]))
            .text(5, "")
            .text(6, "");
        writer = writer.message(2, &condition);
    }
    writer = writer.text(3, "").text(4, "").text(5, "10.0.0.1").text(6, "10.1.0.1");
    for (number, list) in [(8, "containerStatuses"), (10, "initContainerStatuses")] {
        for container in items(&status[list]) {
            let restarts = container["restartCount"].as_i64().unwrap_or_default();
            let state = Writer::new().message(2, &Writer::new().message(1, &Writer::new().varint(1, 1_700_000_000)));
            let container =
                Writer::new().text(1, text(&container["name"])).message(2, &state).varint(4, 1).varint(5, restarts as u64).text(6, "app:1");
            writer = writer.message(number, &container);
        }
    }
    writer.text(9, "Burstable")
}
