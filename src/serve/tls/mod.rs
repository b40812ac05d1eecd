//! The server's side of TLS: the certificate, what is spoken, and which client certificates are asked for.

mod names;
mod pair;
mod verifier;

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Context;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{ServerConfig, ServerSessionMemoryCache};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite as Suite, DistinguishedName, NamedGroup, SupportedProtocolVersion, version};

pub(crate) use names::Named;
use names::Resolver;
pub(crate) use pair::{Origin, Pair};

use crate::options::{Curve, ServingOptions, TlsVersion};

/// TLS 1.2 sessions that can be resumed. Tickets of TLS 1.3 cost nothing here.
const SESSIONS: usize = 64;

/// What is spoken, from the flags.
#[derive(Clone, Debug)]
pub(crate) struct Protocol {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    http2: bool,
}

/// The configurations for new connections.
#[derive(Clone, Debug)]
pub(crate) struct Configs {
    usual: Arc<ServerConfig>,
    /// Of addresses that have a certificate of their own.
    addressed: Vec<(IpAddr, Arc<ServerConfig>)>,
}

// === impl Configs ===

impl Configs {
    /// What is spoken on a connection to that address.
    pub(crate) fn of(&self, address: IpAddr) -> Arc<ServerConfig> {
        let own = self.addressed.iter().find(|(own, _)| *own == address.to_canonical()).map(|(_, config)| config);
        Arc::clone(own.unwrap_or(&self.usual))
    }
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
        let curves = &options.tls_curve_preferences;
        if !curves.is_empty() {
            provider.kx_groups.retain(|group| curves.iter().any(|curve| group.name() == named_group(*curve)));
        }
        let twelve = options.tls_min_version == TlsVersion::V12 && provider.cipher_suites.iter().any(|suite| suite.tls13().is_none());
        let versions = if twelve { vec![&version::TLS13, &version::TLS12] } else { vec![&version::TLS13] };
        Self { provider: Arc::new(provider), versions, http2: !options.disable_http2_serving }
    }

    /// The provider, for whoever verifies a signature.
    pub(crate) fn provider(&self) -> &Arc<CryptoProvider> {
        &self.provider
    }

    /// The configurations for new connections. `cas`: the subjects of whom clients are asked for a certificate from; `None` does not ask.
    pub(crate) fn configs(&self, key: &Arc<CertifiedKey>, named: &[Named], cas: Option<&[DistinguishedName]>) -> anyhow::Result<Configs> {
        let usual = self.config(Resolver::new(key, named), cas)?;
        let mut addressed: Vec<(IpAddr, _)> = Vec::new();
        for (address, key) in named.iter().flat_map(Named::addresses) {
            if !addressed.iter().any(|(earlier, _)| *earlier == address) {
                addressed.push((address, self.config(Resolver::new(key, named), cas)?));
            }
        }
        Ok(Configs { usual, addressed })
    }

    fn config(&self, resolver: Resolver, cas: Option<&[DistinguishedName]>) -> anyhow::Result<Arc<ServerConfig>> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider)).with_protocol_versions(&self.versions);
        let builder = builder.context("TLS versions and cipher suites")?;
        let builder = match cas {
            Some(cas) => builder.with_client_cert_verifier(Arc::new(verifier::Asked::new(Arc::clone(&self.provider), cas.to_vec()))),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        config.alpn_protocols = if self.http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
        Ok(Arc::new(config))
    }
}

fn named_group(curve: Curve) -> NamedGroup {
    match curve {
        Curve::P256 => NamedGroup::secp256r1,
        Curve::P384 => NamedGroup::secp384r1,
        Curve::X25519 => NamedGroup::X25519,
    }
}
