//! The ReplicaSet controller's decisions (upstream `pkg/controller/replicaset`).
//!
//! Pure: [`decide()`] and [`conclude`] read a [`View`] and return plain data; [`View::absorb`] and [`View::answer`] take what
//! became of it. The same view and time always give the same plan.

mod age_ratio;
mod claim;
mod decide;
mod events;
mod status;
mod view;
mod waits;

pub use age_ratio::deletion_age_ratios;
pub use decide::{BURST_REPLICAS, conclude, decide, next_victims};
pub use events::event;
pub use view::{Gates, View};
