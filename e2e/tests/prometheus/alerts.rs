//! The alert rules.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use serde_json::Value;

use super::expression;
use super::rig::Cluster;
use crate::support::{PATIENCE, text};

/// Prometheus makes it of every target.
const UP: &str = "up";

/// The file of the rules.
pub fn rules() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy/alerts/workloads-controller-manager.yaml")
}

/// Each alert's name and expression.
fn alerts() -> Result<Vec<(String, String)>> {
    let file: Value = serde_saphyr::from_str(&std::fs::read_to_string(rules())?)?;
    let groups = file["groups"].as_array().context("no groups")?.iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().into_iter().flatten());
    rules.map(|rule| Ok((text(rule, "/alert")?.to_owned(), text(rule, "/expr")?.to_owned()))).collect()
}

pub async fn the_rules_pass_promtool_and_their_tests(cluster: Rc<Cluster>) -> Result<()> {
    let file = rules();
    let said = cluster.programs.promtool(&["check", "rules", "--lint-fatal", &file.display().to_string()], None).await?;
    ensure!(said.contains(&format!("SUCCESS: {} rules found", alerts()?.len())), "{said}");
    let tests = file.with_file_name("tests").join("workloads-controller-manager.yaml");
    cluster.programs.promtool(&["test", "rules", &tests.display().to_string()], None).await?;
    // Every alert fires in one of them.
    let tests = std::fs::read_to_string(tests)?;
    for (name, _) in alerts()? {
        let named = format!("alertname: {name}\n");
        let mut parts = tests.split(&named).skip(1);
        ensure!(parts.any(|after| after.trim_start().starts_with("exp_alerts")), "no test lets {name} fire");
    }
    Ok(())
}

pub async fn every_alert_asks_for_what_is_on_the_page(cluster: Rc<Cluster>) -> Result<()> {
    let page = cluster.page("/metrics").await?;
    let on_page: BTreeSet<_> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    // A histogram's parts are of its name.
    let is_there = |name: &str| {
        let base = ["_bucket", "_count", "_sum"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        on_page.contains(name) || on_page.contains(base) || name == UP
    };
    for (alert, expression) in alerts()? {
        let names = expression::metrics(&expression);
        ensure!(!names.is_empty(), "{alert} asks for nothing");
        for name in names {
            ensure!(is_there(&name), "{alert} asks for {name}, which is not on the page");
        }
        for label in ["rule", "outcome", "controller"] {
            for value in expression::wanted(&expression, label) {
                ensure!(page.contains(&format!("{label}=\"{value}\"")), "{alert} asks for {label}={value}, which is not on the page");
            }
        }
    }
    Ok(())
}

pub async fn prometheus_evaluates_the_rules_and_no_alert_fires(cluster: Rc<Cluster>) -> Result<()> {
    let rules = wait::until("every rule to be evaluated", PATIENCE, async || {
        let answer: Value = cluster.prometheus.ask("/api/v1/rules").await?;
        let groups = answer["groups"].as_array().context("no groups")?;
        let rules: Vec<_> = groups.iter().flat_map(|group| group["rules"].as_array().into_iter().flatten()).cloned().collect();
        ensure!(rules.iter().all(|rule| rule["health"] == "ok"), "{rules:?}");
        Ok(rules)
    })
    .await?;
    assert_eq!(rules.len(), alerts()?.len());
    for rule in rules {
        assert_ne!(rule["state"], "firing", "{rule}");
    }
    Ok(())
}
