//! Simulated kubelets and a small scheduler. They work against any API server, thousands of pods at little cost.
//!
//! - [`Fleet`] is a number of nodes in one process: Node objects, leases, and the lives of the pods that are bound to them.
//! - [`behaviour`] makes pods fail, hang, flap or refuse to die, at a test's word or at an annotation's.
//! - [`scheduler`] binds pods to nodes. It is also the worked example of how to build something on `machinery`.
//!
//! No container ever runs: what a kubelet would say is said, and that is all that controllers see of it.

mod api;
pub mod behaviour;
pub mod fleet;
mod informer;
mod kubelet;
pub mod lifecycle;
pub mod node;
pub mod pod;
mod registration;
pub mod scheduler;
mod status;
#[cfg(test)]
mod tests;

pub use behaviour::{Behaviour, Fate, Matching};
pub use fleet::{Fleet, FleetOptions, Statistics};
pub use scheduler::{Scheduler, SchedulerOptions};
