//! A server that answers what the test tells it to, and a client that tells how an answer came.

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use e2e::proxy::Proxy;
use e2e::wait;
use http::{HeaderMap, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::{Client as HttpClient, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use model::protobuf::write::{self, Writer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server without Kubernetes: it counts requests, answers each with its number, and says on watches what the test says.
pub struct Upstream {
    state: Arc<State>,
    folder: tempfile::TempDir,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    url: Mutex<String>,
    hits: AtomicU64,
    watches: Mutex<Vec<(bool, mpsc::UnboundedSender<Bytes>)>>,
    credentials: Mutex<Vec<String>>,
}

struct Pieces(mpsc::UnboundedReceiver<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

impl Upstream {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let state = Arc::new(State::default());
        *state.url.lock().unwrap() = format!("http://{}", listener.local_addr()?);
        let task = tokio::spawn(serve(Arc::clone(&state), listener));
        Ok(Self { state, folder: tempfile::tempdir()?, task })
    }

    pub fn url(&self) -> String {
        self.state.url.lock().unwrap().clone()
    }

    pub fn kubeconfig(&self) -> Result<PathBuf> {
        let url = self.url();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "t",
            "clusters": [{"name": "t", "cluster": {"server": url}}],
            "users": [{"name": "t", "user": {"token": "secret"}}],
            "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
        });
        let file = self.folder.path().join("upstream.kubeconfig");
        std::fs::write(&file, config.to_string())?;
        Ok(file)
    }

    /// A proxy in front of it.
    pub async fn proxy(&self) -> Result<Proxy> {
        Proxy::start_seeded(&self.kubeconfig()?, 7).await
    }

    pub fn hits(&self) -> u64 {
        self.state.hits.load(Ordering::SeqCst)
    }

    /// The Authorization headers that came.
    pub fn credentials(&self) -> Vec<String> {
        self.state.credentials.lock().unwrap().clone()
    }

    /// Says an event on all watches.
    pub fn say(&self, event_type: &str, name: &str) {
        for (protobuf, watch) in &*self.state.watches.lock().unwrap() {
            let bytes = if *protobuf { protobuf_event(event_type, name) } else { json_event(event_type, name) };
            // Those that have ended are still in the list.
            let _ = watch.send(bytes);
        }
    }

    /// Ends all watches.
    pub fn hang_up(&self) {
        self.state.watches.lock().unwrap().clear();
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn json_event(event_type: &str, name: &str) -> Bytes {
    let annotations = if event_type == "BOOKMARK" { json!({"k8s.io/initial-events-end": "true"}) } else { json!({}) };
    format!("{}\n", json!({"type": event_type, "object": {"metadata": {"name": name, "annotations": annotations}}})).into()
}

pub fn protobuf_event(event_type: &str, name: &str) -> Bytes {
    let object = Writer::new().message(1, &Writer::new().text(1, name)).into_bytes();
    write::frame(&write::watch_event(event_type, &write::envelope("v1", "Pod", &object))).into()
}

async fn serve(state: Arc<State>, listener: TcpListener) {
    while let Ok((socket, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        let service = service_fn(move |request| answer(Arc::clone(&state), request));
        tokio::spawn(async move {
            auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await.map_err(drop)
        });
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let _ = body.collect().await;
    let hit = state.hits.fetch_add(1, Ordering::SeqCst) + 1;
    let text = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    state.credentials.lock().unwrap().extend(text("authorization"));
    let protobuf = text("accept").is_some_and(|accept| accept.contains("protobuf"));
    if !head.uri.query().unwrap_or_default().contains("watch=true") {
        return Ok(Response::new(Full::from(json!({"hit": hit}).to_string()).boxed_unsync()));
    }
    let (sender, receiver) = mpsc::unbounded_channel();
    state.watches.lock().unwrap().push((protobuf, sender));
    let mut response = Response::new(Pieces(receiver).boxed_unsync());
    let kind = if protobuf { "application/vnd.kubernetes.protobuf;stream=watch" } else { "application/json" };
    response.headers_mut().insert("content-type", kind.parse().unwrap());
    Ok(response)
}

/// A client over HTTP/2 or 1.1.
pub struct Client {
    http: HttpClient<HttpConnector, Full<Bytes>>,
    url: String,
}

/// An answer, all of it.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// An open watch.
pub struct Watch {
    body: Incoming,
    /// What came so far.
    pub text: String,
    /// As bytes.
    pub bytes: Vec<u8>,
}

impl Client {
    pub fn new(proxy: &Proxy, http2: bool) -> Self {
        let http = HttpClient::builder(TokioExecutor::new()).http2_only(http2).build_http();
        Self { http, url: proxy.url().to_owned() }
    }

    pub async fn send(&self, method: Method, path: &str, accept: &str) -> Result<Answer> {
        let (head, body) = self.open(method, path, accept).await?.into_parts();
        Ok(Answer { code: head.status.as_u16(), headers: head.headers, body: body.collect().await?.to_bytes() })
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, "application/json").await
    }

    pub async fn post(&self, path: &str) -> Result<Answer> {
        self.send(Method::POST, path, "application/json").await
    }

    pub async fn watch(&self, path: &str, accept: &str) -> Result<Watch> {
        let response = self.open(Method::GET, path, accept).await?;
        ensure!(response.status() == 200, "{}", response.status());
        Ok(Watch { body: response.into_body(), text: String::new(), bytes: Vec::new() })
    }

    async fn open(&self, method: Method, path: &str, accept: &str) -> Result<Response<Incoming>> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        let request = request.header("accept", accept).header("authorization", "Bearer secret").body(Full::default())?;
        Ok(self.http.request(request).await?)
    }
}

impl Answer {
    /// The number that the server gave it.
    pub fn hit(&self) -> Result<u64> {
        let body: serde_json::Value = serde_json::from_slice(&self.body)?;
        body["hit"].as_u64().with_context(|| format!("{body}"))
    }
}

impl Watch {
    /// Reads until it has had so many bytes of events that their text contains `text`.
    pub async fn reads(&mut self, text: &str) -> Result<()> {
        let reading = async {
            while !self.text.contains(text) {
                ensure!(self.next().await?, "ended after {:?}", self.text);
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, reading).await.context("no such event")?
    }

    /// Reads to the end: whether it was an orderly one.
    pub async fn ends(&mut self) -> Result<bool> {
        let reading = async {
            loop {
                match self.next().await {
                    Ok(true) => {}
                    Ok(false) => return true,
                    Err(_) => return false,
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.context("no end")
    }

    /// Whether there was another piece.
    async fn next(&mut self) -> Result<bool> {
        let Some(frame) = self.body.frame().await else { return Ok(false) };
        if let Ok(data) = frame?.into_data() {
            self.bytes.extend_from_slice(&data);
            self.text.push_str(&String::from_utf8_lossy(&data));
        }
        Ok(true)
    }
}

/// Whether nothing happens for a moment: the one thing that cannot be waited for.
pub async fn hangs<T>(work: impl Future<Output = T>) -> bool {
    tokio::time::timeout(Duration::from_millis(150), work).await.is_err()
}

pub async fn until(what: &str, mut check: impl FnMut() -> bool) -> Result<()> {
    wait::until(what, PATIENCE, async || {
        ensure!(check(), "not yet");
        Ok(())
    })
    .await
}

/// How long it takes.
pub async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let began = Instant::now();
    (work.await, began.elapsed())
}
