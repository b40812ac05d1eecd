//! The way to the API server.
//!
//! [`Clients`] has one HTTP/2 connection for each kind of traffic, so that no watch, write or lease renewal waits behind the others.
//! An [`ApiClient`] is a connection and a rate limit; [`ApiClient::send`] says for each request whether it may have had an effect.
//! No write is ever repeated here.

mod account;
mod answer;
mod connect;
mod credentials;
mod deadline;
mod gather;
mod limiter;
mod metrics;
mod request;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderValue, USER_AGENT};
use http::{Method, Request, Uri};
use model::plan::ApiError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

pub use account::{Identity, TokenKeeper, service_account};
pub(crate) use answer::Form;
pub use connect::HttpVersion;
pub use deadline::{Class, Deadlines};
pub use limiter::Limiter;
pub use metrics::ClientMetrics;
pub(crate) use request::no_answer;
pub use request::{Answer, CallError, Streaming};

use connect::Wiring;
use credentials::Stack;

use crate::error::Error;

/// How the clients behave; the defaults are upstream's where it has the option.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientOptions {
    /// `--kube-api-qps`; zero or less is no limit.
    pub qps: f32,
    /// `--kube-api-burst`.
    pub burst: u32,
    /// The User-Agent header.
    pub user_agent: String,
    /// Which HTTP to speak.
    pub http: HttpVersion,
    /// For connecting, TLS included.
    pub connect_timeout: Duration,
    /// How long an HTTP/2 connection may be silent before it is pinged.
    pub ping_interval: Duration,
    /// How long a ping may remain unanswered before the connection is given up.
    pub ping_timeout: Duration,
    /// How often files with credentials are looked at, when there are requests. client-go's are looked at every minute (tokens) and every
    /// five minutes (certificates).
    pub credentials_every: Duration,
    /// For the answers.
    pub deadlines: Deadlines,
    /// Requests in flight on one connection. The server allows 100 streams; beyond that they would wait after their deadline has begun.
    pub in_flight: usize,
}

/// One client for each kind of traffic, each with a connection of its own.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Lists and watches.
    pub watches: ApiClient,
    /// The controllers' writes, and the live reads that belong to them. [`ApiClient::limited_apart`] makes one a controller of it.
    pub writes: ApiClient,
    /// The lease.
    pub lease: ApiClient,
    /// Events.
    pub events: ApiClient,
}

/// A connection and a rate limit. Clones share both.
#[derive(Clone, Debug)]
pub struct ApiClient {
    connection: Arc<Connection>,
    limiter: Arc<Limiter>,
    identity: Option<Identity>,
}

struct Connection {
    stack: Stack,
    /// `host:port`, for the metrics.
    host: String,
    user_agent: HeaderValue,
    in_flight: Semaphore,
    deadlines: Deadlines,
    metrics: ClientMetrics,
}

/// A request's turn on a connection; it holds one of the streams.
#[derive(Debug)]
pub struct Turn<'a> {
    connection: &'a Connection,
    /// In whose name, and with which token.
    identity: Option<(&'a Identity, HeaderValue)>,
    _stream: Option<SemaphorePermit<'a>>,
}

/// client-go's `maxRetries` (`rest/request.go` `NewRequest`).
pub(crate) const MAX_RETRIES: u32 = 10;

/// No server is waited for longer than this between two tries, whatever it asks.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

// === impl ClientOptions ===

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            qps: 20.0,
            burst: 30,
            user_agent: concat!("workloads-controller-manager/", env!("CARGO_PKG_VERSION")).to_owned(),
            http: HttpVersion::default(),
            connect_timeout: Duration::from_secs(10),
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(15),
            credentials_every: Duration::from_secs(5),
            deadlines: Deadlines::default(),
            in_flight: 80,
        }
    }
}

// === impl Clients ===

impl Clients {
    /// Connects lazily: the first request of each client opens its connection.
    pub fn new(config: &kube::Config, options: &ClientOptions, metrics: &ClientMetrics) -> Result<Self, Error> {
        Ok(Self {
            watches: ApiClient::new(config, options, metrics, true)?,
            // A request on a dead pooled connection is handed back unsent, not sent again behind the caller's back.
            writes: ApiClient::new(config, options, metrics, false)?,
            lease: ApiClient::new(config, options, metrics, false)?,
            events: ApiClient::new(config, options, metrics, false)?,
        })
    }
}

// === impl ApiClient ===

impl ApiClient {
    /// A client with a connection and a rate limit of its own. `resend_unsent`: whether a request that certainly was not sent, because
    /// its pooled connection was dead, goes out on a new one.
    pub fn new(config: &kube::Config, options: &ClientOptions, metrics: &ClientMetrics, resend_unsent: bool) -> Result<Self, Error> {
        let wiring = Wiring {
            http: options.http,
            connect_timeout: options.connect_timeout,
            ping_interval: options.ping_interval,
            ping_timeout: options.ping_timeout,
            resend_unsent,
        };
        let stack = Stack::new(config, wiring, options.credentials_every)?;
        Self::on(stack, &config.cluster_url, options, metrics)
    }

    /// A client over any service, as tests have them. `server` is what the metrics call it.
    pub fn over(client: kube::Client, server: &Uri, options: &ClientOptions, metrics: &ClientMetrics) -> Result<Self, Error> {
        Self::on(Stack::fixed(client), server, options, metrics)
    }

    fn on(stack: Stack, server: &Uri, options: &ClientOptions, metrics: &ClientMetrics) -> Result<Self, Error> {
        let user_agent = HeaderValue::from_str(&options.user_agent).map_err(|_| Error::UserAgent(options.user_agent.clone()))?;
        let connection = Connection {
            stack,
            host: server.authority().map(ToString::to_string).unwrap_or_default(),
            user_agent,
            in_flight: Semaphore::new(options.in_flight.max(1)),
            deadlines: options.deadlines,
            metrics: metrics.clone(),
        };
        let limiter = Arc::new(Limiter::new(options.qps, options.burst));
        Ok(Self { connection: Arc::new(connection), limiter, identity: None })
    }

    /// The same connection under a rate limit of its own: upstream has a bucket for each controller.
    #[must_use]
    pub fn limited_apart(&self, qps: f32, burst: u32) -> Self {
        Self { limiter: Arc::new(Limiter::new(qps, burst)), ..self.clone() }
    }

    /// The same, in that name: for a connection that has no credentials of its own, since a client certificate would win over a token.
    /// Watches are not opened in it.
    #[must_use]
    pub fn identified(&self, identity: Identity) -> Self {
        Self { identity: Some(identity), ..self.clone() }
    }

    /// Sends a request, whose URI is a path and a query, and reads the whole answer.
    ///
    /// Waits for the rate limit and a free stream first; the deadline of `class` starts behind that. A read that is refused with
    /// Retry-After is repeated as client-go does; a write never is.
    pub async fn send(&self, request: Request<Bytes>, class: Class) -> Result<Answer, CallError> {
        for _ in 0..MAX_RETRIES {
            match self.send_once(request.clone(), class).await {
                Err(CallError::Refused(error)) if class.may_repeat() => {
                    let Some(delay) = patience(&error) else { return Err(CallError::Refused(error)) };
                    self.connection.metrics.retried(request.method(), &self.connection.host, error.code);
                    tokio::time::sleep(delay).await;
                }
                other => return other,
            }
        }
        self.send_once(request, class).await
    }

    /// Sends a request and hands out the answer's body as it comes: a watch. Not rate limited (upstream `rest/request.go` `Watch`), and
    /// no deadline once the answer has begun.
    pub async fn open(&self, request: Request<Bytes>) -> Result<Streaming, CallError> {
        let connection = &*self.connection;
        let (method, request) = connection.prepare(request);
        let opened =
            request::open(&connection.stack.client().await, request, connection.deadlines.watch_start, Class::Get.body_limit()).await;
        connection.metrics.answered(&method, &connection.host, opened.status);
        opened.result
    }

    /// Waits for the rate limit and a free stream. Dropping the future before it is ready gives up without a trace, which a caller that
    /// is told to stop wants; what [`Turn::send`] has sent is to be waited for.
    pub async fn turn(&self, method: &Method) -> Turn<'_> {
        let connection = &*self.connection;
        if let Some(waited) = self.limiter.wait().await {
            connection.metrics.throttled(method, &connection.host, waited);
        }
        let identity = match &self.identity {
            Some(identity) => identity.header().await.map(|token| (identity, token)),
            None => None,
        };
        // Never closed, so it cannot fail.
        Turn { connection, identity, _stream: connection.in_flight.acquire().await.ok() }
    }

    async fn send_once(&self, request: Request<Bytes>, class: Class) -> Result<Answer, CallError> {
        self.turn(request.method()).await.send(request, class).await
    }
}

// === impl Turn ===

impl Turn<'_> {
    /// Sends the request, once, and reads the whole answer. The deadline of `class` starts here.
    pub async fn send(self, request: Request<Bytes>, class: Class) -> Result<Answer, CallError> {
        let connection = self.connection;
        let (method, mut request) = connection.prepare(request);
        if let Some((_, token)) = &self.identity {
            request.headers_mut().insert(AUTHORIZATION, token.clone());
        }
        let client = connection.stack.client().await;
        let sent = Instant::now();
        connection.metrics.sent(&method, &connection.host, request.body().len());
        let limit = connection.deadlines.of(class);
        let exchange = request::exchange(&client, request, limit, class.body_limit()).await;
        connection.metrics.answered(&method, &connection.host, exchange.status);
        connection.metrics.finished(&method, &connection.host, sent.elapsed(), exchange.size);
        if let (Some((identity, token)), Err(CallError::Refused(ApiError { code: 401, .. }))) = (&self.identity, &exchange.result) {
            identity.refused(token);
        }
        exchange.result
    }
}

/// How long the server asks to be left alone before the same request, which had no effect, may be sent again. Like client-go, this heeds
/// 429 and 5xx only (`rest/with_retry.go` `checkWait`): a 409 of a taken generated name says Retry-After, too, and means another name.
pub(crate) fn patience(error: &ApiError) -> Option<Duration> {
    let heeded = error.code == 429 || error.code >= 500;
    error.retry_after.filter(|_| heeded).map(|delay| delay.min(LONGEST_RETRY_AFTER))
}

// === impl Connection ===

impl Connection {
    fn prepare(&self, mut request: Request<Bytes>) -> (Method, Request<Bytes>) {
        request.headers_mut().entry(USER_AGENT).or_insert_with(|| self.user_agent.clone());
        (request.method().clone(), request)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("host", &self.host).finish_non_exhaustive()
    }
}
