//! The rules of waits: each is reached by a test, and each is in the table that users read.

use model::plan::Rule;

/// The tests that reach them: those of the controllers build each wait to compare it, those here name it as it is printed.
const TESTS: [&str; 4] = [
    include_str!("../../../controllers/replicaset/tests/waits.rs"),
    include_str!("../../../controllers/deployment/tests/waits.rs"),
    include_str!("../../../controllers/statefulset/tests/waits.rs"),
    include_str!("../tests.rs"),
];

const PAGE: &str = include_str!("../../../deploy/explain.md");

fn waits() -> impl Iterator<Item = (Rule, &'static str)> {
    Rule::ALL.iter().filter_map(|rule| Some((*rule, rule.ends()?)))
}

#[test]
fn every_wait_is_reached_by_a_test() {
    let is_reached = |rule: Rule| {
        let names = [format!("Wait::new(Rule::{rule:?})"), format!("Wait::on(Rule::{rule:?},")];
        let in_machinery = format!("\"{}\"", rule.id());
        let [controllers @ .., here] = TESTS;
        controllers.iter().any(|test| names.iter().any(|name| test.contains(name))) || here.contains(&in_machinery)
    };
    let missing: Vec<_> = waits().map(|(rule, _)| rule).filter(|rule| !is_reached(*rule)).collect();
    assert!(missing.is_empty(), "no test in tests/waits.rs of a controller, or in explain/tests.rs, comes to {missing:?}");
}

#[test]
fn the_table_of_waits_is_that_of_the_program() {
    let rows = waits().map(|(rule, ends)| format!("| `{}` | {} | {ends} |\n", rule.id(), rule.meaning()));
    let table: String = std::iter::once("| Rule | What it means | What ends it |\n| --- | --- | --- |\n".to_owned()).chain(rows).collect();
    assert!(PAGE.contains(&table), "deploy/explain.md must have this table:\n\n{table}");
}
