//! What the API fills in where a template says nothing (upstream `pkg/apis/apps/v1/zz_generated.defaults.go`
//! `SetObjectDefaults_StatefulSet`, as far as the template goes; the functions that are named below are in
//! `pkg/apis/core/v1/defaults.go`).
//!
//! What is filled in for pods but not for templates is not here: requests from limits, `hostPort` on the host's network,
//! `enableServiceLinks` (`SetDefaults_Pod`).

use super::image::pull_policy;
use crate::go_json::{Members, Value};

/// 0644, the mode of files in volumes.
const FILE_MODE: Value = Value::Number(420.0);
const HOUR: Value = Value::Number(3600.0);

/// Fills in a template's spec, whose values are as upstream's types print them.
pub(super) fn pod_spec(spec: &mut Members) {
    service_account(spec);
    text(spec, "dnsPolicy", "ClusterFirst");
    text(spec, "restartPolicy", "Always");
    pointer(spec, "securityContext", Value::Object(Members::new()));
    pointer(spec, "terminationGracePeriodSeconds", Value::Number(30.0));
    text(spec, "schedulerName", "default-scheduler");
    objects(spec, "volumes").for_each(volume);
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        objects(spec, containers).for_each(container);
    }
}

/// `SetDefaults_PodSpec`: two names of one field.
fn service_account(spec: &mut Members) {
    let is_text = |name: &&str| matches!(spec.get(*name), Some(Value::Text(text)) if !text.is_empty());
    let Some(name) = ["serviceAccountName", "serviceAccount"].into_iter().find(is_text) else { return };
    if let Some(account) = spec.get(name).cloned() {
        spec.insert("serviceAccountName".to_owned(), account.clone());
        spec.insert("serviceAccount".to_owned(), account);
    }
}

/// `SetDefaults_Container`.
fn container(container: &mut Members) {
    image_pull_policy(container, "image", "imagePullPolicy");
    text(container, "terminationMessagePath", "/dev/termination-log");
    text(container, "terminationMessagePolicy", "File");
    objects(container, "ports").for_each(|port| text(port, "protocol", "TCP"));
    for variable in objects(container, "env") {
        let Some(from) = object(variable, "valueFrom") else { continue };
        field_ref(from);
        if let Some(key) = object(from, "fileKeyRef") {
            pointer(key, "optional", Value::Boolean(false));
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = object(container, name) {
            probe(found);
        }
    }
    if let Some(lifecycle) = object(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = object(lifecycle, name) {
                http_get(handler);
            }
        }
    }
}

fn image_pull_policy(of: &mut Members, image: &str, policy: &str) {
    let default = match of.get(image) {
        Some(Value::Text(image)) => pull_policy(image),
        _ => pull_policy(""),
    };
    text(of, policy, default);
}

/// `SetDefaults_Probe`.
fn probe(probe: &mut Members) {
    for (name, default) in [("timeoutSeconds", 1.0), ("periodSeconds", 10.0), ("successThreshold", 1.0), ("failureThreshold", 3.0)] {
        if is_unset(probe.get(name), &Value::Number(0.0)) {
            probe.insert(name.to_owned(), Value::Number(default));
        }
    }
    http_get(probe);
    if let Some(grpc) = object(probe, "grpc") {
        pointer(grpc, "service", Value::Text(String::new()));
    }
}

/// `SetDefaults_HTTPGetAction`.
fn http_get(handler: &mut Members) {
    if let Some(action) = object(handler, "httpGet") {
        text(action, "path", "/");
        text(action, "scheme", "HTTP");
    }
}

/// `SetDefaults_ObjectFieldSelector`.
fn field_ref(of: &mut Members) {
    if let Some(selector) = object(of, "fieldRef") {
        text(selector, "apiVersion", "v1");
    }
}

/// `SetDefaults_Volume`, and those of the kinds of volumes.
fn volume(volume: &mut Members) {
    // Whatever else is there is a source, if only one newer than these lines.
    if volume.keys().all(|name| name == "name") {
        volume.insert("emptyDir".to_owned(), Value::Object(Members::new()));
    }
    if let Some(image) = object(volume, "image") {
        image_pull_policy(image, "reference", "pullPolicy");
    }
    for (source, field, default) in [
        ("hostPath", "type", Value::Text(String::new())),
        ("secret", "defaultMode", FILE_MODE),
        ("downwardAPI", "defaultMode", FILE_MODE),
        ("configMap", "defaultMode", FILE_MODE),
        ("projected", "defaultMode", FILE_MODE),
        ("azureDisk", "cachingMode", Value::Text("ReadWrite".to_owned())),
        ("azureDisk", "fsType", Value::Text("ext4".to_owned())),
        ("azureDisk", "readOnly", Value::Boolean(false)),
        ("azureDisk", "kind", Value::Text("Shared".to_owned())),
    ] {
        if let Some(source) = object(volume, source) {
            pointer(source, field, default);
        }
    }
    for (source, field, default) in [
        ("iscsi", "iscsiInterface", "default"),
        ("rbd", "pool", "rbd"),
        ("rbd", "user", "admin"),
        ("rbd", "keyring", "/etc/ceph/keyring"),
        ("scaleIO", "storageMode", "ThinProvisioned"),
        ("scaleIO", "fsType", "xfs"),
    ] {
        if let Some(source) = object(volume, source) {
            text(source, field, default);
        }
    }
    parts_of_volume(volume);
}

fn parts_of_volume(volume: &mut Members) {
    if let Some(source) = object(volume, "downwardAPI") {
        objects(source, "items").for_each(field_ref);
    }
    if let Some(projected) = object(volume, "projected") {
        for source in objects(projected, "sources") {
            if let Some(downward) = object(source, "downwardAPI") {
                objects(downward, "items").for_each(field_ref);
            }
            if let Some(token) = object(source, "serviceAccountToken") {
                pointer(token, "expirationSeconds", HOUR);
            }
        }
    }
    let template = object(volume, "ephemeral").and_then(|source| object(source, "volumeClaimTemplate"));
    if let Some(claim) = template.and_then(|template| object(template, "spec")) {
        // `SetDefaults_PersistentVolumeClaimSpec`.
        pointer(claim, "volumeMode", Value::Text("Filesystem".to_owned()));
    }
}

fn object<'a>(of: &'a mut Members, field: &str) -> Option<&'a mut Members> {
    match of.get_mut(field) {
        Some(Value::Object(members)) => Some(members),
        _ => None,
    }
}

fn objects<'a>(of: &'a mut Members, field: &str) -> impl Iterator<Item = &'a mut Members> {
    let items = match of.get_mut(field) {
        Some(Value::List(items)) => items.as_mut_slice(),
        _ => &mut [],
    };
    items.iter_mut().filter_map(|item| match item {
        Value::Object(members) => Some(members),
        _ => None,
    })
}

fn is_unset(value: Option<&Value>, zero: &Value) -> bool {
    value.is_none_or(|value| *value == Value::Null || value == zero)
}

/// Fills in a string, which is not told from an empty one.
fn text(of: &mut Members, field: &str, default: &str) {
    if is_unset(of.get(field), &Value::Text(String::new())) {
        of.insert(field.to_owned(), Value::Text(default.to_owned()));
    }
}

/// Fills in what is behind a pointer, whose zero value is no less a value.
fn pointer(of: &mut Members, field: &str, default: Value) {
    if is_unset(of.get(field), &Value::Null) {
        of.insert(field.to_owned(), default);
    }
}
