//! What is served, and to whom.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::boolean::go_bool;
use super::duration::go_duration;
use super::tls::{CipherSuite, Curve, TlsVersion};

/// Where kube-controller-manager listens, and this program unless it is told otherwise.
pub(crate) const DEFAULT_PORT: u16 = 10257;

/// What is served (upstream apiserver `pkg/server/options/serving.go`).
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Serving")]
pub(crate) struct ServingOptions {
    /// Address to listen on; 0.0.0.0 or :: is every interface.
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub(crate) bind_address: IpAddr,

    /// Port for HTTPS with authentication and authorization; 0 serves nothing.
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    pub(crate) secure_port: u16,

    /// Folder with kube-controller-manager.crt and .key; made there if they are missing. Ignored if --tls-cert-file is given.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cert_dir: Option<PathBuf>,

    /// Certificate to serve with, followed by its chain; read again when it changes. Default: a self-signed one, in memory.
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// The private key of --tls-cert-file.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub(crate) tls_private_key_file: Option<PathBuf>,

    /// One more certificate: CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,NAME…, for clients that ask for one of its names, or of those given
    /// here; *.NAME is any host in a domain, an IP is an address that is listened on. May be repeated.
    #[arg(long, value_name = "FILES[:NAMES]", action = clap::ArgAction::Append)]
    pub(crate) tls_sni_cert_key: Vec<NamedPair>,

    /// The oldest TLS version that is spoken: VersionTLS12 or VersionTLS13.
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12")]
    pub(crate) tls_min_version: TlsVersion,

    /// The cipher suites of TLS 1.2, by their names in Go; those of TLS 1.3 cannot be chosen. Default: all that are safe.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) tls_cipher_suites: Vec<CipherSuite>,

    /// The key exchanges, by Go's numbers of them: 23 (P-256), 24 (P-384), 29 (X25519). Their order does not matter. Default: all of these.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) tls_curve_preferences: Vec<Curve>,

    /// How many requests a client may have under way on one HTTP/2 connection; 0 is 32.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) http2_max_streams_per_connection: u32,

    /// Bind the port with `SO_REUSEPORT`: several processes may listen on it.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) permit_port_sharing: bool,

    /// Bind the port with `SO_REUSEADDR`, so that nobody has to wait for connections of the process before to be forgotten. As in
    /// kube-controller-manager, it is bound so in any case.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) permit_address_sharing: bool,

    /// Serve HTTP/1.1 only.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) disable_http2_serving: bool,
}

/// Looking into a running process (upstream controller-manager `options/debugging.go`).
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Debugging")]
pub(crate) struct DebuggingOptions {
    /// Serve /debug/flags/v, to change the verbosity of a running process, and /debug/pprof, which says why there are no profiles.
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) profiling: bool,

    /// Profile how locks are waited for, upstream; there are no profiles here, and a warning says so.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) contention_profiling: bool,
}

/// A certificate, its key, and the names that it is for; without names, those in it (upstream component-base
/// `cli/flag/namedcertkey_flag.go`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedPair {
    /// The certificate, followed by its chain.
    pub(crate) certificate: PathBuf,
    /// Its key.
    pub(crate) key: PathBuf,
    /// Host names, domains (`*.example.com`) and addresses.
    pub(crate) names: Vec<String>,
}

/// Who is asking (upstream `pkg/server/options/authentication.go`).
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Authentication")]
pub(crate) struct AuthenticationOptions {
    /// Kubeconfig for TokenReviews and for what is looked up in the cluster. Default: the pod's service account; outside of a pod, none:
    /// then no token is known.
    #[arg(long, value_name = "FILE")]
    pub(crate) authentication_kubeconfig: Option<PathBuf>,

    /// Do not look up missing client CAs in the ConfigMap kube-system/extension-apiserver-authentication.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) authentication_skip_lookup: bool,

    /// Go on if that ConfigMap may not be read. Then everybody may seem to be anonymous.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) authentication_tolerate_lookup_failure: bool,

    /// How long the answer about a token holds.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub(crate) authentication_token_webhook_cache_ttl: Duration,

    /// CAs of client certificates: the common name is the user, the organizations are its groups.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca_file: Option<PathBuf>,

    /// CAs of the certificates of proxies that may say in headers who is asking.
    #[arg(long, value_name = "FILE")]
    pub(crate) requestheader_client_ca_file: Option<PathBuf>,

    /// Common names that such a proxy's certificate may have; none is any.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = not_blank)]
    pub(crate) requestheader_allowed_names: Vec<String>,

    /// Headers with the user's name; the first that is there counts.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "x-remote-user", value_parser = not_blank)]
    pub(crate) requestheader_username_headers: Vec<String>,

    /// Headers with the user's UID.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = not_blank)]
    pub(crate) requestheader_uid_headers: Vec<String>,

    /// Headers with the user's groups.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "x-remote-group", value_parser = not_blank)]
    pub(crate) requestheader_group_headers: Vec<String>,

    /// Prefixes of headers with whatever else is known of the user.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "x-remote-extra-", value_parser = not_blank)]
    pub(crate) requestheader_extra_headers_prefix: Vec<String>,
}

/// Who may read what (upstream `pkg/server/options/authorization.go`).
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Authorization")]
#[expect(clippy::struct_field_names, reason = "they are the flags' names")]
pub(crate) struct AuthorizationOptions {
    /// Kubeconfig for SubjectAccessReviews. Default: the pod's service account; outside of a pod, none: then only system:masters and
    /// --authorization-always-allow-paths are let in.
    #[arg(long, value_name = "FILE")]
    pub(crate) authorization_kubeconfig: Option<PathBuf>,

    /// How long an answer holds that allows.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub(crate) authorization_webhook_cache_authorized_ttl: Duration,

    /// How long an answer holds that does not allow.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub(crate) authorization_webhook_cache_unauthorized_ttl: Duration,

    /// Paths that anybody may read; one that ends in * is a prefix.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "/healthz,/readyz,/livez", value_parser = path)]
    pub(crate) authorization_always_allow_paths: Vec<String>,
}

impl FromStr for NamedPair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (files, names) = text.split_once(':').map_or((text, None), |(files, names)| (files, Some(names.trim())));
        if names == Some("") {
            return Err("empty names list is not allowed".to_owned());
        }
        let files: Vec<_> = files.split(',').map(str::trim).collect();
        let [certificate, key] = files.as_slice() else {
            return Err("expected comma separated certificate and key file paths".to_owned());
        };
        let names = names.into_iter().flat_map(|names| names.split(',')).map(|name| name.trim().to_owned()).collect();
        Ok(Self { certificate: certificate.into(), key: key.into(), names })
    }
}

/// Upstream `checkForWhiteSpaceOnly`.
fn not_blank(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("an empty value".to_owned()) } else { Ok(text.trim().to_owned()) }
}

/// Upstream `pkg/authorization/path/path.go` `NewAuthorizer`.
fn path(text: &str) -> Result<String, String> {
    let inner = text.strip_suffix('*').unwrap_or(text);
    if inner.contains('*') { Err("only a trailing * is allowed".to_owned()) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_pairs_are_read_as_upstreams() {
        let pair = |text: &str| text.parse::<NamedPair>().map(|pair| (pair.certificate, pair.key, pair.names.join(" ")));
        assert_eq!(pair("a.crt,a.key"), Ok(("a.crt".into(), "a.key".into(), String::new())));
        assert_eq!(pair(" a.crt , a.key : *.foo.com, ::1"), Ok(("a.crt".into(), "a.key".into(), "*.foo.com ::1".to_owned())));
        for text in ["a.crt", "a.crt,a.key,b.key", "a.crt,a.key:", ""] {
            pair(text).unwrap_err();
        }
    }
}
