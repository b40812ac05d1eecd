//! The client against a server of our own on a real socket: what counts is what hyper really does.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use prometheus::Registry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::clock::Clock;

type Reply = Response<Full<Bytes>>;

struct Server {
    uri: Uri,
    connections: Arc<AtomicUsize>,
    /// Method, path, User-Agent and HTTP version of each request.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start<F, R>(answer: F) -> Self
    where
        F: Fn(Request<Bytes>, usize) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (counted, log) = (Arc::clone(&connections), Arc::clone(&requests));
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let (answer, log) = (answer.clone(), Arc::clone(&log));
                let service = service_fn(move |request: Request<Incoming>| {
                    let (answer, log) = (answer.clone(), Arc::clone(&log));
                    async move {
                        let (parts, body) = request.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let agent = parts.headers.get(USER_AGENT).unwrap().to_str().unwrap();
                        let count = {
                            let mut log = log.lock();
                            log.push(format!("{} {} {agent} {:?}", parts.method, parts.uri.path(), parts.version));
                            log.len()
                        };
                        Ok::<_, Infallible>(answer(Request::from_parts(parts, body), count).await)
                    }
                });
                tokio::spawn(async move {
                    auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await.ok();
                });
            }
        });
        Self { uri, connections, requests }
    }

    fn requests(&self) -> usize {
        self.requests.lock().len()
    }
}

fn client(uri: &Uri, options: &ClientOptions) -> (Clients, Registry) {
    let registry = Registry::new();
    let metrics = ClientMetrics::register(&registry).unwrap();
    (Clients::new(&kube::Config::new(uri.clone()), options, &metrics).unwrap(), registry)
}

fn reply(status: u16, body: &'static str) -> Reply {
    Response::builder().status(status).header("Content-Type", "application/json").body(body.into()).unwrap()
}

fn asking_to_wait(status: u16, seconds: &'static str) -> Reply {
    let mut reply = reply(status, r#"{"kind":"Status","reason":"Timeout","message":"try again"}"#);
    reply.headers_mut().insert("Retry-After", seconds.parse().unwrap());
    reply
}

fn get() -> Request<Bytes> {
    Request::get("/api/v1/pods").body(Bytes::new()).unwrap()
}

fn post() -> Request<Bytes> {
    Request::post("/api/v1/namespaces/a/pods").body(Bytes::from_static(b"{}")).unwrap()
}

fn unlimited() -> ClientOptions {
    ClientOptions { qps: 0.0, user_agent: "tester".to_owned(), ..ClientOptions::default() }
}

/// Takes connections and does with each what it is told.
async fn raw<F, R>(handle: F) -> Uri
where
    F: Fn(tokio::net::TcpStream) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            tokio::spawn(handle(socket));
        }
    });
    uri
}

#[tokio::test]
async fn hundreds_of_requests_share_one_connection() {
    let server = Server::start(|_, _| async { reply(201, "{}") }).await;
    let (clients, registry) = client(&server.uri, &unlimited());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..300 {
        let client = clients.writes.clone();
        tasks.spawn(async move { client.send(post(), Class::Write).await });
    }
    for answer in tasks.join_all().await {
        let answer = answer.unwrap();
        assert_eq!((answer.status, &*answer.content_type, &*answer.body), (StatusCode::CREATED, "application/json", &b"{}"[..]));
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    assert_eq!(server.requests.lock()[0], "POST /api/v1/namespaces/a/pods tester HTTP/2.0");
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let host = server.uri.authority().unwrap();
    assert!(text.contains(&format!(r#"rest_client_requests_total{{code="201",host="{host}",method="POST"}} 300"#)), "{text}");
}

#[tokio::test]
async fn no_more_than_so_many_writes_are_in_flight() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (flying, highest) = (Arc::clone(&now), Arc::clone(&most));
    let server = Server::start(move |_, _| {
        let (flying, highest) = (Arc::clone(&flying), Arc::clone(&highest));
        async move {
            highest.fetch_max(flying.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            flying.fetch_sub(1, Ordering::SeqCst);
            reply(201, "{}")
        }
    })
    .await;
    let (clients, _) = client(&server.uri, &ClientOptions { in_flight: 7, ..unlimited() });
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let client = clients.writes.clone();
        tasks.spawn(async move { client.send(post(), Class::Write).await.unwrap() });
    }
    tasks.join_all().await;
    assert!(most.load(Ordering::SeqCst) <= 7);
}

#[tokio::test]
async fn http1_is_there_for_those_who_need_it() {
    let server = Server::start(|_, _| async { reply(200, "{}") }).await;
    let (clients, _) = client(&server.uri, &ClientOptions { http: HttpVersion::Http1, ..unlimited() });
    clients.writes.send(get(), Class::Get).await.unwrap();
    assert_eq!(server.requests.lock()[0], "GET /api/v1/pods tester HTTP/1.1");
}

#[tokio::test]
async fn refused_write_is_never_repeated() {
    let server = Server::start(|_, count| async move { if count < 4 { asking_to_wait(429, "0") } else { reply(201, "{}") } }).await;
    let (clients, _) = client(&server.uri, &unlimited());
    let Err(CallError::Refused(error)) = clients.writes.send(post(), Class::Write).await else { panic!() };
    assert_eq!((error.code, error.retry_after), (429, Some(Duration::ZERO)));
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn write_answered_with_504_is_lost_a_read_is_refused() {
    let server = Server::start(|_, _| async { reply(504, r#"{"kind":"Status","reason":"Timeout","message":"late","code":504}"#) }).await;
    let (clients, _) = client(&server.uri, &unlimited());
    assert!(matches!(clients.writes.send(post(), Class::Write).await, Err(CallError::Lost(error)) if error.code == 504));
    assert!(matches!(clients.writes.send(get(), Class::Get).await, Err(CallError::Refused(error)) if error.code == 504));
    assert_eq!(server.requests(), 2, "without Retry-After not even a read is repeated");
}

#[tokio::test]
async fn read_is_repeated_when_the_server_asks_for_it() {
    let server = Server::start(|_, count| async move { if count < 4 { asking_to_wait(503, "0") } else { reply(200, "{}") } }).await;
    let (clients, registry) = client(&server.uri, &unlimited());
    clients.writes.send(get(), Class::Get).await.unwrap();
    assert_eq!(server.requests(), 4);
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    assert!(text.contains("rest_client_request_retries_total{code=\"503\""), "{text}");
}

#[tokio::test]
async fn read_is_given_up_after_ten_retries() {
    let server = Server::start(|_, _| async { asking_to_wait(429, "0") }).await;
    let (clients, _) = client(&server.uri, &unlimited());
    assert!(matches!(clients.writes.send(get(), Class::List).await, Err(CallError::Refused(error)) if error.code == 429));
    assert_eq!(server.requests(), 11);
    assert!(clients.watches.send(get(), Class::Page).await.is_err());
    assert_eq!(server.requests(), 12, "a source has a back-off of its own");
}

#[tokio::test]
async fn refused_connection_is_certainly_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let (clients, registry) = client(&uri, &unlimited());
    let Err(CallError::NotSent(error)) = clients.writes.send(post(), Class::Write).await else { panic!() };
    assert_eq!(error.code, 0);
    assert!(error.message.contains("onnection refused"), "{}", error.message);
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    assert!(text.contains(r#"rest_client_requests_total{code="<error>""#), "{text}");
}

#[tokio::test]
async fn connection_that_breaks_before_the_answer_is_lost() {
    for http in [HttpVersion::Http1, HttpVersion::Http2] {
        let uri = raw(move |mut socket| async move {
            let mut buffer = [0; 4096];
            if http == HttpVersion::Http2 {
                // An empty SETTINGS frame: now the client believes in the connection.
                socket.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
            }
            // Up to the request's body, its last part.
            let mut seen = Vec::new();
            while !seen.windows(2).any(|window| window == b"{}") {
                let length = socket.read(&mut buffer).await.unwrap();
                assert_ne!(length, 0);
                seen.extend_from_slice(&buffer[..length]);
            }
        })
        .await;
        let (clients, _) = client(&uri, &ClientOptions { http, ..unlimited() });
        let answer = clients.writes.send(post(), Class::Write).await;
        assert!(matches!(answer, Err(CallError::Lost(_))), "{http:?}: {answer:?}");
    }
}

#[tokio::test]
async fn deadline_behind_a_sent_request_is_lost() {
    let server = Server::start(|_, _| std::future::pending()).await;
    let deadlines = Deadlines { write: Duration::from_millis(200), ..Deadlines::default() };
    let (clients, _) = client(&server.uri, &ClientOptions { deadlines, ..unlimited() });
    let Err(CallError::Lost(error)) = clients.writes.send(post(), Class::Write).await else { panic!() };
    assert_eq!(error.reason, "DeadlineExceeded");
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn connecting_that_never_ends_is_not_sent() {
    // A service under the client that never gets a connection.
    let registry = Registry::new();
    let metrics = ClientMetrics::register(&registry).unwrap();
    let service = tower::service_fn(|_: Request<kube::client::Body>| std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>());
    let deadlines = Deadlines { write: Duration::from_millis(1), ..Deadlines::default() };
    let options = ClientOptions { deadlines, ..unlimited() };
    let client = ApiClient::over(kube::Client::new(service, "default"), &"http://a".parse().unwrap(), &options, &metrics).unwrap();
    assert!(matches!(client.send(post(), Class::Write).await, Err(CallError::NotSent(_))));
}

#[tokio::test(start_paused = true)]
async fn deadline_begins_behind_the_token_bucket() {
    let registry = Registry::new();
    let metrics = ClientMetrics::register(&registry).unwrap();
    let service = tower::service_fn(|_: Request<kube::client::Body>| async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        Ok::<_, Infallible>(reply(201, "{}"))
    });
    let options = ClientOptions { qps: 0.1, burst: 1, ..ClientOptions::default() };
    let options = ClientOptions { deadlines: Deadlines { write: Duration::from_secs(5), ..Deadlines::default() }, ..options };
    let client = ApiClient::over(kube::Client::new(service, "default"), &"http://a".parse().unwrap(), &options, &metrics).unwrap();
    let started = Instant::now();
    for _ in 0..3 {
        client.send(post(), Class::Write).await.unwrap();
    }
    assert_eq!(started.elapsed().as_secs(), 24);
    // A client with a limit of its own does not wait for the other's.
    client.limited_apart(0.1, 1).send(post(), Class::Write).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 28);
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    assert!(text.contains(r#"rest_client_rate_limiter_duration_seconds_bucket{host="a",verb="POST",le="8"} 4"#), "{text}");
}

#[tokio::test]
async fn answer_beyond_its_limit_is_not_kept() {
    let server = Server::start(|_, _| async {
        Response::builder().header("Content-Type", "application/json").body(Bytes::from(vec![b' '; 5 << 20]).into()).unwrap()
    })
    .await;
    let (clients, _) = client(&server.uri, &unlimited());
    let error = clients.writes.send(get(), Class::Get).await.unwrap_err();
    assert!(error.is_too_large(), "{error:?}");
    assert_eq!(clients.watches.send(get(), Class::Page).await.unwrap().body.len(), 5 << 20);
}

#[tokio::test]
async fn watch_is_read_piece_by_piece_and_its_refusal_whole() {
    let server = Server::start(|request, _| async move {
        if request.uri().query() == Some("watch=true") {
            reply(200, "{}\n{}\n")
        } else {
            reply(403, r#"{"reason":"Forbidden","code":403}"#)
        }
    })
    .await;
    let (clients, _) = client(&server.uri, &unlimited());
    let mut watch = clients.watches.open(Request::get("/pods?watch=true").body(Bytes::new()).unwrap()).await.unwrap();
    let mut read = Vec::new();
    while let Some(chunk) = watch.next().await {
        read.extend_from_slice(&chunk.unwrap());
    }
    assert_eq!(read, b"{}\n{}\n");
    let Err(CallError::Refused(error)) = clients.watches.open(get()).await else { panic!() };
    assert_eq!(&*error.reason, "Forbidden");
}

#[tokio::test]
async fn half_open_connection_is_noticed_by_pings() {
    let uri = raw(|mut socket| async move {
        socket.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
        // Takes everything and answers nothing.
        let mut buffer = [0; 4096];
        while socket.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
    })
    .await;
    let ping = Duration::from_millis(50);
    let (clients, _) = client(&uri, &ClientOptions { ping_interval: ping, ping_timeout: ping, ..unlimited() });
    let Err(CallError::Lost(error)) = clients.watches.open(get()).await else { panic!() };
    assert_ne!(error.reason, "DeadlineExceeded", "the deadline is a minute away");
}

#[test]
fn proxies_and_bad_headers_are_refused_at_the_start() {
    let registry = Registry::new();
    let metrics = ClientMetrics::register(&registry).unwrap();
    let mut config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    config.proxy_url = Some("http://proxy:3128".parse().unwrap());
    assert!(matches!(Clients::new(&config, &unlimited(), &metrics), Err(Error::Proxy(_))));
}

/// An API server that knows one account once it has been made, and gives out one token after the other.
async fn account_server(lifetime: u64) -> Server {
    let made = Arc::new(AtomicUsize::new(0));
    let tokens = Arc::new(AtomicUsize::new(0));
    Server::start(move |request, _| {
        let (made, tokens) = (Arc::clone(&made), Arc::clone(&tokens));
        async move {
            match request.uri().path() {
                "/api/v1/namespaces/kube-system/serviceaccounts" => {
                    made.fetch_add(1, Ordering::SeqCst);
                    reply(201, "{}")
                }
                "/api/v1/namespaces/kube-system/serviceaccounts/a-controller/token" if made.load(Ordering::SeqCst) == 0 => {
                    reply(404, r#"{"kind":"Status","code":404,"reason":"NotFound","message":"no such account"}"#)
                }
                "/api/v1/namespaces/kube-system/serviceaccounts/a-controller/token" => {
                    let n = tokens.fetch_add(1, Ordering::SeqCst);
                    let body = format!(r#"{{"spec":{{"expirationSeconds":{lifetime}}},"status":{{"token":"t{n}"}}}}"#);
                    Response::new(Full::new(Bytes::from(body)))
                }
                // The key that had signed the first is not there any more.
                "/y" if request.headers().get(AUTHORIZATION).is_some_and(|token| token == "Bearer t0") => {
                    reply(401, r#"{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}"#)
                }
                _ => {
                    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("nobody");
                    Response::new(Full::new(Bytes::from(header.to_owned())))
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn requests_in_the_name_of_an_account_wait_for_its_token() {
    let server = account_server(3600).await;
    let (clients, _) = client(&server.uri, &ClientOptions::default());
    let (identity, keeper) = service_account(clients.lease.clone(), "kube-system", "a-controller", Clock::system(), 1);
    let writes = clients.writes.identified(identity);
    let get = |client: &ApiClient| {
        let client = client.clone();
        async move { client.send(Request::get("/x").body(Bytes::new()).unwrap(), Class::Get).await.unwrap().body }
    };
    let first = tokio::spawn(get(&writes));
    assert_eq!(get(&clients.writes).await, "nobody", "the connection's other users have their own name");
    assert!(!first.is_finished());
    let stop = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(keeper.run(stop.clone()));
    assert_eq!(first.await.unwrap(), "Bearer t0");
    assert_eq!(get(&writes).await, "Bearer t0");
    let asked: Vec<_> = server.requests.lock().iter().filter(|line| line.contains("serviceaccounts")).cloned().collect();
    assert_eq!(asked.len(), 3, "asked in vain, made, asked again: {asked:?}");
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_token_is_renewed_before_its_end() {
    // The least pause between two is ten seconds, which paused time makes short; the server's answers are awaited in real time.
    let server = account_server(10).await;
    let (clients, _) = client(&server.uri, &ClientOptions::default());
    let (identity, keeper) = service_account(clients.lease.clone(), "kube-system", "a-controller", Clock::system(), 1);
    let running = tokio::spawn(keeper.run(tokio_util::sync::CancellationToken::new()));
    assert_eq!(identity.header().await.unwrap(), "Bearer t0");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    let mut token = identity.clone();
    tokio::time::timeout(Duration::from_secs(30), token.changed()).await.unwrap();
    assert_eq!(identity.header().await.unwrap(), "Bearer t1");
    running.abort();
}

#[tokio::test]
async fn a_token_that_is_refused_is_replaced_at_once() {
    let server = account_server(3600).await;
    let (clients, _) = client(&server.uri, &ClientOptions::default());
    let (identity, keeper) = service_account(clients.lease.clone(), "kube-system", "a-controller", Clock::system(), 1);
    let writes = clients.writes.identified(identity.clone());
    let running = tokio::spawn(keeper.run(tokio_util::sync::CancellationToken::new()));
    let send = async || writes.send(Request::get("/y").body(Bytes::new()).unwrap(), Class::Write).await;
    assert!(matches!(send().await, Err(CallError::Refused(error)) if error.code == 401));
    // No server is asked more often than every ten seconds, which paused time makes short; its answers are awaited in real time.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    let mut token = identity.clone();
    if identity.header().await.unwrap() == "Bearer t0" {
        tokio::time::timeout(Duration::from_secs(30), token.changed()).await.unwrap();
    }
    assert_eq!(send().await.unwrap().body, "Bearer t1");
    // What the old one was refused with late says nothing of the new one.
    identity.refused(&HeaderValue::from_static("Bearer t0"));
    tokio::task::yield_now().await;
    assert_eq!(identity.header().await.unwrap(), "Bearer t1");
    running.abort();
}

/// Answers with the Authorization header.
async fn echo_server() -> Server {
    Server::start(|request, _| async move {
        let authorization = request.headers().get(AUTHORIZATION).map_or("nobody", |value| value.to_str().unwrap()).to_owned();
        Response::new(Full::from(authorization))
    })
    .await
}

#[tokio::test]
async fn a_token_file_is_read_again_and_a_broken_one_is_not_believed() {
    let server = echo_server().await;
    let folder = std::env::temp_dir().join(format!("token-{}", fastrand::u64(..)));
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("token");
    std::fs::write(&file, "first\n").unwrap();
    let mut config = kube::Config::new(server.uri.clone());
    config.auth_info.token_file = Some(file.display().to_string());
    config.auth_info.token = Some("inline".to_owned().into());
    let metrics = ClientMetrics::register(&Registry::new()).unwrap();
    let options = ClientOptions { credentials_every: Duration::ZERO, ..unlimited() };
    let client = ApiClient::new(&config, &options, &metrics, false).unwrap();
    let whoami = async || client.send(get(), Class::Get).await.unwrap().body;
    assert_eq!(whoami().await, "Bearer first");
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    for broken in ["", "\n"] {
        std::fs::write(&file, broken).unwrap();
        assert_eq!(whoami().await, "Bearer first");
    }
    std::fs::write(&file, "second").unwrap();
    assert_eq!(whoami().await, "Bearer second");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(whoami().await, "Bearer second", "a file that is gone was meant to be read once, or is being replaced");
    std::fs::remove_dir_all(&folder).unwrap();
    config.auth_info.token = None;
    let error = ApiClient::new(&config, &options, &metrics, false).unwrap_err();
    assert!(error.to_string().contains("tokenFile") && error.to_string().contains("/token"), "{error}");
}
