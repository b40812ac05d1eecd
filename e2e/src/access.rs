//! How tests reach our program's pages: an authority of this test process' own signs its certificate and the tests'.
//!
//! The client certificate is of `system:masters`, which needs no API server to be let in: pages can be read while there is none.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};

use crate::Server;

/// An authority that signs certificates for servers on loopback, and for their clients.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

/// The files that a server is started with.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    folder: PathBuf,
}

/// What every program of this test process is started with, and read with.
struct Shared {
    authority: Authority,
    server: Identity,
    reader: Identity,
}

impl Identity {
    /// Writes `NAME.crt` and `NAME.key` into a folder.
    pub fn write(&self, folder: &Path, name: &str) -> Result<()> {
        fs::write(folder.join(format!("{name}.key")), &self.key)?;
        fs::write(folder.join(format!("{name}.crt")), &self.certificate)?;
        Ok(())
    }
}

impl Authority {
    /// A new one.
    pub fn create(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        CertifiedIssuer::self_signed(params, KeyPair::generate()?).context("certificate authority").map(Self)
    }

    /// Its certificate, PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Its certificate, DER.
    pub fn der(&self) -> Vec<u8> {
        self.0.der().to_vec()
    }

    /// A client's certificate: the common name is the user, the organization its group.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    /// A certificate for any server on loopback.
    pub fn server(&self) -> Result<Identity> {
        let mut params = CertificateParams::new(["localhost".to_owned()])?;
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        params.distinguished_name.push(DnType::CommonName, "server");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0).context("signing a certificate")?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl Files {
    /// Beside a log, so that they go with it.
    pub(crate) fn beside(log: &Path) -> Self {
        let mut folder = log.as_os_str().to_owned();
        folder.push(".serving");
        Self { folder: folder.into() }
    }

    /// Writes them.
    pub(crate) fn write(&self) -> Result<()> {
        let Shared { authority, server, reader } = shared()?;
        fs::create_dir_all(&self.folder)?;
        let files = [
            ("ca.crt", &authority.pem()),
            ("server.crt", &server.certificate),
            ("server.key", &server.key),
            ("reader.crt", &reader.certificate),
            ("reader.key", &reader.key),
        ];
        for (name, text) in files {
            let file = self.folder.join(name);
            // A program that runs already must not find it half written.
            if !file.exists() {
                fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
            }
        }
        Ok(())
    }

    /// The flags that name them.
    pub(crate) fn flags(&self) -> impl Iterator<Item = std::ffi::OsString> {
        let flags = [("--tls-cert-file", "server.crt"), ("--tls-private-key-file", "server.key"), ("--client-ca-file", "ca.crt")];
        flags.into_iter().flat_map(|(flag, name)| [flag.into(), self.folder.join(name).into_os_string()])
    }
}

/// A command line that reads a page of our program.
pub fn curl(server: &Server, path: &str) -> String {
    let folder = Files::beside(server.log()).folder;
    let file = |name: &str| folder.join(name).display().to_string();
    let (ca, certificate, key) = (file("ca.crt"), file("reader.crt"), file("reader.key"));
    format!("curl --cacert {ca} --cert {certificate} --key {key} {}{path}", server.endpoint().url())
}

/// The certificate of who may read everything, and the authority that servers' certificates are of (DER).
pub(crate) fn reader() -> Result<(&'static Identity, Vec<u8>)> {
    let shared = shared()?;
    Ok((&shared.reader, shared.authority.der()))
}

fn shared() -> Result<&'static Shared> {
    static SHARED: OnceLock<Result<Shared, String>> = OnceLock::new();
    let create = || {
        let authority = Authority::create("tests")?;
        let (server, reader) = (authority.server()?, authority.client("tests", Some("system:masters"))?);
        anyhow::Ok(Shared { authority, server, reader })
    };
    SHARED.get_or_init(|| create().map_err(|error| format!("{error:#}"))).as_ref().map_err(|error| anyhow!("{error}"))
}
