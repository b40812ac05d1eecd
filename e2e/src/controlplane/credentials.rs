//! Certificates, tokens and kubeconfigs of one control plane.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use serde_json::json;

/// Who talks to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// May do everything.
    Admin,
    /// What `workloads-controller-manager` runs as, with only the rights that it needs.
    ServiceAccount,
}

/// The user name of [`User::ServiceAccount`], as audit logs have it.
pub const SERVICE_ACCOUNT_USER: &str = "system:serviceaccount:kube-system:workloads-controller-manager";

/// The user name of [`User::Admin`].
pub const ADMIN_USER: &str = "admin";

/// What a control plane is told of beyond its own: users, and where its servers are.
#[derive(Debug, Clone, Default)]
pub(super) struct More {
    /// Names and groups.
    pub(super) users: Vec<(String, String)>,
    /// In the servers' certificate, beside loopback's.
    pub(super) addresses: Vec<IpAddr>,
}

/// Everything secret, as files in one folder.
#[derive(Debug)]
pub(super) struct Credentials {
    folder: PathBuf,
    ca: Vec<u8>,
    admin: String,
    service_account: String,
    /// Names and tokens.
    more: Vec<(String, String)>,
}

impl Credentials {
    /// Makes all of it. One authority signs the server certificate, which all servers share, and is trusted for client certificates.
    pub(super) fn create(folder: &Path, more: &More) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let ca = authority()?;
        let (certificate, key) = server_certificate(&ca, &more.addresses)?;
        let tokens = KeyPair::generate()?;
        let this = Self {
            folder: folder.to_owned(),
            ca: ca.der().to_vec(),
            admin: token(),
            service_account: token(),
            more: more.users.iter().map(|(name, _)| (name.clone(), token())).collect(),
        };
        let mut users = vec![
            format!("{},{ADMIN_USER},admin,system:masters", this.admin),
            format!(
                "{},{SERVICE_ACCOUNT_USER},workloads-controller-manager,\"system:serviceaccounts,system:serviceaccounts:kube-system\"",
                this.service_account
            ),
        ];
        users.extend(this.more.iter().zip(&more.users).map(|((name, token), (_, group))| format!("{token},{name},{name},{group}")));
        let files = [
            ("ca.crt", ca.pem()),
            ("ca.key", ca.key().serialize_pem()),
            ("server.crt", certificate),
            ("server.key", key),
            ("service-account.key", tokens.serialize_pem()),
            ("service-account.pub", tokens.public_key_pem()),
            ("users.csv", users.join("\n")),
        ];
        for (name, text) in files {
            fs::write(folder.join(name), text).with_context(|| format!("write {name}"))?;
        }
        Ok(this)
    }

    /// One of the files.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The authority's certificate (DER).
    pub(super) fn ca(&self) -> &[u8] {
        &self.ca
    }

    /// The user's bearer token.
    pub(super) fn token(&self, user: User) -> &str {
        match user {
            User::Admin => &self.admin,
            User::ServiceAccount => &self.service_account,
        }
    }

    /// Writes a kubeconfig for `user` at the server `url`.
    pub(super) fn write_kubeconfig(&self, user: User, url: &str, file: &Path) -> Result<()> {
        self.write(self.token(user), url, file)
    }

    /// The same for one of the users that were asked for.
    pub(super) fn write_kubeconfig_of(&self, name: &str, url: &str, file: &Path) -> Result<()> {
        let user = self.more.iter().find(|(known, _)| known == name);
        self.write(&user.with_context(|| format!("no user {name}"))?.1, url, file)
    }

    fn write(&self, token: &str, url: &str, file: &Path) -> Result<()> {
        // JSON is YAML.
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": self.file("ca.crt")}}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
            "current-context": "test",
        });
        fs::write(file, format!("{kubeconfig:#}\n")).with_context(|| format!("write {}", file.display()))
    }
}

fn token() -> String {
    format!("{:032x}", fastrand::u128(..))
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "test control plane");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?).context("certificate authority")
}

/// Certificate and key, PEM, for any server on loopback and at these addresses.
fn server_certificate(ca: &CertifiedIssuer<'static, KeyPair>, addresses: &[IpAddr]) -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    let names = ["localhost", "kubernetes.default.svc"].map(str::to_owned);
    let mut params = CertificateParams::new(names)?;
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    params.subject_alt_names.extend([loopback].iter().chain(addresses).map(|address| SanType::IpAddress(*address)));
    params.distinguished_name.push(DnType::CommonName, "server");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.signed_by(&key, ca).context("server certificate")?;
    Ok((certificate.pem(), key.serialize_pem()))
}
