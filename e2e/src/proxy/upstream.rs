//! The way to the API server.

use std::path::Path;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{self, Client, connect::HttpConnector};
use kube::Config;
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::tasks::Tasks;

/// A server, and how it is trusted.
#[derive(Debug, Clone)]
pub(super) struct Upstream {
    config: Config,
    /// What is said for callers that bring no credentials, if anything is.
    lent: Option<HeaderValue>,
    scheme: Scheme,
    authority: Authority,
}

/// One HTTP/2 connection to it. Each of the proxy's clients has its own, so that the server's limits hold for each as without a proxy.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    lent: Option<HeaderValue>,
    scheme: Scheme,
    authority: Authority,
}

/// Large enough for a list of many pods without a round trip for each piece.
const WINDOW: u32 = 4 << 20;

/// Headers of a connection, not of a request; and gzip is not asked for, since faults cut into what they can read.
const HOP_BY_HOP: [header::HeaderName; 7] = [
    header::CONNECTION,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::CONTENT_LENGTH,
    header::ACCEPT_ENCODING,
];

// === impl Upstream ===

impl Upstream {
    /// The server of a kubeconfig. Its user does not matter: callers bring their own credentials.
    pub(super) async fn of(kubeconfig: &Path) -> Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("read {}", kubeconfig.display()))?;
        let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let parts = config.cluster_url.clone().into_parts();
        let scheme = parts.scheme.context("a server without a scheme")?;
        // Plain http needs no certificates; otherwise the machine's own would be looked for, and may be missing.
        config.accept_invalid_certs |= scheme == Scheme::HTTP;
        Ok(Self { config, lent: None, scheme, authority: parts.authority.context("a server without an address")? })
    }

    /// From now on, callers without credentials have this token.
    pub(super) fn lend_token(&mut self, token: &str) -> Result<()> {
        self.lent = Some(HeaderValue::from_str(&format!("Bearer {token}"))?);
        Ok(())
    }

    pub(super) fn connector(&self, tasks: &Tasks) -> Result<Connector> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let tls = HttpsConnectorBuilder::new().with_tls_config(self.config.rustls_client_config()?);
        let client = Client::builder(tasks.clone())
            .http2_only(true)
            .http2_initial_stream_window_size(WINDOW)
            .http2_initial_connection_window_size(WINDOW)
            .pool_idle_timeout(None)
            .build(tls.https_or_http().enable_http2().wrap_connector(tcp));
        Ok(Connector { client, lent: self.lent.clone(), scheme: self.scheme.clone(), authority: self.authority.clone() })
    }
}

// === impl Connector ===

impl Connector {
    pub(super) async fn send(&self, head: &http::request::Parts, body: Bytes) -> Result<Response<Incoming>, Error> {
        let path = head.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone()).path_and_query(path);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = uri.build().map_err(|_| Error::Unsent)?;
        *request.headers_mut() = end_to_end(&head.headers);
        if let Some(lent) = &self.lent {
            request.headers_mut().entry(header::AUTHORIZATION).or_insert_with(|| lent.clone());
        }
        self.client.request(request).await.map_err(|error: legacy::Error| if error.is_connect() { Error::Unsent } else { Error::Broken })
    }
}

/// Why the server gave no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Error {
    /// It cannot be reached.
    Unsent,
    /// It broke off.
    Broken,
}

/// The headers that are not about one connection only.
pub(super) fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers
}
