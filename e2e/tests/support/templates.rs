//! Templates that are hard to take over: what they say can be written in many ways, or by programs that know more fields.

use serde_json::{Value, json};

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
