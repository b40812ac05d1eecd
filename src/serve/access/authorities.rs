//! Whose certificates are believed, and whose headers.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, ensure};
use rustls::DistinguishedName;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use super::subject::Subject;
use crate::options::AuthenticationOptions;

/// A bundle of CA certificates.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    anchors: Vec<TrustAnchor<'static>>,
}

/// How a trusted proxy says who is asking (upstream `authenticatorfactory.RequestHeaderConfig`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    /// Common names of the proxies' certificates; none is any.
    pub(crate) allowed_names: Vec<String>,
    /// Headers with the name.
    pub(crate) username: Vec<String>,
    /// Headers with the UID.
    pub(crate) uid: Vec<String>,
    /// Headers with groups.
    pub(crate) group: Vec<String>,
    /// Prefixes of headers with the rest.
    pub(crate) extra_prefix: Vec<String>,
}

/// All that is believed at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authorities {
    /// Signs users' certificates.
    pub(crate) client: Option<Arc<Bundle>>,
    /// Signs proxies' certificates.
    pub(crate) proxy: Option<(Arc<Bundle>, Arc<Headers>)>,
}

/// Reads CA certificates from PEM, of which there must be one at least.
pub(crate) fn ca_certificates(pem: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().context("reading CA certificates")?;
    ensure!(!certificates.is_empty(), "there is no CA certificate");
    Ok(certificates)
}

// === impl Bundle ===

impl Bundle {
    /// Reads PEM.
    pub(crate) fn parse(pem: &[u8]) -> anyhow::Result<Self> {
        let certificates = ca_certificates(pem)?;
        let anchors = certificates.iter().map(|certificate| webpki::anchor_from_trusted_cert(certificate).map(|anchor| anchor.to_owned()));
        Ok(Self { anchors: anchors.collect::<Result<_, _>>().context("a CA certificate")? })
    }

    /// Verifies a client's certificate now, and says whose it is.
    pub(super) fn verify(&self, certificates: &[CertificateDer<'static>], provider: &CryptoProvider) -> Result<Subject, String> {
        let Some((first, chain)) = certificates.split_first() else { return Err("no certificate".to_owned()) };
        let certificate = EndEntityCert::try_from(first).map_err(|error| format!("reading a client certificate: {error}"))?;
        let algorithms = provider.signature_verification_algorithms.all;
        let usage = KeyUsage::client_auth();
        let verified = certificate.verify_for_usage(algorithms, &self.anchors, chain, UnixTime::now(), usage, None, None);
        verified.map_err(|error| format!("verifying a client certificate: {error}"))?;
        Subject::of(first).ok_or_else(|| "a client certificate's subject cannot be read".to_owned())
    }

    fn names(&self) -> impl Iterator<Item = DistinguishedName> {
        self.anchors.iter().map(|anchor| DistinguishedName::in_sequence(anchor.subject.as_ref()))
    }
}

// === impl Headers ===

impl Headers {
    /// From the flags.
    pub(crate) fn of(options: &AuthenticationOptions) -> Self {
        let some = |names: &Vec<String>| names.iter().filter(|name| !name.is_empty()).cloned().collect();
        Self {
            allowed_names: some(&options.requestheader_allowed_names),
            username: some(&options.requestheader_username_headers),
            uid: some(&options.requestheader_uid_headers),
            group: some(&options.requestheader_group_headers),
            extra_prefix: some(&options.requestheader_extra_headers_prefix),
        }
    }

    /// From the ConfigMap's data (upstream `headerrequest/requestheader_controller.go`).
    pub(crate) fn published(data: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let list = |key: &str| -> anyhow::Result<Vec<String>> {
            match data.get(key).filter(|text| !text.is_empty()) {
                Some(text) => serde_json::from_str(text).with_context(|| format!("{key} is no list: {text:?}")),
                None => Ok(Vec::new()),
            }
        };
        Ok(Self {
            allowed_names: list("requestheader-allowed-names")?,
            username: list("requestheader-username-headers")?,
            uid: list("requestheader-uid-headers")?,
            group: list("requestheader-group-headers")?,
            extra_prefix: list("requestheader-extra-headers-prefix")?,
        })
    }
}

// === impl Authorities ===

impl Authorities {
    /// Whom clients are told to have a certificate from.
    pub(crate) fn names(&self) -> Vec<DistinguishedName> {
        let bundles = self.client.iter().chain(self.proxy.iter().map(|(bundle, _)| bundle));
        bundles.flat_map(|bundle| bundle.names()).collect()
    }
}
