//! How long a request may take once it is sent.

use std::time::Duration;

/// What kind of request it is: that decides its deadline, how large its answer may be, and whether the client may repeat it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Reads one object.
    Get,
    /// Reads a list, or a page of it.
    List,
    /// Reads a page for a source, which has a back-off of its own and must hear of every refusal.
    Page,
    /// Changes something. Never repeated by the client.
    Write,
    /// Reads or renews the lease: late is as bad as never, and repeating is the elector's business.
    Lease,
}

/// The deadline of each class. It starts when the request is sent: time in the token bucket and waiting for a free stream is not the
/// server's fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadlines {
    /// For [`Class::Get`].
    pub get: Duration,
    /// For [`Class::List`] and [`Class::Page`].
    pub list: Duration,
    /// For [`Class::Write`].
    pub write: Duration,
    /// For [`Class::Lease`].
    pub lease: Duration,
    /// Until a watch's first byte.
    pub watch_start: Duration,
}

// === impl Class ===

impl Class {
    /// Whether the client repeats it when the server asks for that.
    pub fn may_repeat(self) -> bool {
        matches!(self, Self::Get | Self::List)
    }

    /// The largest answer that is read. The server limits an object to 3 MiB or so; a page holds many.
    pub fn body_limit(self) -> usize {
        match self {
            Self::List | Self::Page => 64 << 20,
            Self::Get | Self::Write | Self::Lease => 4 << 20,
        }
    }
}

// === impl Deadlines ===

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            get: Duration::from_secs(30),
            list: Duration::from_secs(60),
            // Longer than the server's own limit (`--request-timeout`, 60 s), so that its answer decides, not our impatience: a write
            // that we give up has an unknown outcome. A dead connection is noticed earlier, by pings.
            write: Duration::from_secs(65),
            // Upstream's renew deadline is 10 s: leave room for a second try.
            lease: Duration::from_secs(5),
            watch_start: Duration::from_secs(60),
        }
    }
}

impl Deadlines {
    /// The deadline of a class.
    pub fn of(&self, class: Class) -> Duration {
        match class {
            Class::Get => self.get,
            Class::List | Class::Page => self.list,
            Class::Write => self.write,
            Class::Lease => self.lease,
        }
    }
}
