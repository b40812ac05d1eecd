//! The serving certificate and its key: given, kept in a folder, or made for this process.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::options::ServingOptions;

/// Upstream's `PairName`.
const PAIR_NAME: &str = "kube-controller-manager";

/// Where the pair comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Certificate and key; read again when they change.
    Files(PathBuf, PathBuf),
    /// Made at the start, gone at the end.
    Memory,
}

/// A certificate with its chain, and the key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

// === impl Pair ===

impl Pair {
    /// What the flags ask for (upstream `pkg/server/options/serving.go` `MaybeDefaultWithSelfSignedCerts`).
    pub(crate) fn first(options: &ServingOptions) -> anyhow::Result<(Origin, Self)> {
        if let (Some(certificate), Some(key)) = (&options.tls_cert_file, &options.tls_private_key_file) {
            let pair = Self::read(certificate, key).context("--tls-cert-file, --tls-private-key-file")?;
            return Ok((Origin::Files(certificate.clone(), key.clone()), pair));
        }
        let Some(folder) = &options.cert_dir else {
            return Ok((Origin::Memory, Self::self_signed(options.bind_address)?));
        };
        let (certificate, key) = (folder.join(format!("{PAIR_NAME}.crt")), folder.join(format!("{PAIR_NAME}.key")));
        let (has_certificate, has_key) = (certificate.exists(), key.exists());
        ensure!(has_certificate == has_key, "--cert-dir: {} has one of {PAIR_NAME}.crt and {PAIR_NAME}.key", folder.display());
        let pair = if has_key {
            Self::read(&certificate, &key).context("--cert-dir")?
        } else {
            let pair = Self::self_signed(options.bind_address)?;
            fs::create_dir_all(folder).with_context(|| format!("--cert-dir: making {}", folder.display()))?;
            write(&certificate, &pair.certificate, 0o644)?;
            write(&key, &pair.key, 0o600)?;
            pair
        };
        Ok((Origin::Files(certificate, key), pair))
    }

    /// Reads two files.
    pub(crate) fn read(certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let read = |path: &Path| fs::read(path).with_context(|| format!("reading {}", path.display()));
        Ok(Self { certificate: read(certificate)?, key: read(key)? })
    }

    /// One that nobody has to trust, for localhost and the address that is listened on.
    fn self_signed(address: IpAddr) -> anyhow::Result<Self> {
        let key = KeyPair::generate().context("making a key")?;
        let mut params = CertificateParams::new(["localhost".to_owned()]).context("making a certificate")?;
        params.subject_alt_names.push(SanType::IpAddress(Ipv4Addr::LOCALHOST.into()));
        if !address.is_unspecified() && address != IpAddr::V4(Ipv4Addr::LOCALHOST) {
            params.subject_alt_names.push(SanType::IpAddress(address));
        }
        params.distinguished_name.push(DnType::CommonName, "localhost");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.self_signed(&key).context("making a certificate")?;
        Ok(Self { certificate: certificate.pem().into_bytes(), key: key.serialize_pem().into_bytes() })
    }

    /// Parses the pair, and makes sure that the key is the certificate's.
    pub(crate) fn parse(&self, provider: &CryptoProvider) -> anyhow::Result<Arc<CertifiedKey>> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.certificate).collect::<Result<_, _>>().context("the certificate")?;
        ensure!(!chain.is_empty(), "there is no certificate in the file");
        let key = PrivateKeyDer::from_pem_slice(&self.key).context("the private key")?;
        let key = CertifiedKey::from_der(chain, key, provider).context("certificate and private key")?;
        Ok(Arc::new(key))
    }
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(bytes)).with_context(|| format!("--cert-dir: writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use rustls::crypto::ring;

    use super::*;

    #[test]
    fn a_key_of_another_certificate_is_no_pair() {
        let [one, other] = [1, 2].map(|_| Pair::self_signed(Ipv4Addr::UNSPECIFIED.into()).unwrap());
        one.parse(&ring::default_provider()).unwrap();
        let mixed = Pair { certificate: one.certificate.clone(), key: other.key.clone() };
        assert!(mixed.parse(&ring::default_provider()).is_err());
        let half = Pair { certificate: one.certificate.get(..100).unwrap().to_vec(), key: one.key };
        assert!(half.parse(&ring::default_provider()).is_err());
    }
}
