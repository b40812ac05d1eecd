//! Keeps the certificate and the authorities up to date while the server runs: files are read again, and so is what the cluster
//! publishes (upstream apiserver `pkg/server/dynamiccertificates`). What is broken is logged once and leaves the old in force.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use machinery::client::CallError;
use machinery::source::Backoff;
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::access::{Authorities, Bundle, Headers, Reviewer};
use super::tls::{Configs, Named, Origin, Pair, Protocol};
use crate::app::random_seed;
use crate::options::{AuthenticationOptions, ServingOptions};

/// How often files are looked at.
const FILES: Duration = Duration::from_secs(5);
/// How often the cluster is asked; upstream's `FileRefreshDuration`, where it does not watch.
const PUBLISHED: Duration = Duration::from_secs(60);

/// The certificate, the authorities, and where they come from.
pub(crate) struct Trust {
    protocol: Protocol,
    origin: Origin,
    pair: Pair,
    key: Arc<CertifiedKey>,
    /// More of them, for clients that ask for a name.
    named: Vec<Named>,
    client_file: Option<CaFile>,
    proxy_file: Option<CaFile>,
    headers: Arc<Headers>,
    /// Whether the cluster is asked for what no file has.
    lookup: bool,
    tolerant: bool,
    /// What the cluster said last, and what went wrong when it was asked.
    seen: Option<BTreeMap<String, String>>,
    failure: Option<String>,
    authorities: Authorities,
    published: watch::Sender<Arc<Authorities>>,
    tls: watch::Sender<Configs>,
}

/// A file with CA certificates, as it was last read.
struct CaFile {
    path: PathBuf,
    pem: Vec<u8>,
}

// === impl CaFile ===

impl CaFile {
    fn open(flag: &str, path: &Path) -> anyhow::Result<(Self, Arc<Bundle>)> {
        let pem = std::fs::read(path).with_context(|| format!("{flag}: reading {}", path.display()))?;
        let bundle = Bundle::parse(&pem).with_context(|| format!("{flag}: {}", path.display()))?;
        Ok((Self { path: path.to_owned(), pem }, Arc::new(bundle)))
    }

    /// The new bundle, if the file has another one now.
    fn changed(&mut self) -> Option<Arc<Bundle>> {
        let pem = std::fs::read(&self.path).ok().filter(|pem| *pem != self.pem)?;
        self.pem = pem;
        match Bundle::parse(&self.pem) {
            Ok(bundle) => {
                info!(file = %self.path.display(), "Client CAs have changed");
                Some(Arc::new(bundle))
            }
            Err(error) => {
                warn!(file = %self.path.display(), error = format!("{error:#}"), "A file of CA certificates is broken; the old ones stay");
                None
            }
        }
    }
}

// === impl Trust ===

impl Trust {
    /// Reads the files. `can_ask`: whether there is a server to ask for what they do not have.
    pub(crate) fn new(serving: &ServingOptions, authentication: &AuthenticationOptions, can_ask: bool) -> anyhow::Result<Self> {
        let protocol = Protocol::new(serving);
        let (origin, pair) = Pair::first(serving)?;
        let key = pair.parse(protocol.provider()).context("the certificate to serve with")?;
        let named = serving.tls_sni_cert_key.iter().map(|pair| Named::open(pair, protocol.provider()));
        let named: Vec<_> = named.collect::<anyhow::Result<_>>()?;
        let headers = Arc::new(Headers::of(authentication));
        let client = authentication.client_ca_file.as_ref().map(|path| CaFile::open("--client-ca-file", path)).transpose()?;
        let proxy = authentication.requestheader_client_ca_file.as_ref();
        let proxy = proxy.map(|path| CaFile::open("--requestheader-client-ca-file", path)).transpose()?;
        let ((client_file, client), (proxy_file, proxy)) = (client.unzip(), proxy.unzip());
        let lookup = can_ask && !authentication.authentication_skip_lookup && (client.is_none() || proxy.is_none());
        let authorities = Authorities { client, proxy: proxy.map(|bundle| (bundle, Arc::clone(&headers))) };
        let cas = (lookup || authorities.client.is_some() || authorities.proxy.is_some()).then(|| authorities.names());
        let tls = watch::Sender::new(protocol.configs(&key, &named, cas.as_deref())?);
        let published = watch::Sender::new(Arc::new(authorities.clone()));
        let tolerant = authentication.authentication_tolerate_lookup_failure;
        Ok(Self {
            protocol,
            origin,
            pair,
            key,
            named,
            client_file,
            proxy_file,
            headers,
            lookup,
            tolerant,
            seen: None,
            failure: None,
            authorities,
            published,
            tls,
        })
    }

    /// What is spoken.
    pub(crate) fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// The authorities from now on.
    pub(crate) fn authorities(&self) -> watch::Receiver<Arc<Authorities>> {
        self.published.subscribe()
    }

    /// The TLS configurations from now on.
    pub(crate) fn tls(&self) -> watch::Receiver<Configs> {
        self.tls.subscribe()
    }

    /// Keeps everything up to date.
    ///
    /// # Errors
    /// When the cluster does not let us know what it publishes, which is fatal upstream, too, unless it is to be tolerated.
    pub(crate) async fn keep(mut self, reviewer: Option<Reviewer>) -> anyhow::Result<Infallible> {
        let mut backoff = Backoff::new(random_seed());
        let mut ask_at = Instant::now();
        loop {
            let mut changed = self.read_files();
            if let Some(reviewer) = reviewer.as_ref().filter(|_| self.lookup && Instant::now() >= ask_at) {
                match reviewer.published().await {
                    Ok(data) => {
                        changed |= self.take_published(data.unwrap_or_default());
                        ask_at = Instant::now() + PUBLISHED;
                    }
                    Err(error) => {
                        self.judge(&error)?;
                        ask_at = Instant::now() + backoff.delay(Instant::now());
                    }
                }
            }
            if changed {
                self.publish();
            }
            tokio::time::sleep(if self.lookup { FILES.min(ask_at - Instant::now()) } else { FILES }).await;
        }
    }

    /// Whether to go on without what the cluster publishes.
    fn judge(&mut self, error: &CallError) -> anyhow::Result<()> {
        if let CallError::Refused(refusal) = error
            && matches!(refusal.code, 401 | 403)
            && !self.tolerant
            && self.authorities.proxy.is_none()
        {
            bail!(
                "the ConfigMap kube-system/extension-apiserver-authentication, which has the CAs of clients, cannot be read ({error}): bind the \
                 role extension-apiserver-authentication-reader, or say --authentication-skip-lookup or \
                 --authentication-tolerate-lookup-failure"
            );
        }
        // The same over and over is one line.
        let failure = error.to_string();
        if self.failure.as_ref() != Some(&failure) {
            warn!(error = failure, "Cannot look up the CAs of clients in kube-system/extension-apiserver-authentication; trying again");
            self.failure = Some(failure);
        }
        Ok(())
    }

    /// Reads what has changed on disk.
    fn read_files(&mut self) -> bool {
        let mut changed = self.read_pair();
        for named in &mut self.named {
            changed |= named.refresh(self.protocol.provider());
        }
        if let Some(bundle) = self.client_file.as_mut().and_then(CaFile::changed) {
            self.authorities.client = Some(bundle);
            changed = true;
        }
        if let Some(bundle) = self.proxy_file.as_mut().and_then(CaFile::changed) {
            self.authorities.proxy = Some((bundle, Arc::clone(&self.headers)));
            changed = true;
        }
        changed
    }

    fn read_pair(&mut self) -> bool {
        let Origin::Files(certificate, key) = &self.origin else { return false };
        let Some(pair) = Pair::read(certificate, key).ok().filter(|pair| *pair != self.pair) else { return false };
        self.pair = pair;
        match self.pair.parse(self.protocol.provider()) {
            Ok(key) => {
                info!(file = %certificate.display(), "The serving certificate has changed");
                self.key = key;
                true
            }
            Err(error) => {
                // The two files are not written at the same moment.
                let error = format!("{error:#}");
                warn!(file = %certificate.display(), error, "The serving certificate and its key do not go together; the old ones stay");
                false
            }
        }
    }

    /// Takes over what no file says.
    fn take_published(&mut self, data: BTreeMap<String, String>) -> bool {
        self.failure = None;
        if self.seen.as_ref() == Some(&data) {
            return false;
        }
        let read = |key: &str| -> anyhow::Result<Option<Arc<Bundle>>> {
            let pem = data.get(key).filter(|pem| !pem.is_empty());
            pem.map(|pem| Bundle::parse(pem.as_bytes()).map(Arc::new)).transpose().with_context(|| key.to_owned())
        };
        let mut take = || -> anyhow::Result<()> {
            if self.client_file.is_none() {
                self.authorities.client = read("client-ca-file")?.or_else(|| self.authorities.client.take());
            }
            if self.proxy_file.is_none()
                && let Some(bundle) = read("requestheader-client-ca-file")?
            {
                self.authorities.proxy = Some((bundle, Arc::new(Headers::published(&data)?)));
            }
            Ok(())
        };
        if let Err(error) = take() {
            warn!(error = format!("{error:#}"), "What kube-system/extension-apiserver-authentication says of client CAs is broken");
        }
        self.seen = Some(data);
        true
    }

    fn publish(&self) {
        let wanted = self.lookup || self.authorities.client.is_some() || self.authorities.proxy.is_some();
        let cas = wanted.then(|| self.authorities.names());
        match self.protocol.configs(&self.key, &self.named, cas.as_deref()) {
            Ok(configs) => {
                self.tls.send_replace(configs);
            }
            Err(error) => warn!(error = format!("{error:#}"), "The TLS configuration stays as it was"),
        }
        self.published.send_replace(Arc::new(self.authorities.clone()));
    }
}
