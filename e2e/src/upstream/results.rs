//! What a Go test program printed, judged.

use std::collections::BTreeMap;
use std::fmt;

/// How one test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Pass,
    /// It failed, or never ended.
    Fail,
    /// It skipped itself.
    Skip,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Skip => "SKIP",
        })
    }
}

/// The tests of one package.
#[derive(Debug, Clone)]
pub struct Results {
    /// By name, subtests (`Test/case`) included.
    tests: BTreeMap<String, Outcome>,
    complete: bool,
}

impl Results {
    /// Reads the output of `-test.v`. A test without an end has failed: the program crashed or ran into its time limit.
    pub(super) fn parse(output: &str) -> Self {
        let mut tests = BTreeMap::new();
        let mut complete = false;
        for line in output.lines() {
            if let Some(name) = line.strip_prefix("=== RUN ") {
                tests.insert(name.trim().to_owned(), Outcome::Fail);
            } else if let Some((name, outcome)) = ended(line) {
                tests.insert(name.to_owned(), outcome);
            }
            // The program's own last word.
            complete |= line == "PASS" || line == "FAIL";
        }
        Self { tests, complete }
    }

    /// All of them, subtests too.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Outcome)> {
        self.tests.iter().map(|(name, outcome)| (name.as_str(), *outcome))
    }

    /// The tests, without their subtests.
    pub fn tests(&self) -> impl Iterator<Item = (&str, Outcome)> {
        self.iter().filter(|(name, _)| !name.contains('/'))
    }

    /// Whether the program ran to its end. If not, there may be tests that it never reached.
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// How many tests ended like this, without subtests.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.tests().filter(|(_, it)| *it == outcome).count()
    }
}

/// The test whose end a line reports.
pub(super) fn ended(line: &str) -> Option<(&str, Outcome)> {
    let (outcome, rest) = line.trim_start().strip_prefix("--- ")?.split_once(": ")?;
    let outcome = match outcome {
        "PASS" => Outcome::Pass,
        "FAIL" => Outcome::Fail,
        "SKIP" => Outcome::Skip,
        _ => return None,
    };
    Some((rest.split(' ').next()?, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_never_ended_has_failed() {
        let output = "=== RUN   TestA\n=== RUN   TestA/x\n    --- PASS: TestA/x (0.1s)\n--- PASS: TestA (0.20s)\n=== RUN   TestB\npanic: x";
        let results = Results::parse(output);
        let all: Vec<_> = results.iter().collect();
        assert_eq!(all, [("TestA", Outcome::Pass), ("TestA/x", Outcome::Pass), ("TestB", Outcome::Fail)]);
        assert!(!results.complete());
        assert_eq!((results.count(Outcome::Pass), results.count(Outcome::Fail)), (1, 1));
    }
}
