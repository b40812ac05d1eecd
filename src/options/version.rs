//! `--version` (upstream component-base `version/verflag`).

use std::fmt;
use std::str::FromStr;

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
        match text {
            "raw" => Ok(Self::Raw),
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Self::Short),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Self::No),
            _ if text.starts_with('v') => Err("the version that is reported cannot be set here".to_owned()),
            _ => Err("true, false or raw".to_owned()),
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
                format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
            ),
        }
    }
}
