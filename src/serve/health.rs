//! `/healthz`, `/livez` and `/readyz`: named checks, and upstream's answers (apiserver `pkg/server/healthz/healthz.go`
//! `handleRootHealth`, controller-manager `pkg/healthz/handler.go` `MutableHealthzHandler`).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::RwLock;
use tracing::debug;

/// What a check says: nothing, or what is wrong.
type Outcome = Result<(), String>;

/// One named question about the process.
#[derive(Clone)]
struct Check {
    name: &'static str,
    /// Asked for `/readyz` alone: a process that fails it is not to be restarted.
    readiness: bool,
    ask: Arc<dyn Fn() -> Outcome + Send + Sync>,
}

/// The checks of the process. Clones share them; more may be added at any time.
#[derive(Clone, Default)]
pub(crate) struct Checks(Arc<RwLock<Vec<Check>>>);

/// Which page is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// `/healthz`.
    Healthz,
    /// `/livez`.
    Livez,
    /// `/readyz`.
    Readyz,
}

/// What was found out for one page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Whether every check that was asked passed.
    pub(crate) healthy: bool,
    /// What to answer.
    pub(crate) body: String,
    /// The checks that were asked, and whether each passed.
    pub(crate) asked: Vec<(&'static str, bool)>,
}

// === impl Probe ===

impl Probe {
    /// As in the path, in the answer and in the metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

// === impl Checks ===

impl Checks {
    /// Adds a check to all three pages. One of the same name is replaced.
    pub(crate) fn add(&self, name: &'static str, check: impl Fn() -> Outcome + Send + Sync + 'static) {
        self.put(Check { name, readiness: false, ask: Arc::new(check) });
    }

    /// Adds a check to `/readyz` alone. One of the same name is replaced.
    pub(crate) fn add_readiness(&self, name: &'static str, check: impl Fn() -> Outcome + Send + Sync + 'static) {
        self.put(Check { name, readiness: true, ask: Arc::new(check) });
    }

    fn put(&self, check: Check) {
        let mut checks = self.0.write();
        match checks.iter_mut().find(|other| other.name == check.name) {
            Some(other) => *other = check,
            None => checks.push(check),
        }
    }

    /// Asks the checks of a page, in the order they were added, but for those that are excluded.
    pub(crate) fn report(&self, probe: Probe, verbose: bool, excluded: &BTreeSet<String>) -> Report {
        // No check is asked under the lock: it may take another one.
        let checks: Vec<Check> = self.0.read().iter().filter(|check| probe == Probe::Readyz || !check.readiness).cloned().collect();
        // Upstream's `ping`, in place of none.
        let checks = if checks.is_empty() { vec![Check { name: "ping", readiness: false, ask: Arc::new(|| Ok(())) }] } else { checks };
        let mut unknown: BTreeSet<&str> = excluded.iter().map(String::as_str).collect();
        let mut lines = String::new();
        let mut asked = Vec::new();
        for check in checks {
            let name = check.name;
            // Writing to a string does not fail.
            let _ = if excluded.contains(name) {
                unknown.remove(name);
                writeln!(lines, "[+]{name} excluded: ok")
            } else {
                let outcome = (check.ask)();
                asked.push((name, outcome.is_ok()));
                match outcome {
                    Ok(()) => writeln!(lines, "[+]{name} ok"),
                    Err(reason) => {
                        debug!(check = name, probe = probe.as_str(), reason, "A health check failed");
                        // This page is open to everybody.
                        writeln!(lines, "[-]{name} failed: reason withheld")
                    }
                }
            };
        }
        if !unknown.is_empty() {
            let names: Vec<_> = unknown.iter().map(|name| format!("{name:?}")).collect();
            let _ = writeln!(lines, "warn: some health checks cannot be excluded: no matches for {}", names.join(","));
        }
        let healthy = asked.iter().all(|(_, passed)| *passed);
        let body = match (healthy, verbose) {
            (true, false) => "ok".to_owned(),
            (true, true) => format!("{lines}{} check passed\n", probe.as_str()),
            (false, _) => format!("{lines}{} check failed\n", probe.as_str()),
        };
        Report { healthy, body, asked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(checks: &Checks, probe: Probe, verbose: bool, excluded: &[&str]) -> (bool, String) {
        let excluded = excluded.iter().map(|&name| name.to_owned()).collect();
        let report = checks.report(probe, verbose, &excluded);
        (report.healthy, report.body)
    }

    fn checks(broken: bool) -> Checks {
        let checks = Checks::default();
        checks.add("leaderElection", move || if broken { Err("secret".to_owned()) } else { Ok(()) });
        checks.add("replicaset-controller", || Ok(()));
        checks.add_readiness("informer-sync", || Err("not yet".to_owned()));
        checks
    }

    #[test]
    fn a_healthy_process_says_ok_and_more_if_asked() {
        let checks = checks(false);
        assert_eq!(body(&checks, Probe::Healthz, false, &[]), (true, "ok".to_owned()));
        let verbose = "[+]leaderElection ok\n[+]replicaset-controller ok\nlivez check passed\n";
        assert_eq!(body(&checks, Probe::Livez, true, &[]), (true, verbose.to_owned()));
    }

    #[test]
    fn failures_are_always_told_in_full_and_never_why() {
        let expected = "[-]leaderElection failed: reason withheld\n[+]replicaset-controller ok\nhealthz check failed\n";
        assert_eq!(body(&checks(true), Probe::Healthz, false, &[]), (false, expected.to_owned()));
        let ready = "[+]leaderElection ok\n[+]replicaset-controller ok\n[-]informer-sync failed: reason withheld\nreadyz check failed\n";
        assert_eq!(body(&checks(false), Probe::Readyz, false, &[]), (false, ready.to_owned()));
    }

    #[test]
    fn what_is_excluded_is_not_asked_and_strangers_are_named() {
        let expected = "[+]leaderElection excluded: ok\n[+]replicaset-controller ok\n\
                        warn: some health checks cannot be excluded: no matches for \"a\",\"informer-sync\"\nhealthz check passed\n";
        assert_eq!(body(&checks(true), Probe::Healthz, true, &["leaderElection", "informer-sync", "a"]), (true, expected.to_owned()));
    }

    #[test]
    fn without_checks_there_is_a_ping_and_a_name_is_there_once() {
        let checks = Checks::default();
        assert_eq!(body(&checks, Probe::Healthz, true, &[]).1, "[+]ping ok\nhealthz check passed\n");
        checks.add("a", || Err(String::new()));
        checks.add("a", || Ok(()));
        assert_eq!(body(&checks, Probe::Healthz, true, &[]).1, "[+]a ok\nhealthz check passed\n");
    }
}
