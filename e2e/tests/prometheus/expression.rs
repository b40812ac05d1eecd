//! What an expression of Prometheus asks for. Not a parser: the rules' and dashboards' own expressions are simple, and Prometheus has parsed them.

use std::collections::BTreeSet;
use std::rc::Rc;

use anyhow::Result;

use super::rig::Cluster;

/// Followed by a list of labels.
const GROUPINGS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// Words that are no names, where no bracket follows.
const WORDS: [&str; 12] = ["and", "or", "unless", "bool", "offset", "sum", "max", "min", "avg", "count", "inf", "nan"];

/// The names of the metrics in it.
pub fn metrics(expression: &str) -> BTreeSet<String> {
    let bare = without(&without(&quoted_out(expression), '{', '}'), '[', ']');
    let mut rest = bare.as_str();
    let mut found = BTreeSet::new();
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_' || c == ':') {
        let word = &rest[start..];
        let end = word.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')).unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        rest = after;
        let bracket = after.trim_start().starts_with('(');
        if GROUPINGS.contains(&name) {
            rest = after.split_once(')').map_or("", |(_, rest)| rest);
        } else if !bracket && !WORDS.contains(&name) {
            found.insert(name.to_owned());
        }
    }
    found
}

/// The values that a label must have one of, of every matcher `label="a"` or `label=~"a|b"` in it.
pub fn wanted(expression: &str, label: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for matcher in [format!("{label}=\""), format!("{label}=~\"")] {
        for (at, _) in expression.match_indices(&matcher) {
            // Not the end of a longer name.
            if expression[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
                continue;
            }
            let value = expression[at + matcher.len()..].split('"').next().unwrap_or_default();
            found.extend(value.split('|').map(str::to_owned));
        }
    }
    found
}

fn quoted_out(expression: &str) -> String {
    expression.split('"').step_by(2).collect::<Vec<_>>().join("\"\"")
}

fn without(text: &str, open: char, close: char) -> String {
    let mut depth = 0_usize;
    let keep = |c: &char| {
        depth += usize::from(*c == open);
        let keep = depth == 0;
        depth -= usize::from(*c == close);
        keep
    };
    text.chars().filter(keep).collect()
}

pub async fn names_and_matchers_are_found_in_expressions(_: Rc<Cluster>) -> Result<()> {
    let names = |expression| metrics(expression).into_iter().collect::<Vec<_>>();
    assert_eq!(names("up"), ["up"]);
    assert_eq!(names(r#"sum by (a, b) (rate(x_total{c="d_e{}", f=~"g|h"}[5m])) / on (a) y > 0.2"#), ["x_total", "y"]);
    assert_eq!(names(r"absent(x:y) and on (i) max by (j) (z_1) unless w == 0"), ["w", "x:y", "z_1"]);
    assert_eq!(names("histogram_quantile(0.99, sum(rate(b_bucket[1m])) by (le))"), ["b_bucket"]);
    let wanted = |expression, label| wanted(expression, label).into_iter().collect::<Vec<_>>();
    assert_eq!(wanted(r#"a{rule="x"} + b{rule=~"y|z", my_rule="n"} + c{rule!="m"}"#, "rule"), ["x", "y", "z"]);
    Ok(())
}
