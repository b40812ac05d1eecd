//! HTTPS for health, metrics and debug pages, with delegated authentication and authorization, as upstream's components serve it
//! (controller-manager `app/serve.go` `BuildHandlerChain`).
//!
//! All of it runs on a thread of its own: neither a slow client nor cryptography delays a reconcile, and no reconcile delays an answer
//! about health.

pub(crate) mod access;
pub(crate) mod answer;
pub(crate) mod health;
mod net;
pub(crate) mod pages;
mod tls;
mod trust;

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Body as _, Incoming};
use kube::config::KubeConfigOptions;
use machinery::client::{ClientMetrics, ClientOptions};
use prometheus::Registry;
use tokio::net::TcpSocket;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use self::access::{Authentication, Authorization, Gate, Reviewer};
use self::answer::Body;
use self::health::Checks;
use self::net::{Answers, Peer, STREAMS};
use self::pages::inspection::Inspection;
use self::pages::{Asked, Pages};
use self::trust::Trust;
use crate::kubeconfig::kubeconfig;
use crate::options::Options;
use crate::telemetry::Verbosity;

/// Requests being worked on, health pages apart. Each may wait for reviews.
const REQUESTS: usize = 128;
/// Connections that wait to be accepted; the kernel has a limit of its own.
const BACKLOG: u32 = 4096;
/// What may be sent to a page that takes something.
const BODY: usize = 1024;
const BODY_TIME: Duration = Duration::from_secs(10);

/// What is served, and how.
#[derive(Clone)]
pub(crate) struct Served {
    /// The flags.
    pub(crate) options: Options,
    /// The metrics.
    pub(crate) registry: Registry,
    /// The health checks.
    pub(crate) checks: Checks,
    /// The pages that others have added, and room for more.
    pub(crate) pages: Pages,
    /// What the debug pages look into.
    pub(crate) inspection: Inspection,
    /// What is logged.
    pub(crate) verbosity: Verbosity,
    /// How the API server is asked about clients.
    pub(crate) client: ClientOptions,
    /// The client's metrics.
    pub(crate) client_metrics: ClientMetrics,
}

/// A bound socket and all that was read from files, so that what is wrong with them is an error at the start.
pub(crate) struct Server {
    listener: TcpListener,
    trust: Trust,
    authentication: Option<kube::Config>,
    authorization: Option<kube::Config>,
    served: Served,
}

/// Answers requests.
#[derive(Clone)]
struct Service {
    gate: Gate,
    pages: Pages,
    slots: Arc<Semaphore>,
}

// === impl Server ===

impl Server {
    /// Binds the address and reads the files.
    pub(crate) async fn bind(served: Served) -> anyhow::Result<Self> {
        let Options { serving, authentication, authorization, .. } = &served.options;
        let asked = authentication.authentication_kubeconfig.as_deref();
        let authentication_config = reviews("--authentication-kubeconfig", asked).await?;
        let authorization_config = reviews("--authorization-kubeconfig", authorization.authorization_kubeconfig.as_deref()).await?;
        let trust = Trust::new(serving, authentication, authentication_config.is_some())?;
        let listener = listen((serving.bind_address, serving.secure_port).into(), serving.permit_port_sharing)
            .with_context(|| format!("--bind-address, --secure-port: cannot listen on {}:{}", serving.bind_address, serving.secure_port))?;
        pages::install(&served)?;
        Ok(Self { listener, trust, authentication: authentication_config, authorization: authorization_config, served })
    }

    /// Serves, on another thread, until told to stop.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let (ended, end) = oneshot::channel();
        let thread = std::thread::Builder::new().name("serving".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let result = runtime.context("starting the async runtime").and_then(|runtime| runtime.block_on(self.serve(stop)));
            // Nobody listens any more if the process ends at once.
            let _ = ended.send(result);
        });
        let result = match thread {
            Ok(_) => end.await.unwrap_or_else(|_| Err(anyhow::anyhow!("its thread has panicked"))),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = result {
            error!(error = format!("{error:#}"), "Serving has failed");
        }
    }

    async fn serve(self, stop: CancellationToken) -> anyhow::Result<()> {
        let Options { serving, authentication, authorization, .. } = &self.served.options;
        let streams = Some(serving.http2_max_streams_per_connection).filter(|limit| *limit > 0).unwrap_or(STREAMS);
        let reviewer = |config: &kube::Config| Reviewer::new(config, &self.served.client, &self.served.client_metrics);
        let tokens = self.authentication.as_ref().map(reviewer).transpose().context("--authentication-kubeconfig")?;
        let access = self.authorization.as_ref().map(reviewer).transpose().context("--authorization-kubeconfig")?;
        let ttl = authentication.authentication_token_webhook_cache_ttl;
        let provider = Arc::clone(self.trust.protocol().provider());
        let who = Authentication::new(self.trust.authorities(), provider, tokens.clone(), ttl)?;
        let gate = Gate::new(who, Authorization::new(authorization, access));
        let service = Service { gate, pages: self.served.pages.clone(), slots: Arc::new(Semaphore::new(REQUESTS)) };
        info!(address = %self.listener.local_addr()?, "Serving securely");
        self.listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let accepting = net::accept(listener, self.trust.tls(), streams, service, stop);
        tokio::select! {
            () = accepting => Ok(()),
            kept = self.trust.keep(tokens) => kept.map(|never: Infallible| match never {}),
        }
    }
}

/// Who is asked about clients (upstream `DelegatingAuthenticationOptions.getClient` with `RemoteKubeConfigFileOptional`).
async fn reviews(flag: &str, path: Option<&Path>) -> anyhow::Result<Option<kube::Config>> {
    if let Some(path) = path {
        return kubeconfig(flag, path, &KubeConfigOptions::default()).await.map(Some);
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        warn!("No {flag}, and this is no pod: only system:masters and what is open to everybody is let in");
        return Ok(None);
    }
    match kube::Config::incluster() {
        Ok(mut config) => {
            config.proxy_url = None;
            Ok(Some(config))
        }
        Err(error) => {
            warn!(%error, "No {flag}, and the pod's service account cannot be used");
            Ok(None)
        }
    }
}

/// As Go listens: an unspecified address is that of both families.
fn listen(address: SocketAddr, shared: bool) -> std::io::Result<TcpListener> {
    if !address.ip().is_unspecified() {
        return bind(address, shared);
    }
    match bind((IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port()).into(), shared) {
        Err(error) if error.kind() != ErrorKind::AddrInUse && error.kind() != ErrorKind::PermissionDenied => {
            bind((IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()).into(), shared)
        }
        listener => listener,
    }
}

/// Go's listeners have `SO_REUSEADDR`, too.
fn bind(address: SocketAddr, shared: bool) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(shared)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

// === impl Service ===

impl Service {
    async fn respond(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        let (parts, body) = request.into_parts();
        // Whether the process lives must be told whatever else is asked; but whose a token is has to be found out.
        let health = matches!(parts.uri.path(), "/healthz" | "/livez" | "/readyz");
        let slot = self.slots.try_acquire();
        let exempt = health && !parts.headers.contains_key(AUTHORIZATION);
        if slot.is_err() && !exempt {
            return answer::too_many();
        }
        if let Err(refusal) = self.gate.admit(&parts, peer).await {
            return refusal;
        }
        let body = if parts.method == Method::PUT && !health {
            match tokio::time::timeout(BODY_TIME, Limited::new(body, BODY).collect()).await {
                Ok(Ok(body)) => body.to_bytes(),
                Ok(Err(error)) => return answer::error(StatusCode::BAD_REQUEST, &format!("error reading request body: {error}")),
                Err(_) => return answer::error(StatusCode::REQUEST_TIMEOUT, "the request's body does not come"),
            }
        } else {
            Bytes::new()
        };
        self.pages.answer(&Asked::new(&parts, body))
    }
}

impl Answers for Service {
    async fn answer(self, request: Request<Incoming>, peer: Peer) -> Response<Body> {
        let head = request.method() == Method::HEAD;
        let mut response = self.respond(request, &peer).await;
        if head {
            if let Some(length) = response.body().size_hint().exact() {
                response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
            *response.body_mut() = Empty::new().boxed_unsync();
        }
        response
    }
}
