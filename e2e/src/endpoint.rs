//! Reading a server's health, metrics and debug pages.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};

/// Longer than any healthy server takes, shorter than any wait for one.
const PATIENCE: Duration = Duration::from_secs(5);

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

    /// The address up to the path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The answer to a GET: status code and body.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        let answer = async {
            let request = http::Request::get(path).body(Body::empty())?;
            let (head, body) = self.client.send(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            anyhow::Ok((head.status.as_u16(), String::from_utf8_lossy(&body).into_owned()))
        };
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        answer.with_context(|| format!("no answer within {PATIENCE:?}")).flatten().with_context(|| format!("GET {}{path}", self.url))
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
    let mut config = Config::new(url.parse().with_context(|| format!("address {url:?}"))?);
    config.default_retry = false;
    config.root_cert = ca.map(|ca| vec![ca.to_owned()]);
    // Only for plain http, which has none: otherwise the machine's own certificates would be looked for, and may be missing.
    config.accept_invalid_certs = ca.is_none();
    config.auth_info.token = token.map(|token| token.to_owned().into());
    Client::try_from(config).with_context(|| format!("client for {url}"))
}
