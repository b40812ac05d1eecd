//! Certificates for clients that ask for one by name (upstream apiserver `pkg/server/dynamiccertificates/named_certificates.go`, and the
//! order in which Go's `crypto/tls` looks for one).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Context;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tracing::{info, warn};

use super::Pair;
use crate::options::NamedPair;
use crate::serve::access::common_name;

/// A pair of files with the names it is for.
pub(crate) struct Named {
    options: NamedPair,
    pair: Pair,
    key: Arc<CertifiedKey>,
}

/// Chooses a certificate by the name that a client asks for.
#[derive(Debug)]
pub(super) struct Resolver {
    default: Arc<CertifiedKey>,
    /// In lower case; a domain's begins with `*.`.
    names: HashMap<String, Arc<CertifiedKey>>,
}

// === impl Named ===

impl Named {
    /// Reads the files.
    pub(crate) fn open(options: &NamedPair, provider: &CryptoProvider) -> anyhow::Result<Self> {
        let read = || {
            let pair = Pair::read(&options.certificate, &options.key)?;
            let key = pair.parse(provider)?;
            Ok::<_, anyhow::Error>((pair, key))
        };
        let (pair, key) = read().with_context(|| format!("--tls-sni-cert-key: {}", options.certificate.display()))?;
        Ok(Self { options: options.clone(), pair, key })
    }

    /// Reads the files again; whether there is another certificate now.
    pub(crate) fn refresh(&mut self, provider: &CryptoProvider) -> bool {
        let NamedPair { certificate, key, .. } = &self.options;
        let Some(pair) = Pair::read(certificate, key).ok().filter(|pair| *pair != self.pair) else { return false };
        self.pair = pair;
        match self.pair.parse(provider) {
            Ok(key) => {
                info!(file = %certificate.display(), "A certificate that clients ask for by name has changed");
                self.key = key;
                true
            }
            Err(error) => {
                // The two files are not written at the same moment.
                let error = format!("{error:#}");
                warn!(file = %certificate.display(), error, "A certificate and its key do not go together; the old ones stay");
                false
            }
        }
    }

    /// The addresses that it is for.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (IpAddr, &Arc<CertifiedKey>)> {
        let addresses = self.options.names.iter().filter_map(|name| name.parse().ok());
        addresses.map(|address: IpAddr| (address.to_canonical(), &self.key))
    }

    /// The host names and domains in the certificate (upstream `getCertificateNames`).
    fn names_inside(&self) -> Vec<String> {
        let Some(certificate) = self.key.cert.first() else { return Vec::new() };
        let common = common_name(certificate).filter(|name| is_domain(name));
        let parsed = webpki::EndEntityCert::try_from(certificate);
        let alternative = parsed.iter().flat_map(|parsed| parsed.valid_dns_names()).map(str::to_owned);
        common.into_iter().chain(alternative).collect()
    }
}

/// Upstream's rule for what of a common name may be a host: no address, and nothing but what DNS allows.
fn is_domain(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = |label: &str| label.starts_with(inner) && label.ends_with(inner) && label.chars().all(|c| inner(c) || c == '-');
    name == "*" || (name.parse::<IpAddr>().is_err() && name.len() <= 253 && name.trim_start_matches("*.").split('.').all(label))
}

// === impl Resolver ===

impl Resolver {
    /// Names that were given win over those that certificates have, and earlier flags over later ones.
    pub(super) fn new(default: &Arc<CertifiedKey>, certificates: &[Named]) -> Self {
        let mut names = HashMap::new();
        let mut add = |name: &str, key: &Arc<CertifiedKey>| {
            names.entry(name.to_ascii_lowercase()).or_insert_with(|| Arc::clone(key));
        };
        for Named { options, key, .. } in certificates {
            options.names.iter().for_each(|name| add(name, key));
        }
        for certificate in certificates.iter().filter(|certificate| certificate.options.names.is_empty()) {
            certificate.names_inside().iter().for_each(|name| add(name, &certificate.key));
        }
        Self { default: Arc::clone(default), names }
    }

    fn find(&self, name: &str) -> &Arc<CertifiedKey> {
        let name = name.to_ascii_lowercase();
        let domain = || name.split_once('.').and_then(|(_, domain)| self.names.get(&format!("*.{domain}")));
        self.names.get(&name).or_else(domain).unwrap_or(&self.default)
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(hello.server_name().map_or(&self.default, |name| self.find(name))))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, DnType, KeyPair};
    use rustls::crypto::ring;

    use super::*;

    fn named(folder: &std::path::Path, file: &str, common: &str, alternative: &[&str], names: &[&str]) -> Named {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(alternative.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        let (certificate, pem) = (folder.join(format!("{file}.crt")), folder.join(format!("{file}.key")));
        fs::write(&certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(&pem, key.serialize_pem()).unwrap();
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Named::open(&NamedPair { certificate, key: pem, names }, &ring::default_provider()).unwrap()
    }

    #[test]
    fn given_names_win_over_those_in_certificates_and_hosts_over_domains() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let default = named(at, "default", "default", &["a.example"], &[]);
        let inside = named(at, "inside", "common.example", &["a.example", "*.inside.example"], &[]);
        let given = named(at, "given", "unused.example", &["unused.example"], &["A.example", "*.deep.example", "10.0.0.1", "::1"]);
        let later = named(at, "later", "later", &[], &["a.example", "later"]);
        let all = [inside, given, later];
        let resolver = Resolver::new(&default.key, &all);
        let [inside, given, later] = &all;
        for (name, expected) in [
            ("a.example", given),
            ("A.EXAMPLE", given),
            ("common.example", inside),
            ("b.inside.example", inside),
            ("x.deep.example", given),
            ("x.y.deep.example", &default),
            ("unused.example", &default),
            ("later", later),
            ("elsewhere", &default),
        ] {
            assert!(Arc::ptr_eq(resolver.find(name), &expected.key), "{name}");
        }
        let addresses: Vec<_> = given.addresses().map(|(address, _)| address.to_string()).collect();
        assert_eq!(addresses, ["10.0.0.1", "::1"]);
    }

    #[test]
    fn files_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut one = named(folder.path(), "one", "one", &[], &["one"]);
        let provider = ring::default_provider();
        assert!(!one.refresh(&provider));
        let before = Arc::clone(&one.key);
        let other = named(folder.path(), "other", "one", &[], &[]);
        fs::copy(&other.options.certificate, &one.options.certificate).unwrap();
        assert!(!one.refresh(&provider), "the key is still the old one's");
        fs::copy(&other.options.key, &one.options.key).unwrap();
        assert!(one.refresh(&provider));
        assert!(!Arc::ptr_eq(&before, &one.key));
    }
}
