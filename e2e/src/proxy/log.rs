//! What came by, for assertions.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use http::{Method, StatusCode};

use super::rule::Match;
use super::target::Target;

/// One request.
#[derive(Debug, Clone)]
pub struct Logged {
    /// The HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// What it is about.
    pub target: Target,
    /// What the client was answered; `None` if it was not, or not yet.
    pub status: Option<u16>,
    /// What the server answered: the request was carried out, unless this is an error.
    pub server_status: Option<u16>,
    /// The faults that took it, in their order.
    pub faults: Vec<String>,
    /// When it came.
    pub at: Instant,
    /// When it went on to the server, if it did.
    pub forwarded: Option<Instant>,
    /// Whether the client had gone when there was an answer: its connection was closed, or it no longer waited.
    pub abandoned: bool,
    /// When it was answered, or lost; for a watch, when it ended.
    pub ended: Option<Instant>,
}

/// All requests so far.
#[derive(Debug, Default)]
pub(super) struct Log(Mutex<Vec<Logged>>);

/// Its place in the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry(usize);

// === impl Logged ===

impl Logged {
    fn new(path: String, target: Target, faults: Vec<String>, at: Instant) -> Self {
        let method = target.method.clone();
        Self { method, path, target, status: None, server_status: None, faults, at, forwarded: None, abandoned: false, ended: None }
    }

    /// One that was passed on and answered with 200 the moment it came.
    #[cfg(test)]
    pub(crate) fn answered(method: &Method, path: &str, faults: &[&str], at: Instant) -> Self {
        let target = Target::of(method, &path.parse().unwrap(), &http::HeaderMap::new());
        let faults = faults.iter().map(ToString::to_string).collect();
        let (status, done) = (Some(200), Some(at));
        Self { status, server_status: status, forwarded: done, ended: done, ..Self::new(path.to_owned(), target, faults, at) }
    }
}

// === impl Log ===

impl Log {
    pub(super) fn begin(&self, path: String, target: Target, faults: Vec<String>) -> Entry {
        let logged = Logged::new(path, target, faults, Instant::now());
        let mut log = self.entries();
        log.push(logged);
        Entry(log.len() - 1)
    }

    /// The server is asked.
    pub(super) fn forwarded(&self, entry: Entry) {
        self.change(entry, |logged| logged.forwarded = Some(Instant::now()));
    }

    /// Nobody is there to be answered.
    pub(super) fn abandoned(&self, entry: Entry) {
        self.change(entry, |logged| logged.abandoned = true);
    }

    /// The server has answered.
    pub(super) fn served(&self, entry: Entry, status: StatusCode) {
        self.change(entry, |logged| logged.server_status = Some(status.as_u16()));
    }

    /// The client has been answered, the body perhaps still open.
    pub(super) fn answered(&self, entry: Entry, status: StatusCode) {
        self.change(entry, |logged| logged.status = Some(status.as_u16()));
    }

    /// Nothing more will come of it.
    pub(super) fn ended(&self, entry: Entry) {
        self.change(entry, |logged| logged.ended = Some(Instant::now()));
    }

    pub(super) fn all(&self) -> Vec<Logged> {
        self.entries().clone()
    }

    pub(super) fn of(&self, matcher: &Match) -> Vec<Logged> {
        self.entries().iter().filter(|logged| matcher.accepts(&logged.target)).cloned().collect()
    }

    pub(super) fn count(&self, which: impl Fn(&Logged) -> bool) -> usize {
        self.entries().iter().filter(|logged| which(logged)).count()
    }

    fn change(&self, Entry(at): Entry, change: impl FnOnce(&mut Logged)) {
        if let Some(logged) = self.entries().get_mut(at) {
            change(logged);
        }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Logged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
