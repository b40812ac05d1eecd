//! The correlator's rules, and what the task makes of answers.

use std::collections::VecDeque;
use std::sync::Arc;

use model::plan::{REPLICASETS, Severity};
use model::{ObjectKey, ResourceVersion, Time, Uid};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;

fn object(name: &str) -> ObjectRef {
    ObjectRef { resource: &REPLICASETS, key: ObjectKey::new("ns", name), uid: Uid(1 << 64), resource_version: ResourceVersion(7) }
}

fn event(message: &str) -> Event {
    Event { severity: Severity::Warning, reason: "FailedCreate", message: message.to_owned() }
}

/// A correlator and its time, in seconds.
struct Bench {
    sut: Correlator,
    start: Instant,
    seconds: u64,
}

impl Bench {
    fn new() -> Self {
        Self { sut: Correlator::default(), start: Instant::now(), seconds: 0 }
    }

    fn say(&mut self, object: &ObjectRef, message: &str) -> Option<Correlated> {
        let wall = Time((1_000_000 + self.seconds as i64) * 1_000_000_000);
        let occurrence = Occurrence { object: object.clone(), event: event(message), at: wall };
        self.sut.correlate(&occurrence, wall, self.start + Duration::from_secs(self.seconds))
    }
}

#[test]
fn repeated_event_raises_its_count() {
    let (mut bench, rs) = (Bench::new(), object("rs"));
    let first = bench.say(&rs, "no").unwrap();
    bench.seconds = 30;
    let again = bench.say(&rs, "no").unwrap();
    assert_eq!((first.count, again.count), (1, 2));
    assert_eq!(again.first, first.first);
    assert_eq!(again.last.0 - first.last.0, 30_000_000_000);
    let other = ObjectRef { uid: Uid(2), ..rs };
    assert_eq!(bench.say(&other, "no").unwrap().count, 1, "another object of the same name");
}

#[test]
fn tenth_similar_event_is_combined() {
    let (mut bench, rs) = (Bench::new(), object("rs"));
    for at in 0..9 {
        let said = bench.say(&rs, &format!("pod {at}")).unwrap();
        assert_eq!((said.combined, said.count), (false, 1));
    }
    let tenth = bench.say(&rs, "pod 9").unwrap();
    assert_eq!((tenth.combined, tenth.count, &*tenth.message), (true, 1, "(combined from similar events): pod 9"));
    bench.seconds = 60;
    let next = bench.say(&rs, "pod 10").unwrap();
    assert_eq!((next.combined, next.count, &*next.message), (true, 2, "(combined from similar events): pod 10"));
    assert_eq!(next.first, tenth.first, "it patches the combined event");
    assert!(!bench.say(&rs, "pod 10").unwrap().combined, "a known message is counted by itself, as upstream");
    bench.seconds = 60 + 601;
    assert!(!bench.say(&rs, "pod 11").unwrap().combined, "too long ago to be similar");
}

#[test]
fn spam_is_dropped_but_counted() {
    let (mut bench, rs) = (Bench::new(), object("rs"));
    assert_eq!((0..40).filter(|_| bench.say(&rs, "no").is_some()).count(), 25);
    assert!(bench.say(&object("other"), "no").is_some(), "the limit is per object");
    bench.seconds = 301;
    assert_eq!(bench.say(&rs, "no").unwrap().count, 41);
    assert_eq!(bench.say(&rs, "no"), None, "one in five minutes");
}

#[test]
fn bodies_are_upstreams() {
    let (mut bench, rs) = (Bench::new(), object("rs"));
    let wall = Time(1_000_000_000_000_000);
    let occurrence = Occurrence { object: rs.clone(), event: event("say \"no\""), at: wall };
    let said = bench.sut.correlate(&occurrence, wall, bench.start).unwrap();
    let body = String::from_utf8(body::create("replicaset-controller", &occurrence, &said).unwrap()).unwrap();
    assert_eq!(
        body,
        concat!(
            r#"{"kind":"Event","apiVersion":"v1","metadata":{"name":"rs.38d7ea4c68000","namespace":"ns"},"#,
            r#""involvedObject":{"kind":"ReplicaSet","namespace":"ns","name":"rs","uid":"00000000-0000-0001-0000-000000000000","#,
            r#""apiVersion":"apps/v1","resourceVersion":"7"},"reason":"FailedCreate","message":"say \"no\"","#,
            r#""source":{"component":"replicaset-controller"},"firstTimestamp":"1970-01-12T13:46:40Z","#,
            r#""lastTimestamp":"1970-01-12T13:46:40Z","count":1,"type":"Warning","eventTime":null,"#,
            r#""reportingComponent":"replicaset-controller","reportingInstance":""}"#,
        )
    );
    let said = bench.sut.correlate(&occurrence, wall, bench.start).unwrap();
    let patch = String::from_utf8(body::patch(&said).unwrap()).unwrap();
    assert_eq!(patch, r#"{"count":2,"lastTimestamp":"1970-01-12T13:46:40Z","message":"say \"no\""}"#);
}

#[test]
fn name_fits_whatever_the_object_is_called() {
    let long = object(&"x".repeat(253));
    let name = body::name(&long, Time(5));
    assert_eq!(name, "00000000-0000-0001-0000-000000000005");
    assert_ne!(name, body::name(&long, Time(6)));
}

/// Answers as told, then always well; remembers what it was asked.
#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<u16>>,
    asked: Mutex<Vec<String>>,
}

struct Scripted(Arc<Script>);

fn error(code: u16) -> ApiError {
    let retry_after = (code == 429).then_some(Duration::from_secs(3));
    ApiError { code, reason: String::new(), message: "scripted".to_owned(), namespace_terminating: false, retry_after }
}

impl Scripted {
    fn answer(&self, request: String) -> Result<(), ApiError> {
        self.0.asked.lock().push(request);
        match self.0.answers.lock().pop_front() {
            Some(code) if code != 200 => Err(error(code)),
            _ => Ok(()),
        }
    }
}

impl EventWriter for Scripted {
    async fn create(&self, namespace: &str, body: Vec<u8>) -> Result<(), ApiError> {
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        self.answer(format!("POST {namespace} {} {}", body["message"], body["count"]))
    }

    async fn patch(&self, namespace: &str, name: &str, body: Vec<u8>) -> Result<(), ApiError> {
        assert!(name.starts_with("rs."));
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        self.answer(format!("PATCH {namespace} {} {}", body["message"], body["count"]))
    }
}

/// Runs the task over these messages and these answers; what was asked, and how long it took.
async fn run(messages: &[&str], answers: &[u16]) -> (Vec<String>, Duration) {
    let script = Arc::new(Script { answers: Mutex::new(answers.iter().copied().collect()), asked: Mutex::default() });
    let (recorder, sink) = recorder("test-controller", Scripted(Arc::clone(&script)), Clock::system(), &Registry::new()).unwrap();
    for message in messages {
        recorder.record(&object("rs"), event(message));
    }
    drop(recorder);
    let start = Instant::now();
    sink.run(CancellationToken::new()).await;
    (std::mem::take(&mut *script.asked.lock()), start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn repeats_are_patched_and_recreated_if_gone() {
    let (asked, _) = run(&["no", "no", "no"], &[200, 200, 404]).await;
    assert_eq!(asked, [r#"POST ns "no" 1"#, r#"PATCH ns "no" 2"#, r#"PATCH ns "no" 3"#, r#"POST ns "no" 3"#]);
}

#[tokio::test(start_paused = true)]
async fn refused_event_is_dropped_at_once() {
    let (asked, took) = run(&["a", "b"], &[403]).await;
    assert_eq!(asked, [r#"POST ns "a" 1"#, r#"POST ns "b" 1"#]);
    assert_eq!(took, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn missing_answer_is_worth_twelve_tries() {
    let (asked, took) = run(&["a"], &[0; 20]).await;
    assert_eq!(asked.len(), 12);
    assert!((100.0..=110.5).contains(&took.as_secs_f64()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn busy_server_is_given_the_time_it_asks_for() {
    let (asked, took) = run(&["a"], &[429, 429]).await;
    assert_eq!(asked.len(), 3);
    assert_eq!(took.as_secs(), 6);
}

#[tokio::test(start_paused = true)]
async fn full_queue_drops_and_counts() {
    let script = Arc::new(Script::default());
    let registry = Registry::new();
    let (recorder, sink) = recorder("test-controller", Scripted(script), Clock::system(), &registry).unwrap();
    for _ in 0..1005 {
        recorder.record(&object("rs"), event("no"));
    }
    assert_eq!(recorder.dropped(), 5);
    let stop = CancellationToken::new();
    stop.cancel();
    sink.run(stop).await;
    recorder.record(&object("rs"), event("no"));
    assert_eq!(recorder.dropped(), 6, "nobody listens any more");
}
