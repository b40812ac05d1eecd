//! `/healthz` and `/metrics`, over plain HTTP on loopback.

pub(crate) mod health;

use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use prometheus::{Registry, TextEncoder};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use self::health::{Checks, Probe};

/// A bound socket, so that a port in use is an error at start and not later.
pub(crate) struct Server {
    listener: TcpListener,
    registry: Registry,
    checks: Checks,
}

// === impl Server ===

impl Server {
    /// Binds the address.
    pub(crate) async fn bind(address: SocketAddr, registry: Registry, checks: Checks) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| format!("--bind-address, --port: cannot listen on {address}"))?;
        Ok(Self { listener, registry, checks })
    }

    /// Answers until told to stop.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, _)) => {
                    let (registry, checks) = (self.registry.clone(), self.checks.clone());
                    let stop = stop.clone();
                    connections.spawn(async move {
                        let service = service_fn(move |request| {
                            let answer = answer(&request, &registry, &checks);
                            async move { Ok::<_, Infallible>(answer) }
                        });
                        let builder = Builder::new(TokioExecutor::new());
                        let connection = builder.serve_connection(TokioIo::new(socket), service);
                        tokio::select! {
                            ended = connection => if let Err(error) = ended { debug!(%error, "A connection broke") },
                            () = stop.cancelled() => {}
                        }
                    });
                }
                Err(error) => {
                    // Out of file descriptors, most likely: accepting again at once would spin.
                    warn!(%error, "Accepting a connection failed");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
        connections.close();
        connections.wait().await;
    }
}

fn answer(request: &Request<Incoming>, registry: &Registry, checks: &Checks) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", "only GET\n");
    }
    match request.uri().path() {
        "/healthz" => health(Probe::Healthz, request, checks),
        "/livez" => health(Probe::Livez, request, checks),
        "/readyz" => health(Probe::Readyz, request, checks),
        "/metrics" => match TextEncoder::new().encode_to_string(&registry.gather()) {
            Ok(metrics) => text(StatusCode::OK, prometheus::TEXT_FORMAT, metrics),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", error.to_string()),
        },
        _ => text(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n"),
    }
}

fn health(probe: Probe, request: &Request<Incoming>, checks: &Checks) -> Response<Full<Bytes>> {
    let query: Vec<_> = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()).into_owned().collect();
    let excluded = query.iter().filter(|(name, _)| name == "exclude").map(|(_, value)| value.clone()).collect();
    let report = checks.report(probe, query.iter().any(|(name, _)| name == "verbose"), &excluded);
    let status = if report.healthy { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    text(status, "text/plain; charset=utf-8", report.body)
}

fn text(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
