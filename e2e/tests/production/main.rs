//! What happens to the program in production: its credentials are replaced while it works, and it runs with everything that it can do at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests, which fail by panicking")]
#![allow(unreachable_pub, reason = "modules of one program")]

#[path = "../support/mod.rs"]
mod support;

mod everything;
mod load;
mod rotation;
