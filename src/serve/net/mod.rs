//! Listening: connections, TLS, and limits to what any client can cost.
//!
//! Everything a client can make wait has a deadline, everything it can make grow has a limit, and none of it runs on the thread of the
//! controllers.

mod connection;
mod crowd;
mod socket;

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use connection::Speech;
pub(crate) use connection::{Answers, Peer, STREAMS};
use crowd::Crowd;

use super::tls::Configs;

/// Connections at the same time. A cluster's probes and scrapers need a handful.
const CONNECTIONS: usize = 256;

/// Accepts connections until told to stop, and ends when the last one has.
///
/// `streams`: requests under way on one HTTP/2 connection.
pub(crate) async fn accept(
    listener: TcpListener,
    tls: watch::Receiver<Configs>,
    streams: u32,
    answers: impl Answers,
    stop: CancellationToken,
) {
    let (crowd, connections) = (Crowd::new(CONNECTIONS), TaskTracker::new());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                if let Some(place) = crowd.enter() {
                    let Ok(address) = stream.local_addr() else { continue };
                    let speech = Speech { tls: tls.borrow().of(address.ip()), streams };
                    connections.spawn(connection::serve(stream, speech, answers.clone(), place, stop.clone()));
                }
            }
            Err(error) => {
                // Out of file descriptors, most likely: accepting again at once would spin.
                warn!(%error, "Accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}
