//! The HTTP stack under `kube::Client`: HTTP/2, no retry of its own, connections that are given up in time.
//!
//! kube's own stack speaks HTTP/1.1 (200 creates in flight are 200 TLS connections) and repeats refused POSTs.

use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::Scheme;
use hyper_rustls::builderstates::WantsSchemes;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt, RustlsTlsError};
use tower::util::option_layer;
use tower::{BoxError, Service, ServiceExt};

use super::gather::Gathered;
use crate::error::Error;

/// Which HTTP is spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HttpVersion {
    /// One connection for everything. Over plain TCP: with prior knowledge.
    #[default]
    Http2,
    /// One connection a request in flight. For what stands in between and cannot do better.
    Http1,
}

/// What a stack is built from, besides the kubeconfig.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wiring {
    pub(super) http: HttpVersion,
    pub(super) connect_timeout: Duration,
    pub(super) ping_interval: Duration,
    pub(super) ping_timeout: Duration,
    /// Whether a request that found its pooled connection dead, and so was not sent, goes out again on a new one.
    pub(super) resend_unsent: bool,
}

/// A connector with a limit on the whole of it, TLS included: [`HttpConnector`] limits TCP only.
#[derive(Clone)]
struct InTime<C> {
    connector: C,
    limit: Duration,
}

/// Builds a client with connections of its own.
pub(super) fn client(config: &kube::Config, wiring: Wiring) -> Result<kube::Client, Error> {
    if let Some(proxy) = &config.proxy_url {
        return Err(Error::Proxy(proxy.clone()));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let tcp = tcp.map_response(Gathered::new);
    if config.cluster_url.scheme() == Some(&Scheme::HTTP) {
        return over(config, InTime { connector: tcp, limit: wiring.connect_timeout }, wiring);
    }
    let mut tls = tls(config)?.https_only();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(|_| Error::ServerName(name.clone()))?;
        tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let connector = match wiring.http {
        HttpVersion::Http2 => tls.enable_http2().wrap_connector(tcp),
        HttpVersion::Http1 => tls.enable_http1().wrap_connector(tcp),
    };
    over(config, InTime { connector, limit: wiring.connect_timeout }, wiring)
}

/// The system's certificate authorities are loaded only where they are needed: an image from scratch has none.
fn tls(config: &kube::Config) -> Result<HttpsConnectorBuilder<WantsSchemes>, Error> {
    let mut wanted = Cow::Borrowed(config);
    if config.accept_invalid_certs {
        wanted.to_mut().root_cert = Some(Vec::new());
    }
    let made = wanted.rustls_client_config().map_err(|error| match error {
        kube::Error::RustlsTls(RustlsTlsError::AddRootCertificate(_)) if config.root_cert.is_none() => Error::Authorities(Box::new(error)),
        error => error.into(),
    })?;
    Ok(HttpsConnectorBuilder::new().with_tls_config(made))
}

fn over<C>(config: &kube::Config, connector: C, wiring: Wiring) -> Result<kube::Client, Error>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let http: Client<C, Body> = Client::builder(TokioExecutor::new())
        .http2_only(wiring.http == HttpVersion::Http2)
        // Without a timer the pings are silently off.
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(wiring.ping_interval)
        .http2_keep_alive_timeout(wiring.ping_timeout)
        .http2_keep_alive_while_idle(true)
        // A connection full of watches looks idle to the pool, and would get a sister every time one of them is opened again.
        .pool_idle_timeout(if wiring.http == HttpVersion::Http2 { None } else { Some(Duration::from_secs(90)) })
        .retry_canceled_requests(wiring.resend_unsent)
        .build(connector);
    let client = ClientBuilder::new(http.map_err(BoxError::from), &config.default_namespace)
        .with_layer(&config.extra_headers_layer()?)
        .with_layer(&option_layer(config.auth_layer()?))
        .with_layer(&config.base_uri_layer())
        .build();
    Ok(client)
}

// === impl InTime ===

impl<C> Service<http::Uri> for InTime<C>
where
    C: Service<http::Uri>,
    C::Response: Send,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let connecting = tokio::time::timeout(self.limit, self.connector.call(uri));
        Box::pin(async move {
            match connecting.await {
                Ok(connected) => connected.map_err(Into::into),
                Err(late) => Err(late.into()),
            }
        })
    }
}
