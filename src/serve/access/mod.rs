//! Who is asking, and what they may read: delegated to the API server, as upstream's components do.

mod authentication;
mod authorities;
mod authorization;
mod cache;
mod headers;
mod reviews;
mod subject;
mod user;

use http::request::Parts;
use http::{Response, StatusCode, Version};
use rustls::pki_types::CertificateDer;
use tracing::{debug, error};

pub(crate) use authentication::Authentication;
pub(crate) use authorities::{Authorities, Bundle, Headers, ca_certificates};
pub(crate) use authorization::Authorization;
use authorization::Decision;
pub(crate) use reviews::Reviewer;

use super::answer::{self, Body};
use super::net::Peer;

/// The common name in a certificate's subject, if that can be read.
pub(crate) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    subject::Subject::of(certificate).map(|subject| subject.common_name)
}

/// Lets requests in, or says why not.
#[derive(Clone)]
pub(crate) struct Gate {
    authentication: Authentication,
    authorization: Authorization,
}

// === impl Gate ===

impl Gate {
    pub(crate) fn new(authentication: Authentication, authorization: Authorization) -> Self {
        Self { authentication, authorization }
    }

    /// An error is the answer to who is not let in (upstream filters `WithAuthentication`, `WithAuthorization`).
    pub(crate) async fn admit(&self, request: &Parts, peer: &Peer) -> Result<(), Response<Body>> {
        let user = match self.authentication.user(&request.headers, &peer.certificates).await {
            Ok(user) => user,
            Err(reason) => {
                debug!(reason, "Unable to authenticate the request");
                leave(request, peer);
                return Err(answer::refusal(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", false));
            }
        };
        if user.is_anonymous() {
            leave(request, peer);
        }
        let (verb, path) = (request.method.as_str().to_ascii_lowercase(), request.uri.path());
        match self.authorization.decide(&user, &verb, path).await {
            Decision::Allow => Ok(()),
            Decision::Forbid(reason) => {
                debug!(user = user.name, path, reason, "Forbidden");
                let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
                // Go's %q and these are the same for what can be in a path or a name that a server lets in.
                let message = format!("forbidden: {}{reason}", sanitized(&format!("User {:?} cannot {verb} path {path:?}", user.name)));
                Err(answer::refusal(StatusCode::FORBIDDEN, "Forbidden", &message, true))
            }
            Decision::Failed(reason) => {
                error!(user = user.name, path, reason, "Cannot find out whether a request is allowed");
                let asked = request.uri.path_and_query().map_or(path, http::uri::PathAndQuery::as_str);
                let message = sanitized(&format!("Internal Server Error: {asked:?}: {reason}"));
                Err(answer::error(StatusCode::INTERNAL_SERVER_ERROR, &message))
            }
        }
    }
}

fn leave(request: &Parts, peer: &Peer) {
    if request.version == Version::HTTP_2 {
        peer.say_goodbye();
    }
}

/// Nothing that looks like HTML (upstream `responsewriters.sanitizer`).
fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
