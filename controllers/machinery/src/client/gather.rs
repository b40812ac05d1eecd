//! Reads a socket in larger pieces, so that a stream of small ones does not wake the process for each.
//!
//! An API server flushes every watch event by itself: a list of a hundred thousand pods is a hundred thousand times a wake-up, three
//! reads and a TLS record. Here the socket is emptied at once, and left alone for a moment once pieces follow each other closely. What
//! comes alone is never late, and costs no second wake-up; what comes in a stream is late by a millisecond or two.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::time::{Instant, Sleep};

/// A connection read that way.
#[derive(Debug)]
pub(super) struct Gathered<S> {
    socket: S,
    buffer: Box<[u8]>,
    /// What of the buffer has been read from the socket and not yet been handed on.
    pending: std::ops::Range<usize>,
    /// Runs while the socket is left alone.
    rest: Pin<Box<Sleep>>,
    resting: bool,
    /// When the socket was read last.
    read: Option<Instant>,
}

/// As much as four TLS records.
const BUFFER: usize = 64 << 10;
/// The timer's own grain; longer ones would be felt.
const REST: Duration = Duration::from_millis(1);
/// Pieces that follow each other like this are a stream: a rest between them, and what a timer adds to one.
const CLOSELY: Duration = Duration::from_millis(3);

// === impl Gathered ===

impl<S> Gathered<S> {
    pub(super) fn new(socket: S) -> Self {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Self { socket, buffer, pending: 0..0, rest: Box::pin(tokio::time::sleep(Duration::ZERO)), resting: false, read: None }
    }
}

impl<S: Read + Unpin> Gathered<S> {
    /// Fills the buffer from the socket, after the rest if there is one.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.resting {
            ready!(self.rest.as_mut().poll(context));
            self.resting = false;
        }
        let mut space = ReadBuf::new(&mut self.buffer);
        ready!(Pin::new(&mut self.socket).poll_read(context, space.unfilled()))?;
        let read = space.filled().len();
        self.pending = 0..read;
        let now = Instant::now();
        let is_stream = self.read.replace(now).is_some_and(|last| now - last < CLOSELY);
        // A full buffer says that there is more; a short read has emptied the socket. Its end is not waited for.
        if is_stream && (1..BUFFER).contains(&read) {
            self.rest.as_mut().reset(now + REST);
            self.resting = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Read + Unpin> Read for Gathered<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, mut into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.pending.is_empty() {
            ready!(this.poll_fill(context))?;
        }
        let length = this.pending.len().min(into.remaining());
        let end = this.pending.start + length;
        into.put_slice(this.buffer.get(this.pending.start..end).unwrap_or_default());
        this.pending.start = end;
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin> Write for Gathered<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, slices)
    }
}

impl<S: Connection> Connection for Gathered<S> {
    fn connected(&self) -> Connected {
        self.socket.connected()
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_comes_alone_is_read_at_once_and_a_stream_in_larger_pieces() {
        let (mut server, client) = tokio::io::duplex(1 << 20);
        let mut client = TokioIo::new(Gathered::new(TokioIo::new(client)));
        let started = Instant::now();
        let mut piece = [0; 16];
        for text in [&b"first"[..], b"next"] {
            server.write_all(text).await.unwrap();
            assert_eq!(client.read(&mut piece).await.unwrap(), text.len());
            assert_eq!(started.elapsed(), Duration::ZERO);
        }
        for _ in 0..3 {
            server.write_all(b"more").await.unwrap();
        }
        assert_eq!(client.read(&mut piece).await.unwrap(), 12, "two pieces at once are a stream");
        assert!((REST..=REST * 2).contains(&started.elapsed()));
        tokio::time::sleep(CLOSELY).await;
        for text in [&b"alone"[..], b"again"] {
            tokio::time::sleep(CLOSELY).await;
            server.write_all(text).await.unwrap();
            let sent = Instant::now();
            assert_eq!(client.read(&mut piece).await.unwrap(), 5);
            assert_eq!(sent.elapsed(), Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_not_held_up_and_nothing_is_lost() {
        let (mut server, client) = tokio::io::duplex(1 << 20);
        let mut client = TokioIo::new(Gathered::new(TokioIo::new(client)));
        let sent: Vec<u8> = (0..(1 << 20)).map(|at: u32| at.to_le_bytes()[1]).collect();
        server.write_all(&sent).await.unwrap();
        drop(server);
        let started = Instant::now();
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.unwrap();
        assert!(received == sent);
        assert!(started.elapsed() <= REST * 2, "{:?}", started.elapsed());
    }
}
