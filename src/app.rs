//! Start order and shutdown: stores before sources, sources before workers, and the other way round at the end.

use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use futures::FutureExt as _;
use http::Request;
use machinery::client::{CallError, Class, ClientMetrics, ClientOptions, Clients, HttpVersion};
use machinery::clock::Clock;
use machinery::fence::{BootClock, Fence};
use machinery::queue::WorkQueue;
use machinery::source::{ApiTransport, Backoff, Source, SourceConfig, SourceMetrics};
use machinery::store::{Store, store};
use model::plan::{CONTROLLERREVISIONS, DEPLOYMENTS, PERSISTENTVOLUMECLAIMS, PODS, REPLICASETS, Resource, STATEFULSETS};
use model::{
    ControllerRevisionDecoder, Decode, DeploymentDecoder, Object, ObjectKey, PersistentVolumeClaimDecoder, PodDecoder, ReplicaSetDecoder,
    StatefulSetDecoder,
};
use prometheus::Registry;
use prometheus::process_collector::ProcessCollector;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::caches::{Cache, Filling};
use crate::explain::{Stance, Witnesses};
use crate::gates::Release;
use crate::kubeconfig::client_config;
use crate::leader::Leadership;
use crate::metrics::{self, CacheMetrics};
use crate::observe::{Observers, Work};
use crate::options::{ControllerName, Mode, Options};
use crate::serve::health::Checks;
use crate::serve::pages::Pages;
use crate::serve::pages::inspection::Inspection;
use crate::serve::{Served, Server};
use crate::takeover::{Candidate, Migration};
use crate::tally::Counted;
use crate::telemetry::Verbosity;

/// The process: what it is made of, and the tasks it consists of.
pub(crate) struct App {
    pub(crate) options: Options,
    pub(crate) config: kube::Config,
    pub(crate) client_options: ClientOptions,
    pub(crate) client_metrics: ClientMetrics,
    pub(crate) clients: Clients,
    /// Connections without credentials, for those who bring their own.
    pub(crate) bare: Option<Clients>,
    pub(crate) registry: Registry,
    source_metrics: SourceMetrics,
    cache_metrics: CacheMetrics,
    pub(crate) clock: Clock,
    /// The server's release: gate defaults follow it.
    pub(crate) release: Release,
    /// What the health pages ask.
    pub(crate) checks: Checks,
    /// What can be read, health and metrics apart: anything may add its own.
    pub(crate) pages: Pages,
    /// What the debug pages look into.
    pub(crate) inspection: Inspection,
    verbosity: Verbosity,
    /// Whether we may write; always, unless there is leader election, and never when observing.
    pub(crate) fence: Fence,
    /// The controllers that only look on.
    pub(crate) observers: Observers,
    /// Our part in leader election, if there is one.
    pub(crate) leadership: Option<Leadership>,
    /// What that part has in common with the one in leader migration.
    pub(crate) candidate: Option<Candidate>,
    /// The controllers that run under a second lease.
    pub(crate) migration: Option<Migration>,
    /// The controllers' queues that are on hold until we lead.
    pub(crate) queues: Vec<WorkQueue<ObjectKey>>,
    /// Nothing new is sent once this is cancelled.
    pub(crate) stopping: CancellationToken,
    /// Sources, event sinks and the server end once this is cancelled, after the workers.
    ending: CancellationToken,
    /// Tasks that must not end before they are told to; each gives its name.
    pub(crate) tasks: JoinSet<&'static str>,
    /// The controllers' workers; each gives its name.
    workers: JoinSet<&'static str>,
}

/// Runs until SIGTERM or SIGINT, then finishes what is in flight.
///
/// # Errors
/// When it cannot be set up, when a task ends that must not, or when the workers do not finish in time.
pub(crate) async fn run(options: Options, verbosity: Verbosity) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let mut app = App::new(options, verbosity).await?;
    app.serve().await?;
    let controllers = app.options.controllers.enabled().map_err(anyhow::Error::msg)?;
    let controllers = app.migrate(controllers)?;
    app.elect()?;
    let started = tokio::select! {
        started = app.start(&controllers) => Some(started),
        () = signals.next() => None,
    };
    if started.transpose()?.is_some() {
        if app.observes() {
            info!("Observing: nothing is written");
        } else {
            info!("Controllers started");
        }
        tokio::select! {
            () = signals.next() => {}
            Some(ended) = app.tasks.join_next() => bail!("the task {:?} ended early", ended),
            Some(ended) = app.workers.join_next() => bail!("the workers of {:?} ended early", ended),
        }
    }
    info!("Stopping");
    tokio::select! {
        stopped = app.stop() => stopped,
        // Who asks twice does not want to wait.
        () = signals.next() => bail!("stopped by a second signal"),
    }
}

// === impl App ===

impl App {
    async fn new(options: Options, verbosity: Verbosity) -> anyhow::Result<Self> {
        let config = client_config(&options.connection).await?;
        let registry = Registry::new();
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let http = if options.connection.http1 { HttpVersion::Http1 } else { HttpVersion::Http2 };
        let client_options = ClientOptions {
            qps: options.connection.kube_api_qps,
            burst: options.connection.kube_api_burst,
            http,
            ..ClientOptions::default()
        };
        let client_metrics = ClientMetrics::register(&registry)?;
        let clients = Clients::new(&config, &client_options, &client_metrics)?;
        let source_metrics = SourceMetrics::register(&registry)?;
        let cache_metrics = CacheMetrics::register(&registry)?;
        metrics::build_info(&registry)?;
        let stopping = CancellationToken::new();
        let checks = Checks::default();
        checks.add_readiness("informer-sync", || Err("there are no caches yet".to_owned()));
        let stop = stopping.clone();
        let fence = match options.mode.mode {
            Mode::Active => Fence::open(),
            Mode::Observe => Fence::closed(BootClock::default()),
        };
        checks.add_readiness("shutdown", move || if stop.is_cancelled() { Err("process is shutting down".to_owned()) } else { Ok(()) });
        Ok(Self {
            options,
            config,
            client_options,
            client_metrics,
            clients,
            bare: None,
            registry,
            source_metrics,
            cache_metrics,
            clock: Clock::system(),
            release: Release::BASELINE,
            checks,
            pages: Pages::default(),
            inspection: Inspection::default(),
            verbosity,
            fence,
            observers: Observers::default(),
            leadership: None,
            candidate: None,
            migration: None,
            queues: Vec::new(),
            stopping,
            ending: CancellationToken::new(),
            tasks: JoinSet::new(),
            workers: JoinSet::new(),
        })
    }

    async fn serve(&mut self) -> anyhow::Result<()> {
        if self.options.serving.secure_port == 0 {
            return Ok(());
        }
        let server = Server::bind(Served {
            options: self.options.clone(),
            registry: self.registry.clone(),
            checks: self.checks.clone(),
            pages: self.pages.clone(),
            inspection: self.inspection.clone(),
            verbosity: self.verbosity.clone(),
            client: self.client_options.clone(),
            client_metrics: self.client_metrics.clone(),
        });
        let server = server.await?;
        self.spawn("server", |ending| server.run(ending));
        Ok(())
    }

    /// Makes caches, lets the controllers listen to them, fills them, and starts the workers once all are full.
    async fn start(&mut self, controllers: &[ControllerName]) -> anyhow::Result<()> {
        let server = self.server_release().await;
        self.release = self.options.features.emulated_version.unwrap_or(server);
        metrics::feature_gates(&self.options.gates, self.release, &self.registry)?;
        self.look_at_lease().await;
        let deployments = self.cache(&DEPLOYMENTS, DeploymentDecoder::new());
        let sets = self.cache(&REPLICASETS, ReplicaSetDecoder::new());
        let pods = self.cache(&PODS, PodDecoder::new());
        let stateful_sets = self.cache(&STATEFULSETS, StatefulSetDecoder::new());
        let claims = self.cache(&PERSISTENTVOLUMECLAIMS, PersistentVolumeClaimDecoder::new());
        let revisions = self.cache(&CONTROLLERREVISIONS, ControllerRevisionDecoder::new());
        let mut workers: Vec<(&'static str, Work)> = Vec::new();
        let mut witnesses = Witnesses::default();
        for controller in controllers {
            let work: Work = match controller {
                ControllerName::Deployment => {
                    let controller = self.deployment_controller(&deployments, &sets, &pods)?;
                    witnesses.add(controller.clone());
                    self.work("deployment", controller, self.options.controllers.concurrent_deployment_syncs)?
                }
                ControllerName::ReplicaSet => {
                    let controller = self.replicaset_controller(&sets, &pods)?;
                    witnesses.add(controller.clone());
                    self.work("replicaset", controller, self.options.controllers.concurrent_replicaset_syncs)?
                }
                ControllerName::StatefulSet => {
                    let controller = self.statefulset_controller(&stateful_sets, &pods, &claims, &revisions)?;
                    witnesses.add(controller.clone());
                    self.work("statefulset", controller, self.options.controllers.concurrent_statefulset_syncs)?
                }
            };
            workers.push((controller.as_str(), work));
        }
        std::mem::take(&mut self.observers).install(&self.pages, witnesses.clone(), self.options.mode.observe_overdue_after);
        let fences = ControllerName::all().map(|controller| (controller.alias(), self.fence_of(controller.alias()))).collect::<Vec<_>>();
        let observes = self.observes();
        let stance = move |resource: &Resource| {
            let fence = fences.iter().find(|(alias, _)| resource.kind.eq_ignore_ascii_case(alias)).map(|(_, fence)| fence);
            match fence.is_some_and(Fence::may_write) {
                _ if observes => Stance::Observes,
                true => Stance::Works,
                false => Stance::StandsBy,
            }
        };
        witnesses.install(&self.pages, stance);
        // What no controller reads is not watched: there may be no right to.
        let runs = |names: &[ControllerName]| names.iter().any(|name| controllers.contains(name));
        let known_pods = pods.store.clone();
        let mut filling = vec![self.fill(pods, false)];
        if runs(&[ControllerName::Deployment, ControllerName::ReplicaSet]) {
            filling.push(self.fill(sets, true));
        }
        if runs(&[ControllerName::Deployment]) {
            filling.push(self.fill(deployments, true));
        }
        if runs(&[ControllerName::StatefulSet]) {
            filling.extend([self.fill(stateful_sets, true), self.fill(claims, false), self.fill(revisions, false)]);
        }
        // No source has begun to list before this is awaited: its first list answers whoever asked before.
        let fresh = self.leads();
        self.caches_synced(&filling).await?;
        self.take_over(&filling, fresh).await?;
        let shares_lease = |name: &str| self.migration.as_ref().is_some_and(|migration| migration.runs(name));
        let (migrated, workers): (Vec<_>, Vec<_>) = workers.into_iter().partition(|(name, _)| shares_lease(name));
        // Who shares a lease with us is no other writer.
        let alone: Vec<_> = controllers.iter().copied().filter(|controller| !shares_lease(controller.as_str())).collect();
        if !alone.is_empty() {
            self.refuse_other_writers(&alone, &known_pods).await?;
        }
        self.run_workers(workers, async {});
        self.compete(filling, migrated)
    }

    /// Runs controllers, each some time after `ready` (upstream `RunControllers`), unless the process is to stop before that.
    pub(crate) fn run_workers(&mut self, workers: Vec<(&'static str, Work)>, ready: impl Future<Output = ()> + Send + 'static) {
        let ready = ready.shared();
        for (name, work) in workers {
            let (checks, stopping, ready) = (self.checks.clone(), self.stopping.clone(), ready.clone());
            let pause = self.options.controllers.controller_start_interval.mul_f64(1.0 + fastrand::f64());
            let start = async move {
                ready.await;
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                // One that always passes, once it runs.
                checks.add(name, || Ok(()));
            };
            self.workers.spawn(async move {
                if stopping.run_until_cancelled(start).await.is_some() {
                    work.await;
                }
                name
            });
        }
    }

    fn cache<D: Decode>(&self, resource: &'static Resource, decoder: D) -> Cache<D> {
        let (store, writer) = store();
        let config = SourceConfig::new(resource, random_seed());
        let transport = ApiTransport::new(self.clients.watches.clone(), &config, D::FORMAT);
        let source = Source::new(config, transport, decoder, &self.source_metrics);
        Cache { resource, store, writer, source }
    }

    /// Starts to fill a cache, and to hand out its objects again from time to time if that is asked for.
    fn fill<D: Decode<Object: Counted>>(&mut self, cache: Cache<D>, resync: bool) -> Filling {
        let Cache { resource, store, writer, source } = cache;
        let filling = Filling { resource, source: source.handle(), store: Box::new(store.clone()), resync };
        self.inspection.store(resource.plural, store.clone(), source.handle());
        self.cache_metrics.add(resource, store.clone(), source.handle());
        self.spawn(resource.plural, |ending| source.run(writer, ending));
        if resync {
            self.start_resync(store);
        }
        filling
    }

    async fn caches_synced(&mut self, filling: &[Filling]) -> anyhow::Result<()> {
        let asked: Vec<_> = filling.iter().map(|cache| (cache.resource.plural, cache.source.clone())).collect();
        self.checks.add_readiness("informer-sync", move || {
            let behind: Vec<_> = asked.iter().filter(|(_, source)| !source.status().synced).map(|(resource, _)| *resource).collect();
            if behind.is_empty() { Ok(()) } else { Err(format!("{} caches not synced yet: {behind:?}", behind.len())) }
        });
        let all = async {
            for cache in filling {
                cache.store.synced().await;
                debug!(resource = cache.resource.plural, objects = cache.store.len(), "A cache has synced");
            }
            info!("Caches synced");
        };
        tokio::select! {
            () = all => Ok(()),
            () = complain(filling) => Ok(()),
            Some(ended) = self.tasks.join_next() => bail!("the task {:?} ended early", ended),
        }
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

    /// Starts a task that must not end before it is told to.
    pub(crate) fn spawn<F>(&mut self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = task(self.ending.clone());
        self.tasks.spawn(async move {
            task.await;
            name
        });
    }

    /// Every object is looked at again after a random time between the period and twice it (upstream `ResyncPeriod`); a period of zero
    /// is none.
    fn start_resync<O: Object>(&mut self, store: Store<O>) {
        let period = self.options.controllers.min_resync_period;
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
        let limit = self.options.controllers.controller_shutdown_timeout;
        if limit.is_zero() {
            workers.await;
        } else if tokio::time::timeout(limit, workers).await.is_err() {
            bail!("--controller-shutdown-timeout: workers were still busy after {limit:?}");
        }
        self.say_goodbye().await;
        self.ending.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                warn!(%error, "A task ended badly");
            }
        }
        // Nobody works any more: somebody else may.
        self.resign().await;
        info!("Stopped");
        Ok(())
    }
}

/// Says every minute what keeps the caches from syncing: nothing else happens until they have.
async fn complain(filling: &[Filling]) {
    loop {
        tokio::time::sleep(Duration::from_secs(60)).await;
        for (resource, status) in filling.iter().map(|cache| (cache.resource.plural, cache.source.status())) {
            if status.synced {
                continue;
            }
            let error = status.last_error.map(|error| error.to_string());
            warn!(resource, error, "Still waiting for a cache to sync; no controller works until then");
        }
    }
}

/// Randomness enters here and nowhere else, so that whatever is seeded by it can be replayed.
pub(crate) fn random_seed() -> u64 {
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
