//! TLS versions and cipher suites by their names in Go (upstream component-base `cli/flag/ciphersuites_flag.go`).

use std::str::FromStr;

/// The oldest version that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsVersion {
    /// 1.2.
    V12,
    /// 1.3.
    V13,
}

/// A cipher suite that can be had here, by its IANA name, which rustls uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CipherSuite(pub(crate) &'static str);

/// A key exchange that can be had here, by Go's number of it (`crypto/tls` `CurveID`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    /// 23.
    P256,
    /// 24.
    P384,
    /// 29.
    X25519,
}

/// Go's names of what rustls has, and rustls' own.
const KNOWN: &[(&str, &str)] = &[
    ("TLS_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256"),
    ("TLS_AES_256_GCM_SHA384", "TLS13_AES_256_GCM_SHA384"),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS13_CHACHA20_POLY1305_SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];

/// What Go has and rustls never will: no forward secrecy, CBC, RC4 or 3DES.
const WEAK: &[&str] = &[
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "VersionTLS12" => Ok(Self::V12),
            "VersionTLS13" => Ok(Self::V13),
            "VersionTLS10" | "VersionTLS11" => Err(format!("{text} is broken and not spoken here; the oldest is VersionTLS12")),
            _ => Err(format!("unknown tls version {text:?}: VersionTLS12 or VersionTLS13")),
        }
    }
}

impl FromStr for Curve {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "23" => Ok(Self::P256),
            "24" => Ok(Self::P384),
            "29" => Ok(Self::X25519),
            "25" | "4587" | "4588" | "4589" => Err(format!("key exchange {text} is not available here: 23, 24 or 29")),
            _ => Err(format!("{text:?} is no key exchange of Go's: 23, 24 or 29")),
        }
    }
}

impl FromStr for CipherSuite {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, name)) = KNOWN.iter().find(|(name, _)| *name == text) {
            return Ok(Self(name));
        }
        if WEAK.contains(&text) {
            return Err(format!("cipher suite {text} is weak and not available here; name some of ECDHE with GCM or CHACHA20"));
        }
        Err(format!("cipher suite {text} not supported or doesn't exist"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_refused_by_name() {
        assert_eq!("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305".parse(), Ok(CipherSuite("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256")));
        for (text, says) in [("TLS_RSA_WITH_AES_128_CBC_SHA", "weak"), ("TLS_NULL", "TLS_NULL not supported")] {
            let error = text.parse::<CipherSuite>().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        for (text, says) in [("VersionTLS11", "VersionTLS11 is broken"), ("1.2", "unknown tls version")] {
            let error = text.parse::<TlsVersion>().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!("29".parse(), Ok(Curve::X25519));
        for (text, says) in [("4588", "4588 is not available"), ("x", "no key exchange")] {
            let error = text.parse::<Curve>().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
