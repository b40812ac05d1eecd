//! Every field of the table, in every state that could be taken for another.

use model::normal_form::{Kind, pod_template};

/// Pairs for each field of each type, wherever the type occurs.
pub(crate) fn pairs() -> Vec<[String; 2]> {
    let mut pairs = Vec::new();
    walk(pod_template(), "", "", &mut pairs);
    pairs
}

/// Goes down from a value; `before` and `after` make a template of it.
fn walk(kind: Kind, before: &str, after: &str, pairs: &mut Vec<[String; 2]>) {
    match kind {
        Kind::Struct(fields) => {
            for (name, kind) in fields.iter() {
                let (field, end) = (format!("{before}{{\"{name}\":"), format!("}}{after}"));
                let mut states: Vec<_> = samples(kind).iter().map(|value| format!("{field}{value}{end}")).collect();
                states.push(format!("{before}{{}}{after}"));
                for (n, a) in states.iter().enumerate() {
                    pairs.extend(states.iter().skip(n + 1).map(|b| [a.clone(), b.clone()]));
                }
                walk(kind, &field, &end, pairs);
            }
        }
        Kind::Pointer(to) => walk(*to, before, after, pairs),
        Kind::List(of) => walk(*of, &format!("{before}["), &format!("]{after}"), pairs),
        Kind::Map(of) => walk(*of, &format!("{before}{{\"k\":"), &format!("}}{after}"), pairs),
        _ => {}
    }
}

/// Values in JSON, null among them.
fn samples(kind: Kind) -> Vec<String> {
    let owned = |samples: &[&str]| samples.iter().map(|&sample| sample.to_owned()).collect();
    let mut samples: Vec<String> = match kind {
        Kind::Text => owned(&[r#""""#, r#""1Gi""#, r#""1024Mi""#]),
        Kind::Integer => owned(&["0", "-0", "1"]),
        Kind::Boolean => owned(&["false", "true"]),
        Kind::Quantity => owned(&[r#""0""#, r#""1Gi""#, r#""1024Mi""#, "1", r#""1""#]),
        Kind::Time => owned(&[r#""0001-01-01T00:00:00Z""#, r#""2026-01-01T00:00:00Z""#, r#""2026-01-01T01:00:00+01:00""#]),
        Kind::IntOrString => owned(&["0", r#""""#, "1", r#""1""#]),
        Kind::Raw => owned(&["{}", "{ }", r#"{"a":1}"#]),
        Kind::Struct(_) => owned(&["{}"]),
        Kind::Pointer(to) => return samples(*to),
        Kind::List(of) => {
            let items = samples(*of).into_iter();
            items.map(|item| format!("[{item}]")).chain(["[]".to_owned()]).collect()
        }
        Kind::Map(of) => {
            let values = samples(*of).into_iter();
            values.map(|value| format!(r#"{{"k":{value}}}"#)).chain(["{}".to_owned()]).collect()
        }
    };
    samples.push("null".to_owned());
    samples
}
