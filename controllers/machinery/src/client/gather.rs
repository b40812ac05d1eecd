//! Reads a socket in larger pieces: an API server flushes every watch event by itself, and TLS takes a record, header and body, by two reads.
//! Here whatever has come is taken by one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

/// A connection read that way.
#[derive(Debug)]
pub(super) struct Gathered<S> {
    socket: S,
    buffer: Box<[u8]>,
    /// What of the buffer has been read from the socket and not yet been handed on.
    pending: std::ops::Range<usize>,
}

/// As much as four TLS records.
const BUFFER: usize = 64 << 10;

// === impl Gathered ===

impl<S> Gathered<S> {
    pub(super) fn new(socket: S) -> Self {
        Self { socket, buffer: vec![0; BUFFER].into_boxed_slice(), pending: 0..0 }
    }
}

impl<S: Read + Unpin> Read for Gathered<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, mut into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.pending.is_empty() {
            let mut space = ReadBuf::new(&mut this.buffer);
            ready!(Pin::new(&mut this.socket).poll_read(context, space.unfilled()))?;
            this.pending = 0..space.filled().len();
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

    #[tokio::test]
    async fn everything_is_handed_on_in_pieces_of_any_size_up_to_the_end() {
        let (mut server, client) = tokio::io::duplex(1 << 20);
        let mut client = TokioIo::new(Gathered::new(TokioIo::new(client)));
        let sent: Vec<u8> = (0..BUFFER * 2 + 7).map(|n| (n % 251) as u8).collect();
        server.write_all(&sent).await.unwrap();
        drop(server);
        let mut read = Vec::new();
        for length in [1, 5, 1000, BUFFER, BUFFER].into_iter().cycle() {
            let mut piece = vec![0; length];
            let length = client.read(&mut piece).await.unwrap();
            read.extend_from_slice(&piece[..length]);
            if length == 0 {
                break;
            }
        }
        assert!(read == sent);
    }
}
