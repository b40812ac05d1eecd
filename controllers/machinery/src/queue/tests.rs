//! The queue's rules one by one, and its life with tasks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::core::Core;
use super::*;
use crate::clock::Clock;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn core() -> (Core<&'static str>, Instant) {
    (Core::new(()), Instant::now())
}

#[test]
fn one_key_once_and_first_come_first_served() {
    let (mut sut, now) = core();
    for key in ["a", "b", "a", "c"] {
        sut.add(key, Priority::Normal, now);
    }
    assert_eq!(sut.len(), 3);
    assert_eq!(sut.take(now), Some("a"));
    sut.add("a", Priority::Normal, now);
    assert_eq!((sut.take(now), sut.take(now)), (Some("b"), Some("c")));
    assert_eq!(sut.take(now), None, "a is worked on: nobody else gets it");
    sut.done(&"a", now);
    assert_eq!(sut.take(now), Some("a"), "it was added meanwhile");
    sut.done(&"a", now);
    assert_eq!(sut.take(now), None);
}

#[test]
fn earliest_delay_wins_and_direct_adds_leave_it_alone() {
    let (mut sut, now) = core();
    sut.add_after("a", millis(100), now);
    sut.add_after("a", millis(50), now);
    sut.add_after("a", millis(70), now);
    sut.add_after("b", Duration::ZERO, now);
    assert_eq!(sut.take(now), Some("b"), "no delay is now");
    sut.add("a", Priority::Normal, now);
    assert_eq!(sut.take(now), Some("a"));
    sut.done(&"a", now);
    assert_eq!(sut.next_timer(), Some(now + millis(50)));
    assert_eq!(sut.take(now + millis(49)), None);
    assert_eq!(sut.take(now + millis(50)), Some("a"));
    sut.done(&"a", now);
    assert_eq!(sut.take(now + millis(200)), None, "the later ones are gone");
}

#[test]
fn back_off_doubles_up_to_its_cap() {
    let (mut sut, mut now) = core();
    let mut waits = Vec::new();
    sut.add("a", Priority::Normal, now);
    for _ in 0..20 {
        assert_eq!(sut.take(now), Some("a"));
        sut.add_rate_limited("a", now);
        sut.done(&"a", now);
        let next = sut.next_timer().unwrap();
        waits.push((next - now).as_millis());
        now = next;
    }
    assert_eq!(&waits[..4], [5, 10, 20, 40]);
    assert_eq!(&waits[17..], [655_360, 1_000_000, 1_000_000]);
    assert_eq!(sut.num_requeues(&"a"), 20);
    sut.forget(&"a");
    assert_eq!(sut.num_requeues(&"a"), 0);
}

#[test]
fn common_limit_holds_rate_limited_adds_only() {
    let mut sut = Core::<u32>::new(());
    let now = Instant::now();
    for key in 0..101 {
        sut.add_rate_limited(key, now);
    }
    sut.add(999, Priority::Normal, now);
    assert_eq!(sut.take(now), Some(999));
    let soon = now + millis(5);
    assert_eq!(std::iter::from_fn(|| sut.take(soon)).count(), 100);
    assert_eq!(sut.next_timer(), Some(now + millis(100)), "the 101st waits for a token");
}

#[test]
fn rs_07_early_attempts_do_not_raise_the_failure_count() {
    let (mut sut, start) = core();
    sut.add("a", Priority::Normal, start);
    let (mut now, mut attempts) = (start, 0);
    // RS-07: twenty events within two seconds reach a key that fails every time.
    for event in 0..=20 {
        let at = start + millis(100 * event);
        while let Some(due) = sut.next_timer().filter(|due| *due <= at) {
            now = now.max(due);
            attempts += u64::from(fail(&mut sut, now));
        }
        now = now.max(at);
        sut.add("a", Priority::Normal, now);
        attempts += u64::from(fail(&mut sut, now));
    }
    assert!(attempts >= 25, "each event was tried at once, as upstream: {attempts}");
    assert_eq!(sut.num_requeues(&"a"), 9, "5 + 10 + .. + 640 ms are over after 1275 ms");
    assert_eq!(sut.backoff_until(&"a"), Some(start + millis(1275 + 1280)));
    assert_eq!(sut.next_timer(), Some(start + millis(1275 + 1280)), "the attempt that waits still stands");
}

fn fail(sut: &mut Core<&'static str>, now: Instant) -> bool {
    let taken = sut.take(now);
    if let Some(key) = taken {
        sut.add_rate_limited(key, now);
        sut.done(&key, now);
    }
    taken.is_some()
}

#[test]
fn early_failure_keeps_the_retry_that_an_earlier_timer_replaced() {
    let (mut sut, now) = core();
    sut.add("a", Priority::Normal, now);
    for _ in 0..8 {
        let now = sut.next_timer().unwrap_or(now);
        assert!(fail(&mut sut, now));
    }
    let due = sut.backoff_until(&"a").unwrap();
    let early = due - millis(300);
    sut.add_after("a", millis(1), early - millis(1));
    assert!(fail(&mut sut, early), "the delayed add is independent of the back-off");
    assert_eq!(sut.num_requeues(&"a"), 8);
    assert_eq!(sut.next_timer(), Some(due));
    assert!(fail(&mut sut, due));
    assert_eq!(sut.num_requeues(&"a"), 9);
}

#[test]
fn ctl_09_a_touched_key_passes_a_resync() {
    let mut sut = Core::<u32>::new(());
    let now = Instant::now();
    for key in 0..20_000 {
        sut.add(key, Priority::Low, now);
    }
    assert_eq!(sut.take(now), Some(0));
    sut.add(15_000, Priority::Normal, now);
    assert_eq!(sut.take(now), Some(15_000), "CTL-09");
    assert_eq!(sut.len(), 19_998);
    let rest: Vec<u32> = std::iter::from_fn(|| sut.take(now)).collect();
    assert_eq!(rest.len(), 19_998, "it has left its old place");
    assert!(rest.is_sorted());
}

#[test]
fn low_priority_is_not_starved() {
    let mut sut = Core::<u32>::new(());
    let now = Instant::now();
    sut.add(7, Priority::Low, now);
    for key in 100..200 {
        sut.add(key, Priority::Normal, now);
    }
    let order: Vec<u32> = std::iter::from_fn(|| sut.take(now)).collect();
    assert_eq!(order.iter().position(|key| *key == 7), Some(16));
    assert_eq!(order.len(), 101);
}

#[test]
fn parked_key_is_out_of_everything_but_not_forgotten() {
    let (mut sut, now) = core();
    sut.add("a", Priority::Low, now);
    sut.take(now);
    sut.add_after("a", millis(10), now);
    sut.park(&"a", now);
    sut.add("a", Priority::Normal, now);
    assert_eq!(sut.take(now + millis(20)), None, "neither adds nor timers wake it");
    assert_eq!((sut.len(), sut.processing()), (0, 0));
    assert!(sut.unpark(&"a"));
    assert!(!sut.unpark(&"a"));
    assert_eq!(sut.take(now), Some("a"));
    sut.done(&"a", now);
    assert_eq!(sut.take(now + millis(20)), None, "what came while it was parked is done with");
    assert!(!sut.unpark(&"a"), "only what was parked can be unparked");
}

// === tasks ===

fn queue(registry: &Registry) -> WorkQueue<&'static str> {
    WorkQueue::new("replicaset", Clock::system(), registry).unwrap()
}

#[tokio::test(start_paused = true)]
async fn workers_wake_for_adds_and_timers() {
    let queue = queue(&Registry::new());
    let start = Instant::now();
    let (sender, mut taken) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..3 {
        let (queue, sender) = (queue.clone(), sender.clone());
        tokio::spawn(async move {
            while let Some(key) = queue.get().await {
                sender.send((*key.key(), start.elapsed().as_millis())).unwrap();
                // Whoever knew of the next timer is busy when it fires.
                tokio::time::sleep(millis(10_000)).await;
            }
        });
    }
    drop(sender);
    tokio::time::sleep(millis(1)).await;
    queue.add_after("late", millis(500));
    queue.add_after("soon", millis(100));
    queue.add("now");
    assert_eq!(taken.recv().await, Some(("now", 1)));
    assert_eq!(taken.recv().await, Some(("soon", 101)));
    assert_eq!(taken.recv().await, Some(("late", 501)));
    queue.shut_down();
    assert_eq!(taken.recv().await, None, "all workers end");
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_the_work_under_way() {
    let queue = queue(&Registry::new());
    queue.add("a");
    queue.add("b");
    let first = queue.get().await.unwrap();
    let drained = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await }
    });
    tokio::task::yield_now().await;
    queue.add("too late");
    drop(first);
    assert_eq!(queue.get().await.map(|key| *key.key()), Some("b"), "what is in line is still handed out");
    assert!(queue.get().await.is_none());
    drained.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn panic_gives_the_key_back() {
    let queue = queue(&Registry::new());
    queue.add("a");
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _key = queue.get().await;
            panic!("on purpose");
        }
    });
    assert!(worker.await.is_err());
    queue.add("a");
    assert_eq!(queue.get().await.map(|key| *key.key()), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn parked_key_wakes_a_worker() {
    let queue = queue(&Registry::new());
    queue.add("a");
    queue.get().await.unwrap().park();
    let next = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|key| *key.key()) }
    });
    tokio::time::sleep(millis(1000)).await;
    assert!(!next.is_finished());
    queue.unpark(&"a");
    assert_eq!(next.await.unwrap(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn metrics_are_client_gos() {
    let registry = Registry::new();
    let queue = queue(&registry);
    let other = WorkQueue::<&str>::new("deployment", Clock::system(), &registry).unwrap();
    let read = |name: &str| {
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
        let value = line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap();
        assert!(value.fract().abs() < f64::EPSILON, "paused time passes in whole seconds here: {line}");
        value as u64
    };
    for zero in ["depth", "adds_total", "retries_total", "unfinished_work_seconds", "longest_running_processor_seconds"] {
        assert_eq!(read(&format!("workqueue_{zero}{{name=\"replicaset\"}}")), 0, "{zero}");
        assert_eq!(read(&format!("workqueue_{zero}{{name=\"deployment\"}}")), 0, "{zero}");
    }
    assert_eq!(read("workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"0.00000001\"}"), 0);
    queue.add("a");
    queue.add("b");
    queue.add("b");
    tokio::time::advance(millis(2000)).await;
    let (first, second) = (queue.get().await.unwrap(), queue.get().await.unwrap());
    tokio::time::advance(millis(3000)).await;
    queue.add_rate_limited("a");
    queue.add_after("b", Duration::ZERO);
    assert_eq!(read("workqueue_depth{name=\"replicaset\"}"), 1, "b waits for its own work to end");
    assert_eq!(read("workqueue_unfinished_work_seconds{name=\"replicaset\"}"), 6);
    assert_eq!(read("workqueue_longest_running_processor_seconds{name=\"replicaset\"}"), 3);
    drop((first, second));
    assert_eq!(read("workqueue_adds_total{name=\"replicaset\"}"), 3);
    assert_eq!(read("workqueue_retries_total{name=\"replicaset\"}"), 2);
    assert_eq!(read("workqueue_queue_duration_seconds_sum{name=\"replicaset\"}"), 4);
    assert_eq!(read("workqueue_work_duration_seconds_sum{name=\"replicaset\"}"), 6);
    assert_eq!(read("workqueue_work_duration_seconds_count{name=\"replicaset\"}"), 2);
    drop(other);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_share_the_work_without_sharing_a_key() {
    const KEYS: usize = 50;
    let queue = WorkQueue::<usize>::new("replicaset", Clock::system(), &Registry::new()).unwrap();
    let busy: Arc<Vec<AtomicBool>> = Arc::new((0..KEYS).map(|_| AtomicBool::new(false)).collect());
    let (wanted, seen): (Arc<Vec<AtomicUsize>>, Arc<Vec<AtomicUsize>>) =
        (Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect()), Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect()));
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (queue, busy, wanted, seen) = (queue.clone(), Arc::clone(&busy), Arc::clone(&wanted), Arc::clone(&seen));
            tokio::spawn(async move {
                while let Some(key) = queue.get().await {
                    let at = *key.key();
                    assert!(!busy[at].swap(true, Ordering::SeqCst), "no key in two workers");
                    seen[at].store(wanted[at].load(Ordering::SeqCst), Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    if fastrand::u8(..) < 16 {
                        queue.add_after(at, millis(1));
                    }
                    busy[at].store(false, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let adders: Vec<_> = (0..4)
        .map(|_| {
            let (queue, wanted) = (queue.clone(), Arc::clone(&wanted));
            tokio::spawn(async move {
                for turn in 0..20_000 {
                    let key = fastrand::usize(..KEYS);
                    wanted[key].fetch_add(1, Ordering::SeqCst);
                    if turn % 3 == 0 {
                        queue.add_low_priority(key);
                    } else {
                        queue.add(key);
                    }
                    if turn % 64 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for adder in adders {
        adder.await.unwrap();
    }
    queue.drain().await;
    for worker in workers {
        worker.await.unwrap();
    }
    for (wanted, seen) in wanted.iter().zip(&*seen) {
        assert_eq!(wanted.load(Ordering::SeqCst), seen.load(Ordering::SeqCst), "the last add was worked on");
    }
}

#[test]
fn a_queue_on_hold_keeps_what_is_recent_and_nothing_else() {
    let (mut sut, start) = core();
    let at = |seconds| start + Duration::from_secs(seconds);
    sut.add("before", Priority::Normal, start);
    sut.hold(Duration::from_secs(20));
    sut.add("replayed", Priority::Low, at(0));
    sut.add("old", Priority::Normal, at(0));
    sut.add("busy", Priority::Normal, at(1));
    sut.add_after("later", millis(1), at(1));
    sut.add("new", Priority::Normal, at(25));
    assert_eq!(sut.len(), 1, "what nobody is going to need takes no memory");
    sut.add("busy", Priority::Normal, at(26));
    sut.add("new", Priority::Normal, at(40));
    sut.resume(at(45));
    assert_eq!(sut.next_timer(), None);
    sut.add("all", Priority::Low, at(45));
    sut.add("news", Priority::Normal, at(45));
    let order: Vec<_> = std::iter::from_fn(|| sut.take(at(45))).collect();
    assert_eq!(order, ["busy", "new", "news", "all"]);
    for key in order {
        sut.done(&key, at(45));
    }
    assert!(sut.is_empty());
    sut.add_after("later", millis(1), at(45));
    assert!(sut.next_timer().is_some());
}

#[test]
fn a_queue_on_hold_does_not_grow_with_what_comes_and_goes() {
    let mut sut = Core::new(());
    let start = Instant::now();
    sut.hold(Duration::from_secs(20));
    for second in 0..10_000_u64 {
        sut.add(second, Priority::Normal, start + Duration::from_secs(second));
        assert!(sut.len() <= 21);
    }
    sut.resume(start + Duration::from_secs(20_000));
    assert!(sut.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_wait_on_hold_is_not_measured() {
    let registry = Registry::new();
    let queue = queue(&registry);
    queue.hold(Duration::from_secs(20));
    queue.add("a");
    tokio::time::advance(Duration::from_secs(19)).await;
    queue.resume();
    queue.get().await.unwrap().done();
    let page = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    assert!(page.contains("workqueue_queue_duration_seconds_sum{name=\"replicaset\"} 0\n"), "{page}");
    assert!(page.contains("workqueue_depth{name=\"replicaset\"} 0\n"), "{page}");
}
