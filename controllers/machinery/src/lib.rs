//! What every controller stands on: everything between the API server and a decision, and nothing about any one controller.
//!
//! In the order of an event's way:
//!
//! - [`client`] is the way to the API server, and says of each request whether it may have had an effect.
//! - [`source`] lists and watches one resource for the whole process.
//! - [`store`] holds its objects and tells handlers what has changed.
//! - [`queue`] holds the keys that handlers want looked at.
//! - [`guard`] holds a key back until the stores show what was last written for it; [`expectations`] counts what they have not shown yet.
//! - [`sync`] takes a key through its decisions.
//! - [`observe`] only looks at them; [`explain`] tells of them.
//! - [`executor`] carries them out; [`fence`] says whether it may, [`events`] tells people.
//! - [`clock`] is where times come from.

pub mod client;
pub mod clock;
pub mod error;
pub mod events;
pub mod executor;
pub mod expectations;
pub mod explain;
pub mod fence;
pub mod guard;
pub mod observe;
pub mod queue;
pub mod source;
pub mod store;
pub mod sync;
mod token_bucket;
