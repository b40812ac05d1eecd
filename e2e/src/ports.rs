//! Free loopback ports for servers that must be told their port before they start.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

/// Below the range from which Linux takes the ports of outgoing connections: a port from that one can be taken by any client
/// between our choice and the server's start.
const CANDIDATES: Range<u16> = 20_000..32_000;

/// Everything handed out by this process, since a server that restarts must find its port free.
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A loopback port that nobody listens on and that this process has not handed out before.
pub fn free() -> Result<u16> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..1000 {
        let port = fastrand::u16(CANDIDATES);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && taken.insert(port) {
            return Ok(port);
        }
    }
    bail!("no free loopback port between {} and {}", CANDIDATES.start, CANDIDATES.end)
}
