//! Credentials that are files: once one of them has changed, requests go out over a new stack with a connection of its own, as in client-go
//! (`transport/ca_rotation.go` `tryRefreshTransportLocked`, `cert_rotation.go` `loadClientCert`, `token_source.go` `fileTokenSource`).
//!
//! What is in flight on the old connection is finished there: client-go closes it when it is a certificate that has changed, and every
//! write on it would have an unknown outcome.

use std::error::Error as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::connect::{self, Wiring};
use crate::error::Error;

/// The HTTP stack in use.
pub(super) struct Stack {
    client: RwLock<kube::Client>,
    /// Nothing, if it is the same for ever.
    files: Option<Files>,
}

/// The files that a stack was built from, and how it is built.
struct Files {
    paths: Vec<PathBuf>,
    config: Arc<kube::Config>,
    wiring: Wiring,
    every: Duration,
    seen: Mutex<Seen>,
}

/// What was found when the files were looked at last.
struct Seen {
    at: Instant,
    fingerprint: u64,
}

// === impl Stack ===

impl Stack {
    /// A stack whose files are looked at again when it is used, but not more often than `every`.
    pub(super) fn new(config: &kube::Config, wiring: Wiring, every: Duration) -> Result<Self, Error> {
        let paths = paths(config);
        // Taken before they are used: what changes in between is found at the next look.
        let fingerprint = fingerprint(&paths).unwrap_or_default();
        let client = RwLock::new(build(config, wiring)?);
        let seen = Mutex::new(Seen { at: Instant::now(), fingerprint });
        let files = Files { paths, config: Arc::new(config.clone()), wiring, every, seen };
        Ok(Self { client, files: Some(files).filter(|files| !files.paths.is_empty()) })
    }

    /// A stack that stays as it is.
    pub(super) fn fixed(client: kube::Client) -> Self {
        Self { client: RwLock::new(client), files: None }
    }

    /// What the next request is sent with.
    pub(super) async fn client(&self) -> kube::Client {
        if let Some(files) = &self.files
            && let Some(renewed) = files.renewed().await
        {
            *self.client.write() = renewed;
        }
        self.client.read().clone()
    }
}

// === impl Files ===

impl Files {
    /// A new stack, if it is time to look and the files are others than before.
    async fn renewed(&self) -> Option<kube::Client> {
        // Who looks already is not waited for.
        let mut seen = self.seen.try_lock().ok()?;
        if seen.at.elapsed() < self.every {
            return None;
        }
        seen.at = Instant::now();
        // A file that is missing or empty is being replaced, or was meant to be read once (kubernetes/kubernetes#68164).
        let fingerprint = fingerprint(&self.paths).ok().filter(|fingerprint| *fingerprint != seen.fingerprint)?;
        let (config, wiring) = (Arc::clone(&self.config), self.wiring);
        // Not here: it runs the kubeconfig's exec plugin, if there is one.
        let built = tokio::task::spawn_blocking(move || build(&config, wiring)).await.ok()?;
        seen.fingerprint = fingerprint;
        match built {
            Ok(client) => {
                debug!(files = ?self.paths, "Credentials have changed; using a new connection");
                Some(client)
            }
            // A certificate and its key are not written at the same moment.
            Err(error) => {
                let error = error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
                warn!(files = ?self.paths, error, "Credentials that have changed cannot be used; the old ones stay");
                None
            }
        }
    }
}

/// A token is not left to kube, which sends a file's last line break with it, and then nothing at all.
fn build(config: &kube::Config, wiring: Wiring) -> Result<kube::Client, Error> {
    let Some(path) = &config.auth_info.token_file else { return connect::client(config, wiring) };
    let mut config = config.clone();
    config.auth_info.token = Some(match (token(path), config.auth_info.token.take()) {
        (Ok(token), _) => token.into(),
        (Err(_), Some(token)) => token,
        (Err(source), None) => return Err(Error::TokenFile { path: path.into(), source }),
    });
    connect::client(&config, wiring)
}

/// A token in a file wins over the kubeconfig's own (client-go `transport/round_trippers.go` `NewBearerAuthWithRefreshRoundTripper`).
fn token(path: &str) -> io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    let token = text.trim();
    if token.is_empty() { Err(io::Error::other("there is no token in it")) } else { Ok(token.to_owned()) }
}

/// The files that count: a kubeconfig's data, if there is any, wins over a certificate's or a key's file.
fn paths(config: &kube::Config) -> Vec<PathBuf> {
    let user = &config.auth_info;
    let file = |path: &Option<String>| path.as_ref().map(PathBuf::from);
    let certificate = file(&user.client_certificate).filter(|_| user.client_certificate_data.is_none());
    let key = file(&user.client_key).filter(|_| user.client_key_data.is_none());
    [config.root_cert_file.clone(), file(&user.token_file), certificate, key].into_iter().flatten().collect()
}

/// Of what the files hold; an error if one has nothing.
fn fingerprint(paths: &[PathBuf]) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for path in paths {
        let content = std::fs::read(path)?;
        if content.trim_ascii().is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        content.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_wins_over_files_but_for_a_token() {
        let mut config = kube::Config::new(http::Uri::from_static("https://127.0.0.1:1"));
        config.root_cert_file = Some("/ca".into());
        config.auth_info.client_certificate = Some("/crt".to_owned());
        config.auth_info.client_key = Some("/key".to_owned());
        config.auth_info.token_file = Some("/token".to_owned());
        assert_eq!(paths(&config), ["/ca", "/token", "/crt", "/key"].map(PathBuf::from));
        config.auth_info.client_certificate_data = Some(String::new());
        config.auth_info.token = Some(String::new().into());
        assert_eq!(paths(&config), ["/ca", "/token", "/key"].map(PathBuf::from));
    }
}
