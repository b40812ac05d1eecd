//! A template goes from its set to a pod untouched.

use anyhow::{Context as _, Result};
use http::Method;
use serde_json::{Value, json};

use crate::Shared;
use crate::support::{minor_release, name_of};

fn template() -> Value {
    json!({
        "metadata": {
            "labels": {"app": "web"}, "annotations": {"example.com/note": "\u{e4} <&> \"quoted\"\n"},
            "finalizers": ["example.com/kept"],
        },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            // Of 1.35, and of 1.37: the library's types, of 1.33, have neither.
            "hostnameOverride": "somewhere.example",
            "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi", "mode": 448}}],
            "containers": [{
                "name": "main", "image": "registry.example/app:1",
                // Text that looks like a quantity, like a number, like nothing.
                "env": [
                    {"name": "SIZE", "value": "1Gi"}, {"name": "MILLIS", "value": "1000m"}, {"name": "NUMBER", "value": "1.0"},
                    {"name": "EMPTY"}, {"name": "BIG", "value": "12345678901234567890"},
                ],
                "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "0.5", "memory": "1Gi"}},
            }],
            "securityContext": {}, "affinity": {},
        },
    })
}

pub(crate) async fn a_template_newer_than_our_library_survives(cluster: Shared) -> Result<()> {
    let space = cluster.space("template").await?;
    let set = space.create_set_with("web", 1, |set| set["spec"]["template"] = template()).await?;
    let pods = space.settled("web", 1).await?;

    let read = async |path: String, group: &str| space.request(Method::GET, group, &path, &Value::Null).await;
    let set_read = read("replicasets/web".to_owned(), "/apis/apps/v1").await?;
    let pod = read(format!("pods/{}", name_of(&pods[0])), "/api/v1").await?;
    let template = &set_read["spec"]["template"];

    for field in ["labels", "annotations", "finalizers"] {
        assert_eq!(pod["metadata"][field].to_string(), template["metadata"][field].to_string(), "{field}");
    }
    for (field, value) in template["spec"].as_object().context("a spec")? {
        assert_eq!(pod["spec"][field].to_string(), value.to_string(), "spec.{field}");
    }
    // The server has the new fields, or this would show nothing.
    if minor_release() >= 37 {
        assert_eq!(pod["spec"]["hostnameOverride"], "somewhere.example");
        assert_eq!(pod["spec"]["volumes"][0]["emptyDir"]["mode"], 448);
    }
    assert_eq!(pod["spec"]["containers"][0]["env"][0], json!({"name": "SIZE", "value": "1Gi"}));
    assert_eq!(pod["spec"]["affinity"], json!({}));
    // The template's name would not be taken over; the owner's stands in front.
    assert_eq!(pod["metadata"]["generateName"], "web-");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], json!(set.metadata.uid));

    // The set itself was not touched by our status writes.
    assert_eq!(set_read["metadata"]["generation"], 1);
    Ok(())
}
