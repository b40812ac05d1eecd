//! Whole histories of lists and watches, answered from a script under paused time.

mod catching_up;
mod convergence;
mod decoding;
mod listing;
mod watching;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::labels::Labels;
use model::plan::{ApiError, PODS};
use model::protobuf::Reader;
use model::protobuf::write::{self, Writer};
use model::{ControllerRef, Decode, DecodeError, Format, Object, ResourceVersion, Uid};
use parking_lot::Mutex;
use prometheus::Registry;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::client::CallError;

/// An answer of the script.
enum Answer {
    Page(Result<String, ApiError>),
    Watch(Result<Vec<Piece>, ApiError>),
}

/// A piece of a watch. It is closed behind the last one.
enum Piece {
    Bytes(Vec<u8>),
    Pause(Duration),
    Broken,
    /// Says nothing more and stays open.
    Hang,
}

/// What became of a script.
struct History {
    /// The requests, the one behind the script's end included.
    requests: Vec<String>,
    /// When each was made.
    times: Vec<Duration>,
    /// What the sink was told.
    events: Vec<String>,
    status: SourceStatus,
    metrics: String,
}

struct Script {
    answers: VecDeque<Answer>,
    log: Arc<Log>,
    /// In what the probes are answered.
    format: Format,
    /// What the probes are told; the last of it whenever there is no other left.
    storage: VecDeque<Result<u64, ApiError>>,
    /// A request after which a relist is asked for.
    relist: Option<(String, SourceHandle)>,
    /// A request after which the source is asked to catch up, for a store of so many objects.
    catch_up: Option<(String, SourceHandle, usize)>,
}

#[derive(Default)]
struct Log {
    requests: Mutex<Vec<(String, Instant)>>,
    events: Mutex<Vec<String>>,
    exhausted: Notify,
}

struct Pieces(VecDeque<Piece>);

struct Recorder(Arc<Log>);

/// An object with nothing but a name and a version.
#[derive(Debug)]
struct Thing {
    namespace: Arc<str>,
    name: String,
    version: ResourceVersion,
}

/// Fails so many times on objects of these names.
#[derive(Default)]
struct JsonThings(HashMap<String, u32>);

struct ProtobufThings;

// === impl Script ===

impl Script {
    async fn next(&mut self, request: String) -> Answer {
        self.log.requests.lock().push((request.clone(), Instant::now()));
        if let Some((after, handle)) = &self.relist
            && *after == request
        {
            handle.relist();
            self.relist = None;
        }
        if let Some((after, handle, objects)) = &self.catch_up
            && *after == request
        {
            let (log, caught_up) = (Arc::clone(&self.log), handle.catch_up(*objects));
            tokio::spawn(async move {
                if caught_up.await {
                    log.events.lock().push("caught up".to_owned());
                }
            });
            self.catch_up = None;
        }
        if let Some(answer) = self.answers.pop_front() {
            return answer;
        }
        self.log.exhausted.notify_one();
        std::future::pending().await
    }
}

fn fresh(freshness: Freshness) -> String {
    match freshness {
        Freshness::Consistent => "consistent".to_owned(),
        Freshness::NotOlderThan(version) => format!(">={version}"),
    }
}

impl Transport for Script {
    type Chunks = Pieces;

    async fn list(&mut self, request: &PageRequest) -> Result<Bytes, CallError> {
        if request.limit == 1 {
            assert_eq!(request.at, PageStart::First(Freshness::Consistent));
            let answer = if self.storage.len() > 1 { self.storage.pop_front() } else { self.storage.front().cloned() };
            return match answer.unwrap() {
                Ok(version) => Ok(empty_list(self.format, version).into()),
                Err(error) => Err(CallError::NotSent(error)),
            };
        }
        let text = match &request.at {
            PageStart::First(freshness) => format!("page {} {}", request.limit, fresh(*freshness)),
            PageStart::Continue(token) => format!("page {} after {token}", request.limit),
        };
        match self.next(text).await {
            Answer::Page(Ok(body)) => Ok(body.into()),
            Answer::Page(Err(error)) | Answer::Watch(Err(error)) => Err(CallError::Refused(error)),
            Answer::Watch(Ok(_)) => panic!("a list was answered with a watch"),
        }
    }

    async fn watch(&mut self, request: &WatchRequest) -> Result<Pieces, CallError> {
        let seconds = request.timeout.as_secs();
        let text = match request.start {
            WatchStart::After(version) if seconds < 300 => format!("watch {version} for {seconds} s"),
            _ if !(300..600).contains(&seconds) => panic!("{request:?}"),
            WatchStart::InitialEvents(freshness) => format!("stream {}", fresh(freshness)),
            WatchStart::After(version) => format!("watch {version}"),
        };
        match self.next(text).await {
            Answer::Watch(Ok(pieces)) => Ok(Pieces(pieces.into())),
            Answer::Watch(Err(error)) | Answer::Page(Err(error)) => Err(CallError::Refused(error)),
            Answer::Page(Ok(_)) => panic!("a watch was answered with a page"),
        }
    }
}

impl Chunks for Pieces {
    async fn next(&mut self) -> Option<Result<Bytes, ApiError>> {
        loop {
            match self.0.front()? {
                Piece::Pause(pause) => {
                    tokio::time::sleep(*pause).await;
                    self.0.pop_front();
                }
                Piece::Hang => std::future::pending().await,
                Piece::Broken => {
                    self.0.pop_front();
                    return Some(Err(error(0, "AnswerLost")));
                }
                Piece::Bytes(_) => {
                    let Some(Piece::Bytes(bytes)) = self.0.pop_front() else { unreachable!() };
                    return Some(Ok(bytes.into()));
                }
            }
        }
    }
}

impl<O: Object> Sink<O> for Recorder {
    fn apply(&mut self, event: SourceEvent<O>) {
        let object = |object: &O| format!("{}@{}", object.name(), object.resource_version());
        self.0.events.lock().push(match &event {
            SourceEvent::Restarted => "restarted".to_owned(),
            SourceEvent::Listed(listed) => format!("listed {}", object(listed)),
            SourceEvent::Synced(version) => format!("synced {version}"),
            SourceEvent::Applied(applied) => format!("applied {}", object(applied)),
            SourceEvent::Deleted(deleted) => format!("deleted {}", object(deleted)),
            SourceEvent::Bookmark(version) => format!("bookmark {version}"),
        });
    }
}

// === impl Thing ===

impl Object for Thing {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn uid(&self) -> Uid {
        Uid::NONE
    }
    fn resource_version(&self) -> ResourceVersion {
        self.version
    }
    fn controller(&self) -> &ControllerRef {
        &ControllerRef::None
    }
    fn labels(&self) -> &dyn Labels {
        self
    }
}

impl Labels for Thing {
    fn get(&self, _: &str) -> Option<&str> {
        None
    }
    fn len(&self) -> usize {
        0
    }
}

impl Decode for JsonThings {
    type Object = Thing;
    const FORMAT: Format = Format::Json;

    fn decode(&mut self, raw: &[u8]) -> Result<Thing, DecodeError> {
        let value: serde_json::Value = model::first_json(raw)?;
        let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if let Some(times) = self.0.get_mut(&name).filter(|times| **times > 0) {
            *times -= 1;
            return Err(DecodeError::Identity { field: "uid", value: name });
        }
        let version = ResourceVersion::parse(value["metadata"]["resourceVersion"].as_str().unwrap_or_default());
        Ok(Thing { namespace: "n".into(), name, version })
    }
}

impl Decode for ProtobufThings {
    type Object = Thing;
    const FORMAT: Format = Format::Protobuf;

    fn decode(&mut self, raw: &[u8]) -> Result<Thing, DecodeError> {
        let mut thing = Thing { namespace: "n".into(), name: String::new(), version: ResourceVersion(0) };
        for field in Reader::new(raw) {
            for field in field?.message()? {
                let field = field?;
                match field.number {
                    1 => field.text()?.clone_into(&mut thing.name),
                    6 => thing.version = ResourceVersion::parse(field.text()?),
                    _ => {}
                }
            }
        }
        Ok(thing)
    }
}

// === scripts ===

/// Runs a source until it asks for more than the script has.
async fn run(answers: Vec<Answer>) -> History {
    run_with(JsonThings::default(), answers, None).await
}

async fn run_with<D: Decode>(decoder: D, answers: Vec<Answer>, relist_after: Option<&str>) -> History {
    run_over(decoder, answers, vec![Ok(u64::MAX)], relist_after).await
}

async fn run_over<D: Decode>(decoder: D, answers: Vec<Answer>, storage: Vec<Result<u64, ApiError>>, relist_after: Option<&str>) -> History {
    run_asked(decoder, answers, storage, relist_after, None).await
}

async fn run_asked<D: Decode>(
    decoder: D,
    answers: Vec<Answer>,
    storage: Vec<Result<u64, ApiError>>,
    relist_after: Option<&str>,
    catch_up_after: Option<(&str, usize)>,
) -> History {
    let log = Arc::new(Log::default());
    let registry = Registry::new();
    let metrics = SourceMetrics::register(&registry).unwrap();
    let script =
        Script { answers: answers.into(), log: Arc::clone(&log), format: D::FORMAT, storage: storage.into(), relist: None, catch_up: None };
    let mut source = Source::new(SourceConfig::new(&PODS, 42), script, decoder, &metrics);
    let handle = source.handle();
    source.transport.relist = relist_after.map(|request| (request.to_owned(), handle.clone()));
    source.transport.catch_up = catch_up_after.map(|(request, objects)| (request.to_owned(), handle.clone(), objects));
    let shutdown = CancellationToken::new();
    let started = Instant::now();
    let task = tokio::spawn(source.run(Recorder(Arc::clone(&log)), shutdown.clone()));
    tokio::time::timeout(Duration::from_secs(24 * 3600), log.exhausted.notified())
        .await
        .expect("the source never came to the script's end");
    shutdown.cancel();
    task.await.expect("the source ends when told to");
    let requests = log.requests.lock();
    History {
        requests: requests.iter().map(|(request, _)| request.clone()).collect(),
        times: requests.iter().map(|(_, at)| at.duration_since(started)).collect(),
        events: log.events.lock().clone(),
        status: handle.status(),
        metrics: prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap(),
    }
}

impl History {
    /// How long before this request nothing was asked.
    fn wait_before(&self, request: usize) -> f64 {
        self.times[request].saturating_sub(self.times[request - 1]).as_secs_f64()
    }
}

fn error(code: u16, reason: &str) -> ApiError {
    ApiError { code, reason: reason.to_owned(), message: format!("{reason}!"), namespace_terminating: false, retry_after: None }
}

fn too_large() -> ApiError {
    ApiError { message: "Too large resource version: 9, current: 8".to_owned(), ..error(504, "Timeout") }
}

fn refused(code: u16, reason: &str) -> Answer {
    Answer::Watch(Err(error(code, reason)))
}

fn watch(pieces: Vec<Piece>) -> Answer {
    Answer::Watch(Ok(pieces))
}

/// A page of objects, given as `name@version`.
fn page(version: u64, token: &str, objects: &[&str]) -> Answer {
    let items: Vec<_> = objects.iter().map(|text| object(text)).collect();
    Answer::Page(Ok(format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{}]}}"#,
        items.join(",")
    )))
}

fn empty_list(format: Format, version: u64) -> Vec<u8> {
    match format {
        Format::Json => format!(r#"{{"metadata":{{"resourceVersion":"{version}"}},"items":null}}"#).into_bytes(),
        Format::Protobuf => {
            let meta = Writer::new().text(2, &version.to_string());
            write::envelope("v1", "PodList", &Writer::new().message(1, &meta).into_bytes())
        }
    }
}

fn object(text: &str) -> String {
    let (name, version) = text.split_once('@').unwrap();
    format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#)
}

fn line(kind: &str, object: &str) -> Piece {
    Piece::Bytes(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into_bytes())
}

fn added(text: &str) -> Piece {
    line("ADDED", &object(text))
}

fn modified(text: &str) -> Piece {
    line("MODIFIED", &object(text))
}

fn deleted(text: &str) -> Piece {
    line("DELETED", &object(text))
}

fn bookmark(version: u64) -> Piece {
    line("BOOKMARK", &format!(r#"{{"kind":"Pod","metadata":{{"resourceVersion":"{version}","creationTimestamp":null}}}}"#))
}

fn end(version: u64) -> Piece {
    let annotations = r#"{"k8s.io/initial-events-end":"true"}"#;
    line("BOOKMARK", &format!(r#"{{"metadata":{{"resourceVersion":"{version}","annotations":{annotations}}}}}"#))
}

fn error_event(code: u16, reason: &str, message: &str) -> Piece {
    line("ERROR", &format!(r#"{{"kind":"Status","status":"Failure","message":"{message}","reason":"{reason}","code":{code}}}"#))
}

fn expired() -> Piece {
    error_event(410, "Expired", "too old resource version")
}

fn pause(seconds: u64) -> Piece {
    Piece::Pause(Duration::from_secs(seconds))
}

/// The simplest start: an empty list at this version, then the rest of the same watch.
fn synced(version: u64, mut rest: Vec<Piece>) -> Answer {
    rest.insert(0, end(version));
    watch(rest)
}

/// A protobuf frame around an object.
fn frame(kind: &str, name: &str, version: &str, annotation: Option<&str>) -> Vec<u8> {
    let mut meta = Writer::new().text(1, name).text(6, version);
    if let Some(annotation) = annotation {
        meta = meta.entry(12, annotation, "true");
    }
    let raw = Writer::new().message(1, &meta).into_bytes();
    write::frame(&write::watch_event(kind, &write::envelope("v1", "Pod", &raw)))
}

fn error_frame(code: u64, reason: &str) -> Vec<u8> {
    let raw = Writer::new().text(2, "Failure").text(3, "too old").text(4, reason).varint(6, code).into_bytes();
    write::frame(&write::watch_event("ERROR", &write::envelope("v1", "Status", &raw)))
}
