//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::trace;

use super::crowd::{Busy, Place};
use super::socket::Socket;
use crate::serve::answer::Body;

/// For the TLS handshake, from the first byte on.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Upstream's `ReadHeaderTimeout` (apiserver `pkg/server/secure_serving.go` `Serve`).
const HEADERS: Duration = Duration::from_secs(32);
/// Upstream's `IdleTimeout`.
const IDLE: Duration = Duration::from_secs(90);
/// A client that is gone without a word is noticed by a ping.
const PING: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(15);
/// Upstream allows 100, and an object in each; here are only pages to read.
pub(crate) const STREAMS: u32 = 32;
/// Header bytes of a request. A token with many audiences has a few thousand.
const HEADER_BYTES: usize = 32 << 10;
/// What a connection may send of bodies that nobody has read; HTTP/2's own default, and no page takes as much.
const BODY_BYTES: u32 = 64 << 10;
/// How long a client may take to leave after it was asked to.
const GOODBYE: Duration = Duration::from_secs(5);

/// Who is at the other end.
#[derive(Clone)]
pub(crate) struct Peer {
    /// The client's certificate and what came with it; unverified, but the client has its key.
    pub(crate) certificates: Arc<[CertificateDer<'static>]>,
    /// The connection ends after the requests that are being answered.
    goodbye: Arc<Notify>,
}

/// How a connection is spoken on.
pub(super) struct Speech {
    /// The certificate and the rest.
    pub(super) tls: Arc<ServerConfig>,
    /// Requests under way at the same time, in HTTP/2.
    pub(super) streams: u32,
}

/// Answers requests.
pub(crate) trait Answers: Clone + Send + 'static {
    /// The answer. Errors are answers, too.
    fn answer(self, request: Request<Incoming>, peer: Peer) -> impl Future<Output = Response<Body>> + Send;
}

// === impl Peer ===

impl Peer {
    /// Ends the connection after this request. Clients that are nobody in particular do not get to keep one (upstream gate
    /// `UnauthenticatedHTTP2DOSMitigation`).
    pub(crate) fn say_goodbye(&self) {
        self.goodbye.notify_one();
    }
}

/// Serves a connection until it ends, or has to.
pub(super) async fn serve(stream: TcpStream, speech: Speech, answers: impl Answers, place: Place, stop: CancellationToken) {
    let leave = place.leave().clone();
    let whole = async {
        let shaken = stop.run_until_cancelled(tokio::time::timeout(HANDSHAKE, handshake(stream, speech.tls))).await;
        let Some(Ok(Some(stream))) = shaken else { return };
        exchange(stream, speech.streams, answers, &place, stop.clone()).await;
    };
    // `stop` alone does not cut off an answer; `exchange` heeds it.
    let _: Option<()> = leave.run_until_cancelled(whole).await;
}

async fn handshake(stream: TcpStream, tls: Arc<ServerConfig>) -> Option<TlsStream<Socket>> {
    let _ = stream.set_nodelay(true);
    match Socket::open(stream).await {
        Ok(Some(socket)) => TlsAcceptor::from(tls).accept(socket).await.inspect_err(|error| trace!(%error, "A TLS handshake failed")).ok(),
        Ok(None) => None,
        Err(error) => {
            trace!(%error, "A connection broke before its TLS handshake");
            None
        }
    }
}

async fn exchange(stream: TlsStream<Socket>, streams: u32, answers: impl Answers, place: &Place, stop: CancellationToken) {
    let (_, session) = stream.get_ref();
    let certificates = session.peer_certificates().unwrap_or_default().iter().cloned().map(CertificateDer::into_owned).collect();
    let http2 = session.alpn_protocol() == Some(b"h2");
    let peer = Peer { certificates, goodbye: Arc::new(Notify::new()) };
    let (busy, from) = (place.counter(), peer.clone());
    let service = service_fn(move |request| {
        let (answers, from, busy) = (answers.clone(), from.clone(), Busy::with(&busy));
        async move {
            let answer = answers.answer(request, from).await;
            drop(busy);
            Ok::<_, Infallible>(answer)
        }
    });
    if http2 {
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(streams)
            .max_header_list_size(HEADER_BYTES as u32)
            .initial_stream_window_size(BODY_BYTES)
            .initial_connection_window_size(BODY_BYTES)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING_ANSWER)
            .max_send_buf_size(64 << 10);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        run(connection.as_mut(), hyper::server::conn::http2::Connection::graceful_shutdown, &peer, place, stop).await;
    } else {
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEADERS).max_buf_size(HEADER_BYTES);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        run(connection.as_mut(), hyper::server::conn::http1::Connection::graceful_shutdown, &peer, place, stop).await;
    }
}

/// Drives a connection; asks it to end when it is idle for too long, when the client is not welcome any more, or at the end.
async fn run<C>(mut connection: Pin<&mut C>, end: impl Fn(Pin<&mut C>), peer: &Peer, place: &Place, stop: CancellationToken)
where
    C: Future<Output = hyper::Result<()>>,
{
    tokio::select! {
        ended = connection.as_mut() => return report(ended),
        () = peer.goodbye.notified() => {}
        () = idle(place) => {}
        () = stop.cancelled() => {}
    }
    end(connection.as_mut());
    if let Ok(ended) = tokio::time::timeout(GOODBYE, connection).await {
        report(ended);
    }
}

fn report(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        trace!(%error, "A connection broke");
    }
}

/// Ends when nothing has been asked for a while.
async fn idle(place: &Place) {
    let mut since = Instant::now();
    loop {
        tokio::time::sleep(PING).await;
        if !place.is_idle() {
            since = Instant::now();
        } else if since.elapsed() >= IDLE {
            return;
        }
    }
}
