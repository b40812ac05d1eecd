//! Log lines: constant text with fields, on standard error unless they are to be kept apart.

mod filter;
mod klog;
mod output;

use std::io::{stderr, stdout};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tracing::Level;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, reload};

use self::filter::{Threshold, directives};
use self::klog::Klog;
use self::output::Output;
use crate::options::LoggingOptions;

/// Logging, at work. Once it is dropped, nothing waits to be written.
pub(crate) struct Logs {
    output: Output,
    verbosity: Verbosity,
}

/// Changes what is logged while the process runs. Clones change the same.
#[derive(Clone)]
pub(crate) struct Verbosity(Arc<dyn Fn(u32) -> Result<(), String> + Send + Sync>);

/// Starts logging. `RUST_LOG` overrides the verbosity, until somebody changes it.
///
/// # Errors
/// When the thread that writes what waits cannot be started.
pub(crate) fn start(options: &LoggingOptions) -> anyhow::Result<Logs> {
    let json = options.logging_format == "json";
    let output = output(options, json);
    let general = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives(options.verbosity)));
    let (threshold, handle) = reload::Layer::new(Threshold::new(general, &options.modules()));
    // The fields of spans are kept as JSON, whatever is made of them.
    let lines = tracing_subscriber::fmt::layer().fmt_fields(JsonFields::new());
    let lines = lines.event_format(if json { Klog::Json } else { Klog::Text }).with_writer(output.clone());
    Registry::default().with(lines.with_filter(threshold)).init();
    if output.is_buffered() {
        flush(output.clone(), options.log_flush_frequency)?;
    }
    let set = move |verbosity| handle.modify(|threshold| threshold.set(verbosity)).map_err(|error| error.to_string());
    Ok(Logs { output, verbosity: Verbosity(Arc::new(set)) })
}

fn output(options: &LoggingOptions, json: bool) -> Output {
    // Upstream's text format keeps what is no information apart, its JSON what is an error.
    let (split, size, error) = if json {
        (options.log_json_split_stream, options.log_json_info_buffer_size, Level::ERROR)
    } else {
        (options.log_text_split_stream, options.log_text_info_buffer_size, Level::WARN)
    };
    if split { Output::apart(Box::new(stderr()), Box::new(stdout()), error, size) } else { Output::together(Box::new(stderr())) }
}

/// Writes what waits from time to time, for as long as the process lives.
fn flush(output: Output, frequency: Duration) -> anyhow::Result<()> {
    let work = move || {
        loop {
            std::thread::sleep(frequency);
            output.flush();
        }
    };
    std::thread::Builder::new().name("log-flush".to_owned()).spawn(work).context("starting the thread that writes the log")?;
    Ok(())
}

// === impl Logs ===

impl Logs {
    /// Changes what is logged.
    pub(crate) fn verbosity(&self) -> Verbosity {
        self.verbosity.clone()
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.output.flush();
    }
}

// === impl Verbosity ===

impl Verbosity {
    /// From now on, as `-v` would have it.
    pub(crate) fn set(&self, verbosity: u32) -> Result<(), String> {
        (self.0)(verbosity)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    /// Keeps what is written.
    #[derive(Clone, Default)]
    pub(super) struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Sink {
        pub(super) fn text(&self) -> String {
            String::from_utf8(self.0.lock().clone()).unwrap()
        }
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Sink {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }
}
