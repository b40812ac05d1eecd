//! Accepting connections and taking requests off them.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, PoisonError};

use anyhow::Result;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::Shared;
use super::body::{self, Body};
use super::connection::{Control, Valve};
use super::exchange::{Exchange, Reply};
use super::rule::{Fault, Loss};
use super::target::Target;
use super::upstream::Connector;

/// As kube-apiserver has it.
const STREAMS: u32 = 100;

/// Large enough for a list of many pods without a round trip for each piece.
const WINDOW: u32 = 1 << 20;

/// Accepts until the proxy ends.
pub(super) async fn accept(shared: Arc<Shared>, listener: TcpListener) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => shared.tasks.spawn(serve(Arc::clone(&shared), socket)),
            // Out of file descriptors, most likely: others may be given back.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn serve(shared: Arc<Shared>, socket: TcpStream) -> Result<()> {
    socket.set_nodelay(true)?;
    let control = shared.connections.open();
    let connector = shared.upstream.lock().unwrap_or_else(PoisonError::into_inner).clone().connector(&shared.tasks)?;
    let service = service_fn({
        let (shared, control) = (Arc::clone(&shared), Arc::clone(&control));
        move |request| answer(Arc::clone(&shared), Arc::clone(&control), connector.clone(), request)
    });
    let mut builder = auto::Builder::new(shared.tasks.clone());
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let served = builder.serve_connection(TokioIo::new(Valve::new(socket, Arc::clone(&control))), service);
    tokio::select! {
        biased;
        () = control.closed.cancelled() => {}
        _ = served => {}
    }
    Ok(())
}

/// Takes a request in whole and sends it on its way. An error resets its stream.
async fn answer(
    shared: Arc<Shared>,
    control: Arc<Control>,
    connector: Connector,
    request: Request<Incoming>,
) -> io::Result<Response<Body>> {
    let (head, incoming) = request.into_parts();
    let body = incoming.collect().await.map_err(io::Error::other)?.to_bytes();
    let target = Target::of(&head.method, &head.uri, &head.headers);
    let rules = shared.registry.draw(&target);
    let faults = rules.iter().filter(|active| !matches!(active.rule.fault, Fault::Record(_))).map(|active| active.rule.fault.to_string());
    let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let entry = shared.log.begin(path, target.clone(), faults.collect());
    let exchange = Exchange { shared: Arc::clone(&shared), connector, head, body, target, rules, entry };
    let (sender, reply) = oneshot::channel();
    let proxy = Arc::clone(&shared);
    // A server goes on with what it was asked, even if nobody waits for the answer any more.
    shared.tasks.spawn(async move {
        if sender.send(exchange.run().await).is_err() {
            proxy.log.abandoned(entry);
        }
    });
    match reply.await {
        Ok(Reply::Answer(response)) => Ok(response),
        Ok(Reply::Lost(Loss::Stream)) => Err(body::reset()),
        Ok(Reply::Lost(Loss::Connection)) => {
            control.closed.cancel();
            std::future::pending().await
        }
        // No answer, ever; and without a reply the proxy is ending.
        Ok(Reply::Lost(Loss::Silence)) | Err(_) => std::future::pending().await,
    }
}
