//! Where lines go: all to standard error, or apart by severity, those without an error buffered (upstream component-base
//! `logs/api/v1/text.go` `klogMsgRouter`, `bufferedWriter`).

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// A destination.
type Out = Box<dyn Write + Send>;

/// Where lines go. Clones go to the same.
#[derive(Clone)]
pub(super) struct Output(Arc<Streams>);

struct Streams {
    errors: Mutex<Out>,
    /// Standard output, if lines are kept apart.
    infos: Option<Mutex<Buffer>>,
    /// The least severe level whose lines are errors.
    error: Level,
}

/// Whole lines that wait to be written.
struct Buffer {
    out: Out,
    waiting: Vec<u8>,
    limit: usize,
}

/// Writes one line.
pub(super) struct Line<'a> {
    streams: &'a Streams,
    error: bool,
}

// === impl Output ===

impl Output {
    /// Everything to one stream.
    pub(super) fn together(out: Out) -> Self {
        Self(Arc::new(Streams { errors: Mutex::new(out), infos: None, error: Level::TRACE }))
    }

    /// Lines at `error` and above to one stream, the others to another, of which so many bytes may wait.
    pub(super) fn apart(errors: Out, infos: Out, error: Level, limit: usize) -> Self {
        let infos = Mutex::new(Buffer { out: infos, waiting: Vec::new(), limit });
        Self(Arc::new(Streams { errors: Mutex::new(errors), infos: Some(infos), error }))
    }

    /// Whether anything ever waits.
    pub(super) fn is_buffered(&self) -> bool {
        self.0.infos.as_ref().is_some_and(|infos| infos.lock().limit > 0)
    }

    /// Writes what waits.
    pub(super) fn flush(&self) {
        self.0.flush();
    }
}

impl<'a> MakeWriter<'a> for Output {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { streams: &self.0, error: true }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        Line { streams: &self.0, error: *metadata.level() <= self.0.error }
    }
}

// === impl Streams ===

impl Streams {
    /// Nobody could be told if that failed.
    fn flush(&self) {
        if let Some(infos) = &self.infos {
            let _ = infos.lock().flush();
        }
    }
}

// === impl Buffer ===

impl Buffer {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        // No line is written in parts.
        if self.waiting.len() + line.len() > self.limit {
            self.flush()?;
        }
        if line.len() > self.limit {
            self.out.write_all(line)?;
            return self.out.flush();
        }
        self.waiting.extend_from_slice(line);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.waiting).and_then(|()| self.out.flush());
        // What cannot be written is lost, or it would grow for ever.
        self.waiting.clear();
        written
    }
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match &self.streams.infos {
            Some(infos) if !self.error => infos.lock().write(line)?,
            _ => {
                // What led to an error comes before it, also if it is the last that is said.
                self.streams.flush();
                self.streams.errors.lock().write_all(line)?;
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::tests::Sink;

    fn apart(limit: usize) -> (Output, Sink, Sink) {
        let (errors, infos) = (Sink::default(), Sink::default());
        (Output::apart(Box::new(errors.clone()), Box::new(infos.clone()), Level::WARN, limit), errors, infos)
    }

    fn line(output: &Output, error: bool, text: &str) {
        Line { streams: &output.0, error }.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn without_a_buffer_nothing_waits() {
        let (output, errors, infos) = apart(0);
        assert!(!output.is_buffered());
        line(&output, false, "one\n");
        assert_eq!(infos.text(), "one\n");
        line(&output, true, "two\n");
        assert_eq!((errors.text(), infos.text()), ("two\n".to_owned(), "one\n".to_owned()));
    }

    #[test]
    fn a_buffer_is_written_when_it_is_full_or_something_goes_wrong() {
        let (output, errors, infos) = apart(10);
        line(&output, false, "12345\n");
        assert_eq!(infos.text(), "");
        line(&output, false, "67890\n");
        assert_eq!(infos.text(), "12345\n", "the second did not fit");
        line(&output, false, "longer than all\n");
        assert_eq!(infos.text(), "12345\n67890\nlonger than all\n");
        line(&output, false, "abc\n");
        line(&output, true, "wrong\n");
        assert_eq!((errors.text(), infos.text().ends_with("abc\n")), ("wrong\n".to_owned(), true));
        line(&output, false, "d\n");
        output.flush();
        assert!(infos.text().ends_with("d\n"));
    }
}
