//! A soak: two replicas of ours for minutes under random scripts, faults and changes of hands. The parts without IO.
//!
//! - [`schedule`] makes of a seed what is done when: the scripts of each namespace, and what befalls the processes and their servers.
//! - [`scripts`] fits the words of [`differential`](crate::differential) to nodes that live, and has words for ReplicaSets of their own.
//! - [`history`] keeps what watches have shown, and finds what must never be: two pods of one identity, pods beyond a size.
//! - [`audit`] finds writes without need in an audit log, [`answers`] which of them may have seemed lost, and [`fencing`] writes of who
//!   does not hold the lease.
//!
//! `tests/soak` runs it.

pub mod answers;
pub mod audit;
pub mod fencing;
pub mod history;
pub mod schedule;
pub mod scripts;
