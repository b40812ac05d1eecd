//! The checks, in the order in which a start would fail.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use machinery::client::{ApiClient, CallError, Class};
use machinery::clock::Clock;
use model::Time;
use serde_json::Value;

use super::DoctorOptions;
use super::report::{Check, Finding};
use super::rights::{self, Plan, Right};
use super::writers::{Extent, Judgement, Looker, Ours, date};
use crate::explain::command;
use crate::gates::Release;
use crate::kubeconfig::trust;
use crate::observe::{self, Observed};
use crate::options::{DEFAULT_PORT, Mode};

/// What is checked, and how it is asked.
pub(super) struct Examination<'a> {
    pub(super) config: &'a kube::Config,
    pub(super) client: ApiClient,
    pub(super) options: &'a DoctorOptions,
    pub(super) ours: &'a Ours,
}

/// The oldest and the newest release that the program is tested with.
const SUPPORTED: (&str, &str) = ("v1.34.0", "v1.37.999");

/// Clocks this far apart are worth a word. Times that one writes are read by the other: ready since, available from.
const APART: Duration = Duration::from_secs(2);
/// And this far apart they make a rollout wrong.
const FAR_APART: Duration = Duration::from_secs(10);

/// Differences that are printed.
const SHOWN: usize = 10;

// === impl Examination ===

impl Examination<'_> {
    /// All checks. Without an API server there is only the first, and the port.
    pub(super) async fn all(&self) -> anyhow::Result<Vec<Check>> {
        let (server, clock) = self.server().await;
        let reached = server.finding != Finding::Unknown;
        let mut checks = vec![server];
        if reached {
            checks.push(clock);
            checks.push(self.rights().await?);
            checks.push(self.lease().await);
            checks.push(self.other_writers().await);
        }
        let observed = self.observed().await;
        checks.push(self.port(observed.finding));
        checks.push(observed);
        Ok(checks)
    }

    fn active(&self) -> bool {
        self.options.mode.mode == Mode::Active
    }

    /// The API server's version, and its clock.
    async fn server(&self) -> (Check, Check) {
        let before = Clock::system().wall();
        let address = self.config.cluster_url.to_string();
        let address = address.trim_end_matches('/');
        let asked = match Request::get("/version").body(Bytes::new()) {
            Ok(request) => self.client.send(request, Class::Get).await.map_err(|error: CallError| error.into_error().to_string()),
            Err(error) => Err(error.to_string()),
        };
        let answer = match asked {
            Ok(answer) => answer,
            Err(error) => {
                let check = Check::new("api-server", Finding::Unknown, format!("{address} does not answer: {error}"));
                return (check.clone(), check);
            }
        };
        let version: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let version = version.get("gitVersion").and_then(Value::as_str).unwrap_or("of a version that it does not tell");
        let (finding, more) = supported(version);
        let server = Check::new("api-server", finding, format!("{address} is {version}{more}"));
        (server, clock(date(&answer.date), before, Clock::system().wall()))
    }

    async fn rights(&self) -> anyhow::Result<Check> {
        let mut config = self.config.clone();
        if let Some(user) = &self.options.impersonate {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = Some(self.options.impersonate_groups.clone()).filter(|groups| !groups.is_empty());
        }
        let client = self.options.client(&config)?;
        let plan = Plan {
            controllers: &self.ours.controllers,
            active: self.active(),
            accounts: self.options.connection.use_service_account_credentials,
            lease: self.ours.lease.as_ref(),
        };
        Ok(judge_rights(&rights::ask(&client, plan.rights()).await))
    }

    /// Our own lease: who holds it.
    async fn lease(&self) -> Check {
        const NAME: &str = "lease";
        let Some((namespace, name)) = self.ours.lease.as_ref().filter(|_| self.active()) else {
            return Check::new(NAME, Finding::Skipped, "there is no leader election");
        };
        match Looker(self.client.clone()).lease(namespace, name).await {
            Err(error) => Check::new(NAME, Finding::Unknown, format!("{namespace}/{name} cannot be read: {error}")),
            Ok((None, _)) => Check::new(NAME, Finding::Ok, format!("{namespace}/{name} does not exist yet")),
            Ok((Some(lease), now)) => {
                let renewed = lease.renewed.map_or_else(String::new, |at| format!(", renewed {} ago", age(now, at)));
                let state = match lease.holder.as_str() {
                    "" => "is held by nobody".to_owned(),
                    holder if lease.is_held(now) => format!("is held by {holder}{renewed}"),
                    holder => format!("was held by {holder}{renewed}: it has expired"),
                };
                Check::new(NAME, Finding::Ok, format!("{namespace}/{name} {state}"))
            }
        }
    }

    async fn other_writers(&self) -> Check {
        const NAME: &str = "other-writers";
        let evidence = Looker(self.client.clone()).look(Extent::Thorough, self.ours).await;
        let Judgement { proofs, doubts, mut notes } = evidence.judge(self.ours);
        if let Some(write) = evidence.latest_write(self.ours) {
            let ago = age(evidence.now, write.at.time());
            notes.push(format!("{} last wrote one of their statuses {ago} ago, as far as was looked: {}", write.manager, write.object));
        }
        let strangers = evidence.writes.iter().flatten().filter(|write| !write.is_upstreams());
        notes.extend(strangers.map(|write| format!("{} has written a status of the {}", write.manager, write.controller.as_str())));
        let details: Vec<_> = proofs.iter().chain(&doubts).chain(&notes).cloned().collect();
        let (finding, summary) = match (proofs.is_empty(), doubts.is_empty()) {
            (false, _) if self.active() => (Finding::Failed, "kube-controller-manager runs the same controllers"),
            (false, _) => (Finding::Ok, "kube-controller-manager runs the same controllers, which is to be observed"),
            (true, false) => (Finding::Warning, "nobody has been seen to run the same controllers, but not everything can be seen"),
            (true, true) if evidence.is_unseen(self.ours) => (
                Finding::Warning,
                "nobody has been seen to run the same controllers, and no kube-controller-manager either: if it takes part in no election, only its writes show it",
            ),
            (true, true) => (Finding::Ok, "nobody runs the same controllers"),
        };
        Check::new(NAME, finding, summary).with(details)
    }

    /// Whether the port is free on this host. `observed`: what came of asking the process that is said to run.
    fn port(&self, observed: Finding) -> Check {
        const NAME: &str = "port";
        let (address, port) = (self.options.serving.bind_address, self.options.serving.secure_port);
        if port == 0 {
            return Check::new(NAME, Finding::Skipped, "nothing is to be served");
        }
        let address = SocketAddr::from((address, port));
        let is_ours = self.options.server.as_ref().is_some_and(|server| server.port_u16() == Some(port));
        match TcpListener::bind(address) {
            Ok(_) => Check::new(NAME, Finding::Ok, format!("{address} is free on this host")),
            Err(error) if is_ours && observed != Finding::Unknown => {
                Check::new(NAME, Finding::Ok, format!("{address} on this host may be that of the process at --server ({error})"))
            }
            // Whoever runs the doctor on a control plane's node need not mean to run the program there by this port.
            Err(error) if port == DEFAULT_PORT => Check::new(
                NAME,
                Finding::Warning,
                format!(
                    "{address} cannot be listened on, on this host ({error}): it is kube-controller-manager's, too; choose another by --secure-port"
                ),
            ),
            Err(error) => Check::new(NAME, Finding::Failed, format!("{address} cannot be listened on, on this host: {error}")),
        }
    }

    /// What a process that observes has found.
    async fn observed(&self) -> Check {
        const NAME: &str = "observed";
        let Some(server) = &self.options.server else {
            return Check::new(NAME, Finding::Skipped, "--server names a process that observes, to be asked what it has found");
        };
        let answer = match self.ask_process(server).await {
            Ok(answer) => answer,
            Err(error) => return Check::new(NAME, Finding::Unknown, format!("{server}: {error:#}")),
        };
        match serde_json::from_str::<Observed>(&answer) {
            Ok(observed) => judge_observed(&observed),
            Err(error) => Check::new(NAME, Finding::Unknown, format!("{server} answers otherwise than this release does: {error}")),
        }
    }

    async fn ask_process(&self, server: &http::Uri) -> anyhow::Result<String> {
        let mut config = self.config.clone();
        config.cluster_url = server.clone();
        config.tls_server_name = None;
        config.default_retry = false;
        config.proxy_url = None;
        let authority = self.options.server_certificate_authority.as_deref().map(|path| ("--server-certificate-authority", path));
        trust(&mut config, authority, self.options.server_insecure_skip_tls_verify)?;
        command::get(&kube::Client::try_from(config)?, observe::PATH).await
    }
}

/// What there is to say about a version.
fn supported(version: &str) -> (Finding, &'static str) {
    let (oldest, newest) = (Release::parse(SUPPORTED.0), Release::parse(SUPPORTED.1));
    match Release::parse(version) {
        None => (Finding::Warning, ": it is taken for the newest known"),
        Some(release) if Some(release) < oldest => (Finding::Failed, ": older than 1.34, the oldest that is supported"),
        Some(release) if Some(release) > newest => (Finding::Warning, ": newer than 1.37, the newest that this release was tested with"),
        Some(_) => (Finding::Ok, ""),
    }
}

/// The server's clock is cut to seconds; ours is somewhere between two readings.
fn clock(server: Option<Time>, before: Time, after: Time) -> Check {
    const NAME: &str = "clock";
    let Some(server) = server else { return Check::new(NAME, Finding::Unknown, "the API server does not tell the time") };
    let second = Duration::from_secs(1);
    let nanos = |nanos: i64| Duration::from_nanos(nanos.max(0).unsigned_abs());
    let (behind, ahead) = (nanos(server.nanos_since(after)), nanos(before.nanos_since(server.after(second))));
    let (apart, word) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
    let finding = match apart {
        _ if apart >= FAR_APART => Finding::Failed,
        _ if apart >= APART => Finding::Warning,
        _ => Finding::Ok,
    };
    let seconds = apart.as_secs_f64();
    let summary = match finding {
        Finding::Ok => "this host's clock and the API server's agree".to_owned(),
        _ => format!("this host's clock is at least {seconds:.0} s {word} the API server's"),
    };
    Check::new(NAME, finding, summary)
}

fn judge_rights(answers: &[rights::Answered]) -> Check {
    const NAME: &str = "rights";
    let lacking = |must: bool| {
        let lacks = move |(right, answer): &&rights::Answered| *answer == Ok(false) && right.otherwise.is_none() == must;
        answers.iter().filter(lacks).map(|(right, _)| right)
    };
    let unknown = answers.iter().filter_map(|(right, answer)| answer.as_ref().err().map(|error| format!("cannot tell: {right}: {error}")));
    let less = |right: &Right| format!("missing: {right}; without it {}", right.otherwise.unwrap_or_default());
    let missing = lacking(true).map(|right| format!("missing: {right}"));
    let (must, should, cannot) = (lacking(true).count(), lacking(false).count(), unknown.clone().count());
    let details: Vec<_> = missing.chain(lacking(false).map(less)).chain(unknown).collect();
    let all = answers.len();
    let (finding, summary) = match (must, cannot, should) {
        (0, 0, 0) => (Finding::Ok, format!("all {all} are there")),
        (0, 0, _) => (Finding::Warning, format!("{should} of {all} are missing, none that is needed")),
        (0, _, _) => (Finding::Unknown, format!("{cannot} of {all} could not be asked for")),
        _ => (Finding::Failed, format!("{} of {all} are missing", must + should)),
    };
    Check::new(NAME, finding, summary).with(details)
}

fn judge_observed(observed: &Observed) -> Check {
    let sum = |of: fn(&observe::ObservedTally) -> u64| observed.controllers.values().map(of).sum::<u64>();
    let differences = observed.controllers.values().map(|tally| tally.differences).sum::<usize>();
    let (would_act, done) = (sum(|tally| tally.would_act), sum(|tally| tally.done_by_others));
    let seen = format!("{done} of the {would_act} things that were called for have been done by others");
    let (finding, summary) = if differences == 0 {
        (Finding::Ok, seen)
    } else {
        let after = observed.overdue_after_seconds;
        (Finding::Warning, format!("{seen}; {differences} objects call for what nobody has done for {after} s"))
    };
    let line = |one: &observe::ObservedDifference| {
        let (rules, steps) = (one.rules.join(", "), one.would_do.join("; "));
        format!("{} {}/{} for {} s: {rules}: {steps}", one.kind, one.namespace, one.name, one.seconds)
    };
    Check::new("observed", finding, summary).with(observed.differences.iter().take(SHOWN).map(line).collect())
}

fn age(now: Time, at: Time) -> String {
    format!("{} s", now.nanos_since(at).max(0) / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn versions_that_are_tested_are_supported() {
        for (version, finding) in [
            ("v1.33.9", Finding::Failed),
            ("v1.34.0", Finding::Ok),
            ("v1.37.2+k3s1", Finding::Ok),
            ("v1.38.0-alpha.1", Finding::Warning),
            ("of a version that it does not tell", Finding::Warning),
        ] {
            assert_eq!(supported(version).0, finding, "{version}");
        }
    }

    #[test]
    fn clocks_agree_within_what_can_be_told() {
        for (server, finding) in [
            (100, Finding::Ok),
            (101, Finding::Ok),
            (99, Finding::Ok),
            (97, Finding::Warning),
            (104, Finding::Warning),
            (80, Finding::Failed),
            (115, Finding::Failed),
        ] {
            let check = clock(Some(Time(server * SECOND)), Time(100 * SECOND + 5), Time(101 * SECOND));
            assert_eq!(check.finding, finding, "{server}: {}", check.summary);
        }
        assert_eq!(clock(None, Time(0), Time(0)).finding, Finding::Unknown);
    }

    #[test]
    fn a_right_that_is_needed_fails_the_check_and_another_does_not() {
        let controllers = [crate::options::ControllerName::ReplicaSet];
        let plan = Plan { controllers: &controllers, active: true, accounts: false, lease: None };
        let answers = |lacks: &str| -> Vec<rights::Answered> {
            plan.rights()
                .into_iter()
                .map(|right| {
                    let there = right.to_string() != lacks;
                    (right, Ok(there))
                })
                .collect()
        };
        assert_eq!(judge_rights(&answers("")).finding, Finding::Ok);
        let check = judge_rights(&answers("create events"));
        assert_eq!(
            (check.finding, check.details),
            (Finding::Warning, vec!["missing: create events; without it events are lost".to_owned()])
        );
        let check = judge_rights(&answers("delete pods"));
        assert_eq!((check.finding, check.details), (Finding::Failed, vec!["missing: delete pods".to_owned()]));
        let mut asked = answers("");
        asked[0].1 = Err("no".to_owned());
        assert_eq!(judge_rights(&asked).finding, Finding::Unknown);
    }
}
