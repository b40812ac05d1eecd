//! List and watch: one [`Source`] a resource for the whole process, upstream's reflector.
//!
//! A source lists (by a stream where the server can, else by pages), then follows the watch, and hands each step to its [`Sink`]. It
//! never ends by itself: what goes wrong is waited out, and the store only ever moves forward, except that a consistent read shows that
//! the storage itself was set back.

mod backoff;
mod catch_up;
mod failure;
mod frames;
mod listing;
mod metrics;
mod reflector;
mod sink;
mod status;
#[cfg(test)]
mod tests;
mod transport;
mod undecodable;
mod wire;

use model::plan::Resource;

pub use backoff::Backoff;
pub use frames::{FRAME_LIMIT, FrameTooLong, Frames};
pub use metrics::SourceMetrics;
pub use reflector::Source;
pub use sink::{Sink, SourceEvent};
pub use status::{Phase, SourceHandle, SourceStatus};
pub use transport::{ApiTransport, Chunks, Extent, Freshness, PageRequest, PageStart, Transport, WatchRequest, WatchStart};

/// What a source reads.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// The resource.
    pub resource: &'static Resource,
    /// One namespace, or all.
    pub namespace: Option<String>,
    /// Only objects with such fields.
    pub field_selector: Option<String>,
    /// Only objects with such labels.
    pub label_selector: Option<String>,
    /// How much of each object. The decoder must know.
    pub extent: Extent,
    /// Objects a page, where the server has no streaming list.
    pub page_size: u32,
    /// Makes jitter: another one for each source and each process, the same one for a test.
    pub seed: u64,
}

// === impl SourceConfig ===

impl SourceConfig {
    /// All objects of a resource.
    pub fn new(resource: &'static Resource, seed: u64) -> Self {
        Self {
            resource,
            namespace: None,
            field_selector: None,
            label_selector: None,
            extent: Extent::Full,
            // Upstream's `pager.defaultPageSize`.
            page_size: 500,
            seed,
        }
    }
}
