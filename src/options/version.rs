//! `--version` (upstream component-base `version/verflag`).

use std::fmt;
use std::str::FromStr;

use super::boolean::go_bool;
use crate::gates::Release;

/// What to print of the version instead of doing anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// Nothing.
    No,
    /// Name and version.
    Short,
    /// All that is known of the build.
    Raw,
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match go_bool(text) {
            _ if text == "raw" => Ok(Self::Raw),
            _ if text.starts_with('v') => Err("the version that is reported cannot be set here".to_owned()),
            Ok(true) => Ok(Self::Short),
            Ok(false) => Ok(Self::No),
            Err(error) => Err(format!("{error}, nor raw")),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        match self {
            Self::No => Ok(()),
            Self::Short => write!(f, "{name} {version}"),
            // As Go prints upstream's `version.Info`: what reads one reads the other. Git and the time of the build are not known.
            Self::Raw => write!(
                f,
                "version.Info{{Major:{:?}, Minor:{:?}, EmulationMajor:\"1\", EmulationMinor:{:?}, GitVersion:{:?}, Compiler:\"rustc\", \
                 RustVersion:{:?}, Platform:{:?}}}",
                env!("CARGO_PKG_VERSION_MAJOR"),
                env!("CARGO_PKG_VERSION_MINOR"),
                Release::BASELINE.to_string().trim_start_matches("1."),
                format!("v{version}"),
                env!("CARGO_PKG_RUST_VERSION"),
                format!("{}/{}", std::env::consts::OS, architecture()),
            ),
        }
    }
}

/// By Go's names.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
