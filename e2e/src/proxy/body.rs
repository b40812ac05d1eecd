//! Bodies of the proxy's answers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

/// The body of an answer.
#[derive(Debug)]
pub(super) enum Body {
    /// All of it at once.
    Full(Bytes),
    /// As it comes; an error resets the stream.
    Stream(mpsc::Receiver<io::Result<Bytes>>),
}

/// The sending end of a streamed body; dropping it ends the body in order.
pub(super) type Sender = mpsc::Sender<io::Result<Bytes>>;

// === impl Body ===

impl Body {
    pub(super) fn full(bytes: Bytes) -> Self {
        Self::Full(bytes)
    }

    /// A body that is sent piece by piece. Little is kept in between: a client that does not read must be felt.
    pub(super) fn stream() -> (Sender, Self) {
        let (sender, receiver) = mpsc::channel(16);
        (sender, Self::Stream(receiver))
    }
}

/// What a streamed body sends to be reset.
pub(super) fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "reset by a fault")
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(receiver) => receiver.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
