//! The tests that kube-controller-manager itself passes behind the fault proxy: those that ours must pass there, too.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::Package;

/// Kept in the clone, `PACKAGE/TEST` a line.
const PASSED: &str = include_str!("passed-behind-faults.txt");

/// The names of a package's tests in the list.
pub fn passed_by_reference(package: &Package) -> Vec<&'static str> {
    let lines = PASSED.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.strip_prefix(package.name())?.strip_prefix('/')).collect()
}

/// Whether the list was made with this release; others may lack some of the tests.
pub fn is_recorded_for(release: &str) -> bool {
    PASSED.lines().next().is_some_and(|line| line.split(' ').any(|word| word == release))
}

/// Writes the list anew.
pub fn record(release: &str, runs: usize, tests: &[String]) -> Result<PathBuf> {
    ensure!(!tests.is_empty(), "no test passed in each of {runs} runs");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/upstream/passed-behind-faults.txt");
    let mut text = String::new();
    writeln!(text, "# Upstream's tests that kube-controller-manager {release} passes behind the fault proxy, in {runs} of {runs} runs.")?;
    writeln!(text, "# Written by `make upstream-list`; the faults are those of behind.rs.")?;
    for test in tests {
        writeln!(text, "{test}")?;
    }
    std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    Ok(file)
}
