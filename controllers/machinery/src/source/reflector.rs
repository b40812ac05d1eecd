//! The state machine of a source.
//!
//! ```text
//!            ┌────────────── stream ──────────────┐
//!   List ────┤                                    ├──> Read ──> Probe ──> Watch ──> Read ──> …
//!            └── Page ──> Page ──> … ──> Watch ───┘      (an ended watch goes on at the same version)
//! ```
//!
//! Any failure leads through `Wait` to one of them. A list is begun again for a 410, a request from outside, an unreadable object, or a
//! watch that makes no progress, or a storage that was set back; never because a connection broke.

use std::sync::Arc;
use std::time::Duration;

use model::plan::ApiError;
use model::{Decode, Object, ResourceVersion};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::SourceConfig;
use super::backoff::Backoff;
use super::catch_up::{Goal, SHORTEST_WATCH, Wishes};
use super::failure::{SecondLook, Stop, UNREADABLE, is_behind, is_gone, no_version, unreadable};
use super::frames::{FRAME_LIMIT, Frames};
use super::metrics::{Counters, SourceMetrics};
use super::sink::{Sink, SourceEvent};
use super::status::{Phase, Report, SourceHandle, SourceStatus};
use super::transport::{Chunks, Freshness, PageRequest, PageStart, Transport, WatchRequest, WatchStart};
use super::undecodable::{Undecodable, Verdict};
use super::wire::{self, Event};
use crate::client::{CallError, no_answer};

/// One resource's list-watch.
#[derive(Debug)]
pub struct Source<D, T> {
    pub(super) config: SourceConfig,
    decoder: D,
    pub(super) transport: T,
    pub(super) report: Report,
    status: watch::Receiver<SourceStatus>,
    pub(super) counters: Counters,
    relist: Arc<Notify>,
    pub(super) wishes: Arc<Wishes>,
    /// What is being caught up with.
    pub(super) goal: Option<Goal>,
    /// What was asked before the list in progress began, if that is consistent.
    pub(super) list_answers: Option<u64>,
    backoff: Backoff,
    random: fastrand::Rng,
    undecodable: Undecodable,
    /// The last version seen.
    pub(super) version: ResourceVersion,
    /// When a list was last complete.
    pub(super) listed: Option<Instant>,
    /// How fresh the next list must be.
    pub(super) wanted: Freshness,
    /// How the next list is read.
    pub(super) way: Way,
    /// Failures in a row without progress that a list from the storage itself may end.
    pub(super) stuck: u32,
    /// The list in progress had an object that gets a second look.
    pub(super) second_look: bool,
    /// Lists in a row that were begun again for such objects.
    pub(super) looks: u32,
    /// Objects a page; halved when a page is too large to be read.
    pub(super) page_size: u32,
}

/// How a list is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// As the first events of a watch, after so many that broke off.
    Stream { broken: u32 },
    /// Page by page: the server refused the other way.
    Pages,
}

/// Where the source stands.
#[derive(Debug)]
pub(super) enum State<C> {
    List,
    Page(Option<String>),
    /// Before a watch goes on where another one ended.
    Probe,
    /// Before a watch shows that nothing was missed.
    CatchUp,
    Watch,
    Read(Open<C>),
    Wait(Duration, After),
}

/// What comes after a wait.
#[derive(Debug)]
pub(super) enum After {
    List,
    Page(Option<String>),
    Watch,
    CatchUp,
}

/// An open watch.
#[derive(Debug)]
pub(super) struct Open<C> {
    chunks: C,
    frames: Frames,
    /// Its initial events, a streaming list, have not ended.
    initial: bool,
    opened: Instant,
    /// When it is given up, because the server should have ended it.
    ends: Instant,
}

/// Upstream's `minWatchTimeout`: a watch lasts between this and twice this, so that not all are opened again at once.
const MIN_WATCH: Duration = Duration::from_secs(300);
/// How much later than asked the server may end a watch.
const WATCH_GRACE: Duration = Duration::from_secs(5);
/// A streaming list that says nothing for so long is given up: an old server takes it for an ordinary watch.
const LIST_SILENCE: Duration = Duration::from_secs(60);
/// A watch that ended earlier is not opened again at once (upstream `handleWatch`'s "very short watch").
const SHORT_WATCH: Duration = Duration::from_secs(1);
/// After so many failures without progress the storage itself is asked.
const STUCK: u32 = 5;
/// After a list, the next one is not begun for so long without a back-off.
const RELIST_FREELY: Duration = Duration::from_secs(10);
/// A server that does not answer at all is tried again after this, or up to twice this: upstream's 30 s, jittered to 60, are for one that
/// answers and must be spared.
const NO_ANSWER_BACKOFF: Duration = Duration::from_secs(4);
/// No server is waited for longer than this, whatever it asks.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

// === impl Source ===

impl<D: Decode, T: Transport> Source<D, T> {
    /// A source that has not begun.
    pub fn new(config: SourceConfig, transport: T, decoder: D, metrics: &SourceMetrics) -> Self {
        let (sender, status) = watch::channel(SourceStatus::new(Instant::now()));
        let mut random = fastrand::Rng::with_seed(config.seed);
        Self {
            decoder,
            transport,
            report: Report::new(config.resource, sender),
            status,
            counters: metrics.of(config.resource),
            relist: Arc::default(),
            wishes: Arc::default(),
            goal: None,
            list_answers: None,
            backoff: Backoff::new(random.u64(..)),
            random,
            undecodable: Undecodable::default(),
            version: ResourceVersion::default(),
            listed: None,
            wanted: Freshness::Consistent,
            way: Way::Stream { broken: 0 },
            stuck: 0,
            second_look: false,
            looks: 0,
            page_size: config.page_size.max(1),
            config,
        }
    }

    /// The source from outside.
    pub fn handle(&self) -> SourceHandle {
        SourceHandle { status: self.status.clone(), relist: Arc::clone(&self.relist), wishes: Arc::clone(&self.wishes) }
    }

    /// Lists and watches until `shutdown`.
    pub async fn run<S: Sink<D::Object>>(mut self, mut sink: S, shutdown: CancellationToken) {
        let work = async {
            let mut state = State::List;
            loop {
                state = self.step(state, &mut sink).await;
            }
        };
        let _: Option<std::convert::Infallible> = shutdown.run_until_cancelled(work).await;
    }

    async fn step<S: Sink<D::Object>>(&mut self, state: State<T::Chunks>, sink: &mut S) -> State<T::Chunks> {
        match state {
            State::List => self.begin_list(sink).await,
            State::Page(token) => self.read_page(token, sink).await,
            State::Probe => self.probe().await,
            State::CatchUp => self.catch_up().await,
            State::Watch if self.gives_up_goal() => State::List,
            State::Watch => self.begin_watch().await,
            State::Read(open) => self.read(open, sink).await,
            State::Wait(delay, after) => {
                tokio::time::sleep(delay).await;
                match after {
                    After::List => State::List,
                    After::Page(token) => State::Page(token),
                    After::Watch => State::Probe,
                    After::CatchUp => State::CatchUp,
                }
            }
        }
    }

    // --- Watches ---

    /// Asks the storage for its version; `None` if the one object that comes with it is too large to be read.
    pub(super) async fn storage_version(&mut self) -> Result<Option<ResourceVersion>, ApiError> {
        let request = PageRequest { limit: 1, at: PageStart::First(Freshness::Consistent) };
        let body = match self.transport.list(&request).await {
            Ok(body) => body,
            Err(error) if error.is_too_large() => return Ok(None),
            Err(error) => return Err(error.into_error()),
        };
        let version = wire::page(D::FORMAT, &body).map_err(|error| unreadable(&error))?.version;
        if version.is_known() { Ok(Some(version)) } else { Err(no_version()) }
    }

    /// A server whose storage was set back (etcd restored from a backup) accepts a watch at a version that is yet to come, and stays
    /// silent until it is reached: hours in which nothing would be seen.
    pub(super) fn was_set_back(&mut self, reached: ResourceVersion) -> bool {
        let set_back = reached < self.version;
        if set_back {
            warn!(resource = self.config.resource.plural, seen = %self.version, %reached, "storage was set back, listing again");
            self.wanted = Freshness::Consistent;
        }
        set_back
    }

    /// No watch goes on before this was answered, not even after a refusal: a server that starts refuses until it knows its roles, and
    /// might already accept the watch.
    async fn probe(&mut self) -> State<T::Chunks> {
        match self.storage_version().await {
            Ok(Some(reached)) if self.was_set_back(reached) => State::List,
            Ok(_) => State::Watch,
            Err(error) => self.wait(error, After::Watch),
        }
    }

    async fn begin_watch(&mut self) -> State<T::Chunks> {
        match self.open(WatchStart::After(self.version)).await {
            Ok(open) => {
                self.report.phase(Phase::Watching);
                if self.stuck == 0 {
                    self.report.healthy();
                }
                State::Read(open)
            }
            Err(error) => self.watch_refused(error.into_error()),
        }
    }

    pub(super) async fn open(&mut self, start: WatchStart) -> Result<Open<T::Chunks>, CallError> {
        let catching_up = self.goal.is_some() && matches!(start, WatchStart::After(_));
        let usual = Duration::from_secs(MIN_WATCH.as_secs() + self.random.u64(0..MIN_WATCH.as_secs()));
        let timeout = if catching_up { SHORTEST_WATCH } else { usual };
        let chunks = self.transport.watch(&WatchRequest { start, timeout }).await?;
        self.counters.watches.inc();
        self.report.watch_opened();
        let opened = Instant::now();
        let initial = matches!(start, WatchStart::InitialEvents(_));
        Ok(Open { chunks, frames: Frames::new(D::FORMAT, FRAME_LIMIT), initial, opened, ends: opened + timeout + WATCH_GRACE })
    }

    async fn read<S: Sink<D::Object>>(&mut self, mut open: Open<T::Chunks>, sink: &mut S) -> State<T::Chunks> {
        let patience = match &self.goal {
            _ if open.initial => open.ends.min(Instant::now() + LIST_SILENCE),
            Some(goal) => open.ends.min(goal.until),
            None => open.ends,
        };
        let next = tokio::select! {
            biased;
            // A list in progress is ended first: it may be the one that is wanted, and costs as much as another one.
            () = self.relist.notified(), if !open.initial => Err(Stop::Relist),
            () = self.wishes.changed(), if !open.initial => Err(Stop::CatchUp),
            chunk = tokio::time::timeout_at(patience, open.chunks.next()) => match chunk {
                Ok(Some(Ok(chunk))) => Ok(chunk),
                Ok(Some(Err(error))) => Err(Stop::Lost(error)),
                Ok(None) => Err(Stop::Closed),
                Err(_) => Err(Stop::Silent),
            },
        };
        let stop = match next {
            Ok(chunk) => {
                open.frames.push(&chunk);
                let taken = self.take_frames(&mut open, sink);
                self.look_at_goal();
                match taken {
                    Ok(()) => return State::Read(open),
                    Err(stop) => stop,
                }
            }
            // A list that began after that was asked has answered it.
            Err(Stop::CatchUp) if self.has_caught_up() => return State::Read(open),
            Err(stop) => stop,
        };
        if open.initial { self.stream_stopped(stop) } else { self.watch_stopped(stop, open.opened.elapsed()) }
    }

    fn take_frames<S: Sink<D::Object>>(&mut self, open: &mut Open<T::Chunks>, sink: &mut S) -> Result<(), Stop> {
        while let Some(frame) = open.frames.frame()? {
            match wire::event(D::FORMAT, frame)? {
                Event::Error(error) => return Err(Stop::Error(error)),
                Event::Applied(raw) if open.initial => {
                    if let Some(object) = self.decode_listed(raw) {
                        sink.apply(SourceEvent::Listed(object));
                    }
                }
                Event::Deleted(raw) if open.initial => {
                    if let Some(object) = self.decode_listed(raw) {
                        sink.apply(SourceEvent::Deleted(object));
                    }
                }
                Event::Bookmark(bookmark) if open.initial => {
                    if !bookmark.initial_events_end {
                        continue;
                    }
                    if self.second_look {
                        return Err(Stop::Undecodable);
                    }
                    if !bookmark.resource_version.is_known() {
                        return Err(Stop::Error(no_version()));
                    }
                    open.initial = false;
                    self.list_done(bookmark.resource_version, sink);
                    self.report.phase(Phase::Watching);
                }
                Event::Applied(raw) => self.take_live(raw, SourceEvent::Applied, sink)?,
                Event::Deleted(raw) => self.take_live(raw, SourceEvent::Deleted, sink)?,
                Event::Bookmark(bookmark) => {
                    self.advance(bookmark.resource_version);
                    sink.apply(SourceEvent::Bookmark(self.version));
                }
            }
        }
        Ok(())
    }

    fn take_live<S, F>(&mut self, raw: &[u8], event: F, sink: &mut S) -> Result<(), Stop>
    where
        S: Sink<D::Object>,
        F: FnOnce(D::Object) -> SourceEvent<D::Object>,
    {
        match self.decode(raw, false) {
            Ok(Some(object)) => {
                self.advance(object.resource_version());
                sink.apply(event(object));
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(SecondLook) => Err(Stop::Undecodable),
        }
    }

    fn advance(&mut self, version: ResourceVersion) {
        if version > self.version {
            self.version = version;
            self.wanted = Freshness::NotOlderThan(version);
            self.stuck = 0;
        }
        self.report.healthy();
    }

    fn watch_stopped(&mut self, stop: Stop, lived: Duration) -> State<T::Chunks> {
        match stop {
            Stop::Relist => {
                self.wanted = Freshness::Consistent;
                State::List
            }
            Stop::CatchUp => State::CatchUp,
            Stop::Silent if self.gives_up_goal() => State::List,
            Stop::Undecodable => self.look_again(),
            Stop::Error(error) => self.watch_broke(error),
            // The usual end of a watch, and a server that restarts: the next one begins where this one ended.
            Stop::Closed | Stop::Lost(_) | Stop::Silent if lived >= SHORT_WATCH => State::Probe,
            Stop::Closed | Stop::Silent => self.wait(no_answer("ShortWatch", "the watch ended as soon as it began"), After::Watch),
            Stop::Lost(error) => self.wait(error, After::Watch),
        }
    }

    /// The server did not begin a watch.
    fn watch_refused(&mut self, error: ApiError) -> State<T::Chunks> {
        let retry = matches!(error.code, 0 | 401 | 403 | 429 | 500..) && !is_behind(&error);
        if retry { self.wait(error, After::Watch) } else { self.watch_broke(error) }
    }

    /// The server said in a watch that it cannot go on, or what it said cannot be read. At the same version that may be so for ever.
    fn watch_broke(&mut self, error: ApiError) -> State<T::Chunks> {
        // A server that was started anew remembers nothing older: whoever comes back to it lists, and need not wait for that.
        if is_gone(&error) && self.listed.is_none_or(|listed| listed.elapsed() >= RELIST_FREELY) {
            self.report.failed(error, Duration::ZERO);
            return State::List;
        }
        let list = is_gone(&error) || (error.code != 429 && self.is_stuck());
        self.wait(error, if list { After::List } else { After::Watch })
    }

    // --- Objects ---

    /// `None` if the object is left out.
    pub(super) fn decode(&mut self, raw: &[u8], last_look: bool) -> Result<Option<D::Object>, SecondLook> {
        let problem = match self.decoder.decode(raw) {
            Ok(object) => {
                if !self.undecodable.is_empty() {
                    self.undecodable.recovered(wire::identity(D::FORMAT, raw));
                }
                return Ok(Some(object));
            }
            Err(problem) => problem,
        };
        let resource = self.config.resource.plural;
        match self.undecodable.judge(wire::identity(D::FORMAT, raw), last_look) {
            Verdict::Again => {
                warn!(resource, error = %problem, "object could not be decoded and is read again");
                Err(SecondLook)
            }
            Verdict::Skip => {
                self.counters.undecodable.inc();
                error!(resource, error = %problem, "object cannot be decoded and is left out");
                Ok(None)
            }
            Verdict::SkipKnown => Ok(None),
        }
    }

    // --- Failures ---

    /// Counts a failure. If there were too many without progress, the next list asks the storage itself.
    pub(super) fn is_stuck(&mut self) -> bool {
        self.stuck += 1;
        let stuck = self.stuck >= STUCK;
        if stuck {
            self.stuck = 0;
            self.wanted = Freshness::Consistent;
        }
        stuck
    }

    pub(super) fn wait(&mut self, error: ApiError, after: After) -> State<T::Chunks> {
        let asked = error.retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER);
        // Knocking at a closed door costs nobody anything, and everything waits behind it.
        let longest = if error.code == 0 && error.reason != UNREADABLE { NO_ANSWER_BACKOFF } else { Duration::MAX };
        let delay = self.backoff.delay_at_most(longest, Instant::now()).max(asked);
        self.report.failed(error, delay);
        State::Wait(delay, after)
    }
}
