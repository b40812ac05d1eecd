//! Log lines as klog writes them (upstream `k8s.io/klog/v2` `Infos`, `component-base/logs/json`), so that what reads
//! kube-controller-manager's logs reads these.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Klog {
    /// `I1130 22:26:17.000000       1 app.rs:79] "Caches synced" resource="pods"`.
    Text,
    /// `{"ts":1764541577000.123,"caller":"app.rs:79","msg":"Caches synced","v":0,"resource":"pods"}`.
    Json,
}

/// What a line says besides its head.
#[derive(Debug, Default)]
struct Line {
    message: String,
    fields: Map<String, Value>,
}

// === impl Klog ===

impl<S, N> FormatEvent<S, N> for Klog
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = Line::default();
        // What is said of the object that is worked on comes first.
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(fields) = span.extensions().get::<FormattedFields<JsonFields>>() {
                line.fields.extend(serde_json::from_str::<Map<_, _>>(fields).unwrap_or_default());
            }
        }
        event.record(&mut line);
        let metadata = event.metadata();
        let file = metadata.file().and_then(|path| path.rsplit('/').next()).unwrap_or("unknown");
        let caller = format!("{file}:{}", metadata.line().unwrap_or(1));
        let now = jiff::Timestamp::now();
        match self {
            Self::Text => line.text(&mut writer, *metadata.level(), &caller, now),
            Self::Json => line.json(&mut writer, *metadata.level(), &caller, now),
        }
    }
}

// === impl Line ===

impl Line {
    fn text(&self, writer: &mut Writer<'_>, level: Level, caller: &str, now: jiff::Timestamp) -> fmt::Result {
        let severity = match level {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            _ => 'I',
        };
        let time = now.strftime("%m%d %H:%M:%S%.6f");
        write!(writer, "{severity}{time} {:>7} {caller}] {:?}", std::process::id(), self.message)?;
        for (key, value) in &self.fields {
            write!(writer, " {key}={value}")?;
        }
        writeln!(writer)
    }

    fn json(mut self, writer: &mut Writer<'_>, level: Level, caller: &str, now: jiff::Timestamp) -> fmt::Result {
        let verbosity = match level {
            Level::ERROR => None,
            Level::WARN | Level::INFO => Some(0),
            Level::DEBUG => Some(2),
            Level::TRACE => Some(6),
        };
        // Milliseconds, with fractions.
        let millis = now.as_microsecond() as f64 / 1000.0;
        let mut text = format!("{{\"ts\":{},\"caller\":{},\"msg\":{}", Value::from(millis), Value::from(caller), Value::from(self.message));
        match verbosity {
            Some(verbosity) => write!(text, ",\"v\":{verbosity}")?,
            None => write!(text, ",\"err\":{}", self.fields.remove("err").unwrap_or_default())?,
        }
        for (key, value) in &self.fields {
            write!(text, ",{}:{value}", Value::from(key.as_str()))?;
        }
        writeln!(writer, "{text}}}")
    }

    fn put(&mut self, field: &Field, value: Value) {
        // The name that upstream's lines have.
        let key = if field.name() == "error" { "err" } else { field.name() };
        self.fields.insert(key.to_owned(), value);
    }
}

impl Visit for Line {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" { self.message.push_str(value) } else { self.put(field, value.into()) }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Cannot fail: it is written to memory.
            let _ = write!(self.message, "{value:?}");
        } else {
            self.put(field, format!("{value:?}").into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::tests::Sink;

    fn logged(format: Klog, log: impl FnOnce()) -> String {
        let sink = Sink::default();
        let lines = tracing_subscriber::fmt().fmt_fields(JsonFields::new()).event_format(format).with_writer(sink.clone());
        tracing::subscriber::with_default(lines.finish(), log);
        sink.text()
    }

    #[test]
    fn text_is_klogs() {
        let text = logged(Klog::Text, || tracing::warn!(error = %"a \"b\"", count = 3, done = true, "It failed"));
        let (head, said) = text.split_once("] ").unwrap();
        assert_eq!(said, "\"It failed\" count=3 done=true err=\"a \\\"b\\\"\"\n");
        let parts: Vec<_> = head.split_whitespace().collect();
        let [day, time, process, caller] = parts.as_slice() else { panic!("{head}") };
        assert!(day.starts_with('W') && day.len() == 5 && time.len() == 15 && process.parse::<u32>().is_ok(), "{head}");
        assert!(caller.starts_with("klog.rs:"), "{head}");
    }

    #[test]
    fn json_is_component_bases() {
        let text = logged(Klog::Json, || {
            let span = tracing::info_span!("sync", kind = "Deployment", name = "web");
            span.in_scope(|| tracing::info!(version = "v1.37.2", "Connected"));
            tracing::error!(error = "gone", "Ending");
        });
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [connected, ending] = lines.as_slice() else { panic!("{text}") };
        assert!(connected["ts"].as_f64().unwrap() > 1.7e12);
        assert_eq!(connected["msg"], "Connected");
        assert_eq!(connected["v"], 0);
        assert_eq!(
            (&connected["kind"], &connected["name"], &connected["version"]),
            (&"Deployment".into(), &"web".into(), &"v1.37.2".into())
        );
        assert_eq!((&ending["err"], ending.get("v"), ending.get("level")), (&"gone".into(), None, None));
    }
}
