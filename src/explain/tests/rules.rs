//! The rules of waits: each is reached by a test, and each is in the table that users read.

use model::plan::Rule;

/// The controllers' tests, which build a wait only to compare it with one that a sync came to.
const CONTROLLERS: [&str; 3] = [
    include_str!("../../../controllers/replicaset/tests/waits.rs"),
    include_str!("../../../controllers/deployment/tests/waits.rs"),
    include_str!("../../../controllers/statefulset/tests/waits.rs"),
];

/// The rules that no controller knows of; the tests beside this name them as they are printed.
const MACHINERY: [Rule; 5] = [Rule::LeftToOthers, Rule::SyncFailed, Rule::CachesBehind, Rule::WritesNotSeen, Rule::AnswerLost];

const PAGE: &str = include_str!("../../../deploy/explain.md");

fn is_reached(rule: Rule) -> bool {
    if MACHINERY.contains(&rule) {
        return include_str!("../tests.rs").contains(&format!("\"{}\"", rule.id()));
    }
    let built = [format!("Wait::new(Rule::{rule:?})"), format!("Wait::on(Rule::{rule:?},")];
    CONTROLLERS.iter().any(|test| built.iter().any(|built| test.contains(built)))
}

#[test]
fn every_wait_is_reached_by_a_test() {
    let (waits, steps): (Vec<_>, Vec<_>) = Rule::ALL.iter().copied().partition(|rule| rule.ends().is_some());
    let missing: Vec<_> = waits.into_iter().filter(|rule| !is_reached(*rule)).collect();
    assert!(missing.is_empty(), "no test in tests/waits.rs of a controller, or in explain/tests.rs, comes to {missing:?}");
    assert!(!steps.into_iter().any(is_reached), "a step is no wait");
}

#[test]
fn the_table_of_waits_is_that_of_the_program() {
    let waits = Rule::ALL.iter().filter_map(|rule| Some((rule, rule.ends()?)));
    let rows = waits.map(|(rule, ends)| format!("| `{}` | {} | {ends} |\n", rule.id(), rule.meaning()));
    let table: String = std::iter::once("| Rule | What it means | What ends it |\n| --- | --- | --- |\n".to_owned()).chain(rows).collect();
    assert!(PAGE.ends_with(&table), "deploy/explain.md must end with this table:\n\n{table}");
}
