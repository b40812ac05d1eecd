//! Reading a server's health, metrics and debug pages.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};

use crate::access::Identity;

/// Longer than any healthy server takes, shorter than any wait for one.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longer than a server waits for others that it asks.
const LONG_PATIENCE: Duration = Duration::from_secs(20);

/// A server on loopback.
#[derive(Clone)]
pub struct Endpoint {
    url: String,
    client: Client,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// A server at `url`, trusted if `ca` (DER; not needed for http) signed its certificate, asked with `token`.
    pub fn new(url: &str, ca: Option<&[u8]>, token: Option<&str>) -> Result<Self> {
        Ok(Self { url: url.to_owned(), client: client(url, ca, token)? })
    }

    /// A server at `url` whose certificate `ca` (DER) signed, asked by whom that certificate names, or by nobody in particular.
    pub fn secure(url: &str, ca: &[u8], identity: Option<&Identity>) -> Result<Self> {
        let mut config = config(url, Some(ca), None)?;
        if let Some(identity) = identity {
            config.auth_info.client_certificate_data = Some(BASE64.encode(&identity.certificate));
            config.auth_info.client_key_data = Some(BASE64.encode(&identity.key).into());
        }
        Ok(Self { url: url.to_owned(), client: Client::try_from(config).with_context(|| format!("client for {url}"))? })
    }

    /// The address up to the path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The answer to a GET: status code and body.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        let (head, body) = self.exchange(http::Request::get(path).body(Vec::new())?, PATIENCE).await?;
        Ok((head.status.as_u16(), body))
    }

    /// The answer to any request, whose URI is a path: its head and body.
    pub async fn send(&self, request: http::Request<Vec<u8>>) -> Result<(http::response::Parts, String)> {
        self.exchange(request, LONG_PATIENCE).await
    }

    async fn exchange(&self, request: http::Request<Vec<u8>>, patience: Duration) -> Result<(http::response::Parts, String)> {
        let what = format!("{} {}{}", request.method(), self.url, request.uri());
        let answer = async {
            let (head, body) = self.client.send(request.map(Body::from)).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            anyhow::Ok((head, String::from_utf8_lossy(&body).into_owned()))
        };
        let answer = tokio::time::timeout(patience, answer).await;
        answer.with_context(|| format!("no answer within {patience:?}")).flatten().context(what)
    }

    /// The body of a GET that was answered with 200.
    pub async fn text(&self, path: &str) -> Result<String> {
        let (code, body) = self.get(path).await?;
        ensure!(code == 200, "GET {}{path} answered {code}: {}", self.url, body.trim_end());
        Ok(body)
    }

    /// The value of a sample on the `/metrics` page, `name{labels}` as printed there; nothing if it is not on the page.
    pub async fn metric(&self, sample: &str) -> Result<Option<f64>> {
        let page = self.text("/metrics").await?;
        let value = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.split(' ').next());
        value.map(str::parse).transpose().with_context(|| format!("value of {sample}"))
    }
}

/// A client that never repeats a request by itself and ignores the environment's proxies.
pub(crate) fn client(url: &str, ca: Option<&[u8]>, token: Option<&str>) -> Result<Client> {
    Client::try_from(config(url, ca, token)?).with_context(|| format!("client for {url}"))
}

fn config(url: &str, ca: Option<&[u8]>, token: Option<&str>) -> Result<Config> {
    let mut config = Config::new(url.parse().with_context(|| format!("address {url:?}"))?);
    config.default_retry = false;
    config.root_cert = ca.map(|ca| vec![ca.to_owned()]);
    // Only for plain http, which has none: otherwise the machine's own certificates would be looked for, and may be missing.
    config.accept_invalid_certs = ca.is_none();
    config.auth_info.token = token.map(|token| token.to_owned().into());
    Ok(config)
}
