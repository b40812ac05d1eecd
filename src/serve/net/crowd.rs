//! Who is connected: never more than a fixed number, and whoever asks something new gets a place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The connections there are, oldest first.
#[derive(Clone)]
pub(super) struct Crowd(Arc<Mutex<Inner>>);

struct Inner {
    limit: usize,
    next: u64,
    members: BTreeMap<u64, Member>,
}

struct Member {
    /// Requests that are being worked on. One whose answer is only being read no longer counts.
    busy: Arc<AtomicUsize>,
    leave: CancellationToken,
}

/// A connection's place. It is free again when this is dropped.
pub(super) struct Place {
    crowd: Crowd,
    id: u64,
    busy: Arc<AtomicUsize>,
    leave: CancellationToken,
}

/// A request being worked on; it keeps its connection from being sent away.
pub(super) struct Busy(Arc<AtomicUsize>);

// === impl Crowd ===

impl Crowd {
    pub(super) fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Inner { limit, next: 0, members: BTreeMap::new() })))
    }

    /// A place for one more. When all are taken, the oldest connection that has nothing to wait for is sent away: those that only hold
    /// a place are what a flood consists of. `None` if everybody is being served.
    pub(super) fn enter(&self) -> Option<Place> {
        let mut inner = self.0.lock();
        if inner.members.len() >= inner.limit {
            let idle = inner.members.iter().find(|(_, member)| member.busy.load(Ordering::Relaxed) == 0).map(|(id, _)| *id)?;
            if let Some(member) = inner.members.remove(&idle) {
                member.leave.cancel();
            }
        }
        let id = inner.next;
        inner.next += 1;
        let (busy, leave) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        inner.members.insert(id, Member { busy: Arc::clone(&busy), leave: leave.clone() });
        Some(Place { crowd: self.clone(), id, busy, leave })
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().members.len()
    }
}

// === impl Place ===

impl Place {
    /// Ends when the connection has to go.
    pub(super) fn leave(&self) -> &CancellationToken {
        &self.leave
    }

    /// Whether nothing is being worked on.
    pub(super) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Relaxed) == 0
    }

    /// Counts requests.
    pub(super) fn counter(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.busy)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.0.lock().members.remove(&self.id);
    }
}

// === impl Busy ===

impl Busy {
    pub(super) fn with(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(counter))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_idle_one_makes_room() {
        let crowd = Crowd::new(3);
        let places: Vec<_> = (0..3).map(|_| crowd.enter().unwrap()).collect();
        let busy = Busy::with(&places[0].counter());
        let fourth = crowd.enter().unwrap();
        let gone: Vec<_> = places.iter().map(|place| place.leave().is_cancelled()).collect();
        assert_eq!(gone, [false, true, false]);
        assert_eq!(crowd.len(), 3);
        drop(busy);
        drop(fourth);
        assert_eq!(crowd.len(), 2);
    }

    #[test]
    fn nobody_who_is_served_is_sent_away() {
        let crowd = Crowd::new(2);
        let places: Vec<_> = (0..2).map(|_| crowd.enter().unwrap()).collect();
        let busy: Vec<_> = places.iter().map(|place| Busy::with(&place.counter())).collect();
        assert!(crowd.enter().is_none());
        drop(busy);
        assert!(crowd.enter().is_some());
    }
}
