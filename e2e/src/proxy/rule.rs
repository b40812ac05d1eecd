//! Faults as data: which requests, what happens to them, and when.

use std::time::Duration;

use http::Method;

use super::recording::Recording;
use super::refusal::Refusal;
use super::target::Target;

/// What is done to which requests. The first rules come first; delays add up, and the first fault that settles a request's answer counts.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Which requests.
    pub matcher: Match,
    /// What is done to them.
    pub fault: Fault,
    /// To which of them.
    pub when: When,
}

/// Which requests. What is not said does not matter.
#[derive(Debug, Clone, Default)]
pub struct Match {
    /// One of these methods; empty is any.
    pub methods: Vec<Method>,
    /// `pods`.
    pub resource: Option<String>,
    /// `status`; the empty text is the object itself.
    pub subresource: Option<String>,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The object's name in the path.
    pub name: Option<String>,
    /// Whether it is a watch; a streaming list is one.
    pub watch: Option<bool>,
    /// Whether it is a list; a streaming list is one.
    pub list: Option<bool>,
    /// How the client's name for itself begins.
    pub user_agent: Option<String>,
}

/// Which of the matching requests (for faults at an event of a watch: which of the matching events).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct When {
    /// How probable it is.
    pub chance: f64,
    /// So many are left alone first.
    pub skip: u64,
    /// At most so many are taken.
    pub limit: u64,
}

/// Before a request reaches the server, or after it was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It never reaches the server.
    Before,
    /// It was carried out, and its answer is what suffers.
    After,
}

/// How an answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// There never is one; the connection lives.
    Silence,
    /// The stream is reset. HTTP/1.1 has no streams: there the connection is closed.
    Stream,
    /// The connection is closed under everything that is on it.
    Connection,
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// In order.
    Close,
    /// By a reset.
    Reset,
    /// Never: nothing more comes, and nobody says so.
    Silence,
}

/// What is done to a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It reaches the server late.
    Delay(Duration),
    /// Its answer comes late.
    Slow(Duration),
    /// It reaches the server when the rule's handle is released; if that is discarded instead, never, and its stream is reset.
    Hold,
    /// It is carried out; its answer waits as with [`Fault::Hold`].
    HoldAnswer,
    /// It is not answered.
    Lose(Moment, Loss),
    /// It is answered with an error, in the form that the client accepts. For an open watch's errors see [`Fault::ErrorEvent`].
    Refuse(Moment, Refusal),
    /// Half of the answer comes.
    Truncate(Ending),
    /// A watch begins with status 200, and then has only an ERROR event.
    ErrorEvent(Refusal),
    /// Its answer is kept; of a streaming list, what comes until its end is marked.
    Record(Recording),
    /// It is answered as recorded; if nothing was, as ever. A replayed streaming list stays silent behind its end, and is closed when the
    /// rule is released.
    Replay(Moment, Recording),
    /// Something happens to a watch, also to one that is open already.
    Watch(WatchFault),
}

/// What happens to a watch.
#[derive(Debug, Clone)]
pub enum WatchFault {
    /// Everything is held back, its end too, until the rule's handle is released; or it is thrown away if that is discarded. [`When`] does not
    /// matter.
    Stall,
    /// Everything comes so much later, in order. [`When`] does not matter.
    Lag(Duration),
    /// Matching events never come.
    Swallow(EventMatch),
    /// It ends; what was held back is lost.
    Cut(Ending, Point),
}

/// Where a watch is cut.
#[derive(Debug, Clone)]
pub enum Point {
    /// At once; [`When`] counts watches, open or opened later.
    Now,
    /// In front of an event; [`When`] counts events.
    Before(EventMatch),
    /// In the middle of an event's bytes.
    Inside(EventMatch),
    /// Behind an event.
    After(EventMatch),
}

/// Which events of a watch. Bookmarks and errors are none.
#[derive(Debug, Clone, Default)]
pub struct EventMatch {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub event_type: Option<String>,
    /// The object's name.
    pub name: Option<String>,
}

/// An event as rules see it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event_type: String,
    /// The object's name; empty for bookmarks and errors.
    pub name: String,
    /// A bookmark that ends a streaming list.
    pub ends_list: bool,
}

// === impl Rule ===

impl Rule {
    /// For every match.
    pub fn new(matcher: Match, fault: Fault) -> Self {
        Self { matcher, fault, when: When::ALWAYS }
    }

    /// For some of the matches.
    #[must_use]
    pub fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }
}

// === impl Fault ===

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Delay(delay) => write!(f, "delayed {delay:?}"),
            Self::Slow(delay) => write!(f, "answer delayed {delay:?}"),
            Self::Hold => f.write_str("held"),
            Self::HoldAnswer => f.write_str("answer held"),
            Self::Lose(moment, loss) => write!(f, "lost {moment:?} {loss:?}"),
            Self::Refuse(moment, refusal) => write!(f, "refused {moment:?} {} {}", refusal.code, refusal.reason),
            Self::Truncate(ending) => write!(f, "truncated {ending:?}"),
            Self::ErrorEvent(refusal) => write!(f, "error event {} {}", refusal.code, refusal.reason),
            Self::Record(_) => f.write_str("recorded"),
            Self::Replay(moment, _) => write!(f, "replayed {moment:?}"),
            Self::Watch(fault) => write!(f, "watch {fault:?}"),
        }
    }
}

// === impl When ===

impl When {
    /// Every match.
    pub const ALWAYS: Self = Self { chance: 1.0, skip: 0, limit: u64::MAX };

    /// The first so many matches.
    pub fn first(count: u64) -> Self {
        Self { limit: count, ..Self::ALWAYS }
    }

    /// The n-th match only, counted from one.
    pub fn nth(n: u64) -> Self {
        Self { skip: n.saturating_sub(1), limit: 1, ..Self::ALWAYS }
    }

    /// Each match with this probability.
    pub fn chance(chance: f64) -> Self {
        Self { chance, ..Self::ALWAYS }
    }

    /// No more than so many.
    #[must_use]
    pub fn at_most(self, limit: u64) -> Self {
        Self { limit, ..self }
    }
}

// === impl Match ===

impl Match {
    /// Everything.
    pub fn any() -> Self {
        Self::default()
    }

    /// Everything about a resource.
    pub fn of(resource: &str) -> Self {
        Self { resource: Some(resource.to_owned()), ..Self::default() }
    }

    /// Creates.
    pub fn creates(resource: &str) -> Self {
        Self::of(resource).method(Method::POST).subresource("")
    }

    /// Deletes of single objects and of collections.
    pub fn deletes(resource: &str) -> Self {
        Self::of(resource).method(Method::DELETE).subresource("")
    }

    /// Everything that changes something.
    pub fn writes(resource: &str) -> Self {
        Self { methods: vec![Method::POST, Method::PUT, Method::PATCH, Method::DELETE], ..Self::of(resource) }
    }

    /// Watches, streaming lists included.
    pub fn watches(resource: &str) -> Self {
        Self { watch: Some(true), ..Self::of(resource) }
    }

    /// Watches that go on at a version.
    pub fn rewatches(resource: &str) -> Self {
        Self { watch: Some(true), list: Some(false), ..Self::of(resource) }
    }

    /// Lists, streaming lists included.
    pub fn lists(resource: &str) -> Self {
        Self { list: Some(true), ..Self::of(resource) }
    }

    /// Also this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.methods.push(method);
        self
    }

    /// Only this subresource; the empty text is the object itself.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Only in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only the object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only clients whose name for themselves begins like this.
    #[must_use]
    pub fn user_agent(mut self, prefix: &str) -> Self {
        self.user_agent = Some(prefix.to_owned());
        self
    }

    /// Whether a request is meant. Who names a resource does not mean a glance at it.
    pub fn accepts(&self, target: &Target) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
        (!target.glance || self.resource.is_none())
            && (self.methods.is_empty() || self.methods.contains(&target.method))
            && is(&self.resource, &target.resource)
            && is(&self.subresource, &target.subresource)
            && is(&self.namespace, &target.namespace)
            && is(&self.name, &target.name)
            && self.watch.is_none_or(|watch| watch == target.watch)
            && self.list.is_none_or(|list| list == target.list)
            && self.user_agent.as_ref().is_none_or(|prefix| target.user_agent.starts_with(prefix))
    }
}

// === impl EventMatch ===

impl EventMatch {
    /// Any event of an object.
    pub fn any() -> Self {
        Self::default()
    }

    /// Events of one type.
    pub fn of(event_type: &str) -> Self {
        Self { event_type: Some(event_type.to_owned()), name: None }
    }

    /// Only the object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    pub(super) fn accepts(&self, event: &Event) -> bool {
        matches!(&*event.event_type, "ADDED" | "MODIFIED" | "DELETED")
            && self.event_type.as_ref().is_none_or(|wanted| *wanted == event.event_type)
            && self.name.as_ref().is_none_or(|wanted| *wanted == event.name)
    }
}
