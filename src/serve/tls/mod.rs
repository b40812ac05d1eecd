//! The server's side of TLS: the certificate, what is spoken, and which client certificates are asked for.

mod pair;
mod verifier;

use std::sync::Arc;

use anyhow::Context;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{ServerConfig, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite as Suite, DistinguishedName, SupportedProtocolVersion, version};

pub(crate) use pair::{Origin, Pair};

use crate::options::{ServingOptions, TlsVersion};

/// TLS 1.2 sessions that can be resumed. Tickets of TLS 1.3 cost nothing here.
const SESSIONS: usize = 64;

/// What is spoken, from the flags.
#[derive(Clone, Debug)]
pub(crate) struct Protocol {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    http2: bool,
}

// === impl Protocol ===

impl Protocol {
    /// Reads the flags.
    pub(crate) fn new(options: &ServingOptions) -> Self {
        let mut provider = ring::default_provider();
        let chosen = &options.tls_cipher_suites;
        if !chosen.is_empty() {
            // As in Go, those of TLS 1.3 cannot be chosen.
            let wanted = |suite: Suite| suite.as_str().is_some_and(|name| chosen.iter().any(|chosen| chosen.0 == name));
            provider.cipher_suites.retain(|suite| suite.tls13().is_some() || wanted(suite.suite()));
        }
        let twelve = options.tls_min_version == TlsVersion::V12 && provider.cipher_suites.iter().any(|suite| suite.tls13().is_none());
        let versions = if twelve { vec![&version::TLS13, &version::TLS12] } else { vec![&version::TLS13] };
        Self { provider: Arc::new(provider), versions, http2: !options.disable_http2_serving }
    }

    /// The provider, for whoever verifies a signature.
    pub(crate) fn provider(&self) -> &Arc<CryptoProvider> {
        &self.provider
    }

    /// The configuration for new connections. `cas`: the subjects of whom clients are asked for a certificate from; `None` does not ask.
    pub(crate) fn config(&self, key: &Arc<CertifiedKey>, cas: Option<Vec<DistinguishedName>>) -> anyhow::Result<Arc<ServerConfig>> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider)).with_protocol_versions(&self.versions);
        let builder = builder.context("TLS versions and cipher suites")?;
        let builder = match cas {
            Some(cas) => builder.with_client_cert_verifier(Arc::new(verifier::Asked::new(Arc::clone(&self.provider), cas))),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(Arc::clone(key))));
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        config.alpn_protocols = if self.http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
        Ok(Arc::new(config))
    }
}
