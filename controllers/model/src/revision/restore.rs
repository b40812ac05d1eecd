//! Whether a revision says what a template says, though in other bytes.

use serde_json::value::RawValue;

use super::{defaults, typed};
use crate::go_json::{Members, Value};
use crate::normal_form::pod_template;
use crate::quantity::Rounding;

/// Whether a set whose template were restored from the data of its last revision would make the revision that the template makes: then
/// there is nothing new, and no pod is to be replaced (upstream `pkg/controller/statefulset/stateful_set_control.go`
/// `setMatchesLatestExistingRevision`, with `ApplyRevision` and the API's defaults). So a revision from before a field got its default,
/// or one that holds a `"creationTimestamp":null` of an older release, stays the template's.
///
/// `last` is the data as a live GET serves them, `template` the set's. Where the data are not what a controller writes, the answer
/// is no, which costs a new revision: a template in them that is to be merged rather than replaced, other directives, values that
/// cannot be read.
pub fn is_same(last: &RawValue, template: &RawValue) -> bool {
    let (Some(last), Some(Value::Object(template))) = (Value::read(last.get()), Value::read(template.get())) else { return false };
    let Some(restored) = restored(last, &template) else { return false };
    let mut restored = typed::retyped(Value::Object(restored), pod_template(), Rounding::ToMillis);
    if let Value::Object(restored) = &mut restored
        && let Some(Value::Object(spec)) = restored.get_mut("spec")
    {
        defaults::pod_spec(spec);
    }
    // Only what comes from an API server of another release is changed by this.
    restored == typed::retyped(Value::Object(template), pod_template(), Rounding::None)
}

/// The template that the set has once the data are applied to it as a strategic merge patch (upstream
/// `pkg/controller/statefulset/stateful_set_utils.go` `ApplyRevision`; `k8s.io/apimachinery/pkg/util/strategicpatch` `mergeMap`).
fn restored(data: Value, template: &Members) -> Option<Members> {
    if data == Value::Null {
        return Some(template.clone());
    }
    let mut patch = data;
    for field in ["spec", "template"] {
        let Value::Object(mut members) = patch else { return None };
        if members.keys().any(|name| name.starts_with('$')) {
            return None;
        }
        // What the patch does not mention stays.
        let Some(inner) = members.remove(field) else { return Some(template.clone()) };
        patch = inner;
    }
    let Value::Object(mut restored) = patch else { return None };
    (restored.remove("$patch")? == Value::Text("replace".to_owned())).then_some(restored)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = r#"{"metadata":{"labels":{"app":"demo"}},"spec":{"containers":[{"name":"c","image":"x:1","imagePullPolicy":"IfNotPresent","resources":{"limits":{"cpu":"500m"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{},"schedulerName":"default-scheduler"}}"#;
    const SHORT: &str =
        r#"{"metadata":{"labels":{"app":"demo"}},"spec":{"containers":[{"name":"c","image":"x:1","resources":{"limits":{"cpu":"0.5"}}}]}}"#;

    fn same(data: &str, template: &str) -> bool {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        is_same(&raw(data), &raw(template))
    }

    /// The template as data, with something replaced.
    fn patch(template: &str, from: &str, to: &str) -> String {
        let template = template.replacen(from, to, 1);
        format!(r#"{{"spec":{{"template":{}}}}}"#, template.replacen('{', r#"{"$patch":"replace","#, 1))
    }

    #[test]
    fn what_defaults_fill_in_makes_no_difference() {
        assert!(same(&patch(TEMPLATE, "", ""), TEMPLATE));
        assert!(same(&patch(SHORT, "", ""), TEMPLATE));
        assert!(same(&patch(SHORT, r#""metadata":{"#, r#""metadata":{"creationTimestamp":null,"#), TEMPLATE));
        assert!(same(&patch(SHORT, r#""spec":{"#, r#""spec":{"volumes":[],"nodeName":"","affinity":null,"#), TEMPLATE));
        // An API server of an older release.
        assert!(same(&patch(SHORT, "", ""), &TEMPLATE.replace(r#""metadata":{"#, r#""metadata":{"creationTimestamp":null,"#)));
        // Only the last revision gets defaults.
        assert!(!same(&patch(TEMPLATE, "", ""), SHORT));
    }

    #[test]
    fn what_a_template_says_makes_a_difference() {
        for (from, to) in [
            (r#""app":"demo""#, r#""app":"demo","pod-template-hash":"1""#),
            (r#""image":"x:1""#, r#""image":"x:2""#),
            (r#""image":"x:1""#, r#""image":"x""#),
            (r#""cpu":"0.5""#, r#""cpu":"501m""#),
            (r#""spec":{"#, r#""spec":{"affinity":{},"#),
            (r#""spec":{"#, r#""spec":{"terminationGracePeriodSeconds":0,"#),
            (r#""spec":{"#, r#""spec":{"fieldOfTheFuture":null,"#),
        ] {
            assert!(!same(&patch(SHORT, from, to), TEMPLATE), "{to}");
        }
        let (old, new) = (r#""spec":{"#, r#""spec":{"fieldOfTheFuture":[1.50],"#);
        assert!(same(&patch(SHORT, old, new), &TEMPLATE.replace(old, new)));
    }

    #[test]
    fn data_of_another_kind_are_applied_where_that_is_simple() {
        // They leave the set as it is.
        for data in ["{}", "null", r#"{"spec":{}}"#, r#"{"spec":{"replicas":3},"metadata":{"labels":{"a":"b"}}}"#] {
            assert!(same(data, TEMPLATE), "{data}");
        }
        let merged = format!(r#"{{"spec":{{"template":{TEMPLATE}}}}}"#);
        for data in ["[]", r#"{"spec":null}"#, r#"{"$patch":"replace"}"#, r#"{"spec":{"template":null}}"#, &merged] {
            assert!(!same(data, TEMPLATE), "{data}");
        }
        assert!(!same(&patch(TEMPLATE, "", ""), "[]"));
        assert!(same(&patch(TEMPLATE, "", "").replace(r#""spec":{"template""#, r#""spec":{"replicas":1,"template""#), TEMPLATE));
    }
}
