use super::*;

fn form(json: &str) -> Option<Vec<u8>> {
    normal_form(&RawValue::from_string(json.to_owned()).unwrap())
}

/// A template with these fields in its spec.
fn spec(fields: &str) -> String {
    format!(r#"{{"spec":{{{fields}}}}}"#)
}

/// A template with these fields in its only container.
fn container(fields: &str) -> String {
    spec(&format!(r#""containers":[{{{fields}}}]"#))
}

/// A template with a metadata of these fields.
fn metadata(fields: &str) -> String {
    format!(r#"{{"metadata":{{{fields}}}}}"#)
}

/// A template with one limit, as it is spelled in JSON.
fn limit(quantity: &str) -> String {
    container(&format!(r#""resources":{{"limits":{{"x":{quantity}}}}}"#))
}

/// Asserts that all spellings say the same.
fn same(wrap: impl Fn(&str) -> String, spellings: &[&str]) {
    let expected = form(&wrap(spellings[0])).unwrap();
    for other in spellings {
        assert_eq!(form(&wrap(other)), Some(expected.clone()), "{} and {other}", spellings[0]);
    }
}

/// Asserts that no two say the same.
fn different(wrap: impl Fn(&str) -> String, values: &[&str]) {
    let forms: Vec<_> = values.iter().map(|value| form(&wrap(value)).unwrap()).collect();
    for (n, a) in forms.iter().enumerate() {
        for (m, b) in forms.iter().enumerate().skip(n + 1) {
            assert_ne!(a, b, "{} and {}", values[n], values[m]);
        }
    }
}

#[test]
fn the_table_is_in_order() {
    fn check(kind: Kind, seen: &mut usize) {
        match kind {
            Kind::Struct(fields) => {
                assert!(fields.0.is_sorted_by(|(a, _), (b, _)| a < b), "{fields:?}");
                assert!(fields.1.iter().all(|name| fields.get(name).is_some()), "{fields:?}");
                *seen += fields.0.len();
                fields.iter().for_each(|(_, kind)| check(kind, seen));
            }
            Kind::Pointer(of) | Kind::List(of) | Kind::Map(of) => check(*of, seen),
            _ => {}
        }
    }
    let mut seen = 0;
    check(pod_template(), &mut seen);
    assert!(seen > 1000, "{seen}");
}

#[test]
fn spelling_makes_no_difference() {
    same(
        str::to_owned,
        &[
            r#"{"metadata":{"labels":{"a":"b","é":"<"}},"spec":{"hostNetwork":true,"nodeName":"n"}}"#,
            "{ \"spec\" : {\n\"nodeName\":\"n\",\t\"hostNetwork\" : true }, \"metadata\":{\"labels\":{\"\\u00e9\":\"\\u003c\", \"\\u0061\":\"b\"}}}",
        ],
    );
    same(spec, &[r#""nodeName":"b""#, r#""nodeName":"a","nodeName":"b""#]);
    same(spec, &["", r#""nodeName":"a","nodeName":"""#]);
}

#[test]
fn the_hash_label_makes_no_difference_where_upstream_deletes_it() {
    same(metadata, &["", r#""labels":{"pod-template-hash":"1"}"#, r#""labels":{"pod-template-hash":"2"}"#, r#""labels":null"#]);
    same(metadata, &[r#""labels":{"a":"b"}"#, r#""labels":{"pod-template-hash":"1","a":"b"}"#]);
    different(metadata, &["", r#""annotations":{"pod-template-hash":"1"}"#, r#""labels":{"a":"b"}"#, r#""labels":{"a":""}"#]);
    let claim =
        |labels: &str| spec(&format!(r#""volumes":[{{"ephemeral":{{"volumeClaimTemplate":{{"metadata":{{"labels":{{{labels}}}}}}}}}}}]"#));
    different(claim, &["", r#""pod-template-hash":"1""#]);
}

#[test]
fn zero_values_are_no_different_from_absent_ones() {
    same(str::to_owned, &["{}", r#"{"metadata":{},"spec":{}}"#, r#"{"metadata":null,"spec":null}"#]);
    same(spec, &["", r#""hostNetwork":false"#, r#""hostNetwork":null"#]);
    same(spec, &["", r#""nodeName":"""#, r#""nodeName":null"#]);
    same(metadata, &["", r#""generation":0"#, r#""generation":-0"#, r#""generation":null"#]);
    same(spec, &["", r#""volumes":[]"#, r#""volumes":null"#]);
    same(spec, &["", r#""nodeSelector":{}"#, r#""nodeSelector":null"#]);
    same(container, &["", r#""resources":{}"#, r#""resources":null"#, r#""resources":{"limits":{},"claims":[]}"#]);
    same(spec, &[r#""volumes":[{"name":"v"}]"#, r#""volumes":[{"name":"v","hostPath":null}]"#]);
}

#[test]
fn pointers_are_different_from_nothing_whatever_they_point_to() {
    different(spec, &["", r#""affinity":{}"#, r#""affinity":{"nodeAffinity":{}}"#]);
    same(spec, &[r#""affinity":{}"#, r#""affinity":{"nodeAffinity":null}"#]);
    different(spec, &["", r#""securityContext":{}"#, r#""securityContext":{"runAsUser":0}"#]);
    different(spec, &["", r#""automountServiceAccountToken":false"#, r#""automountServiceAccountToken":true"#]);
    different(spec, &["", r#""terminationGracePeriodSeconds":0"#, r#""terminationGracePeriodSeconds":1"#]);
    different(spec, &["", r#""runtimeClassName":"""#, r#""runtimeClassName":"a""#]);
    same(spec, &["", r#""affinity":null,"terminationGracePeriodSeconds":null,"runtimeClassName":null"#]);
    let volume = |source: &str| spec(&format!(r#""volumes":[{{"emptyDir":{source}}}]"#));
    different(volume, &["null", "{}", r#"{"sizeLimit":"0"}"#]);
    same(volume, &["{}", r#"{"sizeLimit":null,"medium":""}"#]);
    same(volume, &[r#"{"sizeLimit":"1Gi"}"#, r#"{"sizeLimit":"1024Mi"}"#]);
}

#[test]
fn lists_have_an_order_and_zero_values() {
    different(container, &["", r#""args":["a","b"]"#, r#""args":["b","a"]"#, r#""args":["ab"]"#, r#""args":["a"]"#, r#""args":[""]"#]);
    same(container, &[r#""args":["","a"]"#, r#""args":[null,"a"]"#]);
    different(spec, &["", r#""containers":[{}]"#, r#""containers":[{},{}]"#]);
    same(spec, &[r#""containers":[{}]"#, r#""containers":[null]"#, r#""containers":[{"resources":{}}]"#]);
}

#[test]
fn maps_have_zero_values_but_no_order() {
    different(spec, &["", r#""nodeSelector":{"a":""}"#, r#""nodeSelector":{"b":""}"#, r#""nodeSelector":{"a":"b"}"#]);
    same(spec, &[r#""nodeSelector":{"a":"","b":"c"}"#, r#""nodeSelector":{"b":"c","a":null}"#]);
    different(container, &["", r#""resources":{"limits":{"cpu":"0"}}"#, r#""resources":{"requests":{"cpu":"0"}}"#]);
    same(limit, &[r#""0""#, "0", "null", r#""0Gi""#, r#""-0""#]);
}

#[test]
fn amounts_are_compared_where_amounts_are_expected() {
    same(limit, &[r#""1Gi""#, r#""1024Mi""#, r#""1073741824""#, "1073741824", r#"" 1Gi""#, r#""1.073741824e9""#, "1073741824e0"]);
    same(limit, &[r#""500m""#, r#""0.5""#, r#"".5""#, "0.5", "5e-1", r#""+0.5000""#, r#""500000u""#]);
    different(limit, &[r#""1Gi""#, r#""1G""#, r#""1""#, r#""1m""#, r#""-1""#, r#""0""#]);
    let divisor = |divisor: &str| container(&format!(r#""env":[{{"valueFrom":{{"resourceFieldRef":{{"resource":"x"{divisor}}}}}}}]"#));
    same(divisor, &["", r#","divisor":"0""#, r#","divisor":0"#, r#","divisor":null"#]);
    different(container, &[r#""env":[{"value":"1Gi"}]"#, r#""env":[{"value":"1024Mi"}]"#]);
    different(metadata, &[r#""annotations":{"memory":"1Gi"}"#, r#""annotations":{"memory":"1024Mi"}"#]);
}

#[test]
fn ports_are_numbers_or_names() {
    let probe = |port: &str| container(&format!(r#""livenessProbe":{{"httpGet":{{{port}}}}}"#));
    different(probe, &[r#""port":80"#, r#""port":"80""#, r#""port":"http""#, r#""port":0"#, r#""port":"""#]);
    same(probe, &["", r#""port":0"#, r#""port":null"#]);
}

#[test]
fn times_are_instants() {
    let created = |time: &str| metadata(&format!(r#""creationTimestamp":{time}"#));
    same(created, &["null", r#""0001-01-01T00:00:00Z""#]);
    assert_eq!(form(&created("null")), form("{}"));
    same(created, &[r#""2026-01-01T00:00:00Z""#, r#""2026-01-01T01:30:00+01:30""#, r#""2026-01-01T00:00:00.000Z""#]);
    different(created, &["null", r#""2026-01-01T00:00:00Z""#, r#""2026-01-01T00:00:01Z""#, r#""2026-01-01T00:00:00.1Z""#]);
    let deleted = |time: &str| metadata(&format!(r#""deletionTimestamp":{time}"#));
    different(deleted, &["null", r#""0001-01-01T00:00:00Z""#]);
}

#[test]
fn managed_fields_are_bytes() {
    let fields = |fields: &str| metadata(&format!(r#""managedFields":[{{"fieldsV1":{fields}}}]"#));
    different(fields, &["null", "{}", "{ }", r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#]);
}

#[test]
fn what_the_table_does_not_have_is_kept_as_it_is() {
    different(
        spec,
        &[
            "",
            r#""new":null"#,
            r#""new":{}"#,
            r#""new":[]"#,
            r#""new":0"#,
            r#""new":-0"#,
            r#""new":0.0"#,
            r#""new":false"#,
            r#""new":"""#,
            r#""new":"1Gi""#,
            r#""new":"1024Mi""#,
            r#""new":{"a":null}"#,
            r#""new":[null]"#,
            r#""new":18446744073709551616"#,
            r#""new":18446744073709551617"#,
        ],
    );
    same(spec, &[r#""new":{"a":[1.50,{"b":null,"c":"<"}],"d":{}}"#, r#""new": {"d":{}, "a":[1.50, {"c":"\u003c","b":null}]}"#]);
    // Names count by their case, in JSON of the API.
    different(spec, &["", r#""hostnetwork":true"#, r#""hostNetwork":true"#]);
}

#[test]
fn what_upstream_could_not_read_is_kept_as_it_is() {
    different(limit, &[r#""1 Gi""#, r#""1024 Mi""#, r#""""#, "true", "[]", "{}"]);
    different(spec, &["", r#""volumes":{}"#, r#""nodeSelector":[]"#, r#""nodeName":0"#, r#""nodeName":false"#, r#""hostNetwork":"""#]);
    different(metadata, &["", r#""creationTimestamp":"yesterday""#, r#""creationTimestamp":0"#, r#""generation":"0""#]);
}

#[test]
fn what_is_no_template_has_no_form() {
    for odd in ["null", "[]", "1", r#""{}""#, r#"{"a":"\ud800"}"#] {
        assert_eq!(form(odd), None, "{odd}");
    }
    let nested = |depth: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    assert!(form(&nested(MAX_DEPTH - 1)).is_some());
    assert_eq!(form(&nested(MAX_DEPTH)), None);
    assert_eq!(form(&nested(1_000_000)), None);
}
