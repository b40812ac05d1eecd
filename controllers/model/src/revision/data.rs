//! What a ControllerRevision holds, and the name that follows from it.

use serde_json::value::RawValue;

use crate::go_json::{Members, Value};
use crate::template::safe_encode;

/// So much of a set's name goes into a revision's (upstream `pkg/controller/history` `ControllerRevisionName`).
const MAX_PREFIX: usize = 223;

/// The data of a revision that holds this template: a strategic merge patch that replaces the template as a whole, byte for byte as
/// upstream writes it (upstream `pkg/controller/statefulset/stateful_set_utils.go` `getPatch`).
///
/// Upstream encodes its typed object, reads that into an untyped one and writes it again. The first step has been done by the API server:
/// the template has to be as it serves it. What the server prints though it says nothing (`"creationTimestamp":null`, up to Kubernetes
/// 1.33) stays, as it does for a controller manager of that release.
///
/// `None` if the template is no object, is nested too deeply, or has a number beyond a float64's range. No template that an API server
/// lets through is like that.
pub fn data(template: &RawValue) -> Option<Box<RawValue>> {
    let Value::Object(template) = Value::read(template.get())? else { return None };
    RawValue::from_string(patch(template)).ok()
}

/// The patch that replaces the template.
pub(super) fn patch(mut template: Members) -> String {
    template.insert("$patch".to_owned(), Value::Text("replace".to_owned()));
    let mut text = r#"{"spec":{"template":"#.to_owned();
    Value::Object(template).write(&mut text);
    text + "}}"
}

/// The hash of a revision's data, which its name and its label have (upstream `pkg/controller/history` `HashControllerRevision`).
///
/// Upstream's StatefulSet controller hands on a count whether the status has one or not: none is the same as 0
/// (upstream `pkg/controller/statefulset/stateful_set_control.go` `getStatefulSetRevisions`).
pub fn hash(data: &str, collision_count: Option<i32>) -> String {
    let count = collision_count.unwrap_or_default().to_string();
    let sum = fnv1_32(data.bytes().chain(count.bytes()));
    safe_encode(&sum.to_string())
}

/// The name of a revision: the set's, cut to leave room, and the hash (upstream `pkg/controller/history` `ControllerRevisionName`).
pub fn name(set: &str, hash: &str) -> String {
    // The names of objects are ASCII: what is cut is a letter.
    let prefix = set.get(..set.floor_char_boundary(MAX_PREFIX)).unwrap_or(set);
    format!("{prefix}-{hash}")
}

/// FNV-1, which multiplies first; not FNV-1a (Go `hash/fnv` `New32`).
fn fnv1_32(bytes: impl Iterator<Item = u8>) -> u32 {
    const OFFSET_BASIS: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    bytes.fold(OFFSET_BASIS, |sum, byte| sum.wrapping_mul(PRIME) ^ u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A template as an API server serves it, its keys in Go's order of fields.
    const SERVED: &str = r#"{"metadata":{"labels":{"app":"demo"}},"spec":{"containers":[{"name":"c","image":"x:1","command":["sh","-c","a \u0026\u0026 b \u003e out"],"resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{},"schedulerName":"default-scheduler"}}"#;
    const DATA: &str = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"demo"}},"spec":{"containers":[{"command":["sh","-c","a \u0026\u0026 b \u003e out"],"image":"x:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;

    fn data_of(json: &str) -> Option<String> {
        data(&RawValue::from_string(json.to_owned()).unwrap()).map(|data| data.get().to_owned())
    }

    #[test]
    fn data_are_upstreams_bytes() {
        assert_eq!(data_of(SERVED).as_deref(), Some(DATA));
        // As other programs spell it.
        let respelled = SERVED.replace("\\u0026", "&").replace("\\u003e", ">").replace(':', " : ").replace("x : 1", "x:1");
        assert_eq!(data_of(&respelled).as_deref(), Some(DATA));
        assert_eq!(DATA.len(), 456);
    }

    #[test]
    fn what_was_served_stays() {
        let served = r#"{"metadata":{"labels":{"app":"demo"},"creationTimestamp":null},"spec":{"containers":null}}"#;
        let data = r#"{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"demo"}},"spec":{"containers":null}}}}"#;
        assert_eq!(data_of(served).as_deref(), Some(data));
    }

    #[test]
    fn what_is_no_template_has_no_data() {
        for odd in ["null", "[]", "\"\"", r#"{"a":1e400}"#, &format!(r#"{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200))] {
            assert_eq!(data_of(odd), None, "{odd}");
        }
    }

    #[test]
    fn hashes_are_upstreams() {
        assert_eq!(fnv1_32(DATA.bytes().chain(*b"0")), 119_813_824);
        let null = DATA.replace(r#"{"labels""#, r#"{"creationTimestamp":null,"labels""#);
        let unescaped = DATA.replace("\\u0026", "&").replace("\\u003e", ">");
        for (data, count, expected) in [
            (DATA, None, "55fd57d68"),
            (DATA, Some(0), "55fd57d68"),
            (DATA, Some(1), "55fd57d69"),
            (&null, None, "57c7f46574"),
            (&unescaped, None, "68b6b7d9b9"),
        ] {
            assert_eq!(hash(data, count), expected, "{count:?} {data}");
        }
        assert_ne!(hash(DATA, Some(-1)), hash(DATA, Some(1)));
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(name("db", "55fd57d68"), "db-55fd57d68");
        let long = name(&"x".repeat(253), "7d9b9");
        assert_eq!(long, "x".repeat(223) + "-7d9b9");
        assert_eq!(name(&"é".repeat(200), "7d9b9"), "é".repeat(111) + "-7d9b9");
    }
}
