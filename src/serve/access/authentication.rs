//! Who is asking: a proxy's word, a client certificate, a token, or nobody in particular, in this order (upstream apiserver
//! `pkg/authentication/authenticatorfactory/delegating.go` `New`).

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::authorities::{Authorities, Bundle, Headers};
use super::cache::Cache;
use super::headers;
use super::reviews::Reviewer;
use super::user::User;

/// Tokens whose owner is remembered.
const TOKENS: usize = 1024;

/// Finds out who is asking.
#[derive(Clone)]
pub(crate) struct Authentication {
    authorities: watch::Receiver<Arc<Authorities>>,
    provider: Arc<CryptoProvider>,
    tokens: Option<Tokens>,
}

/// Asks whose a token is. Tokens are remembered as hashes with a secret of this process: none stays in memory.
#[derive(Clone)]
struct Tokens {
    reviewer: Reviewer,
    cache: Cache<[u8; 32], Option<Arc<User>>>,
    secret: [u8; 32],
    ttl: Duration,
}

/// Who it is; `None` if this way tells nothing. An error counts if no other way finds somebody.
type Found = Result<Option<User>, String>;

// === impl Authentication ===

impl Authentication {
    /// Without a reviewer no token is known.
    pub(crate) fn new(
        authorities: watch::Receiver<Arc<Authorities>>,
        provider: Arc<CryptoProvider>,
        reviewer: Option<Reviewer>,
        ttl: Duration,
    ) -> anyhow::Result<Self> {
        let mut secret = [0; 32];
        provider.secure_random.fill(&mut secret).map_err(|_| anyhow::anyhow!("the system has no randomness"))?;
        let tokens = reviewer.map(|reviewer| Tokens { reviewer, cache: Cache::new(TOKENS), secret, ttl });
        Ok(Self { authorities, provider, tokens })
    }

    /// Who is asking; an error is why that cannot be told.
    pub(crate) async fn user(&self, request: &HeaderMap, certificates: &[CertificateDer<'static>]) -> Result<User, String> {
        let authorities = Arc::clone(&self.authorities.borrow());
        let mut errors = Vec::new();
        let mut found = None;
        if !certificates.is_empty() {
            if let Some((bundle, headers)) = &authorities.proxy {
                settle(self.proxied(request, certificates, bundle, headers), &mut found, &mut errors);
            }
            if found.is_none()
                && let Some(bundle) = &authorities.client
            {
                settle(self.certified(certificates, bundle), &mut found, &mut errors);
            }
        }
        if found.is_none()
            && let (Some(tokens), Some(token)) = (&self.tokens, bearer(request))
        {
            settle(tokens.owner(token).await, &mut found, &mut errors);
        }
        match found {
            Some(user) => Ok(user.authenticated()),
            None if errors.is_empty() => Ok(User::anonymous()),
            None => Err(errors.join("; ")),
        }
    }

    /// Upstream `x509.Verifier` around the headers.
    fn proxied(&self, request: &HeaderMap, certificates: &[CertificateDer<'static>], bundle: &Bundle, names: &Headers) -> Found {
        let subject = bundle.verify(certificates, &self.provider)?;
        if !names.allowed_names.is_empty() && !names.allowed_names.contains(&subject.common_name) {
            return Err(format!("a proxy's certificate is of {:?}, who is not in the allowed list", subject.common_name));
        }
        Ok(headers::user(request, names))
    }

    /// Upstream `x509.CommonNameUserConversion`.
    fn certified(&self, certificates: &[CertificateDer<'static>], bundle: &Bundle) -> Found {
        let subject = bundle.verify(certificates, &self.provider)?;
        if subject.common_name.is_empty() {
            return Ok(None);
        }
        let uid = match subject.uids.as_slice() {
            [] => String::new(),
            [uid] if !uid.is_empty() => uid.clone(),
            _ => return Err("a client certificate must have one UID, or none".to_owned()),
        };
        let credential = certificates.first().map(|certificate| format!("X509SHA256={}", hex(&Sha256::digest(certificate))));
        let extra = credential.map(|id| ("authentication.kubernetes.io/credential-id".to_owned(), vec![id])).into_iter().collect();
        Ok(Some(User { name: subject.common_name, uid, groups: subject.organizations, extra }))
    }
}

fn settle(outcome: Found, found: &mut Option<User>, errors: &mut Vec<String>) {
    match outcome {
        Ok(user) => *found = user,
        Err(error) => errors.push(error),
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |digit: u8| char::from_digit(digit.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The token, if there is one (upstream `pkg/authentication/request/bearertoken/bearertoken.go`).
fn bearer(request: &HeaderMap) -> Option<&str> {
    let mut parts = request.get(AUTHORIZATION)?.to_str().ok()?.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    parts.next().filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

// === impl Tokens ===

impl Tokens {
    /// Upstream `pkg/authentication/token/cache/cached_token_authenticator.go`.
    async fn owner(&self, token: &str) -> Found {
        let key: [u8; 32] = Sha256::new().chain_update(self.secret).chain_update(token).finalize().into();
        let (reviewer, asked, ttl) = (self.reviewer.clone(), token.to_owned(), self.ttl);
        let ask = move || async move { Ok(reviewer.token(&asked).await?.map(Arc::new)) };
        match self.cache.get(key, ask, move |_| ttl).await? {
            Some(user) => Ok(Some(User::clone(&user))),
            None => Err("invalid bearer token".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_upstream_reads_them() {
        for (header, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc more", Some("abc")),
            ("  BEARER abc ", Some("abc")),
            ("Bearer  abc", None),
            ("Bearer", None),
            ("Basic abc", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, header.parse().unwrap());
            assert_eq!(bearer(&headers), token, "{header:?}");
        }
    }
}
