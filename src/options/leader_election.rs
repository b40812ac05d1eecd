//! Who of several replicas works, and who of several programs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::boolean::go_bool;
use super::duration::go_duration;

/// Who of several replicas works.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Leader election")]
#[allow(clippy::struct_field_names, reason = "they are the flags' names")]
pub(crate) struct LeaderElectionOptions {
    /// Take part in leader election before working: of several replicas one works, the others stand by with full caches.
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) leader_elect: bool,

    /// How long a standby that sees no renewal waits before it takes over; whole seconds; a Go duration.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = go_duration)]
    pub(crate) leader_elect_lease_duration: Duration,

    /// How long the leader may fail to renew before it stops writing and ends; a Go duration.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub(crate) leader_elect_renew_deadline: Duration,

    /// How often the leader renews, and after how long a standby looks again (up to 2.2 times this); a Go duration.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = go_duration)]
    pub(crate) leader_elect_retry_period: Duration,

    /// The kind of object that is the lock.
    #[arg(long, value_name = "KIND", default_value = "leases", value_parser = ["leases"])]
    pub(crate) leader_elect_resource_lock: String,

    /// The name of the lock. With kube-controller-manager's own (kube-controller-manager) one of the two works.
    #[arg(long, value_name = "NAME", default_value = "workloads-controller-manager", value_parser = object_name)]
    pub(crate) leader_elect_resource_name: String,

    /// The namespace of the lock.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system", value_parser = object_name)]
    pub(crate) leader_elect_resource_namespace: String,

    /// Give the lock up when stopped by a signal, after the workers have ended, so that a standby works at once (upstream's gate
    /// `ControllerManagerReleaseLeaderElectionLockOnExit`).
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) leader_elect_release_on_exit: bool,
}

/// Who of several programs works (upstream controller-manager `pkg/leadermigration/options`).
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Leader migration")]
pub(crate) struct LeaderMigrationOptions {
    /// Run the controllers that --leader-migration-config names under a second lease, for which other programs compete, too: no moment is
    /// without one of them, and none has two. Needs --leader-elect.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) enable_leader_migration: bool,

    /// File with a `LeaderMigrationConfiguration` of controllermanager.config.k8s.io/v1, with "workloads-controller-manager" or "*" as
    /// component. Default: upstream's, which names none of the controllers here.
    #[arg(long, value_name = "FILE")]
    pub(crate) leader_migration_config: Option<PathBuf>,
}

/// client-go's `JitterFactor`.
const JITTER_FACTOR: f64 = 1.2;

// === impl LeaderMigrationOptions ===

impl LeaderMigrationOptions {
    /// Upstream leaves it at that if there is no leader election: then both programs would work.
    ///
    /// # Errors
    /// A sentence that names the flag.
    pub(crate) fn validate(&self, election: &LeaderElectionOptions) -> Result<(), String> {
        if self.enable_leader_migration && !election.leader_elect {
            return Err("--enable-leader-migration: needs --leader-elect".to_owned());
        }
        Ok(())
    }
}

// === impl LeaderElectionOptions ===

impl LeaderElectionOptions {
    /// The namespace and the name of the lease, if there is leader election.
    pub(crate) fn lease(&self) -> Option<(String, String)> {
        self.leader_elect.then(|| (self.leader_elect_resource_namespace.clone(), self.leader_elect_resource_name.clone()))
    }

    /// Upstream `leaderelection.go` `NewLeaderElector`, and what a lease can say: whole seconds.
    ///
    /// # Errors
    /// A sentence that names the flag.
    pub(crate) fn validate(&self) -> Result<(), String> {
        if !self.leader_elect {
            return Ok(());
        }
        let (lease, renew, retry) = (self.leader_elect_lease_duration, self.leader_elect_renew_deadline, self.leader_elect_retry_period);
        if lease.subsec_nanos() != 0 || lease.is_zero() || lease.as_secs() > i32::MAX as u64 {
            return Err(format!("--leader-elect-lease-duration: {lease:?} is not a whole number of seconds that a lease can hold"));
        }
        if retry.is_zero() {
            return Err("--leader-elect-retry-period: must be greater than zero".to_owned());
        }
        if lease <= renew {
            return Err(format!("--leader-elect-lease-duration: {lease:?} must be greater than --leader-elect-renew-deadline, {renew:?}"));
        }
        if renew.as_secs_f64() <= retry.as_secs_f64() * JITTER_FACTOR {
            return Err(format!(
                "--leader-elect-renew-deadline: {renew:?} must be greater than {JITTER_FACTOR} times --leader-elect-retry-period, {retry:?}"
            ));
        }
        Ok(())
    }
}

/// It becomes part of a path: a DNS subdomain, as the API server asks of names.
fn object_name(text: &str) -> Result<String, String> {
    let part = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(inner) && part.ends_with(inner) && part.chars().all(|c| inner(c) || c == '-')
    };
    if text.len() <= 253 && text.split('.').all(part) { Ok(text.to_owned()) } else { Err(format!("{text:?} cannot be an object's name")) }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::options::Options;

    fn parse(arguments: &[&str]) -> Result<(), String> {
        let options = Options::try_parse_from(["wcm"].iter().chain(arguments)).map_err(|error| error.to_string())?;
        options.leader_election.validate()
    }

    #[test]
    fn what_client_go_refuses_is_refused_by_the_flags_name() {
        for (arguments, names) in [
            (&["--leader-elect-lease-duration=10s"][..], "--leader-elect-lease-duration"),
            (&["--leader-elect-lease-duration=15500ms"], "--leader-elect-lease-duration"),
            (&["--leader-elect-lease-duration=0", "--leader-elect-renew-deadline=0"], "--leader-elect-lease-duration"),
            (&["--leader-elect-renew-deadline=15s"], "--leader-elect-lease-duration"),
            (&["--leader-elect-renew-deadline=2400ms"], "--leader-elect-renew-deadline"),
            (&["--leader-elect-retry-period=9s"], "--leader-elect-renew-deadline"),
            (&["--leader-elect-retry-period=0"], "--leader-elect-retry-period"),
            (&["--leader-elect-retry-period=2"], "--leader-elect-retry-period"),
            (&["--leader-elect-resource-lock=endpoints"], "--leader-elect-resource-lock"),
            (&["--leader-elect-resource-name=a/b"], "--leader-elect-resource-name"),
            (&["--leader-elect-resource-namespace="], "--leader-elect-resource-namespace"),
            (&["--leader-elect-release-on-exit=maybe"], "--leader-elect-release-on-exit"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(names), "{error} should contain {names}");
        }
    }

    #[test]
    fn what_client_go_takes_is_taken() {
        for arguments in [
            &[][..],
            &["--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s"],
            &["--leader-elect-lease-duration=137s", "--leader-elect-renew-deadline=107s", "--leader-elect-retry-period=26s"],
            &["--leader-elect-resource-name=kube-controller-manager", "--leader-elect-resource-namespace=kube-system"],
            // Nobody reads them.
            &["--leader-elect=false", "--leader-elect-lease-duration=1s"],
        ] {
            parse(arguments).unwrap();
        }
    }
}
