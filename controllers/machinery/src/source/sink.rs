//! What a source hands on, and to whom.

use model::ResourceVersion;

/// One thing a source has learnt. A (re)list is [`SourceEvent::Restarted`], each object as [`SourceEvent::Listed`], then
/// [`SourceEvent::Synced`]; the watch's events follow.
#[derive(Debug)]
pub enum SourceEvent<O> {
    /// A list begins; what an unfinished list before it said about absent objects is void.
    Restarted,
    /// The list has this object.
    Listed(O),
    /// The list is complete: what it did not have does not exist at this version.
    Synced(ResourceVersion),
    /// The watch saw this object come or change.
    Applied(O),
    /// The watch saw this object go; this is its last state.
    Deleted(O),
    /// Everything up to this version has been seen.
    Bookmark(ResourceVersion),
}

/// Takes what a source learns, in order, in the source's own task.
pub trait Sink<O> {
    /// Takes one event.
    fn apply(&mut self, event: SourceEvent<O>);
}
