//! Which lines are logged: the verbosity of all files, and that of single ones (klog's `-v` and `-vmodule`).

use tracing::subscriber::Interest;
use tracing::{Id, Metadata, Subscriber, span};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Filter};

use crate::options::ModuleLevel;

/// What is logged.
pub(super) struct Threshold {
    general: EnvFilter,
    /// The first whose pattern is like a file's name counts for it.
    modules: Vec<(String, Targets)>,
}

/// What a level brings. Ours is logged at lower ones than that of the libraries.
pub(super) fn directives(verbosity: u32) -> &'static str {
    match verbosity {
        0 | 1 => "info",
        2 | 3 => "info,machinery=debug,workloads_controller_manager=debug",
        4 | 5 => "debug,h2=info,hyper_util=info",
        _ => "trace",
    }
}

// === impl Threshold ===

impl Threshold {
    pub(super) fn new(general: EnvFilter, modules: &[ModuleLevel]) -> Self {
        let targets = |level: &ModuleLevel| directives(level.verbosity).parse().unwrap_or_default();
        Self { general, modules: modules.iter().map(|level| (level.pattern.clone(), targets(level))).collect() }
    }

    /// From now on, in all files that have no level of their own.
    pub(super) fn set(&mut self, verbosity: u32) {
        self.general = EnvFilter::new(directives(verbosity));
    }

    fn module(&self, metadata: &Metadata<'_>) -> Option<&Targets> {
        let file = metadata.file()?.rsplit('/').next()?;
        let file = file.strip_suffix(".rs").unwrap_or(file).as_bytes();
        self.modules.iter().find(|(pattern, _)| is_like(pattern.as_bytes(), file)).map(|(_, targets)| targets)
    }
}

/// Whether a name is like a pattern: `*` stands for any text, `?` for any character.
fn is_like(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), None) => is_like(rest, name),
        (Some((b'*', rest)), Some((_, shorter))) => is_like(rest, name) || is_like(pattern, shorter),
        (Some((wanted, rest)), Some((got, shorter))) => (*wanted == b'?' || wanted == got) && is_like(rest, shorter),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

impl<S: Subscriber> Filter<S> for Threshold {
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        match self.module(metadata) {
            Some(targets) => targets.would_enable(metadata.target(), metadata.level()),
            None => Filter::<S>::enabled(&self.general, metadata, context),
        }
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.module(metadata) {
            Some(targets) if targets.would_enable(metadata.target(), metadata.level()) => Interest::always(),
            Some(_) => Interest::never(),
            None => Filter::<S>::callsite_enabled(&self.general, metadata),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        if self.modules.is_empty() {
            return Filter::<S>::max_level_hint(&self.general);
        }
        // None knows no limit.
        let modules = self.modules.iter().map(|(_, targets)| targets.iter().map(|(_, level)| level).max().unwrap_or(LevelFilter::TRACE));
        let modules = modules.max().unwrap_or(LevelFilter::OFF);
        Filter::<S>::max_level_hint(&self.general).map(|general| general.max(modules))
    }

    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &Id, context: Context<'_, S>) {
        Filter::<S>::on_new_span(&self.general, attributes, id, context);
    }

    fn on_record(&self, id: &Id, values: &span::Record<'_>, context: Context<'_, S>) {
        Filter::<S>::on_record(&self.general, id, values, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        Filter::<S>::on_enter(&self.general, id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        Filter::<S>::on_exit(&self.general, id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        Filter::<S>::on_close(&self.general, id, context);
    }
}

#[cfg(test)]
mod tests {
    use tracing::debug;
    use tracing_subscriber::fmt::format::JsonFields;
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::{Layer as _, Registry, reload};

    use super::*;
    use crate::telemetry::klog::Klog;
    use crate::telemetry::tests::Sink;

    #[test]
    fn patterns_are_globs() {
        for (pattern, name, like) in [
            ("filter", "filter", true),
            ("filter", "filters", false),
            ("f*", "filter", true),
            ("*", "", true),
            ("*t*r", "filter", true),
            ("fil??r", "filter", true),
            ("fil?r", "filter", false),
            ("*x*", "filter", false),
        ] {
            assert_eq!(is_like(pattern.as_bytes(), name.as_bytes()), like, "{pattern} {name}");
        }
    }

    #[test]
    fn a_files_own_level_wins_over_that_of_all_and_survives_its_change() {
        let lines = |patterns: &[(&str, u32)], verbosity: u32| {
            let sink = Sink::default();
            let modules: Vec<_> =
                patterns.iter().map(|(pattern, verbosity)| ModuleLevel { pattern: (*pattern).to_owned(), verbosity: *verbosity }).collect();
            let (filter, handle) = reload::Layer::new(Threshold::new(EnvFilter::new(directives(verbosity)), &modules));
            let layer = tracing_subscriber::fmt::layer().fmt_fields(JsonFields::new()).event_format(Klog::Text);
            let subscriber = Registry::default().with(layer.with_writer(sink.clone()).with_filter(filter));
            tracing::subscriber::with_default(subscriber, || {
                debug!("before");
                handle.modify(|threshold| threshold.set(4)).unwrap();
                debug!("after");
            });
            ["before", "after"].map(|text| sink.text().contains(text))
        };
        assert_eq!(lines(&[], 0), [false, true]);
        assert_eq!(lines(&[], 2), [true, true]);
        assert_eq!(lines(&[("fil*", 2)], 0), [true, true]);
        assert_eq!(lines(&[("filter", 0)], 4), [false, false]);
        assert_eq!(lines(&[("other", 0), ("filter", 4), ("filter", 0)], 0), [true, true]);
    }
}
