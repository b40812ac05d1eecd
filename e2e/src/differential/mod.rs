//! The same script on two control planes, and what came of it compared: the parts without IO.
//!
//! - [`script`] has the words of a script: writes, and what the nodes do at the barrier after each of them. [`deployments`] and
//!   [`statefulsets`] make scripts of these words, one for each seed; [`kinds`] has both.
//! - [`snapshot`] is what one side's namespace holds; [`settled`] says whether its controllers have anything left to do there, as far as
//!   the objects tell.
//! - [`mask`] replaces what must differ (names with a hash, UIDs, times), and [`dump`] compares what is left.
//! - [`seeds`] reads which scripts to run.
//!
//! `tests/differential` plays the scripts. Nothing but [`deployments`] and the rules in [`settled`] knows what a Deployment is, and nothing
//! but [`statefulsets`] what a StatefulSet is: scripts for another controller need words, a generator, and rules for when it has settled.

pub mod deployments;
pub mod dump;
mod generator;
pub mod kinds;
pub mod mask;
pub mod script;
pub mod seeds;
pub mod settled;
pub mod snapshot;
pub mod statefulsets;
mod template;
