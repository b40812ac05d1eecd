//! The executor against an API server that answers as each test says, under paused time.

mod changes;

use std::collections::VecDeque;

use http::{Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use model::plan::{Create, Delete, NewName, NewObject, Own, Ownership, PODS, REPLICASETS, Rule};
use model::{ObjectKey, OwnerKind, OwnerRef};
use prometheus::Registry;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;
use crate::client::{ClientMetrics, ClientOptions};
use crate::events;
use crate::fence::BootClock;

/// A request as the server saw it.
#[derive(Clone, Debug)]
struct Seen {
    method: String,
    path: String,
    body: Value,
}

/// Answers in order; when none is left, 201.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<VecDeque<(u16, Value)>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

struct Fixture {
    server: Server,
    executor: Executor,
    stopping: CancellationToken,
    fence: Fence,
}

const OWNER: Uid = Uid(7);

impl Server {
    async fn answer(self, request: http::Request<Body>) -> Result<Response<Body>, std::convert::Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path_and_query().unwrap().to_string();
        self.seen.lock().push(Seen { method: parts.method.to_string(), path, body: body.clone() });
        let scripted = self.answers.lock().pop_front();
        let (code, answer) = scripted.unwrap_or_else(|| (201, json!({"metadata": {"resourceVersion": "50"}})));
        let response = Response::builder().status(StatusCode::from_u16(code).unwrap()).header("Content-Type", "application/json");
        Ok(response.body(Body::from(answer.to_string().into_bytes())).unwrap())
    }

    fn requests(&self, method: &str) -> Vec<Seen> {
        self.seen.lock().iter().filter(|seen| seen.method == method).cloned().collect()
    }
}

fn fixture(answers: impl IntoIterator<Item = (u16, Value)>) -> Fixture {
    let server = Server { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Server::default() };
    let service = {
        let server = server.clone();
        tower::service_fn(move |request| server.clone().answer(request))
    };
    let registry = Registry::new();
    let metrics = ClientMetrics::register(&registry).unwrap();
    let options = ClientOptions { qps: 0.0, ..ClientOptions::default() };
    let kube = kube::Client::new(service, "default");
    let client = ApiClient::over(kube, &"http://127.0.0.1".parse().unwrap(), &options, &metrics).unwrap();
    let writer = events::ApiWriter::new(client.clone(), Fence::open());
    let (recorder, _sink) = events::recorder("test", writer, Clock::system(), &registry).unwrap();
    let stopping = CancellationToken::new();
    let fence = Fence::closed(BootClock::default());
    fence.extend(BootClock::default().now(), Duration::from_secs(3600));
    let expectations = Arc::new(Expectations::default());
    let executor = Executor::new(client, recorder, expectations, Clock::system(), 1, fence.clone(), stopping.clone());
    Fixture { server, executor, stopping, fence }
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": format!("{reason}!")}))
}

fn subject() -> ObjectRef {
    ObjectRef { resource: &REPLICASETS, key: ObjectKey::new("shop", "web"), uid: OWNER, resource_version: ResourceVersion(5) }
}

fn pod(uid: u128) -> ObjectRef {
    ObjectRef { resource: &PODS, key: ObjectKey::new("shop", format!("web-{uid}")), uid: Uid(uid), resource_version: ResourceVersion(9) }
}

fn create() -> Step {
    let owner = Arc::new(OwnerRef { kind: OwnerKind::ReplicaSet, name: Arc::from("web"), uid: OWNER });
    let body = NewObject {
        name: NewName::Generated(Arc::from("web-")),
        before_name: r#"{"metadata":{"name":"#.to_owned(),
        after_name: "}}".to_owned(),
    };
    let action =
        Action::Create(Create { resource: &PODS, namespace: Arc::from("shop"), owner: Some(owner), body: Arc::new(body), news: None });
    Step { action, reason: Rule::TooFewReplicas }
}

fn delete(uid: u128) -> Step {
    Step { action: Action::Delete(Delete { target: pod(uid), at_version: true }), reason: Rule::TooManyReplicas }
}

fn stage(steps: Vec<Step>, mode: Mode, on_error: OnError, expect: Expect) -> Stage {
    Stage { steps, tasks: Vec::new(), mode, on_error, expect }
}

fn creates(count: usize) -> Plan {
    let steps = (0..count).map(|_| create()).collect();
    Plan { stages: vec![stage(steps, Mode::SlowStart, OnError::SkipRest, Expect::Creations)] }
}

async fn execute(fixture: &Fixture, plan: &Plan) -> Vec<Vec<Outcome>> {
    execute_with(fixture, plan, false).await
}

async fn execute_with(fixture: &Fixture, plan: &Plan, cached: bool) -> Vec<Vec<Outcome>> {
    let subject = subject();
    let errand = Errand { subject: &subject, announce: &|_, _| None, is_cached: &|_| cached };
    fixture.executor.execute(errand, plan).await.0
}

fn expected(fixture: &Fixture) -> (i64, usize, usize) {
    let pending = fixture.executor.expectations.pending(&subject().key, OWNER);
    pending.map_or((0, 0, 0), |pending| (pending.creations, pending.deletions, pending.unknown.len()))
}

fn owned_by(uid: Uid) -> Value {
    json!({"items": [{"metadata": {"name": "x", "resourceVersion": "77", "ownerReferences": [{"uid": uid.to_string(), "controller": true}]}}]})
}

#[tokio::test(start_paused = true)]
async fn slow_start_doubles_and_a_refusal_is_the_last_batch() {
    let fixture = fixture([(201, json!({})), (201, json!({})), (201, json!({})), status(403, "Forbidden")]);
    let outcomes = execute(&fixture, &creates(20)).await.remove(0);
    assert_eq!(fixture.server.requests("POST").len(), 1 + 2 + 4);
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_done()).count(), 6);
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Outcome::NotSent)).count(), 13);
    assert_eq!(expected(&fixture), (6, 0, 0), "only what was made will be seen");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_on_its_way_out_counts_as_done() {
    let terminating =
        json!({"kind": "Status", "code": 403, "reason": "Forbidden", "details": {"causes": [{"reason": "NamespaceTerminating"}]}});
    let fixture = fixture((0..7).map(|_| (403, terminating.clone())));
    execute(&fixture, &creates(7)).await;
    assert_eq!(fixture.server.requests("POST").len(), 7, "slow start goes on");
    assert_eq!(expected(&fixture), (7, 0, 0), "parity: the expectation runs out by itself");
}

#[tokio::test(start_paused = true)]
async fn rs_03_a_lost_answer_makes_no_second_pod() {
    let fixture = fixture([status(504, "Timeout"), status(409, "AlreadyExists"), (200, owned_by(OWNER))]);
    let outcomes = execute(&fixture, &creates(1)).await.remove(0);
    let posts = fixture.server.requests("POST");
    assert_eq!(posts.len(), 2);
    assert_eq!(posts[0].body, posts[1].body, "the same name is asked for again");
    assert!(matches!(&outcomes[..], [Outcome::Done { resource_version: ResourceVersion(77), .. }]), "{outcomes:?}");
    assert_eq!(expected(&fixture), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_anothers_is_drawn_again() {
    for answers in [vec![status(409, "AlreadyExists")], vec![status(504, "Timeout"), status(409, "AlreadyExists"), (200, owned_by(Uid(8)))]]
    {
        let fixture = fixture(answers);
        let outcomes = execute(&fixture, &creates(1)).await.remove(0);
        let names: Vec<_> = fixture.server.requests("POST").iter().map(|seen| seen.body["metadata"]["name"].clone()).collect();
        assert!(outcomes[0].is_done(), "{outcomes:?}");
        assert_ne!(names.first(), names.last());
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_knows_stays_expected_until_a_live_read_settles_it() {
    // A full quota refuses the repeats: that says nothing about the first try.
    let fixture = fixture([status(504, "Timeout"), status(403, "Forbidden"), status(403, "Forbidden"), status(403, "Forbidden")]);
    let outcomes = execute(&fixture, &creates(1)).await.remove(0);
    assert!(matches!(&outcomes[..], [Outcome::Unknown(error)] if error.code == 504), "{outcomes:?}");
    assert_eq!(expected(&fixture), (1, 0, 1));
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert!(!fixture.executor.expectations.satisfied(&subject().key, OWNER, Clock::system().now()), "no timeout makes it known");

    let subject = subject();
    let errand = Errand { subject: &subject, announce: &|_, _| None, is_cached: &|_| false };
    fixture.server.answers.lock().extend([status(500, "InternalError"), (200, owned_by(OWNER)), (200, json!({"items": []}))]);
    for (wanted, why) in
        [((1, 0, 1), "a failed read"), ((1, 0, 1), "it is there, and the watch will show it"), ((0, 0, 0), "it is not there")]
    {
        fixture.executor.settle_unknown(errand, &PODS).await;
        assert_eq!(expected(&fixture), wanted, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_watch_showed_first_is_not_left_open() {
    let fixture = fixture((0..4).map(|_| status(504, "Timeout")));
    let outcomes = execute_with(&fixture, &creates(1), true).await.remove(0);
    assert!(outcomes[0].is_done());
    assert_eq!(expected(&fixture), (1, 0, 0), "its event lowered, or will lower, the count");
}

#[test]
fn rs_18_a_refusal_does_not_name_the_pod_that_was_not_made() {
    let refused = |name: &str| Outcome::Failed(ApiError { message: format!("pods \"{name}\" is forbidden"), ..ApiError::default() });
    let outcome = super::create::without_name(refused("web-x7k2p"), "web-x7k2p", "web-");
    assert_eq!(outcome, refused("web-"));
}

#[tokio::test(start_paused = true)]
async fn deletes_that_fail_are_not_waited_for() {
    let fixture = fixture([status(404, "NotFound"), status(409, "Conflict"), (200, json!({}))]);
    let steps = vec![delete(1), delete(2), delete(3)];
    let plan = Plan { stages: vec![stage(steps, Mode::AllAtOnce, OnError::GoOn, Expect::Deletions)] };
    let outcomes = execute(&fixture, &plan).await.remove(0);
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_done()).count(), 1);
    assert_eq!(expected(&fixture), (0, 1, 0));
}

fn found(uid: u128, deletion: &Value) -> (u16, Value) {
    (200, json!({"items": [{"metadata": {"uid": Uid(uid).to_string(), "resourceVersion": "80", "deletionTimestamp": deletion}}]}))
}

#[tokio::test(start_paused = true)]
async fn a_delete_whose_answer_was_lost_is_sent_again_and_recognised() {
    let (now, none) = (json!("2026-01-01T00:00:00Z"), json!({"items": []}));
    for (answers, done) in [
        (vec![status(504, "Timeout"), (200, json!({}))], true),
        (vec![status(504, "Timeout"), status(404, "NotFound")], true),
        (vec![status(504, "Timeout"), status(409, "Conflict"), found(1, &now)], true),
        (vec![status(504, "Timeout"), status(409, "Conflict"), (200, none)], true),
        (vec![status(504, "Timeout"), status(409, "Conflict"), found(9, &Value::Null)], true),
        (vec![status(504, "Timeout"), status(409, "Conflict"), found(1, &Value::Null)], false),
    ] {
        let fixture = fixture(answers);
        let plan = Plan { stages: vec![stage(vec![delete(1)], Mode::AllAtOnce, OnError::GoOn, Expect::Deletions)] };
        let outcomes = execute(&fixture, &plan).await.remove(0);
        assert_eq!(outcomes[0].is_done(), done, "{outcomes:?}");
        assert_eq!(expected(&fixture), (0, usize::from(done), 0), "what had its effect will be seen");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_nobody_knows_of_is_settled_by_a_live_read() {
    for (answer, deletions) in [(found(1, &Value::Null), 0), (found(1, &json!("2026-01-01T00:00:00Z")), 1)] {
        let fixture = fixture((0..4).map(|_| status(504, "Timeout")).chain([answer]));
        let plan = Plan { stages: vec![stage(vec![delete(1)], Mode::AllAtOnce, OnError::GoOn, Expect::Deletions)] };
        assert!(matches!(execute(&fixture, &plan).await[0][0], Outcome::Unknown(_)));
        assert_eq!(expected(&fixture), (0, 1, 1));
        let now = tokio::time::Instant::now();
        assert_eq!(fixture.executor.settles_after(&subject().key, now), Some(Duration::from_secs(65)));
        tokio::time::advance(Duration::from_secs(65)).await;
        let subject = subject();
        let errand = Errand { subject: &subject, announce: &|_, _| None, is_cached: &|_| false };
        fixture.executor.settle_unknown(errand, &PODS).await;
        assert_eq!(expected(&fixture), (0, deletions, 0));
        assert_eq!(fixture.executor.settles_after(&subject.key, now), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_stops_what_its_stage_says() {
    for (on_error, requests) in [(OnError::GoOn, 5), (OnError::SkipRest, 3), (OnError::StopSync, 1)] {
        let fixture = fixture([status(500, "InternalError")]);
        let stages = vec![
            stage(vec![delete(1), delete(2), delete(3)], Mode::OneByOne, on_error, Expect::Nothing),
            stage(vec![delete(4), delete(5)], Mode::OneByOne, on_error, Expect::Nothing),
        ];
        let outcomes = execute(&fixture, &Plan { stages }).await;
        assert_eq!(fixture.server.requests("DELETE").len(), requests, "{on_error:?}");
        assert_eq!(outcomes.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2], "every step has an outcome");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_once_the_process_stops() {
    let fixture = fixture([]);
    fixture.stopping.cancel();
    let outcomes = execute(&fixture, &creates(3)).await.remove(0);
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::NotSent), "{outcomes:?}");
    assert!(fixture.server.seen.lock().is_empty());
    assert_eq!(expected(&fixture), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn ctl_13_a_server_that_asks_for_patience_gets_it() {
    let busy = json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 7}});
    let fixture = fixture([(429, busy.clone()), (429, busy)]);
    let started = tokio::time::Instant::now();
    assert!(execute(&fixture, &creates(1)).await[0][0].is_done());
    assert_eq!(started.elapsed().as_secs(), 14);
    let posts = fixture.server.requests("POST");
    assert_eq!(posts[0].body, posts[2].body, "one pod, under one name");
}

#[tokio::test(start_paused = true)]
async fn a_taken_generated_name_is_not_asked_for_again_though_the_server_says_retry_after() {
    let taken = json!({"kind": "Status", "code": 409, "reason": "AlreadyExists", "details": {"retryAfterSeconds": 1}});
    let fixture = fixture([(409, taken)]);
    assert!(execute(&fixture, &creates(1)).await[0][0].is_done());
    let posts = fixture.server.requests("POST");
    assert_eq!(posts.len(), 2);
    assert_ne!(posts[0].body, posts[1].body);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_without_the_lease() {
    let fixture = fixture([]);
    fixture.fence.close();
    let outcomes = execute(&fixture, &creates(3)).await.remove(0);
    assert!(
        matches!(&outcomes[..], [Outcome::Failed(error), Outcome::NotSent, Outcome::NotSent] if error.reason == FENCED),
        "{outcomes:?}"
    );
    assert_eq!(expected(&fixture), (0, 0, 0));
    assert_eq!(fixture.executor.update_status(&update()).await.unwrap_err().reason, FENCED);
    assert!(fixture.server.seen.lock().iter().all(|seen| seen.method == "GET"), "reading harms nobody");
}

#[tokio::test(start_paused = true)]
async fn the_owner_is_read_live_before_an_adoption() {
    let fixture = fixture([
        (200, json!({"metadata": {"uid": OWNER.to_string(), "deletionTimestamp": "2026-01-01T00:00:00Z"}})),
        status(404, "NotFound"),
    ]);
    let question = Question::MayAdopt(subject());
    assert_eq!(fixture.executor.ask(&question).await, Answer::Owner { uid: OWNER, deleting: true });
    assert!(matches!(fixture.executor.ask(&question).await, Answer::Failed(error) if error.is_not_found()));
    assert_eq!(fixture.server.requests("GET")[0].path, "/apis/apps/v1/namespaces/shop/replicasets/web");
}

#[tokio::test(start_paused = true)]
async fn a_release_is_sent_as_a_patch() {
    let fixture = fixture([]);
    let owner = Arc::new(OwnerRef { kind: OwnerKind::ReplicaSet, name: Arc::from("web"), uid: OWNER });
    let step =
        Step { action: Action::Own(Own { target: pod(1), owner, change: Ownership::Release }), reason: Rule::SelectorNoLongerMatches };
    let plan = Plan { stages: vec![stage(vec![step], Mode::OneByOne, OnError::GoOn, Expect::Nothing)] };
    assert!(execute(&fixture, &plan).await[0][0].is_done());
    assert_eq!(fixture.server.requests("PATCH")[0].path, "/api/v1/namespaces/shop/pods/web-1");
}

fn update() -> StatusUpdate {
    let raw = |json: Value| RawValue::from_string(json.to_string()).unwrap();
    StatusUpdate {
        target: subject(),
        metadata: Some(Arc::from(raw(json!({"name": "web", "resourceVersion": "5"})))),
        status: raw(json!({"replicas": 3, "fieldOfTheFuture": 1})),
        if_refused: IfRefused::WriteOverLive,
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_meets_a_newer_object_is_written_over_its_live_metadata() {
    let live = json!({"metadata": {"uid": OWNER.to_string(), "resourceVersion": "6", "annotations": {"a": "b"}, "managedFields": []}});
    let fixture = fixture([status(409, "Conflict"), (200, live)]);
    assert_eq!(fixture.executor.update_status(&update()).await.unwrap(), ResourceVersion(50));
    let puts = fixture.server.requests("PUT");
    assert_eq!(puts[0].path, "/apis/apps/v1/namespaces/shop/replicasets/web/status");
    assert_eq!(puts[1].body["metadata"], json!({"uid": OWNER.to_string(), "resourceVersion": "6", "annotations": {"a": "b"}}));
    assert_eq!(puts[1].body["status"], json!({"replicas": 3, "fieldOfTheFuture": 1}));
}

#[tokio::test(start_paused = true)]
async fn a_status_is_never_written_to_another_object_of_that_name() {
    let fixture = fixture([status(409, "Conflict"), (200, json!({"metadata": {"uid": Uid(8).to_string()}}))]);
    assert!(fixture.executor.update_status(&update()).await.unwrap_err().is_conflict());
    assert_eq!(fixture.server.requests("PUT").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_status_of_what_is_not_held_whole_is_written_into_the_live_object() {
    let live = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "fieldOfTheFuture": {"a": 1.50},
        "metadata": {"uid": OWNER.to_string(), "resourceVersion": "5", "newer": [1], "managedFields": [{}]},
        "spec": {"replicas": 0, "newer": true}, "status": {"replicas": 1},
    });
    let fixture = fixture([(200, live.clone())]);
    let update = StatusUpdate { metadata: None, ..update() };
    assert_eq!(fixture.executor.update_status(&update).await.unwrap(), ResourceVersion(50));
    let puts = fixture.server.requests("PUT");
    assert_eq!(puts[0].path, "/apis/apps/v1/namespaces/shop/replicasets/web/status");
    let mut expected = live;
    expected["metadata"].as_object_mut().unwrap().remove("managedFields");
    expected["status"] = json!({"replicas": 3, "fieldOfTheFuture": 1});
    assert_eq!(puts[0].body, expected);
}

#[tokio::test(start_paused = true)]
async fn a_live_object_that_was_not_decided_from_is_left_alone() {
    for (uid, version) in [(OWNER, "6"), (OWNER, ""), (Uid(8), "5")] {
        let live = json!({"metadata": {"uid": uid.to_string(), "resourceVersion": version}, "status": {}});
        let fixture = fixture([(200, live)]);
        let error = fixture.executor.update_status(&StatusUpdate { metadata: None, ..update() }).await.unwrap_err();
        assert!(error.is_conflict(), "{error:?}");
        assert!(fixture.server.requests("PUT").is_empty());
    }
    for answer in [status(404, "NotFound"), (200, json!([]))] {
        let fixture = fixture([answer]);
        assert!(fixture.executor.update_status(&StatusUpdate { metadata: None, ..update() }).await.is_err());
        assert!(fixture.server.requests("PUT").is_empty());
    }
}
