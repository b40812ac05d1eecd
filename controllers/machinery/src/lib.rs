//! machinery
pub mod client;
pub mod clock;
pub mod error;
pub mod events;
pub mod executor;
pub mod expectations;
pub mod fence;
pub mod guard;
pub mod queue;
pub mod source;
pub mod store;
pub mod sync;
mod token_bucket;
