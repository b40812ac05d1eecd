//! The fault-injecting proxy: it changes nothing unless told to, and does what it is told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]
#![allow(unreachable_pub, reason = "modules of one program")]

mod apiserver;
mod requests;
mod upstream;
mod watches;
