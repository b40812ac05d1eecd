//! Kubernetes events about what the controllers do (upstream `client-go/tools/record`).
//!
//! [`EventRecorder::record`] never waits: it puts the event into a queue, and drops it if that is full. One task ([`EventSink`]) decides
//! what is written ([`Correlator`]) and writes it through an [`EventWriter`], one event after the other.

mod api;
mod body;
pub mod correlator;
mod lru;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use model::plan::{ApiError, Event, ObjectRef};
use prometheus::{IntCounter, Opts, Registry};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use api::ApiWriter;
pub use correlator::{Correlated, Correlator, Occurrence};

use crate::clock::Clock;
use crate::error::Error;

/// Events that wait to be written (upstream `maxQueuedEvents`).
const MAX_QUEUED_EVENTS: usize = 1000;
/// How often an event is sent (upstream `maxTriesPerEvent`).
const MAX_TRIES: u32 = 12;
/// Between two tries (upstream `defaultSleepDuration`).
const RETRY_WAIT: Duration = Duration::from_secs(10);

/// No server is waited for longer than this between two tries, whatever it asks.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);

/// Writes events to the API server. An error without an HTTP status (`code` 0) means that there was no answer.
pub trait EventWriter: Send + Sync + 'static {
    /// Creates an event: POST of this JSON to the namespace's events.
    fn create(&self, namespace: &str, body: Vec<u8>) -> impl Future<Output = Result<(), ApiError>> + Send;
    /// Changes an event: PATCH by this strategic merge patch.
    fn patch(&self, namespace: &str, name: &str, body: Vec<u8>) -> impl Future<Output = Result<(), ApiError>> + Send;
}

/// Takes events of one source; cheap to clone.
#[derive(Clone)]
pub struct EventRecorder {
    queue: mpsc::Sender<Occurrence>,
    clock: Clock,
    dropped: IntCounter,
}

/// The task behind an [`EventRecorder`].
pub struct EventSink<W> {
    component: &'static str,
    queue: mpsc::Receiver<Occurrence>,
    correlator: Correlator,
    clock: Clock,
    writer: W,
}

/// A recorder for one event source (`replicaset-controller`), and the task that must be run for it.
pub fn recorder<W: EventWriter>(
    component: &'static str,
    writer: W,
    clock: Clock,
    registry: &Registry,
) -> Result<(EventRecorder, EventSink<W>), Error> {
    let opts = Opts::new("events_dropped_total", "Total number of events dropped because too many waited to be written")
        .const_label("component", component);
    let dropped = IntCounter::with_opts(opts)?;
    registry.register(Box::new(dropped.clone()))?;
    let (sender, queue) = mpsc::channel(MAX_QUEUED_EVENTS);
    let recorder = EventRecorder { queue: sender, clock: clock.clone(), dropped };
    Ok((recorder, EventSink { component, queue, correlator: Correlator::default(), clock, writer }))
}

// === impl EventRecorder ===

impl EventRecorder {
    /// Reports an event about an object.
    pub fn record(&self, object: &ObjectRef, event: Event) {
        let occurrence = Occurrence { object: object.clone(), event, at: self.clock.wall() };
        if let Err(error) = self.queue.try_send(occurrence) {
            self.dropped.inc();
            let (mpsc::error::TrySendError::Full(lost) | mpsc::error::TrySendError::Closed(lost)) = error;
            tracing::debug!(object = %lost.object.key, reason = lost.event.reason, "event dropped: too many wait to be written");
        }
    }

    /// How many events were dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventRecorder").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

// === impl EventSink ===

impl<W: EventWriter> EventSink<W> {
    /// Writes events until it is told to stop, or no recorder is left. What still waits when it is told to stop is lost, as upstream.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let next = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                next = self.queue.recv() => next,
            };
            let Some(occurrence) = next else { return };
            let Some(correlated) = self.correlator.correlate(&occurrence, self.clock.wall(), self.clock.now()) else { continue };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.write(&occurrence, &correlated) => {}
            }
        }
    }

    /// Upstream `recordToSink`: only a missing answer is worth another try.
    async fn write(&self, occurrence: &Occurrence, correlated: &Correlated) {
        for tries in 1..=MAX_TRIES {
            let Err(error) = self.write_once(occurrence, correlated).await else { return };
            let (object, reason) = (&occurrence.object.key, occurrence.event.reason);
            if let Some(wait) = error.retry_after.filter(|_| error.code != 0) {
                // Upstream's client waits and repeats below the recorder (`client-go/rest/with_retry.go`); ours never repeats a write by
                // itself. The event's name is fixed: a second create could only be refused.
                tokio::time::sleep(wait.min(MAX_RETRY_AFTER)).await;
                continue;
            }
            if error.code != 0 {
                // Both are what a namespace on its way out, and a repeated POST, must be expected to say.
                if error.is_already_exists() || error.namespace_terminating {
                    tracing::debug!(%object, reason, %error, "event rejected");
                } else {
                    tracing::warn!(%object, reason, %error, "event rejected");
                }
                return;
            }
            tracing::debug!(%object, reason, %error, tries, "event could not be written");
            if tries < MAX_TRIES {
                // Spreads the clients of a server that comes back.
                let wait = if tries == 1 { RETRY_WAIT.mul_f64(fastrand::f64()) } else { RETRY_WAIT };
                tokio::time::sleep(wait).await;
            }
        }
        tracing::warn!(object = %occurrence.object.key, reason = occurrence.event.reason, "event given up: no answer from the API server");
    }

    /// Upstream `recordEvent`: a patch whose event is gone (they live for an hour) becomes a create.
    async fn write_once(&self, occurrence: &Occurrence, correlated: &Correlated) -> Result<(), ApiError> {
        let namespace = body::namespace(&occurrence.object);
        if correlated.count > 1 {
            let name = body::name(&occurrence.object, correlated.first);
            match self.writer.patch(namespace, &name, body::patch(correlated).map_err(unwritable)?).await {
                Err(error) if error.is_not_found() => {}
                result => return result,
            }
        }
        self.writer.create(namespace, body::create(self.component, occurrence, correlated).map_err(unwritable)?).await
    }
}

impl<W> fmt::Debug for EventSink<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSink").field("component", &self.component).finish_non_exhaustive()
    }
}

/// As if the server had refused it: the same bytes would be made the next time.
#[allow(clippy::needless_pass_by_value, reason = "used as a function for map_err")]
fn unwritable(error: serde_json::Error) -> ApiError {
    ApiError { code: 400, reason: "BadRequest".to_owned(), message: error.to_string(), namespace_terminating: false, retry_after: None }
}
