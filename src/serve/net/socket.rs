//! A client's socket: what was read ahead, and an end to writes that nobody reads.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// How long a client may read nothing of what is sent to it.
const STALL: Duration = Duration::from_secs(30);

/// The header of a TLS record.
const RECORD_HEADER: usize = 5;

/// What Go answers, and its clients know (`net/http/server.go` `conn.serve`).
const NOT_TLS: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// How much of a request that came over plain HTTP is read, so that the answer is not lost with it.
const DRAIN: u64 = 64 << 10;

/// A TCP connection whose first bytes have been looked at.
pub(super) struct Socket {
    stream: TcpStream,
    ahead: [u8; RECORD_HEADER],
    /// Bytes of `ahead` that have been handed out.
    taken: usize,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

// === impl Socket ===

impl Socket {
    /// Reads the first record's header. A client that speaks plain HTTP is told so, and there is no socket.
    pub(super) async fn open(mut stream: TcpStream) -> io::Result<Option<Self>> {
        let mut ahead = [0; RECORD_HEADER];
        stream.read_exact(&mut ahead).await?;
        // Go's `tlsRecordHeaderLooksLikeHTTP`.
        if [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"].contains(&&ahead) {
            stream.write_all(NOT_TLS).await?;
            stream.shutdown().await?;
            tokio::io::copy(&mut stream.take(DRAIN), &mut tokio::io::sink()).await?;
            return Ok(None);
        }
        Ok(Some(Self { stream, ahead, taken: 0, stalled: None }))
    }

    /// Fails once a write has waited too long.
    fn watched<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + STALL)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let rest = self.ahead.get(self.taken..).unwrap_or_default();
        if rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let now = rest.len().min(buffer.remaining());
        buffer.put_slice(rest.get(..now).unwrap_or_default());
        self.taken += now;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
