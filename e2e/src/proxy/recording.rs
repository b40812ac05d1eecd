//! Answers kept to be given again later: time travel for the client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::target::Target;

/// Answers by path. The last one counts; of a list read in pages, that is the last page. Clones share their answers.
#[derive(Debug, Clone, Default)]
pub struct Recording(Arc<Mutex<HashMap<Key, Recorded>>>);

/// Path, and whether the answer is a streaming list.
type Key = (String, bool);

/// One answer.
#[derive(Debug, Clone)]
pub(super) struct Recorded {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

// === impl Recording ===

impl Recording {
    /// With nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many answers it has.
    pub fn len(&self) -> usize {
        self.answers().len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn keep(&self, path: &str, target: &Target, answer: Recorded) {
        self.answers().insert((path.to_owned(), target.watch), answer);
    }

    pub(super) fn find(&self, path: &str, target: &Target) -> Option<Recorded> {
        self.answers().get(&(path.to_owned(), target.watch)).cloned()
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Recorded>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
