//! What was found, for people and for programs.

use std::fmt;
use std::process::ExitCode;

use serde_json::{Value, json};

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// As it should be.
    Ok,
    /// To be looked at by somebody; it hinders nothing.
    Warning,
    /// It will not work.
    Failed,
    /// The check could not be made.
    Unknown,
    /// There was nothing to be checked.
    Skipped,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// Its name.
    pub(super) name: &'static str,
    /// What it came to.
    pub(super) finding: Finding,
    /// That, in a sentence.
    pub(super) summary: String,
    /// What else there is to say, a line each.
    pub(super) details: Vec<String>,
}

/// All checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) checks: Vec<Check>,
}

/// The exit code when a check could not be made.
const UNKNOWN: u8 = 2;

// === impl Finding ===

impl Finding {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Skipped => "skipped",
        }
    }
}

// === impl Check ===

impl Check {
    pub(super) fn new(name: &'static str, finding: Finding, summary: impl Into<String>) -> Self {
        Self { name, finding, summary: summary.into(), details: Vec::new() }
    }

    pub(super) fn with(self, details: Vec<String>) -> Self {
        Self { details, ..self }
    }
}

// === impl Report ===

impl Report {
    /// 1 if a check has failed, else 2 if one could not be made, else 0.
    pub(super) fn exit_code(&self) -> ExitCode {
        if self.has(Finding::Failed) {
            ExitCode::FAILURE
        } else if self.has(Finding::Unknown) {
            ExitCode::from(UNKNOWN)
        } else {
            ExitCode::SUCCESS
        }
    }

    fn has(&self, finding: Finding) -> bool {
        self.checks.iter().any(|check| check.finding == finding)
    }

    pub(super) fn json(&self) -> Value {
        let checks = self.checks.iter().map(
            |check| json!({"name": check.name, "finding": check.finding.as_str(), "summary": check.summary, "details": check.details}),
        );
        json!({"checks": checks.collect::<Vec<_>>()})
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14}{:<9}WHAT", "CHECK", "FINDING")?;
        for Check { name, finding, summary, details } in &self.checks {
            writeln!(f, "{name:<14}{:<9}{summary}", finding.as_str())?;
            for detail in details {
                writeln!(f, "{:<23}{detail}", "")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(findings: &[Finding]) -> Report {
        Report { checks: findings.iter().map(|finding| Check::new("a", *finding, "b")).collect() }
    }

    #[test]
    fn the_worst_finding_is_the_exit_code() {
        for (findings, code) in [
            (&[Finding::Ok, Finding::Warning, Finding::Skipped][..], ExitCode::SUCCESS),
            (&[Finding::Ok, Finding::Unknown], ExitCode::from(2)),
            (&[Finding::Unknown, Finding::Failed], ExitCode::from(1)),
        ] {
            assert_eq!(report(findings).exit_code(), code, "{findings:?}");
        }
    }

    #[test]
    fn a_table_has_a_line_for_each_check_and_each_detail() {
        let mut report = report(&[Finding::Failed]);
        report.checks[0].details = vec!["c".to_owned()];
        let table = "CHECK         FINDING  WHAT\na             failed   b\n                       c\n";
        assert_eq!(report.to_string(), table);
        let expected = json!({"checks": [{"name": "a", "finding": "failed", "summary": "b", "details": ["c"]}]});
        assert_eq!(report.json(), expected);
    }
}
