//! `workloads-controller-manager doctor`: whether the program can work here, and whether nobody else does its work.

mod checks;
mod gate;
mod report;
mod rights;
mod writers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use machinery::client::{ApiClient, ClientMetrics, ClientOptions, HttpVersion};
use machinery::clock::Clock;
use prometheus::Registry;
use tokio::time::Instant;

use self::checks::Examination;
use self::report::{Check, Finding, Report};
use self::writers::{Evidence, Extent, Judgement, Looker, Ours};
use crate::kubeconfig::client_config;
use crate::options::{ConnectionOptions, ControllerOptions, LeaderElectionOptions, ModeOptions, ServingOptions, go_duration};

/// Says whether the program, started with these flags, could work: the API server's version and clock, rights, the lease, who else does
/// the same work, the port, and what a process that observes has found.
///
/// Exit code 0: nothing speaks against it. 1: a check has failed. 2: none has failed, but one could not be made.
#[derive(Args, Clone, Debug)]
pub(crate) struct DoctorOptions {
    /// text or json.
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    output: String,

    /// Wait until no other program has been seen to do the same work for --wait-quiet; then check.
    #[arg(long)]
    wait: bool,

    /// For how long no other program must be seen to do the same work; a Go duration.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = go_duration)]
    wait_quiet: Duration,

    /// How long to wait at most; 0 is for ever; a Go duration.
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = go_duration)]
    wait_timeout: Duration,

    /// Whose rights are checked, such as system:serviceaccount:kube-system:workloads-controller-manager. Default: those of the kubeconfig.
    #[arg(long = "as", value_name = "USER")]
    impersonate: Option<String>,

    /// A group of whose rights are checked; may be repeated.
    #[arg(long = "as-group", value_name = "GROUP")]
    impersonate_groups: Vec<String>,

    /// Address of a process that observes, to be asked what it has found.
    #[arg(long, value_name = "URL")]
    server: Option<http::Uri>,

    /// The certificate authority that has signed that process's certificate.
    #[arg(long, value_name = "FILE", requires = "server")]
    server_certificate_authority: Option<PathBuf>,

    /// Takes any certificate of that process. Only a client certificate is safe to be shown to a server that anybody may be.
    #[arg(long, requires = "server")]
    server_insecure_skip_tls_verify: bool,

    #[command(flatten)]
    connection: ConnectionOptions,
    #[command(flatten)]
    mode: ModeOptions,
    #[command(flatten)]
    controllers: ControllerOptions,
    #[command(flatten)]
    leader_election: LeaderElectionOptions,
    #[command(flatten)]
    serving: ServingOptions,
}

/// How often whoever is waited for is looked at.
const PERIOD: Duration = Duration::from_secs(2);

/// Checks, after waiting if that is asked for, and prints what was found.
///
/// # Errors
/// When the flags cannot be used, or there is no way to the API server.
pub(crate) async fn run(options: DoctorOptions) -> anyhow::Result<ExitCode> {
    let controllers = options.controllers.enabled().map_err(anyhow::Error::msg)?;
    options.leader_election.validate().map_err(anyhow::Error::msg)?;
    let config = options.config().await?;
    let client = options.client(&config)?;
    let ours = Ours { controllers, lease: options.leader_election.lease() };
    let waited = if options.wait { options.wait(&Looker(client.clone()), &ours).await } else { None };
    let examination = Examination { config: &config, client, options: &options, ours: &ours };
    let mut report = Report { checks: examination.all().await? };
    report.checks.extend(waited);
    match options.output.as_str() {
        "json" => println!("{:#}", report.json()),
        _ => print!("{report}"),
    }
    Ok(report.exit_code())
}

// === impl DoctorOptions ===

impl DoctorOptions {
    /// As the program's own, and for people their own kubeconfig.
    async fn config(&self) -> anyhow::Result<kube::Config> {
        if self.connection.kubeconfig.is_some() || self.connection.master.is_some() {
            return client_config(&self.connection).await;
        }
        let inferred = kube::Config::infer().await;
        let mut config = inferred.context("no --kubeconfig, no ~/.kube/config, and this is no pod with a service account")?;
        // It may be the environment's, and kube knows no NO_PROXY.
        config.proxy_url = None;
        Ok(config)
    }

    /// A client without a rate limit: a person waits for it.
    fn client(&self, config: &kube::Config) -> anyhow::Result<ApiClient> {
        let http = if self.connection.http1 { HttpVersion::Http1 } else { HttpVersion::Http2 };
        let options = ClientOptions { qps: 0.0, http, ..ClientOptions::default() };
        Ok(ApiClient::new(config, &options, &ClientMetrics::register(&Registry::new())?, true)?)
    }

    /// Waits until nobody has been seen for long enough. A check says so if that takes too long.
    async fn wait(&self, looker: &Looker, ours: &Ours) -> Option<Check> {
        let deadline = (!self.wait_timeout.is_zero()).then(|| Instant::now() + self.wait_timeout);
        let mut quiet_since = None;
        let mut told = None;
        loop {
            let evidence = looker.look(Extent::Thorough, ours).await;
            let seen = seen(&evidence, ours, self.wait_quiet);
            let now = Instant::now();
            if told.as_ref() != Some(&seen) {
                let text = seen.as_deref().unwrap_or("nobody does the same work now");
                eprintln!("{}  {text}", Clock::system().wall().timestamp().map_or_else(String::new, |at| at.to_string()));
                told = Some(seen.clone());
            }
            let since = match &seen {
                Some(_) => None,
                None => Some(*quiet_since.get_or_insert(now)),
            };
            quiet_since = since;
            if since.is_some_and(|since| now.duration_since(since) >= self.wait_quiet) {
                return None;
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                let why = seen.unwrap_or_else(|| format!("it has not been quiet for {:?} yet", self.wait_quiet));
                return Some(Check::new("wait", Finding::Failed, format!("--wait-timeout: after {:?}: {why}", self.wait_timeout)));
            }
            tokio::time::sleep(PERIOD).await;
        }
    }
}

/// What was seen of somebody who does the same work, or could not be seen.
fn seen(evidence: &Evidence, ours: &Ours, quiet: Duration) -> Option<String> {
    let Judgement { proofs, .. } = evidence.judge(ours);
    if !proofs.is_empty() {
        return Some(proofs.join("; "));
    }
    if let Err(error) = &evidence.lease {
        return Some(format!("cannot look: {error}"));
    }
    let write = evidence.latest_write(ours).filter(|write| write.at.time().after(quiet) > evidence.now)?;
    Some(format!("{} wrote the status of {} at {}", write.manager, write.object, write.at))
}
