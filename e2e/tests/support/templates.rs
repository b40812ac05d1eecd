//! Templates that are hard to take over: what they say can be written in many ways, or by programs that know more fields.

use serde_json::{Value, json};

use super::minor_release;

/// What is special about an object with a pod template.
pub type Change = fn(&mut Value);

pub fn container(object: &mut Value) -> &mut Value {
    &mut object["spec"]["template"]["spec"]["containers"][0]
}

pub fn quantities(object: &mut Value) {
    container(object)["resources"] = json!({
        "limits": {"cpu": "1500m", "memory": "1073741824", "ephemeral-storage": "1e3"}, "requests": {"cpu": "0.50", "memory": "1Gi"},
    });
    // Text that looks like a quantity, like a number, like nothing.
    container(object)["env"] = json!([
        {"name": "SIZE", "value": "1Gi"}, {"name": "MILLIS", "value": "1000m"}, {"name": "NUMBER", "value": "1.0"}, {"name": "EMPTY"},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ]);
}

/// The same as far as upstream's comparison goes, in other words.
pub fn quantities_respelled(object: &mut Value) {
    quantities(object);
    container(object)["resources"]["limits"]["memory"] = json!("1Gi");
    container(object)["resources"]["requests"]["memory"] = json!("1024Mi");
    container(object)["command"] = json!([]);
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({});
}

pub fn nothing_in_many_forms(object: &mut Value) {
    let spec = &mut object["spec"]["template"]["spec"];
    for (field, value) in [
        ("securityContext", json!({})),
        ("affinity", json!({})),
        ("nodeSelector", json!({})),
        ("tolerations", json!([])),
        ("hostAliases", json!([])),
    ] {
        spec[field] = value;
    }
    spec["volumes"] = json!([{"name": "scratch", "emptyDir": {}}, {"name": "bare"}]);
    for (field, value) in [("securityContext", json!({})), ("resources", json!({})), ("env", json!([])), ("args", Value::Null)] {
        container(object)[field] = value;
    }
}

pub fn nothing_further_inside(object: &mut Value) {
    object["spec"]["template"]["spec"]["affinity"] =
        json!({"nodeAffinity": {}, "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}});
    container(object)["lifecycle"] = json!({});
    container(object)["envFrom"] = json!([]);
}

pub fn markup(object: &mut Value) {
    let text = "a && b < c > d; echo \"\u{e4}\u{2028}\u{1f600}\\n\"\n\ttrue";
    container(object)["command"] = json!(["sh", "-c", text]);
    object["spec"]["template"]["metadata"]["annotations"] = json!({"example.com/note": text, "example.com/empty": ""});
    object["metadata"]["annotations"] = json!({"example.com/copied": text});
}

/// The library's types, of 1.33, have neither.
pub fn newer_fields(object: &mut Value) {
    object["spec"]["template"]["spec"]["hostnameOverride"] = json!("somewhere.example");
    object["spec"]["template"]["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi", "mode": 448}}]);
}

pub fn probes(object: &mut Value) {
    container(object)["ports"] = json!([{"name": "http", "containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]);
    container(object)["readinessProbe"] = json!({"httpGet": {"port": "http"}});
    container(object)["livenessProbe"] = json!({"tcpSocket": {"port": 80}, "failureThreshold": 30});
    container(object)["startupProbe"] = json!({"exec": {"command": ["sh", "-c", "test -f /tmp/a && exit 0"]}, "periodSeconds": 1});
    container(object)["lifecycle"] = json!({"preStop": {"httpGet": {"path": "/stop?a=1&b=<2>", "port": 8080}}});
}

/// Numbers that are no floats, and one that Go's way over a float rounds.
pub fn numbers(object: &mut Value) {
    let spec = &mut object["spec"]["template"]["spec"];
    spec["terminationGracePeriodSeconds"] = json!(9_007_199_254_740_993_i64);
    spec["securityContext"] = json!({"runAsUser": 1_000_720_000_i64, "fsGroup": 0, "supplementalGroups": [1, 2_147_483_647]});
    spec["tolerations"] =
        json!([{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10_000_000_000_000_000_i64}]);
    spec["volumes"] = json!([{"name": "info", "downwardAPI": {"defaultMode": 256, "items": [
        {"path": "labels", "mode": 0, "fieldRef": {"fieldPath": "metadata.labels"}},
    ]}}]);
}

/// Claim templates, volumes, and a container that runs beside.
pub fn equipped(object: &mut Value) {
    let claim = |name: &str| json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    object["spec"]["volumeClaimTemplates"] = json!([claim("datadir"), claim("logs")]);
    object["spec"]["template"]["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}]);
    object["spec"]["template"]["spec"]["initContainers"] = json!([
        {"name": "init", "image": "registry.example/init", "restartPolicy": "Always", "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
    ]);
}

/// What people keep on their objects goes to the revision.
pub fn annotated(object: &mut Value) {
    object["metadata"]["annotations"] =
        json!({"example.com/note": "a < b & \u{fc}", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    object["spec"]["template"]["metadata"]["labels"]["tier"] = json!("Back-End_1");
    object["spec"]["template"]["metadata"]["annotations"] = json!({"a/b": "\u{7f}\u{1}", "z": "\\u003c"});
}

pub fn constrained(object: &mut Value) {
    let spec = &mut object["spec"]["template"]["spec"];
    spec["topologySpreadConstraints"] =
        json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]);
    spec["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": "host", "labelSelector": {"matchExpressions": [
            {"key": "app", "operator": "NotIn", "values": ["a", "b"]},
        ]}}},
    ]}});
    spec["dnsConfig"] = json!({"options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]});
    spec["hostAliases"] = json!([{"ip": "10.0.0.1", "hostnames": ["a.example"]}]);
}

/// Keys whose order depends on how they are compared, and a place where keys may be any text.
pub fn sorted_oddly(object: &mut Value) {
    let metadata = &mut object["spec"]["template"]["metadata"];
    for key in ["B", "a", "a-b", "a.b", "a_b", "aB", "ab", "a.b/c", "a.b-c/d", "0", "Z9", "example.com/a"] {
        metadata["labels"][key] = json!(key.to_uppercase().replace(['.', '/'], "_"));
    }
    metadata["annotations"] = json!({"z": "", "Y": " ", "a.b/Y": "\t", "10": "1", "9": "01"});
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({"b": "", "a/b": "c", "A": "D"});
    object["spec"]["template"]["spec"]["volumes"] = json!([{"name": "store", "csi": {"driver": "store.example", "volumeAttributes": {
        "": "empty", " ": "space", "\"": "quote", "\\": "backslash", "<a&b>": "<a&b>", "\u{1}": "\u{8}\u{c}\r", "\u{7f}": "\u{80}", "$patch": "merge",
        "\u{e9}": "composed", "e\u{301}": "decomposed", "\u{2028}": "\u{2029}", "\u{d7ff}": "\u{e000}", "\u{fffd}": "\u{fffe}\u{ffff}",
        "\u{ff5e}": "before the next in bytes, behind it in UTF-16", "\u{1f600}": "\u{10ffff}",
    }}}]);
}

/// What a template's metadata may say beside labels and annotations, though it comes to nothing.
pub fn described(object: &mut Value) {
    let metadata = &mut object["spec"]["template"]["metadata"];
    for (field, value) in [
        ("name", json!("of-the-template")),
        ("generateName", json!("of-the-template-")),
        ("creationTimestamp", json!("2026-01-02T03:04:05+06:00")),
        ("deletionGracePeriodSeconds", Value::Null),
        ("finalizers", json!([])),
        ("ownerReferences", Value::Null),
    ] {
        metadata[field] = value;
    }
}

/// As older clients print it.
pub fn without_a_time(object: &mut Value) {
    object["metadata"]["creationTimestamp"] = Value::Null;
    object["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    object["status"] = json!({"replicas": 0});
}

/// Amounts that have more than one spelling, in each of the places where there are some.
pub fn amounts(object: &mut Value) {
    container(object)["resources"] = json!({
        "limits": {"cpu": "0.1", "memory": "1.5Gi", "hugepages-2Mi": "4096Ki", "example.com/gpu": "0002", "ephemeral-storage": "100e6"},
        "requests": {"cpu": 0.05, "memory": 123_456_789, "hugepages-2Mi": "4Mi", "example.com/gpu": 2, "ephemeral-storage": "0.05Gi"},
    });
    container(object)["env"] = json!([
        {"name": "A", "value": "$(B)-$$(C)"}, {"name": "B", "value": "$(A)"}, {"name": "EMPTY", "value": ""},
        {"name": "M", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1024Ki"}}},
        {"name": "N", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "K", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b", "optional": false}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
    ]);
    object["spec"]["template"]["spec"]["volumes"] = json!([
        {"name": "big", "emptyDir": {"medium": "HugePages-2Mi", "sizeLimit": "1000000001m"}},
        {"name": "own", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}},
        }}}},
    ]);
}

/// What is filled in differs by kind of volume.
pub fn mounted(object: &mut Value) {
    object["spec"]["template"]["spec"]["volumes"] = json!([
        {"name": "a", "secret": {"secretName": "a"}}, {"name": "b", "configMap": {"name": "b", "items": [{"key": "k", "path": "p", "mode": 0}]}},
        {"name": "c", "hostPath": {"path": "/c"}}, {"name": "d", "persistentVolumeClaim": {"claimName": "d"}},
        {"name": "e", "nfs": {"server": "e.example", "path": "/e", "readOnly": false}}, {"name": "f", "iscsi":
            {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:f", "lun": 0}},
        {"name": "g", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"configMap": {"name": "g"}},
            {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels['a']"}}]}}]}},
    ]);
    container(object)["volumeMounts"] = json!([
        {"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b", "subPathExpr": "$(POD)"}, {"name": "c", "mountPath": "/c", "readOnly": true,
        "recursiveReadOnly": "IfPossible"},
    ]);
    container(object)["env"] = json!([{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
}

/// Rights, and what the kernel is told.
pub fn secured(object: &mut Value) {
    let spec = &mut object["spec"]["template"]["spec"];
    spec["securityContext"] = json!({
        "runAsNonRoot": false, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Unconfined"},
        "fsGroupChangePolicy": "OnRootMismatch", "supplementalGroupsPolicy": "Merge", "seLinuxOptions": {"level": "s0:c123,c456"},
        "sysctls": [{"name": "net.ipv4.ip_local_port_range", "value": "1024\t65535"}, {"name": "kernel.shm_rmid_forced", "value": "0"}],
    });
    for (field, value) in [
        ("serviceAccount", json!("robot")),
        ("automountServiceAccountToken", json!(false)),
        ("hostUsers", json!(false)),
        ("enableServiceLinks", json!(false)),
        ("shareProcessNamespace", json!(false)),
        ("hostNetwork", json!(false)),
        ("os", json!({"name": "linux"})),
        ("schedulingGates", json!([{"name": "example.com/wait"}])),
        ("readinessGates", json!([{"conditionType": "example.com/ready"}])),
        ("imagePullSecrets", json!([{"name": "pull"}])),
        ("setHostnameAsFQDN", json!(false)),
        ("preemptionPolicy", json!("Never")),
        ("terminationGracePeriodSeconds", json!(0)),
    ] {
        spec[field] = value;
    }
    container(object)["securityContext"] = json!({
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "privileged": false, "allowPrivilegeEscalation": false, "procMount": "Default",
        "readOnlyRootFilesystem": true, "runAsUser": 0,
    });
}

/// Fields that came with the releases that are tested, as far as they are on by default.
pub fn of_late(object: &mut Value) {
    object["spec"]["template"]["spec"]["resources"] = json!({"limits": {"cpu": "2"}, "requests": {"memory": "1048576Ki"}});
    object["spec"]["template"]["spec"]["os"] = json!({"name": "linux"});
    object["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "settings", "emptyDir": {}}, {"name": "image", "image": {"reference": "registry.example/data"}}]);
    container(object)["resizePolicy"] = json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
    container(object)["lifecycle"] = json!({"stopSignal": "SIGUSR1"});
    container(object)["readinessProbe"] = json!({"grpc": {"port": 50051}, "terminationGracePeriodSeconds": Value::Null});
    // Without these, a server finds what is left to be wrong.
    if minor_release() >= 35 {
        container(object)["restartPolicy"] = json!("Never");
        container(object)["restartPolicyRules"] = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42, 7]}}]);
        let file = json!({"volumeName": "settings", "path": "a", "key": "b"});
        container(object)["env"] = json!([{"name": "FILE", "valueFrom": {"fileKeyRef": file}}]);
    }
}
