//! Candidates against one API that fails in all ways.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use machinery::clock::{Clock, TestClock};
use machinery::events::{self, EventWriter};
use machinery::fence::{BootClock, Fence};
use model::plan::ApiError;
use prometheus::Registry;
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::leader::election::{Election, Ended, LeaseApi};
use crate::leader::protocol::{Loss, Protocol};
use crate::leader::standing::{ElectionMetrics, Role, Standing};

/// What happens to a candidate's next request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Refuse(u16),
    /// It is carried out, and nobody says so.
    LoseAnswer,
    Hang,
}

#[derive(Default)]
struct Server {
    lease: RefCell<Option<Value>>,
    version: RefCell<u64>,
    watches: RefCell<Vec<watch::Sender<Option<Lease>>>>,
    /// Writes, by whom and what they made of the holder.
    written: RefCell<Vec<String>>,
}

struct Door {
    server: Rc<Server>,
    name: &'static str,
    faults: Rc<RefCell<VecDeque<Fault>>>,
    /// Everything hangs.
    cut: Rc<RefCell<bool>>,
}

struct Candidate {
    fence: Fence,
    role: watch::Receiver<Role>,
    standing: Arc<Standing>,
    resign: CancellationToken,
    faults: Rc<RefCell<VecDeque<Fault>>>,
    cut: Rc<RefCell<bool>>,
    wall: Arc<TestClock>,
    registry: Registry,
    task: JoinHandle<Ended>,
}

struct NoEvents;

impl EventWriter for NoEvents {
    async fn create(&self, _: &str, _: Vec<u8>) -> Result<(), ApiError> {
        Ok(())
    }
    async fn patch(&self, _: &str, _: &str, _: Vec<u8>) -> Result<(), ApiError> {
        Ok(())
    }
}

fn error(code: u16) -> ApiError {
    ApiError { code, reason: format!("Error{code}"), ..ApiError::default() }
}

impl Server {
    fn put(&self, by: &str, mut lease: Value) -> Lease {
        *self.version.borrow_mut() += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.borrow().to_string());
        *self.lease.borrow_mut() = Some(lease.clone());
        let lease = Lease::parse(lease.to_string().as_bytes()).unwrap();
        self.written.borrow_mut().push(format!("{by}: {}", lease.holder()));
        for watch in &*self.watches.borrow() {
            watch.send_replace(Some(lease.clone()));
        }
        lease
    }

    fn holder(&self) -> String {
        self.lease.borrow().as_ref().map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap().to_owned()).unwrap_or_default()
    }

    fn transitions(&self) -> Value {
        self.lease.borrow().as_ref().unwrap()["spec"]["leaseTransitions"].clone()
    }

    /// Without a watch where `watching` is false.
    fn candidate(self: &Rc<Self>, name: &'static str, watching: bool) -> Candidate {
        let (faults, cut) = (Rc::default(), Rc::default());
        let door = Door { server: Rc::clone(self), name, faults: Rc::clone(&faults), cut: Rc::clone(&cut) };
        let clock = BootClock::paused();
        let registry = Registry::new();
        let (wall, jumps) = Clock::test(NOW);
        let (recorder, _) = events::recorder("test", NoEvents, Clock::system(), &registry).unwrap();
        let standing = Arc::new(Standing::new(rules(name), clock.clone(), recorder, &ElectionMetrics::register(&registry).unwrap()));
        let (seen, watched) = watch::channel(None);
        if watching {
            self.watches.borrow_mut().push(seen);
        }
        let fence = Fence::closed(clock.clone());
        let protocol = Protocol::new(rules(name), fastrand::u64(..), clock.now());
        let (standing_of, role) = (Arc::clone(&standing), standing.follow());
        let election = Election {
            protocol,
            api: door,
            clock,
            wall,
            fence: fence.clone(),
            standing: standing_of,
            watched,
            release_on_exit: true,
            complaint: None,
        };
        let resign = CancellationToken::new();
        let task = spawn_local(election.run(resign.clone()));
        Candidate { fence, role, standing, resign, faults, cut, wall: jumps, registry, task }
    }
}

impl Door {
    async fn pass<T>(&self, act: impl FnOnce(&Server) -> Result<T, ApiError>) -> Result<T, ApiError> {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let fault = self.faults.borrow_mut().pop_front();
        if *self.cut.borrow() || fault == Some(Fault::Hang) {
            tokio::time::sleep(Duration::from_secs(5)).await;
            return Err(error(0));
        }
        match fault {
            Some(Fault::Refuse(code)) => Err(error(code)),
            Some(_) => {
                let _ = act(&self.server);
                Err(error(0))
            }
            None => act(&self.server),
        }
    }
}

impl LeaseApi for Door {
    async fn get(&self) -> Result<Lease, ApiError> {
        self.pass(|server| match &*server.lease.borrow() {
            Some(lease) => Ok(Lease::parse(lease.to_string().as_bytes()).unwrap()),
            None => Err(error(404)),
        })
        .await
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let body = serde_json::from_slice(&lease.body()).unwrap();
        self.pass(|server| if server.lease.borrow().is_some() { Err(error(409)) } else { Ok(server.put(self.name, body)) }).await
    }

    async fn update(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let body: Value = serde_json::from_slice(&lease.body()).unwrap();
        self.pass(|server| {
            let current = server.lease.borrow().as_ref().map(|lease| lease["metadata"]["resourceVersion"].clone());
            match current {
                None => Err(error(404)),
                Some(version) if version != body["metadata"]["resourceVersion"] => Err(error(409)),
                Some(_) => Ok(server.put(self.name, body)),
            }
        })
        .await
    }
}

impl Candidate {
    async fn leads(&mut self) {
        self.role.wait_for(|role| *role == Role::Leader).await.unwrap();
    }

    fn faults(&self, faults: &[Fault]) {
        self.faults.borrow_mut().extend(faults);
    }

    fn metric(&self, name: &str) -> u64 {
        let page = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        let sample = format!("{name}{{name=\"wcm\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&*sample)).unwrap().parse().unwrap()
    }
}

async fn after(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

async fn with(test: impl AsyncFnOnce(Rc<Server>)) {
    LocalSet::new().run_until(test(Rc::default())).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_leads_and_the_second_stands_by() {
    with(async |server| {
        let mut a = server.candidate("a", true);
        assert_eq!(*a.role.borrow(), Role::Candidate);
        assert!(!a.fence.may_write());
        assert_eq!((a.metric("leader_election_master_status"), a.metric("leader_election_slowpath_total")), (0, 0));
        a.leads().await;
        assert!(a.fence.may_write());
        assert_eq!(a.metric("leader_election_master_status"), 1);
        let mut b = server.candidate("b", true);
        b.role.wait_for(|role| *role == Role::Standby).await.unwrap();
        for _ in 0..100 {
            after(10.0).await;
            assert!(a.fence.may_write() && !b.fence.may_write());
            assert_eq!((a.standing.check(), b.standing.check()), (Ok(()), Ok(())));
        }
        assert_eq!((server.holder().as_str(), server.transitions()), ("a", json!(0)));
        assert_eq!(b.metric("leader_election_master_status"), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_second_takes_over_within_the_duration_and_a_little_of_a_death() {
    for (watching, late) in [(true, 0.2), (false, 4.7)] {
        with(async |server| {
            for _ in 0..20 {
                server.lease.take();
                let mut a = server.candidate("a", true);
                a.leads().await;
                let mut b = server.candidate("b", watching);
                after(20.0 + fastrand::f64() * 2.0).await;
                a.task.abort();
                let died = tokio::time::Instant::now();
                b.leads().await;
                let took = died.elapsed().as_secs_f64();
                assert!((13.0..15.0 + late).contains(&took), "watching {watching}: {took}");
                assert_eq!(server.transitions(), json!(1));
                b.task.abort();
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_hands_over_at_once_and_nobody_writes_in_between() {
    with(async |server| {
        let mut a = server.candidate("a", true);
        a.leads().await;
        let mut b = server.candidate("b", true);
        after(5.0).await;
        a.resign.cancel();
        let began = tokio::time::Instant::now();
        assert_eq!(a.task.await.unwrap(), Ended::Resigned);
        assert!(!a.fence.may_write());
        b.leads().await;
        assert!(began.elapsed() < seconds(0.2), "{:?}", began.elapsed());
        assert!(server.written.borrow().ends_with(&["a: ".to_owned(), "b: b".to_owned()]));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_release_outlives_a_renewal_under_way_and_a_bad_moment() {
    for faults in [&[Fault::LoseAnswer][..], &[Fault::Refuse(500)], &[Fault::Refuse(409), Fault::Refuse(0)]] {
        with(async |server| {
            let mut a = server.candidate("a", true);
            a.leads().await;
            // In the middle of a renewal.
            after(2.002).await;
            a.faults(faults);
            a.resign.cancel();
            assert_eq!(a.task.await.unwrap(), Ended::Resigned);
            assert_eq!(server.holder(), "", "{faults:?}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_is_told_to_stop_writes_nothing() {
    with(async |server| {
        let mut a = server.candidate("a", true);
        a.leads().await;
        let b = server.candidate("b", true);
        after(5.0).await;
        let began = tokio::time::Instant::now();
        b.resign.cancel();
        assert_eq!(b.task.await.unwrap(), Ended::Resigned);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(server.written.borrow().iter().all(|write| write == "a: a"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn ctl_07_one_error_is_survived_and_silence_ends_it_before_the_lease_expires() {
    with(async |server| {
        let mut a = server.candidate("a", true);
        a.leads().await;
        for fault in [Fault::Refuse(500), Fault::Refuse(409), Fault::LoseAnswer, Fault::Refuse(429), Fault::Hang] {
            a.faults(&[fault]);
            after(7.0).await;
            assert!(a.fence.may_write(), "{fault:?}");
            assert_eq!(*a.role.borrow(), Role::Leader);
        }
        assert_eq!(a.metric("leader_election_slowpath_total"), 5);
        *a.cut.borrow_mut() = true;
        let began = tokio::time::Instant::now();
        let ended = a.task.await.unwrap();
        assert_eq!(ended, Ended::Lost(Loss::Late));
        assert!((8.0..=10.0).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
        assert!(!a.fence.may_write());
        assert_eq!(*a.role.borrow(), Role::Standby);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn ctl_06_never_may_two_write() {
    for seed in 0..30_u64 {
        with(async |server| {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut candidates: Vec<_> = ["a", "b", "c"].map(|name| server.candidate(name, random.bool())).into_iter().collect();
            let (mut led, mut names) = (0_u32, 0_u32);
            for _ in 0..600 {
                after(random.f64() * 0.7).await;
                let writers = candidates.iter().filter(|candidate| candidate.fence.may_write()).count();
                assert!(writers <= 1, "seed {seed}: {writers} may write");
                led += u32::try_from(writers).unwrap();
                let index = random.usize(..candidates.len());
                let candidate = &mut candidates[index];
                match random.u32(..40) {
                    0 => candidate.faults(&[Fault::LoseAnswer]),
                    1 => candidate.faults(&[Fault::Refuse(500), Fault::Refuse(503)]),
                    2 => candidate.faults(&[Fault::Hang]),
                    3 => *candidate.cut.borrow_mut() = random.bool(),
                    4 => candidate.resign.cancel(),
                    5 => candidate.wall.jump_seconds(random.i64(-100_000..100_000)),
                    _ => {}
                }
                if candidate.task.is_finished() {
                    // Never under a name that was there before, as processes do.
                    names += 1;
                    *candidate = server.candidate(Box::leak(names.to_string().into_boxed_str()), random.bool());
                }
            }
            assert!(led > 200, "seed {seed}: somebody led {led} of 600 times");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_deleted_or_emptied_under_the_leader_is_its_own_again() {
    with(async |server| {
        let mut a = server.candidate("a", true);
        a.leads().await;
        let b = server.candidate("b", true);
        after(5.0).await;
        server.lease.take();
        after(5.0).await;
        assert_eq!(server.holder(), "a");
        server.put("somebody", json!({"metadata": {"name": "wcm"}, "spec": null}));
        after(30.0).await;
        // Whoever was quicker: one of them leads.
        let writers = [&a, &b].iter().filter(|candidate| candidate.fence.may_write()).count();
        assert_eq!(writers, 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_hangs_beyond_its_lease_is_not_healthy() {
    let (clock, now) = BootClock::test(seconds(1000.0));
    let registry = Registry::new();
    let (recorder, _) = events::recorder("test", NoEvents, Clock::system(), &registry).unwrap();
    let standing = Standing::new(rules("a"), clock, recorder, &ElectionMetrics::register(&registry).unwrap());
    let at = |seconds: u64| now.store(seconds * 1_000_000_000, std::sync::atomic::Ordering::SeqCst);
    at(9999);
    assert_eq!(standing.check(), Ok(()), "a standby is healthy");
    standing.renewed(seconds(10_000.0));
    at(10_035);
    assert_eq!(standing.check(), Ok(()));
    at(10_036);
    assert_eq!(standing.check(), Err("failed election to renew leadership on lease wcm".to_owned()));
    standing.lost();
    assert_eq!(standing.check(), Ok(()));
}
