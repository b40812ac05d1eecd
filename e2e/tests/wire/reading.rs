//! Our client and sources, and what they have seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use e2e::ControlPlane;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use machinery::client::{ApiClient, CallError, ClientMetrics, ClientOptions, Streaming};
use machinery::source::{
    ApiTransport, PageRequest, Sink, Source, SourceConfig, SourceEvent, SourceHandle, SourceMetrics, Transport, WatchRequest,
};
use model::plan::{ApiError, Resource};
use model::{Decode, Object};
use prometheus::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How the administrator reaches the plane's API server, or with a token somebody else.
pub(crate) async fn config(plane: &ControlPlane, token: Option<String>) -> Result<Config> {
    let file = Kubeconfig::read_from(plane.admin_kubeconfig())?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    // kube's own client would repeat what is refused, without an end.
    config.default_retry = false;
    if let Some(token) = token {
        config.auth_info.token = Some(token.into());
    }
    Ok(config)
}

/// Our client, without a rate limit.
pub(crate) fn client(config: &Config) -> Result<ApiClient> {
    let options = ClientOptions { qps: 0.0, ..ClientOptions::default() };
    Ok(ApiClient::new(config, &options, &ClientMetrics::register(&Registry::new())?, true)?)
}

/// What a source has handed on.
pub(crate) struct Seen<O>(Arc<Mutex<History<O>>>);

pub(crate) struct History<O> {
    /// By the lists, by name.
    pub(crate) listed: BTreeMap<String, Arc<O>>,
    /// By the watch, by name: the latest.
    pub(crate) applied: BTreeMap<String, Arc<O>>,
    pub(crate) lists_begun: usize,
    pub(crate) lists_ended: usize,
}

impl<O> Seen<O> {
    pub(crate) fn look<T>(&self, at: impl FnOnce(&History<O>) -> T) -> T {
        at(&self.0.lock().unwrap())
    }
}

impl<O> Default for Seen<O> {
    fn default() -> Self {
        let history = History { listed: BTreeMap::new(), applied: BTreeMap::new(), lists_begun: 0, lists_ended: 0 };
        Self(Arc::new(Mutex::new(history)))
    }
}

impl<O> Clone for Seen<O> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<O: Object> Sink<O> for Seen<O> {
    fn apply(&mut self, event: SourceEvent<O>) {
        let mut history = self.0.lock().unwrap();
        match event {
            SourceEvent::Restarted => {
                history.lists_begun += 1;
                history.listed.clear();
            }
            SourceEvent::Listed(object) => drop(history.listed.insert(object.name().to_owned(), Arc::new(object))),
            SourceEvent::Applied(object) => drop(history.applied.insert(object.name().to_owned(), Arc::new(object))),
            SourceEvent::Synced(_) => history.lists_ended += 1,
            SourceEvent::Deleted(_) | SourceEvent::Bookmark(_) => {}
        }
    }
}

/// A running source, which ends when this is dropped.
pub(crate) struct Running {
    pub(crate) handle: SourceHandle,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a source reads: a resource in a namespace.
pub(crate) fn of(resource: &'static Resource, namespace: &str) -> SourceConfig {
    SourceConfig { namespace: Some(namespace.to_owned()), ..SourceConfig::new(resource, 7) }
}

/// Runs a source over any transport into any sink.
pub(crate) fn start<D, T, S>(config: SourceConfig, transport: T, decoder: D, sink: S) -> Result<Running>
where
    D: Decode,
    T: Transport,
    S: Sink<D::Object> + Send + 'static,
    Source<D, T>: Send,
{
    let source = Source::new(config, transport, decoder, &SourceMetrics::register(&Registry::new())?);
    let handle = source.handle();
    Ok(Running { handle, task: tokio::task::spawn_local(source.run(sink, CancellationToken::new())) })
}

/// A transport that asks for something else, once.
pub(crate) struct Altered {
    pub(crate) inner: ApiTransport,
    /// Changes a watch; until it says that it has.
    pub(crate) watch: Option<fn(&mut WatchRequest) -> bool>,
    /// The first page after the first is asked for again and again until the server refuses it.
    pub(crate) outlive: bool,
}

impl Transport for Altered {
    type Chunks = Streaming;

    async fn list(&mut self, request: &PageRequest) -> Result<bytes::Bytes, CallError> {
        let later = matches!(request.at, machinery::source::PageStart::Continue(_));
        if !(later && std::mem::take(&mut self.outlive)) {
            return self.inner.list(request).await;
        }
        loop {
            self.inner.list(request).await?;
            // Its history lives some seconds; asking now and then keeps the machine free for other tests.
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    }

    async fn watch(&mut self, request: &WatchRequest) -> Result<Streaming, CallError> {
        let mut request = request.clone();
        if self.watch.is_some_and(|alter| alter(&mut request)) {
            self.watch = None;
        }
        self.inner.watch(&request).await
    }
}

/// The server's no.
pub(crate) fn refusal<T>(result: Result<T, CallError>) -> ApiError {
    match result {
        Err(CallError::Refused(error)) => error,
        Err(other) => panic!("not a refusal: {other:?}"),
        Ok(_) => panic!("the server said yes"),
    }
}
