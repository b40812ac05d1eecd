//! What is logged, and how (upstream component-base `logs/api/v1/options.go`).

use std::str::FromStr;
use std::time::Duration;

use clap::Args;

use super::boolean::go_bool;
use super::duration::go_duration;
use crate::gates::{FeatureGates, LOGGING_ALPHA_OPTIONS, LOGGING_BETA_OPTIONS, Release};

/// What is logged, and how.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logs")]
pub(crate) struct LoggingOptions {
    /// Log lines: text or json. The gate `LoggingBetaOptions` guards json.
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    pub(crate) logging_format: String,

    /// Verbosity, as in klog: 2 adds syncs and their steps, 4 what the libraries say, 6 and above everything.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i64::from(MAX_LEVEL)))]
    pub(crate) verbosity: u32,

    /// Verbosity of single source files, by their names without .rs; * and ? stand for what is not known of a name. Text format only.
    #[arg(long, value_name = "FILE=LEVEL,...")]
    pub(crate) vmodule: Vec<ModuleLevels>,

    /// How often what is buffered of log lines is written.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = go_duration)]
    pub(crate) log_flush_frequency: Duration,

    /// Text format: warnings and errors go to standard error, the rest to standard output. Needs the gate `LoggingAlphaOptions`.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) log_text_split_stream: bool,

    /// So many bytes of what goes to standard output may wait to be written: 512, 64k, 64Ki, 1M, 1Mi; 0 is none. Needs the gate
    /// `LoggingAlphaOptions`.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    pub(crate) log_text_info_buffer_size: usize,

    /// JSON format: errors go to standard error, the rest to standard output. Needs the gate `LoggingAlphaOptions`.
    #[arg(long, value_name = "BOOL", default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, action = clap::ArgAction::Set)]
    pub(crate) log_json_split_stream: bool,

    /// As --log-text-info-buffer-size, of the JSON format.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    pub(crate) log_json_info_buffer_size: usize,
}

/// One value of `--vmodule`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModuleLevels(pub(crate) Vec<ModuleLevel>);

/// The verbosity of some source files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModuleLevel {
    /// What their names are like.
    pub(crate) pattern: String,
    pub(crate) verbosity: u32,
}

/// klog's levels are signed, but never negative.
const MAX_LEVEL: u32 = i32::MAX as u32;

/// Upstream's limit of a buffer.
const MAX_BUFFER: u64 = 2 << 30;

/// A number of bytes (apimachinery `resource.Quantity`, without fractions).
fn size(text: &str) -> Result<usize, String> {
    const UNITS: &[(&str, u64)] =
        &[("", 1), ("k", 1000), ("M", 1_000_000), ("G", 1_000_000_000), ("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor);
    match (number.parse::<u64>(), factor) {
        (Ok(number), Some(factor)) => Ok(number.saturating_mul(*factor).min(MAX_BUFFER) as usize),
        _ => Err(format!("{text:?} is not a size such as 512, 64k, 64Ki, 1M or 1Mi")),
    }
}

impl FromStr for ModuleLevels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |item: &str| {
            let (pattern, level) =
                item.split_once('=').filter(|(pattern, _)| !pattern.is_empty() && !pattern.contains(['[', ']', '\\']))?;
            let verbosity = level.parse().ok().filter(|level| *level <= MAX_LEVEL)?;
            Some(ModuleLevel { pattern: pattern.to_owned(), verbosity })
        };
        // What follows a trailing comma is nothing.
        let items = text.split(',').filter(|item| !item.is_empty());
        items
            .map(|item| one(item).ok_or_else(|| format!("{item:?} does not have the pattern=N format")))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

// === impl LoggingOptions ===

impl LoggingOptions {
    /// The verbosity of single files, first come, first served.
    pub(crate) fn modules(&self) -> Vec<ModuleLevel> {
        self.vmodule.iter().flat_map(|levels| levels.0.clone()).collect()
    }

    /// Upstream `Validate`. The gates' defaults do not follow the server's release.
    ///
    /// # Errors
    /// A sentence that names the flag.
    pub(crate) fn validate(&self, gates: &FeatureGates) -> Result<(), String> {
        let enabled = |gate| gates.enabled(gate, Release::BASELINE);
        if self.log_flush_frequency.is_zero() {
            return Err("--log-flush-frequency: must be greater than zero".to_owned());
        }
        if self.logging_format == "json" && !enabled(LOGGING_BETA_OPTIONS) {
            return Err(format!("--logging-format: json is disabled, see the feature gate {LOGGING_BETA_OPTIONS}"));
        }
        if self.logging_format != "text" && !self.modules().is_empty() {
            return Err("--vmodule: only supported for --logging-format=text".to_owned());
        }
        let alpha = [
            ("--log-text-split-stream", self.log_text_split_stream),
            ("--log-text-info-buffer-size", self.log_text_info_buffer_size != 0),
            ("--log-json-split-stream", self.log_json_split_stream),
            ("--log-json-info-buffer-size", self.log_json_info_buffer_size != 0),
        ];
        match alpha.iter().find(|(_, given)| *given && !enabled(LOGGING_ALPHA_OPTIONS)) {
            Some((flag, _)) => Err(format!("{flag}: needs --feature-gates={LOGGING_ALPHA_OPTIONS}=true")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_quantities() {
        for (text, bytes) in [("0", 0), ("512", 512), ("64k", 64_000), ("64Ki", 65_536), ("1Mi", 1 << 20), ("9999Gi", 2 << 30)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "-1", "1.5k", "1K", "1 k", "99999999999999999999"] {
            size(text).unwrap_err();
        }
    }

    #[test]
    fn module_levels_are_read_as_klogs() {
        let ModuleLevels(levels) = "reflector=4,go_*=2,".parse().unwrap();
        let levels: Vec<_> = levels.iter().map(|level| (&*level.pattern, level.verbosity)).collect();
        assert_eq!(levels, [("reflector", 4), ("go_*", 2)]);
        for text in ["reflector", "=4", "[r]eflector=4", "reflector=", "reflector=-1", "reflector=4=5"] {
            text.parse::<ModuleLevels>().unwrap_err();
        }
    }
}
