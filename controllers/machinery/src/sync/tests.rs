//! A controller of one invented kind, driven by hand, under paused time.

use std::collections::HashMap;

use http::{Request, Response};
use kube::client::Body;
use model::Uid;
use model::plan::{Mode, OnError, PODS, REPLICASETS, Stage, Step};
use parking_lot::Mutex;
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::client::{ApiClient, ClientMetrics, ClientOptions};
use crate::events;
use crate::expectations::Expectations;
use crate::fence::Fence;

/// What an object's syncs do, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    Succeed,
    Requeue,
    Fail,
    Panic,
    /// Decides for ever.
    Spin,
    Gone,
}

#[derive(Clone, Default)]
struct Scripted {
    scripts: Arc<Mutex<HashMap<String, Script>>>,
    /// When each sync began.
    syncs: Arc<Mutex<Vec<(String, tokio::time::Instant)>>>,
}

struct Fixture {
    scripted: Scripted,
    queue: WorkQueue<ObjectKey>,
    expectations: Arc<Expectations>,
    stopping: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

struct Seen {
    key: ObjectKey,
    script: Script,
}

impl Reconciler for Scripted {
    type View = Seen;

    fn resource(&self) -> &'static Resource {
        &REPLICASETS
    }

    fn children(&self) -> &'static Resource {
        &PODS
    }

    fn view(&self, key: &ObjectKey) -> Option<Seen> {
        self.syncs.lock().push((key.name.to_string(), tokio::time::Instant::now()));
        let script = self.scripts.lock().get(&*key.name).copied().unwrap_or(Script::Succeed);
        (script != Script::Gone).then(|| Seen { key: key.clone(), script })
    }

    fn subject(&self, view: &Seen) -> ObjectRef {
        ObjectRef { resource: &REPLICASETS, key: view.key.clone(), uid: Uid(1), resource_version: ResourceVersion(1) }
    }

    fn is_cached(&self, _: &ObjectRef, _: &str) -> bool {
        false
    }

    fn decide(&self, view: &Seen, _: Time) -> Decision {
        match view.script {
            Script::Panic => panic!("a fault in a decision"),
            Script::Spin => Decision::Act(Plan {
                stages: vec![Stage {
                    steps: Vec::<Step>::new(),
                    tasks: Vec::new(),
                    mode: Mode::OneByOne,
                    on_error: OnError::GoOn,
                    expect: model::plan::Expect::Nothing,
                }],
            }),
            _ => Decision::Conclude,
        }
    }

    fn look(&self, _: &mut Seen, _: Lookup) {}

    fn answer(&self, _: &mut Seen, _: Answer) {}

    fn absorb(&self, _: &mut Seen, _: &Plan, _: Outcomes) {}

    fn conclude(&self, view: &Seen, _: Time) -> Conclusion {
        Conclusion {
            requeue_after: (view.script == Script::Requeue).then_some(Duration::from_secs(30)),
            error: (view.script == Script::Fail).then(|| SyncError("as told".to_owned())),
            ..Conclusion::default()
        }
    }

    fn event(&self, _: &ObjectRef, _: &Step, _: &Outcome) -> Option<Event> {
        None
    }
}

impl Fixture {
    fn start(scripts: &[(&str, Script)]) -> Self {
        let registry = Registry::new();
        let metrics = ClientMetrics::register(&registry).unwrap();
        let service = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(br#"{"items":null}"#.to_vec())))
        });
        let kube = kube::Client::new(service, "default");
        let client = ApiClient::over(kube, &"http://127.0.0.1".parse().unwrap(), &ClientOptions::default(), &metrics).unwrap();
        let (recorder, _) =
            events::recorder("test", events::ApiWriter::new(client.clone(), Fence::open()), Clock::system(), &registry).unwrap();
        let stopping = CancellationToken::new();
        let expectations = Arc::new(Expectations::default());
        let executor = Executor::new(client, recorder, Arc::clone(&expectations), Clock::system(), 1, Fence::open(), stopping.clone());
        let scripted = Scripted::default();
        scripted.scripts.lock().extend(scripts.iter().map(|(name, script)| ((*name).to_owned(), *script)));
        let queue = WorkQueue::new("test", Clock::system(), &registry).unwrap();
        let records = Arc::new(Records::default());
        let controller = Controller {
            reconciler: scripted.clone(),
            executor,
            guard: None,
            queue: queue.clone(),
            clock: Clock::system(),
            metrics: SyncMetrics::register("test", &records, Clock::system(), &registry).unwrap(),
            records,
        };
        let running = tokio::spawn(Arc::new(controller).run(2));
        for (name, _) in scripts {
            queue.add(ObjectKey::new("ns", *name));
        }
        Self { scripted, queue, expectations, stopping, running }
    }

    /// How often an object has been synced after so much time.
    async fn syncs_after(&self, name: &str, time: Duration) -> usize {
        tokio::time::sleep(time).await;
        self.scripted.syncs.lock().iter().filter(|(synced, _)| synced == name).count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_error_of_its_key_alone() {
    let fixture = Fixture::start(&[("bad", Script::Panic), ("good", Script::Succeed)]);
    assert_eq!(fixture.syncs_after("good", Duration::from_millis(1)).await, 1);
    // 5, 10, 20, 40 ms … between its tries.
    assert_eq!(fixture.syncs_after("bad", Duration::from_millis(79)).await, 5);
    assert_eq!(fixture.queue.num_requeues(&ObjectKey::new("ns", "bad")), 5);
    assert!(!fixture.running.is_finished(), "its worker goes on");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_tried_again_with_a_back_off_and_forgotten_by_a_success() {
    let fixture = Fixture::start(&[("a", Script::Fail)]);
    assert_eq!(fixture.syncs_after("a", Duration::from_millis(17)).await, 3);
    fixture.scripted.scripts.lock().insert("a".to_owned(), Script::Succeed);
    assert_eq!(fixture.syncs_after("a", Duration::from_secs(10)).await, 4);
    assert_eq!(fixture.queue.num_requeues(&ObjectKey::new("ns", "a")), 0);
}

#[tokio::test(start_paused = true)]
async fn a_success_may_ask_to_be_looked_at_again() {
    let fixture = Fixture::start(&[("a", Script::Requeue)]);
    assert_eq!(fixture.syncs_after("a", Duration::from_secs(29)).await, 1);
    assert_eq!(fixture.syncs_after("a", Duration::from_secs(2)).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_decision_without_end_is_an_error() {
    let fixture = Fixture::start(&[("a", Script::Spin)]);
    assert_eq!(fixture.syncs_after("a", Duration::from_millis(6)).await, 2, "it was ended and tried again");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_is_done() {
    let fixture = Fixture::start(&[("a", Script::Gone)]);
    assert_eq!(fixture.syncs_after("a", Duration::from_secs(3600)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_brings_its_key_back_whatever_the_syncs_between_came_to() {
    for script in [Script::Succeed, Script::Fail, Script::Requeue] {
        let fixture = Fixture::start(&[("other", Script::Succeed)]);
        let (key, now) = (ObjectKey::new("ns", "a"), tokio::time::Instant::now());
        fixture.expectations.expect_creations(&key, Uid(1), 1, now);
        fixture.expectations.creation_unknown(&key, Uid(1), &Arc::from("a-1"), now);
        fixture.scripted.scripts.lock().insert("a".to_owned(), script);
        fixture.queue.add(key);
        let before = fixture.syncs_after("a", Duration::from_millis(3)).await;
        fixture.scripted.scripts.lock().insert("a".to_owned(), Script::Succeed);
        let at_64 = fixture.syncs_after("a", Duration::from_secs(64)).await;
        assert!(before >= 1 && at_64 >= before, "{script:?}");
        // The server knows of no such child. What was seen before that was found out is seen again.
        assert_eq!(fixture.syncs_after("a", Duration::from_secs(2)).await, at_64 + 2, "{script:?}");
        assert!(fixture.expectations.satisfied(&ObjectKey::new("ns", "a"), Uid(1), tokio::time::Instant::now()));
        assert_eq!(fixture.syncs_after("a", Duration::from_secs(3600)).await, at_64 + 2, "{script:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn workers_end_when_told_to() {
    let fixture = Fixture::start(&[("a", Script::Succeed)]);
    assert_eq!(fixture.syncs_after("a", Duration::from_secs(1)).await, 1);
    fixture.stopping.cancel();
    fixture.running.await.unwrap();
}
