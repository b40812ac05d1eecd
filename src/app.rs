//! Start order and shutdown: stores before sources, sources before workers, and the other way round at the end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use machinery::client::{ApiClient, CallError, Class, ClientMetrics, ClientOptions, Clients, HttpVersion};
use machinery::clock::Clock;
use machinery::events;
use machinery::executor::Executor;
use machinery::expectations::Expectations;
use machinery::fence::Fence;
use machinery::guard::{Guard, Guarded};
use machinery::queue::WorkQueue;
use machinery::source::{ApiTransport, Backoff, Source, SourceConfig, SourceHandle, SourceMetrics};
use machinery::store::{Store, store};
use machinery::sync::Controller;
use model::plan::{PODS, REPLICASETS, Resource};
use model::replicaset::ReplicaSetDecoder;
use model::{Decode, Object, PodDecoder};
use prometheus::Registry;
use prometheus::process_collector::ProcessCollector;
use replicaset::Gates;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::gates::Release;
use crate::options::{ControllerName, Options};
use crate::replicaset::{ReplicaSetController, deletion_age_ratio};
use crate::serve::Server;

/// The process: what it is made of, and the tasks it consists of.
struct App {
    options: Options,
    clients: Clients,
    registry: Registry,
    source_metrics: SourceMetrics,
    clock: Clock,
    /// The server's release: gate defaults follow it.
    release: Release,
    /// Nothing new is sent once this is cancelled.
    stopping: CancellationToken,
    /// Sources, event sinks and the server end once this is cancelled, after the workers.
    ending: CancellationToken,
    /// Tasks that must not end before they are told to; each gives its name.
    tasks: JoinSet<&'static str>,
    /// The controllers' workers; each gives its name.
    workers: JoinSet<&'static str>,
}

/// Runs until SIGTERM or SIGINT, then finishes what is in flight.
///
/// # Errors
/// When it cannot be set up, when a task ends that must not, or when the workers do not finish in time.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let mut app = App::new(options).await?;
    app.serve().await?;
    let controllers = app.options.enabled_controllers().map_err(anyhow::Error::msg)?;
    let started = tokio::select! {
        started = app.start(&controllers) => started,
        () = signals.next() => return Ok(()),
    };
    started?;
    info!("Controllers started");
    tokio::select! {
        () = signals.next() => info!("Stopping"),
        Some(ended) = app.tasks.join_next() => bail!("the task {:?} ended early", ended),
        Some(ended) = app.workers.join_next() => bail!("the workers of {:?} ended early", ended),
    }
    tokio::select! {
        stopped = app.stop() => stopped,
        // Who asks twice does not want to wait.
        () = signals.next() => bail!("stopped by a second signal"),
    }
}

// === impl App ===

impl App {
    async fn new(options: Options) -> anyhow::Result<Self> {
        let config = client_config(&options).await?;
        let registry = Registry::new();
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let http = if options.http1 { HttpVersion::Http1 } else { HttpVersion::Http2 };
        let client_options = ClientOptions { qps: options.kube_api_qps, burst: options.kube_api_burst, http, ..ClientOptions::default() };
        let clients = Clients::new(&config, &client_options, &ClientMetrics::register(&registry)?)?;
        let source_metrics = SourceMetrics::register(&registry)?;
        Ok(Self {
            options,
            clients,
            registry,
            source_metrics,
            clock: Clock::system(),
            release: Release::BASELINE,
            stopping: CancellationToken::new(),
            ending: CancellationToken::new(),
            tasks: JoinSet::new(),
            workers: JoinSet::new(),
        })
    }

    async fn serve(&mut self) -> anyhow::Result<()> {
        if self.options.port == 0 {
            return Ok(());
        }
        let server = Server::bind((self.options.bind_address, self.options.port).into(), self.registry.clone()).await?;
        self.spawn("server", |ending| server.run(ending));
        Ok(())
    }

    /// Makes stores, lets the controllers listen to them, starts the sources, and the workers once every cache has synced.
    async fn start(&mut self, controllers: &[ControllerName]) -> anyhow::Result<()> {
        self.release = self.server_release().await;
        let (sets, sets_writer) = store();
        let (pods, pods_writer) = store();
        let sets_source = self.source(&REPLICASETS, ReplicaSetDecoder::new());
        let pods_source = self.source(&PODS, PodDecoder::new());
        let mut ready = Vec::new();
        for controller in controllers {
            match controller {
                ControllerName::ReplicaSet => {
                    let guarded = vec![
                        Guarded { resource: &PODS, reached: pods.subscribe(), source: pods_source.handle() },
                        Guarded { resource: &REPLICASETS, reached: sets.subscribe(), source: sets_source.handle() },
                    ];
                    ready.push(self.replicaset_controller(&sets, &pods, guarded)?);
                }
            }
        }
        let waits = [(REPLICASETS.plural, sets_source.handle()), (PODS.plural, pods_source.handle())];
        self.spawn(REPLICASETS.plural, |ending| sets_source.run(sets_writer, ending));
        self.spawn(PODS.plural, |ending| pods_source.run(pods_writer, ending));
        self.start_resync(sets.clone());
        tokio::select! {
            () = async { tokio::join!(sets.synced(), pods.synced()); } => {}
            () = complain(&waits) => {}
            Some(ended) = self.tasks.join_next() => bail!("the task {:?} ended early", ended),
        }
        info!(replicasets = sets.len(), pods = pods.len(), "Caches synced");
        let syncs = usize::from(self.options.concurrent_replicaset_syncs);
        for controller in ready {
            self.workers.spawn(async move {
                controller.run(syncs).await;
                "replicaset-controller"
            });
        }
        Ok(())
    }

    /// Asks until there is an answer: a control plane may come up after its controllers.
    async fn server_release(&self) -> Release {
        let mut backoff = Backoff::new(random_seed());
        loop {
            let request = Request::get("/version").body(Bytes::new());
            let answer = match request {
                Ok(request) => self.clients.watches.send(request, Class::Get).await,
                Err(_) => return Release::BASELINE,
            };
            match answer {
                Ok(answer) => {
                    let version: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                    let version = version.get("gitVersion").and_then(serde_json::Value::as_str).unwrap_or_default();
                    info!(version, "Connected to the API server");
                    return Release::parse(version).unwrap_or(Release::BASELINE);
                }
                // Some gateways hide it; it only chooses the gates' defaults.
                Err(CallError::Refused(error)) if matches!(error.code, 400 | 403..=404) => {
                    warn!(%error, "The API server does not tell its version; taking it for the newest known");
                    return Release::BASELINE;
                }
                Err(error) => {
                    let delay = backoff.delay(self.clock.now());
                    warn!(%error, ?delay, "Cannot ask the API server for its version");
                    tokio::time::sleep(delay).await;
                }
            }
        }
    }

    fn replicaset_controller(
        &mut self,
        sets: &Store<model::ReplicaSet>,
        pods: &Store<model::Pod>,
        guarded: Vec<Guarded>,
    ) -> anyhow::Result<Arc<Controller<ReplicaSetController>>> {
        let enabled = |gate| self.options.feature_gates.enabled(gate, self.release);
        let gates = Gates {
            pod_deletion_cost: enabled("PodDeletionCost"),
            terminating_replicas: enabled("DeploymentReplicaSetTerminatingReplicas"),
        };
        let guard_enabled = enabled("StaleControllerConsistencyReplicaSet");
        let queue = WorkQueue::new("replicaset", self.clock.clone(), &self.registry)?;
        let guard = Guard::new("replicaset", queue.clone(), guarded, &self.registry)?;
        let guard = guard_enabled.then_some(guard);
        if let Some(guard) = guard.clone() {
            self.spawn("guard", |ending| guard.run(ending));
        }
        let expectations = Arc::new(Expectations::default());
        let reconciler = ReplicaSetController {
            sets: sets.clone(),
            pods: pods.clone(),
            expectations: Arc::clone(&expectations),
            guard: guard.clone(),
            queue: queue.clone(),
            clock: self.clock.clone(),
            gates,
            deletion_age_ratio: deletion_age_ratio(&self.registry)?,
        };
        reconciler.listen();
        let executor = self.executor("replicaset-controller", expectations)?;
        Ok(Arc::new(Controller { reconciler, executor, guard, queue, clock: self.clock.clone() }))
    }

    /// One controller's way to write, with a rate limit of its own, and its way to tell about it.
    fn executor(&mut self, controller: &'static str, expectations: Arc<Expectations>) -> anyhow::Result<Executor> {
        let limited = |client: &ApiClient| client.limited_apart(self.options.kube_api_qps, self.options.kube_api_burst);
        let (client, events) = (limited(&self.clients.writes), limited(&self.clients.events));
        let (recorder, sink) = events::recorder(controller, events, self.clock.clone(), &self.registry)?;
        self.spawn("event sink", |ending| sink.run(ending));
        Ok(Executor::new(client, recorder, expectations, self.clock.clone(), random_seed(), Fence::open(), self.stopping.clone()))
    }

    /// Starts a task that must not end before it is told to.
    fn spawn<F>(&mut self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = task(self.ending.clone());
        self.tasks.spawn(async move {
            task.await;
            name
        });
    }

    fn source<D: Decode>(&self, resource: &'static Resource, decoder: D) -> Source<D, ApiTransport> {
        let config = SourceConfig::new(resource, random_seed());
        let transport = ApiTransport::new(self.clients.watches.clone(), &config, D::FORMAT);
        Source::new(config, transport, decoder, &self.source_metrics)
    }

    /// Every object is looked at again after a random time between the period and twice it (upstream `ResyncPeriod`); a period of zero
    /// is none.
    fn start_resync<O: Object>(&mut self, store: Store<O>) {
        let period = self.options.min_resync_period;
        if period.is_zero() {
            return;
        }
        self.spawn("resync", |ending| async move {
            let again = async {
                loop {
                    tokio::time::sleep(period.mul_f64(1.0 + fastrand::f64())).await;
                    store.resync().await;
                }
            };
            let _: Option<std::convert::Infallible> = ending.run_until_cancelled(again).await;
        });
    }

    /// What is in flight is finished, then everything else ends.
    async fn stop(mut self) -> anyhow::Result<()> {
        self.stopping.cancel();
        let workers = async { while self.workers.join_next().await.is_some() {} };
        let limit = self.options.controller_shutdown_timeout;
        if limit.is_zero() {
            workers.await;
        } else if tokio::time::timeout(limit, workers).await.is_err() {
            bail!("--controller-shutdown-timeout: workers were still busy after {limit:?}");
        }
        self.ending.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                warn!(%error, "A task ended badly");
            }
        }
        info!("Stopped");
        Ok(())
    }
}

/// Says every minute what keeps the caches from syncing: nothing else happens until they have.
async fn complain(waits: &[(&'static str, SourceHandle)]) {
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        for (resource, status) in waits.iter().map(|(resource, source)| (resource, source.status())).filter(|(_, status)| !status.synced) {
            let error = status.last_error.map(|error| error.to_string());
            warn!(resource, error, "Still waiting for a cache to sync; no controller works until then");
        }
    }
}

async fn client_config(options: &Options) -> anyhow::Result<kube::Config> {
    let master = options.master.as_ref().map(|url| url.parse::<http::Uri>().with_context(|| format!("--master: {url:?} is not a URL")));
    let master = master.transpose()?;
    let mut config = match (&options.kubeconfig, &master) {
        (Some(path), _) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("--kubeconfig: reading {}", path.display()))?;
            let proxied = file.clusters.iter().any(|named| named.cluster.as_ref().is_some_and(|cluster| cluster.proxy_url.is_some()));
            let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
            let mut config = config.with_context(|| format!("--kubeconfig: {} cannot be used", path.display()))?;
            // Without a proxy of the file's own, kube takes one from the environment, and knows no NO_PROXY.
            config.proxy_url = config.proxy_url.filter(|_| proxied);
            config
        }
        (None, Some(master)) => kube::Config::new(master.clone()),
        (None, None) => {
            let mut config =
                kube::Config::incluster().context("no --kubeconfig, no --master, and this is no pod with a service account")?;
            config.proxy_url = None;
            config
        }
    };
    if let Some(master) = master {
        config.cluster_url = master;
    }
    Ok(config)
}

/// Randomness enters here and nowhere else, so that whatever is seeded by it can be replayed.
fn random_seed() -> u64 {
    fastrand::u64(..)
}

/// SIGTERM and SIGINT, as often as they come.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

// === impl Signals ===

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
