//! The program as a process: how it starts, what it shows from the start, and how it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]

#[path = "program/options.rs"]
mod options;
mod support;

use std::process::{Command, ExitCode, Output};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::controlplane::ControlPlane;
use e2e::{process, wait};
use rustix::process::Signal;
use tokio::sync::Mutex;

use support::scenarios::{Context, Scenario, run};
use support::{PATIENCE, Space};

/// What all scenarios share. One of them stops the API server for a while; those that need it take turns.
struct Plane(Mutex<ControlPlane>);

impl Context for Plane {
    async fn start() -> Result<Self> {
        process::binary()?;
        Ok(Self(Mutex::new(ControlPlane::builder().audit().start().await?)))
    }

    async fn stop(&mut self) -> Result<()> {
        Ok(())
    }
}

type Shared = Rc<Plane>;

const SCENARIOS: &[Scenario<Plane>] = scenarios! {
    flags::{
        bad_flags_end_with_2_and_are_named,
        what_cannot_be_used_ends_with_1_and_is_named,
        authorities_are_needed_only_where_something_is_verified,
    },
    options::{
        every_flag_of_kube_controller_manager_is_ours_or_foreign,
        flags_of_other_controllers_are_refused_or_warned_of,
        version_and_completion_are_told,
        log_lines_can_be_kept_apart_and_buffered,
        every_metric_is_there_from_the_start,
    },
    life::{
        health_and_metrics_are_there_from_the_start,
        sigterm_in_a_scale_up_finishes_what_is_in_flight,
        workers_that_do_not_end_in_time_are_not_waited_for,
        a_second_signal_ends_it_at_once,
        each_controller_writes_in_its_own_name,
    },
    // Behind those that want no object to be there.
    options::{numbers_of_children_and_missing_replicas_are_true},
};

fn main() -> ExitCode {
    run(SCENARIOS)
}

mod flags {
    use anyhow::Context as _;
    use serde_json::{Value, json};

    use super::{Command, Output, PATIENCE, Result, Shared, process, wait};

    fn started_with(flags: &[&str]) -> Result<(Output, String)> {
        // Nothing of these starts may get as far as a server.
        let output = Command::new(process::binary()?).args(["--secure-port=0", "--leader-elect=false"]).args(flags).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((output, text))
    }

    pub(crate) async fn bad_flags_end_with_2_and_are_named(_: Shared) -> Result<()> {
        let cases: &[(&[&str], &str)] = &[
            (&["--no-such-flag"], "--no-such-flag"),
            (&["--controllers=no-such-controller"], "--controllers: \"no-such-controller\""),
            (&["--controllers=-replicaset-controller"], "--controllers: no controller is left"),
            (&["--feature-gates=NoSuchGate=true"], "NoSuchGate"),
            (&["--feature-gates=PodDeletionCost=perhaps"], "PodDeletionCost"),
            (&["--kube-api-qps=-1"], "--kube-api-qps"),
            (&["--kube-api-burst=0"], "--kube-api-burst"),
            (&["--concurrent-replicaset-syncs=0"], "--concurrent-replicaset-syncs"),
            (&["--concurrent-statefulset-syncs=0"], "--concurrent-statefulset-syncs"),
            (&["--concurrent-replicaset-syncs=many"], "--concurrent-replicaset-syncs"),
            (&["--min-resync-period=12"], "--min-resync-period"),
            (&["--controller-shutdown-timeout=soon"], "--controller-shutdown-timeout"),
            (&["--bind-address=localhost"], "--bind-address"),
            (&["--secure-port=100000"], "--secure-port"),
            (&["--port=0"], "--port"),
            (&["--tls-cert-file=c"], "--tls-private-key-file"),
            (&["--tls-min-version=VersionTLS11"], "VersionTLS11"),
            (&["--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA"], "TLS_RSA_WITH_RC4_128_SHA"),
            (&["--logging-format=xml"], "--logging-format"),
            (&["--logging-format=json", "--vmodule=app=2"], "--vmodule"),
            (&["--log-json-split-stream"], "LoggingAlphaOptions"),
            (&["--emulated-version=1.20"], "--emulated-version"),
            (&["--tls-sni-cert-key=only-a-certificate"], "--tls-sni-cert-key"),
            (&["--enable-leader-migration"], "--leader-elect"),
            (&["--kube-api-content-type=application/json"], "--kube-api-content-type"),
        ];
        for (flags, named) in cases {
            let (output, text) = started_with(flags)?;
            assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
            assert!(text.contains(named), "{flags:?} should name {named}: {text}");
        }
        Ok(())
    }

    pub(crate) async fn what_cannot_be_used_ends_with_1_and_is_named(_: Shared) -> Result<()> {
        let (output, text) = started_with(&["--kubeconfig=/no/such/file"])?;
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("--kubeconfig") && text.contains("/no/such/file"), "{text}");
        // The last of several flags wins.
        let migration = ["--master=http://127.0.0.1:1", "--leader-elect=true", "--enable-leader-migration"];
        let (output, text) = started_with(&[&migration[..], &["--leader-migration-config=/no/such/file"]].concat())?;
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("--leader-migration-config: /no/such/file"), "{text}");
        let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
        let port = taken.local_addr()?.port();
        let (output, text) = started_with(&["--master=http://127.0.0.1:1", "--bind-address=127.0.0.1", &format!("--secure-port={port}")])?;
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("--secure-port") && text.contains(&port.to_string()), "{text}");
        Ok(())
    }

    /// On a system without certificate authorities, as the image is one.
    pub(crate) async fn authorities_are_needed_only_where_something_is_verified(plane: Shared) -> Result<()> {
        let plane = plane.0.lock().await;
        let mut kubeconfig: Value = serde_json::from_slice(&std::fs::read(plane.admin_kubeconfig())?)?;
        let mut started = async |cluster: Value| {
            kubeconfig["clusters"][0]["cluster"] = cluster;
            let file = plane.folder().join("without-authority.kubeconfig");
            std::fs::write(&file, kubeconfig.to_string())?;
            plane.launch().kubeconfig(file).env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", "/dev/null").spawn()
        };
        let server = plane.api_server_endpoint(0)?.url();
        let mut program = started(json!({"server": server})).await?;
        let status = wait::until("its end", PATIENCE, async || program.process_mut().exited()?.context("it runs")).await?;
        let text = program.printed()?;
        assert_eq!(status.code(), Some(1), "{text}");
        assert!(text.contains("certificate-authority is not set, and this system trusts no certificate authority"), "{text}");
        let mut program = started(json!({"server": server, "insecure-skip-tls-verify": true})).await?;
        program.ready("/readyz", PATIENCE).await?;
        super::life::ensure_ended(&mut program).await
    }
}

mod life {
    use std::collections::BTreeMap;

    use anyhow::Context as _;
    use http::Method;
    use serde_json::json;

    use super::support::identities::account_of;
    use super::support::replica_set;
    use super::{ControlPlane, Duration, PATIENCE, Result, Shared, Signal, Space, ensure, wait};

    pub(crate) async fn health_and_metrics_are_there_from_the_start(plane: Shared) -> Result<()> {
        let plane = plane.0.lock().await;
        let mut program = plane.launch().controllers(["replicaset-controller"]).start().await?;
        assert_eq!(program.endpoint().get("/healthz").await?, (200, "ok".to_owned()));
        assert_eq!(program.endpoint().get("/nothing").await?.0, 404);
        let queue = async |metric: &str| -> Result<f64> {
            let sample = format!("workqueue_{metric}{{name=\"replicaset\"}}");
            program.endpoint().metric(&sample).await?.with_context(|| format!("{sample} is not there"))
        };
        wait::until("the queue's metrics", PATIENCE, async || queue("depth").await).await?;
        for metric in [
            "depth",
            "adds_total",
            "retries_total",
            "unfinished_work_seconds",
            "longest_running_processor_seconds",
            "queue_duration_seconds_count",
            "work_duration_seconds_count",
        ] {
            let value = queue(metric).await?;
            assert!(value == 0.0, "workqueue_{metric} is {value} although there is no ReplicaSet");
        }
        let page = program.endpoint().text("/metrics").await?;
        // client-go's buckets: 10 ns to 10 s, each ten times the one before.
        for bound in ["1e-8", "0.00000001"] {
            if page.contains(&format!("workqueue_queue_duration_seconds_bucket{{name=\"replicaset\",le=\"{bound}\"}}")) {
                return ensure_ended(&mut program).await;
            }
        }
        anyhow::bail!("no bucket of 10 ns: {page}")
    }

    pub(crate) async fn ensure_ended(program: &mut e2e::Server) -> Result<()> {
        assert_eq!(program.terminate().await?.code(), Some(0));
        Ok(())
    }

    /// Freezes the API server for as long as something takes, whatever comes of that.
    async fn frozen<T>(plane: &mut ControlPlane, work: impl Future<Output = Result<T>>) -> Result<T> {
        plane.api_server_process(0)?.freeze()?;
        let done = work.await;
        plane.api_server_process(0)?.thaw()?;
        done
    }

    /// Of a frozen API server: waits until creates are in flight, and then sends SIGTERM.
    async fn stopping_with_creates_in_flight(program: &mut e2e::Server) -> Result<()> {
        wait::until("creates to wait for the server", PATIENCE, async || {
            let page = program.endpoint().text("/metrics").await?;
            let sum = |metric: &str, label: &str| -> f64 {
                let samples = page.lines().filter(|line| line.starts_with(metric) && line.contains(label));
                samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
            };
            let sent = sum("rest_client_request_size_bytes_count{", "verb=\"POST\"");
            let answered = sum("rest_client_requests_total{", "method=\"POST\"");
            // Events go out one at a time: the others are pods.
            ensure!(sent - answered >= 3.0, "{sent} sent, {answered} answered");
            Ok(())
        })
        .await?;
        program.process_mut().signal(Signal::TERM)?;
        wait::until("the program to hear of it", PATIENCE, async || {
            let log = program.printed()?;
            ensure!(log.contains("Stopping"), "{log}");
            Ok(())
        })
        .await
    }

    /// How it ends while the API server is frozen. Whoever waits for answers waits longer than this does.
    async fn ends_unanswered(plane: &Shared, flag: &str, signals: usize) -> Result<String> {
        let mut plane = plane.0.lock().await;
        let space = Space::new(&plane, "unanswered").await?;
        let mut program = plane.launch().controllers(["replicaset-controller"]).rate(150, 50).flag(flag).start().await?;
        space.create_set("web", 500).await?;
        wait::until("the scale-up to be under way", PATIENCE, async || {
            ensure!(space.all_pods().await?.len() >= 60, "it is not");
            Ok(())
        })
        .await?;
        let ended = frozen(&mut plane, async {
            stopping_with_creates_in_flight(&mut program).await?;
            for _ in 1..signals {
                program.process_mut().signal(Signal::TERM)?;
            }
            // A create without an answer is given up after half a minute, and then sent again.
            wait::until("the program to end", Duration::from_secs(25), async || program.process_mut().exited()?.context("it runs")).await
        });
        let (status, log) = (ended.await?, program.printed()?);
        assert_eq!(status.code(), Some(1), "{log}");
        space.sets().delete("web", &kube::api::DeleteParams::default()).await?;
        Ok(log)
    }

    pub(crate) async fn workers_that_do_not_end_in_time_are_not_waited_for(plane: Shared) -> Result<()> {
        let log = ends_unanswered(&plane, "--controller-shutdown-timeout=2s", 1).await?;
        assert!(log.contains("--controller-shutdown-timeout: workers were still busy after 2s"), "{log}");
        Ok(())
    }

    pub(crate) async fn a_second_signal_ends_it_at_once(plane: Shared) -> Result<()> {
        let log = ends_unanswered(&plane, "--controller-shutdown-timeout=10m", 2).await?;
        assert!(log.contains("stopped by a second signal"), "{log}");
        Ok(())
    }

    pub(crate) async fn sigterm_in_a_scale_up_finishes_what_is_in_flight(plane: Shared) -> Result<()> {
        let mut plane = plane.0.lock().await;
        let space = Space::new(&plane, "sigterm").await?;
        let launch = |plane: &ControlPlane| plane.launch().controllers(["replicaset-controller"]).rate(150, 50);
        let mut program = launch(&plane).start().await?;
        space.create_set("web", 500).await?;
        wait::until("the scale-up to be under way", PATIENCE, async || {
            let pods = space.all_pods().await?.len();
            ensure!(pods >= 60, "{pods} pods");
            Ok(())
        })
        .await?;
        frozen(&mut plane, async {
            stopping_with_creates_in_flight(&mut program).await?;
            ensure!(program.process_mut().exited()?.is_none(), "it did not wait for its answers");
            Ok(())
        })
        .await?;
        // Without a second signal, which would end it at once.
        let status = wait::until("the program to end", PATIENCE, async || program.process_mut().exited()?.context("it runs")).await?;
        let log = program.printed()?;
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(!log.lines().any(|line| line.starts_with('E')) && !log.contains("panicked"), "{log}");

        // Every create was answered, and nothing was sent twice: the next process makes exactly the rest.
        let pods = space.all_pods().await?.len();
        assert!(pods < 500, "it was stopped in the midst of it");
        answered(&space, pods).await?;
        let mut next = launch(&plane).start().await?;
        space.settled("web", 500).await?;
        answered(&space, 500).await?;
        assert_eq!(space.pod_requests("delete", 200)?, 0);
        assert_eq!(next.terminate().await?.code(), Some(0));
        Ok(())
    }

    /// With the flag: pods by the ReplicaSet controller's account, ReplicaSets by the Deployment controller's, nothing by the process's own.
    pub(crate) async fn each_controller_writes_in_its_own_name(plane: Shared) -> Result<()> {
        let plane = plane.0.lock().await;
        let space = Space::new(&plane, "names").await?;
        space.let_program_ask_for_tokens().await?;
        let mut program = plane.launch().flag("--use-service-account-credentials").start().await?;
        let template = replica_set("web", 3).pointer("/spec").cloned().context("no spec")?;
        let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": template});
        space.apps(Method::POST, "deployments", &web).await?;
        wait::until("three pods", PATIENCE, async || {
            let pods = space.all_pods().await?.len();
            ensure!(pods == 3, "{pods} pods: {}", program.printed()?);
            Ok(())
        })
        .await?;
        wait::until("the writes in the audit log", PATIENCE, async || {
            let requests = plane.audit()?.requests()?;
            let mine = requests.iter().filter(|request| request.namespace == space.namespace && request.kind.code < 300);
            let writers = |resource: &str| -> BTreeMap<String, usize> {
                let written = mine.clone().filter(|request| request.kind.resource == resource && request.kind.verb == "create");
                written.fold(BTreeMap::new(), |mut writers, request| {
                    *writers.entry(request.kind.user.clone()).or_default() += 1;
                    writers
                })
            };
            let (pods, sets) = (writers("pods"), writers("replicasets"));
            ensure!(pods == BTreeMap::from([(account_of("replicaset"), 3)]), "{pods:?}");
            ensure!(sets == BTreeMap::from([(account_of("deployment"), 1)]), "{sets:?}");
            let events = writers("events");
            ensure!(events.keys().all(|user| [account_of("replicaset"), account_of("deployment")].contains(user)), "{events:?}");
            ensure!(!events.is_empty(), "no events yet");
            Ok(())
        })
        .await?;
        ensure_ended(&mut program).await
    }

    async fn answered(space: &Space, creates: usize) -> Result<()> {
        let seen = async || {
            let all = space.our_requests(|request| request.kind.resource == "pods" && request.kind.verb == "create")?;
            let made = space.pod_requests("create", 201)?;
            ensure!((all, made) == (creates, creates), "{all} creates, {made} made, {creates} expected");
            Ok(())
        };
        wait::until("every create to be answered", Duration::from_secs(20), seen).await
    }
}
