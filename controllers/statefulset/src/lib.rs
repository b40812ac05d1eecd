//! The StatefulSet controller's decisions (upstream `pkg/controller/statefulset`).
//!
//! Pure: [`decide()`] and [`conclude`] read a [`View`] and return plain data; [`View::absorb`] and [`View::answer`] lay over it what became
//! of that. The same view always gives the same plan.
//!
//! A sync reads from top to bottom as upstream's does, see [`sync`]: each round runs it from the start, over what the rounds before have
//! found out and brought about, up to the first thing that is not known yet.

mod claims;
mod condemned;
mod events;
mod history;
mod identity;
mod job;
mod process;
mod recreate;
mod replicas;
mod retention;
mod revisions;
mod slots;
mod status;
pub mod sync;
mod update;
mod view;
mod waits;

pub use events::event;
pub use sync::{conclude, decide};
pub use view::{Claims, Findings, Gates, Sameness, Unavailable, View, wanted_claims};
