//! The Deployment controller's decisions (upstream `pkg/controller/deployment`).
//!
//! Pure: [`decide()`] and [`conclude`] read a [`View`] and return plain data; [`View::absorb`], [`View::answer`] and
//! [`View::take_unfinished`] lay over it what became of that. The same view always gives the same plan.
//!
//! A sync reads from top to bottom as upstream's does, see [`sync`]: each round runs it from the start, over what the rounds before have
//! found out and brought about, up to the first thing that is not known yet.

mod conditions;
mod create;
mod events;
mod fenceposts;
mod history;
mod member;
mod proportions;
mod recreate;
mod revision;
mod rollback;
mod rolling;
mod scale;
mod status;
pub mod sync;
mod view;
mod waits;

pub use events::event;
pub use sync::{conclude, decide};
pub use view::{Gates, View};
