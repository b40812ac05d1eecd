//! Random histories against a model of the server: whatever breaks, what the sink has been told is the truth of one version.

use std::collections::{BTreeMap, HashSet};

use fastrand::Rng;
use proptest::prelude::*;

use super::*;

/// What exists: names and the versions of their objects.
type Truth = BTreeMap<String, u64>;

/// The storage: every change ever made, and how many more there will be.
struct World {
    /// Version, name, and whether the object was there afterwards. Versions go up by more than one: other resources change too.
    log: Vec<(u64, String, bool)>,
    /// Watches cannot begin before this version.
    floor: u64,
    changes_left: u32,
    faults_left: u32,
    streams: bool,
    random: Rng,
    quiet: Arc<Notify>,
}

#[derive(Clone)]
struct Server(Arc<Mutex<World>>);

struct Stream {
    server: Server,
    /// Everything up to this version has been sent.
    cursor: u64,
    bytes: VecDeque<u8>,
}

/// Fails the first time it sees some names.
struct Forgetful {
    doomed: HashSet<String>,
    inner: JsonThings,
}

/// Builds the truth from what it is told, and compares.
struct Checker {
    server: Server,
    held: Truth,
    listed: Option<HashSet<String>>,
    version: u64,
}

// === impl World ===

impl World {
    fn version(&self) -> u64 {
        self.log.last().map_or(1, |(version, ..)| *version)
    }

    fn truth(&self, version: u64) -> Truth {
        let mut truth = Truth::new();
        for (at, name, exists) in self.log.iter().filter(|(at, ..)| *at <= version) {
            if *exists {
                truth.insert(name.clone(), *at)
            } else {
                truth.remove(name)
            };
        }
        truth
    }

    fn change(&mut self) {
        if self.changes_left == 0 || self.random.u8(..) < 100 {
            return;
        }
        self.changes_left -= 1;
        let version = self.version() + self.random.u64(1..4);
        let name = format!("object-{}", self.random.u8(0..8));
        let exists = self.truth(version).contains_key(&name);
        let there = !exists || self.random.u8(..) < 160;
        self.log.push((version, name, there));
        if self.random.u8(..) < 30 {
            self.floor = self.random.u64(self.floor..=version);
        }
    }

    fn fault(&mut self, odds: u8) -> bool {
        let fault = self.faults_left > 0 && self.random.u8(..) < odds;
        self.faults_left -= u32::from(fault);
        fault
    }

    fn refusal(&mut self) -> ApiError {
        self.random
            .choice([
                error(0, "NoAnswer"),
                error(429, "TooManyRequests"),
                error(500, "InternalError"),
                error(503, "ServiceUnavailable"),
                error(410, "Expired"),
            ])
            .unwrap()
    }

    /// The version of a list: a cache may lag, but not behind what was asked for.
    fn list_version(&mut self, freshness: Freshness) -> Result<u64, ApiError> {
        let now = self.version();
        match freshness {
            Freshness::Consistent => Ok(now),
            Freshness::NotOlderThan(_) if self.fault(60) => Err(too_large()),
            Freshness::NotOlderThan(version) => Ok(self.random.u64(version.0..=now)),
        }
    }
}

// === impl Server ===

impl Transport for Server {
    type Chunks = Stream;

    async fn list(&mut self, request: &PageRequest) -> Result<Bytes, CallError> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut world = self.0.lock();
        world.change();
        if world.fault(40) {
            let refusal = world.refusal();
            return Err(CallError::Refused(refusal));
        }
        let (version, skip) = match &request.at {
            PageStart::First(freshness) => (world.list_version(*freshness).map_err(CallError::Refused)?, 0),
            PageStart::Continue(token) => {
                let (version, skip) = token.split_once('-').unwrap();
                (version.parse().unwrap(), skip.parse().unwrap())
            }
        };
        if version < world.floor && skip > 0 {
            return Err(CallError::Refused(error(410, "Expired")));
        }
        let truth = world.truth(version);
        let objects: Vec<_> = truth.iter().skip(skip).take(request.limit as usize).map(|(name, at)| format!("{name}@{at}")).collect();
        let next = skip + objects.len();
        let token = if next < truth.len() { format!("{version}-{next}") } else { String::new() };
        let Answer::Page(Ok(body)) = page(version, &token, &objects.iter().map(String::as_str).collect::<Vec<_>>()) else { unreachable!() };
        Ok(body.into())
    }

    async fn watch(&mut self, request: &WatchRequest) -> Result<Stream, CallError> {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut world = self.0.lock();
        world.change();
        if world.fault(40) {
            let refusal = world.refusal();
            return Err(CallError::Refused(refusal));
        }
        let mut bytes = VecDeque::new();
        let cursor = match request.start {
            WatchStart::InitialEvents(_) if !world.streams => return Err(CallError::Refused(error(422, "Invalid"))),
            WatchStart::InitialEvents(freshness) => {
                let version = world.list_version(freshness).map_err(CallError::Refused)?;
                for (name, at) in world.truth(version) {
                    write(&mut bytes, added(&format!("{name}@{at}")));
                }
                // The end may be marked later than the snapshot was taken.
                let now = world.version();
                let marked = world.random.u64(version..=now);
                changes(&world, version, marked, &mut bytes);
                if !world.fault(30) {
                    write(&mut bytes, end(marked));
                }
                marked
            }
            WatchStart::After(version) if version.0 < world.floor => {
                if world.random.bool() {
                    return Err(CallError::Refused(error(410, "Expired")));
                }
                write(&mut bytes, expired());
                version.0
            }
            WatchStart::After(version) => version.0,
        };
        Ok(Stream { server: self.clone(), cursor, bytes })
    }
}

fn write(bytes: &mut VecDeque<u8>, piece: Piece) {
    let Piece::Bytes(line) = piece else { unreachable!() };
    bytes.extend(line);
}

fn changes(world: &World, after: u64, until: u64, bytes: &mut VecDeque<u8>) {
    for (version, name, exists) in world.log.iter().filter(|(version, ..)| *version > after && *version <= until) {
        let text = format!("{name}@{version}");
        let known = world.truth(version - 1).contains_key(name);
        write(
            bytes,
            if !exists {
                deleted(&text)
            } else if known {
                modified(&text)
            } else {
                added(&text)
            },
        );
    }
}

impl Chunks for Stream {
    async fn next(&mut self) -> Option<Result<Bytes, ApiError>> {
        loop {
            // Cancelled here, nothing is lost.
            tokio::time::sleep(Duration::from_millis(700)).await;
            let mut world = self.server.0.lock();
            if world.fault(12) {
                return if world.random.bool() { None } else { Some(Err(error(0, "AnswerLost"))) };
            }
            if self.bytes.is_empty() {
                world.change();
                let now = world.version();
                changes(&world, self.cursor, now, &mut self.bytes);
                self.cursor = now;
                match world.random.u8(..) {
                    0..40 => write(&mut self.bytes, bookmark(now)),
                    40..50 if world.fault(255) => write(&mut self.bytes, error_event(500, "InternalError", "etcd")),
                    50..55 if world.fault(255) => self.bytes.extend(b"<html>\n"),
                    _ => {}
                }
                if self.bytes.is_empty() && world.changes_left == 0 && world.faults_left == 0 {
                    world.quiet.notify_one();
                }
            }
            if !self.bytes.is_empty() {
                let length = world.random.usize(1..=self.bytes.len().min(200));
                return Some(Ok(self.bytes.drain(..length).collect()));
            }
        }
    }
}

// === impl Forgetful ===

impl Decode for Forgetful {
    type Object = Thing;
    const FORMAT: Format = Format::Json;

    fn decode(&mut self, raw: &[u8]) -> Result<Thing, DecodeError> {
        let thing = self.inner.decode(raw)?;
        if self.doomed.remove(&thing.name) { Err(DecodeError::Identity { field: "uid", value: thing.name }) } else { Ok(thing) }
    }
}

// === impl Checker ===

impl Checker {
    fn check(&mut self, version: u64) {
        assert!(version >= self.version, "went back from {} to {version}", self.version);
        self.version = version;
        assert_eq!(self.held, self.server.0.lock().truth(version), "at version {version}");
    }
}

impl Sink<Thing> for Checker {
    fn apply(&mut self, event: SourceEvent<Thing>) {
        match event {
            SourceEvent::Restarted => self.listed = Some(HashSet::new()),
            SourceEvent::Listed(thing) => {
                self.listed.as_mut().expect("a list has begun").insert(thing.name.clone());
                self.held.insert(thing.name, thing.version.0);
            }
            SourceEvent::Deleted(thing) => {
                self.held.remove(&thing.name);
                match &mut self.listed {
                    Some(listed) => _ = listed.remove(&thing.name),
                    None => self.check(thing.version.0),
                }
            }
            SourceEvent::Synced(version) => {
                let listed = self.listed.take().expect("a list has begun");
                self.held.retain(|name, _| listed.contains(name));
                self.check(version.0);
            }
            SourceEvent::Applied(thing) => {
                // A relist that stopped half way does not stop the watch that goes on: there is none.
                assert!(self.listed.is_none(), "an event in the middle of a list");
                self.held.insert(thing.name, thing.version.0);
                self.check(thing.version.0);
            }
            SourceEvent::Bookmark(version) => self.check(version.0),
        }
    }
}

async fn converges(seed: u64, streams: bool, faults: u32) {
    let mut random = Rng::with_seed(seed);
    let quiet = Arc::new(Notify::new());
    let doomed = (0..random.u8(0..3)).map(|_| format!("object-{}", random.u8(0..8))).collect();
    let world = World {
        log: vec![(3, "object-0".to_owned(), true), (4, "object-1".to_owned(), true)],
        floor: 1,
        changes_left: 80,
        faults_left: faults,
        streams,
        random,
        quiet: Arc::clone(&quiet),
    };
    let server = Server(Arc::new(Mutex::new(world)));
    let metrics = SourceMetrics::register(&Registry::new()).unwrap();
    let config = SourceConfig { page_size: 2, ..SourceConfig::new(&PODS, seed) };
    let source = Source::new(config, server.clone(), Forgetful { doomed, inner: JsonThings::default() }, &metrics);
    let handle = source.handle();
    let shutdown = CancellationToken::new();
    let checker = Checker { server, held: Truth::new(), listed: None, version: 0 };
    let mut task = tokio::spawn(source.run(checker, shutdown.clone()));
    tokio::select! {
        ended = &mut task => ended.expect("the checker is content"),
        () = quiet.notified() => {}
        () = tokio::time::sleep(Duration::from_secs(7 * 24 * 3600)) => panic!("never came to rest: {:?}", handle.status()),
    }
    shutdown.cancel();
    task.await.expect("the checker is content");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_the_sink_was_told_is_always_the_truth_of_one_version(seed in any::<u64>(), streams in any::<bool>(), faults in 0_u32..60) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(converges(seed, streams, faults));
    }
}
