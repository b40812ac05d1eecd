//! StatefulSets whose revisions are hard to get right.

use serde_json::{Value, json};

use super::support::pod_spec;
use super::support::templates::{
    Change, amounts, annotated, constrained, container, described, equipped, markup, mounted, newer_fields, nothing_further_inside,
    nothing_in_many_forms, numbers, of_late, probes, quantities, quantities_respelled, secured, sorted_oddly, without_a_time,
};

/// A StatefulSet, and the templates that it has one after the other.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) templates: &'static [Change],
    /// Somebody else has taken the name of the first revision.
    pub(crate) squatted: bool,
}

// === impl Case ===

impl Case {
    pub(crate) fn set_name(&self) -> String {
        // The longest that is allowed everywhere.
        if self.name == "long-name" { "n".repeat(63) } else { self.name.to_owned() }
    }
}

/// Without pods: they make no difference to a revision.
pub(crate) fn stateful_set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {
            "replicas": 0, "serviceName": "service", "selector": {"matchLabels": {"app": "golden"}},
            "template": {"metadata": {"labels": {"app": "golden"}}, "spec": pod_spec()},
        },
    })
}

fn plain(_: &mut Value) {}

fn second(object: &mut Value) {
    container(object)["image"] = json!("registry.example/app:2");
}

fn third(object: &mut Value) {
    container(object)["image"] = json!("registry.example/app:latest");
}

/// Everything but the template, as far as it may change.
fn beside(object: &mut Value) {
    object["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2, "maxUnavailable": "30%"}});
    for (field, value) in [
        ("revisionHistoryLimit", json!(1)),
        ("minReadySeconds", json!(5)),
        ("ordinals", json!({"start": 3})),
        ("persistentVolumeClaimRetentionPolicy", json!({"whenDeleted": "Delete", "whenScaled": "Delete"})),
    ] {
        object["spec"][field] = value;
    }
    object["metadata"]["labels"] = json!({"only": "on-the-set"});
}

pub(crate) fn cases() -> Vec<Case> {
    let all: [(&'static str, &'static [Change]); 24] = [
        ("plain", &[plain]),
        ("quantities", &[quantities]),
        ("respelled", &[quantities_respelled]),
        ("amounts", &[amounts]),
        ("nothing", &[nothing_in_many_forms]),
        ("nested", &[nothing_further_inside]),
        ("markup", &[markup]),
        ("newer", &[newer_fields]),
        ("of-late", &[of_late]),
        ("probes", &[probes]),
        ("numbers", &[numbers]),
        ("equipped", &[equipped]),
        ("mounted", &[mounted]),
        ("annotated", &[annotated]),
        ("constrained", &[constrained]),
        ("sorted-oddly", &[sorted_oddly]),
        ("described", &[described]),
        ("without-a-time", &[without_a_time]),
        ("secured", &[secured]),
        (
            "beside",
            &[|object| {
                beside(object);
                object["spec"]["podManagementPolicy"] = json!("Parallel");
            }],
        ),
        ("long-name", &[plain]),
        ("revised", &[plain, second, markup]),
        ("rolled-back", &[plain, second, third, plain]),
        // Only what is no part of the template changes: it is the revision of before.
        (
            "unrevised",
            &[markup, |object| {
                markup(object);
                beside(object);
            }],
        ),
    ];
    let squatted = Case { name: "squatted", templates: &[plain, second], squatted: true };
    all.into_iter().map(|(name, templates)| Case { name, templates, squatted: false }).chain([squatted]).collect()
}
