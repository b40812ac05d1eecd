//! What can go wrong while the machinery is being set up. What goes wrong with a single request is a
//! [`CallError`](crate::client::CallError).

use std::io;
use std::path::PathBuf;

/// Why the machinery could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Credentials or certificates of the client's configuration cannot be used.
    #[error("setting up the connection to the API server failed")]
    Connection(#[source] Box<kube::Error>),
    /// Nothing says which certificate authority the API server's certificate must be of, and the system has none.
    #[error("certificate-authority is not set, and this system trusts no certificate authority")]
    Authorities(#[source] Box<kube::Error>),
    /// The file with the token cannot be read, or has none.
    #[error("tokenFile {} cannot be used", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `tls-server-name` is no host name.
    #[error("tls-server-name {0:?} is not a host name")]
    ServerName(String),
    /// A proxy is asked for; this client has none.
    #[error("proxy-url is set to {0}, but this client cannot use a proxy")]
    Proxy(http::Uri),
    /// The User-Agent has characters that a header cannot carry.
    #[error("user agent {0:?} cannot be sent as a header")]
    UserAgent(String),
    /// A metric could not be registered.
    #[error("registering metrics failed")]
    Metrics(#[from] prometheus::Error),
}

// === impl Error ===

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Connection(Box::new(error))
    }
}
