//! A watch on its way to the client, event by event.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::active::{Active, Gate};
use super::body::{self, Sender};
use super::frames::{Format, Frames, event};
use super::recording::{Recorded, Recording};
use super::rule::{Ending, Event, Fault, Point, WatchFault};
use super::target::Target;

/// Carries one watch.
#[derive(Debug)]
pub(super) struct Pump {
    target: Target,
    format: Format,
    frames: Frames,
    client: Sender,
    shared: Arc<Shared>,
    changes: watch::Receiver<()>,
    rules: Vec<Arc<Active>>,
    /// Rules that were asked whether they cut this watch at once.
    asked: HashSet<u64>,
    /// Rules that hold the queue back.
    stalls: Vec<Arc<Active>>,
    queue: VecDeque<Waiting>,
    /// The server's end is in the queue.
    ended: bool,
    recording: Option<Take>,
}

/// A piece on its way, and when it may go on.
#[derive(Debug)]
struct Waiting {
    due: Instant,
    piece: Piece,
}

#[derive(Debug)]
enum Piece {
    /// A whole event.
    Frame(Bytes),
    /// What was left of half an event at the server's end.
    Rest(Bytes),
    End(Ending),
}

/// A streaming list that is being recorded.
#[derive(Debug)]
struct Take {
    into: Vec<Recording>,
    path: String,
    answer: Recorded,
    bytes: BytesMut,
}

/// The client has gone, or the watch has been ended.
#[derive(Debug)]
struct Over;

// === impl Pump ===

impl Pump {
    pub(super) fn new(shared: &Arc<Shared>, target: Target, format: Format, client: Sender) -> Self {
        Self {
            target,
            format,
            frames: Frames::new(format),
            client,
            shared: Arc::clone(shared),
            changes: shared.registry.changes(),
            rules: Vec::new(),
            asked: HashSet::new(),
            stalls: Vec::new(),
            queue: VecDeque::new(),
            ended: false,
            recording: None,
        }
    }

    /// Keeps what comes until the list's end is marked.
    pub(super) fn recording(mut self, into: Vec<Recording>, path: &str, answer: Recorded) -> Self {
        if !into.is_empty() {
            self.recording = Some(Take { into, path: path.to_owned(), answer, bytes: BytesMut::new() });
        }
        self
    }

    pub(super) async fn run(mut self, mut server: Incoming) {
        let _: Result<(), Over> = self.carry(&mut server).await;
        self.unhold();
    }

    async fn carry(&mut self, server: &mut Incoming) -> Result<(), Over> {
        self.look_at_rules().await?;
        loop {
            self.flush().await?;
            let due = if self.stalls.is_empty() { self.queue.front().map(|first| first.due) } else { None };
            tokio::select! {
                () = self.client.closed() => return Err(Over),
                Ok(()) = self.changes.changed() => self.look_at_rules().await?,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                read = server.frame(), if !self.ended => match read {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            self.take(&data);
                        }
                    }
                    Some(Err(_)) => self.server_ended(Ending::Reset),
                    None => self.server_ended(Ending::Close),
                },
            }
        }
    }

    /// Takes notice of new rules and of rules that ended.
    async fn look_at_rules(&mut self) -> Result<(), Over> {
        self.rules = self.shared.registry.of_watch(&self.target);
        if self.stalls.iter().any(|active| active.gate() == Gate::Discarded) {
            self.unhold();
            self.queue.retain(|waiting| matches!(waiting.piece, Piece::End(_)));
        } else {
            self.unhold();
        }
        self.stalls = self.rules.iter().filter(|active| matches!(active.rule.fault, Fault::Watch(WatchFault::Stall))).cloned().collect();
        self.stalls.iter().for_each(|active| active.held_more(self.queue.len() as u64));
        for active in self.rules.clone() {
            let Fault::Watch(WatchFault::Cut(ending, Point::Now)) = &active.rule.fault else { continue };
            if self.asked.insert(active.id) && active.takes() {
                return self.end(*ending).await;
            }
        }
        Ok(())
    }

    fn unhold(&mut self) {
        let held = self.queue.len() as u64;
        self.stalls.drain(..).for_each(|active| active.held_less(held));
    }

    fn take(&mut self, data: &[u8]) {
        self.frames.push(data);
        while let Some(frame) = self.frames.next() {
            self.record(&frame);
            self.enqueue(Piece::Frame(frame));
        }
    }

    fn server_ended(&mut self, ending: Ending) {
        self.ended = true;
        let rest = self.frames.rest();
        if !rest.is_empty() {
            self.enqueue(Piece::Rest(rest));
        }
        self.enqueue(Piece::End(ending));
    }

    fn enqueue(&mut self, piece: Piece) {
        let lag = self.rules.iter().filter_map(|active| match active.rule.fault {
            Fault::Watch(WatchFault::Lag(lag)) => Some(lag),
            _ => None,
        });
        self.queue.push_back(Waiting { due: Instant::now() + lag.sum(), piece });
        self.stalls.iter().for_each(|active| active.held_more(1));
    }

    /// Sends what may go on.
    async fn flush(&mut self) -> Result<(), Over> {
        while self.stalls.is_empty() && self.queue.front().is_some_and(|first| first.due <= Instant::now()) {
            match self.queue.pop_front().map(|first| first.piece) {
                Some(Piece::Frame(frame)) => self.deliver(frame).await?,
                Some(Piece::Rest(bytes)) => self.send(bytes).await?,
                Some(Piece::End(ending)) => return self.end(ending).await,
                None => {}
            }
        }
        Ok(())
    }

    async fn deliver(&mut self, frame: Bytes) -> Result<(), Over> {
        let at_events = self.rules.iter().any(|active| {
            !matches!(active.rule.fault, Fault::Watch(WatchFault::Stall | WatchFault::Lag(_) | WatchFault::Cut(_, Point::Now)))
        });
        if !at_events {
            return self.send(frame).await;
        }
        let event = event(self.format, &frame);
        for active in self.rules.clone() {
            let Fault::Watch(fault) = &active.rule.fault else { continue };
            if !fault.is_at(&event) || !active.takes() {
                continue;
            }
            match fault {
                WatchFault::Swallow(_) => return Ok(()),
                WatchFault::Cut(ending, Point::Before(_)) => return self.end(*ending).await,
                WatchFault::Cut(ending, Point::Inside(_)) => {
                    self.send(frame.slice(..frame.len() / 2)).await?;
                    return self.end(*ending).await;
                }
                WatchFault::Cut(ending, _) => {
                    self.send(frame).await?;
                    return self.end(*ending).await;
                }
                WatchFault::Stall | WatchFault::Lag(_) => {}
            }
        }
        self.send(frame).await
    }

    async fn send(&self, bytes: Bytes) -> Result<(), Over> {
        self.client.send(Ok(bytes)).await.map_err(|_| Over)
    }

    async fn end(&self, ending: Ending) -> Result<(), Over> {
        match ending {
            Ending::Close => {}
            Ending::Reset => drop(self.client.send(Err(body::reset())).await),
            Ending::Silence => self.client.closed().await,
        }
        Err(Over)
    }

    fn record(&mut self, frame: &[u8]) {
        let Some(take) = &mut self.recording else { return };
        take.bytes.extend_from_slice(frame);
        if event(self.format, frame).ends_list
            && let Some(take) = self.recording.take()
        {
            let answer = Recorded { body: take.bytes.freeze(), ..take.answer };
            take.into.iter().for_each(|recording| recording.keep(&take.path, &self.target, answer.clone()));
        }
    }
}

// === impl WatchFault ===

impl WatchFault {
    /// Whether it may happen at this event.
    fn is_at(&self, event: &Event) -> bool {
        match self {
            Self::Swallow(events) | Self::Cut(_, Point::Before(events) | Point::Inside(events) | Point::After(events)) => {
                events.accepts(event)
            }
            Self::Stall | Self::Lag(_) | Self::Cut(_, Point::Now) => false,
        }
    }
}
