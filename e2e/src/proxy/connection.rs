//! Connections of the proxy's clients: served, closed under them, or frozen.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// What can be done to a connection from outside.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// The connection is closed, with everything on it.
    pub(super) closed: CancellationToken,
    frozen: AtomicBool,
}

/// All connections there are.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<Vec<Weak<Control>>>,
    /// New connections are frozen from the start.
    partitioned: AtomicBool,
}

/// A socket that can be frozen: nothing is read or written any more, pings included, and nobody is told. It never thaws, as a path whose
/// packets are dropped by a forgetful router; what a partition leaves behind is closed.
#[derive(Debug)]
pub(super) struct Valve {
    socket: TcpStream,
    control: Arc<Control>,
}

// === impl Control ===

impl Control {
    fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed)
    }
}

// === impl Connections ===

impl Connections {
    pub(super) fn open(&self) -> Arc<Control> {
        let control = Arc::new(Control::default());
        control.frozen.store(self.partitioned.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|control| control.strong_count() > 0);
        open.push(Arc::downgrade(&control));
        control
    }

    pub(super) fn count(&self) -> usize {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|control| control.strong_count() > 0).count()
    }

    pub(super) fn close(&self) {
        self.each(|control| control.closed.cancel());
    }

    pub(super) fn close_frozen(&self) {
        self.each(|control| {
            if control.is_frozen() {
                control.closed.cancel();
            }
        });
    }

    pub(super) fn freeze(&self) {
        self.each(|control| control.frozen.store(true, Ordering::Relaxed));
    }

    pub(super) fn partition(&self, on: bool) {
        self.partitioned.store(on, Ordering::Relaxed);
    }

    fn each(&self, act: impl Fn(&Control)) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().filter_map(Weak::upgrade).for_each(|control| act(&control));
    }
}

// === impl Valve ===

impl Valve {
    pub(super) fn new(socket: TcpStream, control: Arc<Control>) -> Self {
        Self { socket, control }
    }
}

// Pending without a waker is meant: a frozen connection is never polled again, unless something else on it wakes its task.
impl AsyncRead for Valve {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.control.is_frozen() { Poll::Pending } else { Pin::new(&mut this.socket).poll_read(context, buffer) }
    }
}

impl AsyncWrite for Valve {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.control.is_frozen() { Poll::Pending } else { Pin::new(&mut this.socket).poll_write(context, data) }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.control.is_frozen() { Poll::Pending } else { Pin::new(&mut this.socket).poll_flush(context) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}
