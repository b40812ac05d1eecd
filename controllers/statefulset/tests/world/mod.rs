//! A small world: an API server, users, kubelets and a garbage collector, and our process, whose decisions are the real ones.
//!
//! It keeps what the machinery promises: a sync does not run before the stores show the writes of the same set that were answered.
//! Everything else may be late: the stores of the four kinds follow the server each at its own pace. Requests may be refused, their answers
//! lost with or without the effect, and the process may die at any of them.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "support of tests, which fail by panicking"
)]

pub mod bounds;
pub mod cache;
pub mod drive;
pub mod environment;
pub mod server;
pub mod settle;

use std::collections::{BTreeMap, VecDeque};

use model::plan::Wait;
use serde_json::{Value, json};
use statefulset::{Gates, Sameness};

use self::bounds::Bounds;
use self::cache::Cache;
use self::drive::Fate;
use self::server::{Kind, Server};
use crate::support::db_json;

#[derive(Clone, Debug)]
pub struct World {
    pub server: Server,
    pub cache: Cache,
    pub gates: Gates,
    /// What was written and must be seen before the next sync.
    guard: BTreeMap<Kind, u64>,
    known_same: Option<Sameness>,
    /// What becomes of the next requests; of those beyond, nothing special.
    fates: VecDeque<Fate>,
    /// What the last sync has failed with.
    pub failed: Option<String>,
    /// What the last sync waits for.
    pub waits: Vec<Wait>,
    bounds: Bounds,
    /// What went on, for whoever has to find out why.
    pub story: Vec<String>,
    /// The first promise that was broken.
    pub broken: Option<String>,
}

pub const DB: &str = "db";

// === impl World ===

impl World {
    /// A world with a StatefulSet that nobody has seen yet.
    pub fn new(gates: Gates, replicas: i32, change: Value) -> Self {
        let mut server = Server::new();
        let mut json = db_json(1, replicas, change);
        json["status"] = json!({"replicas": 0});
        server.create(Kind::Set, json).unwrap();
        Self {
            server,
            cache: Cache::default(),
            gates,
            guard: BTreeMap::new(),
            known_same: None,
            fates: VecDeque::new(),
            failed: None,
            waits: Vec::new(),
            bounds: Bounds::default(),
            story: Vec::new(),
            broken: None,
        }
    }

    pub fn db(&self) -> &Value {
        self.server.get(Kind::Set, DB).expect("there always is a set")
    }

    /// The process starts anew: it has listed everything, and remembers nothing.
    pub fn restart(&mut self) {
        self.tell("restart".to_owned());
        self.guard.clear();
        self.known_same = None;
        self.deliver_all();
    }

    pub fn deliver(&mut self, kind: Kind, count: usize) {
        self.cache.deliver(&self.server, kind, count);
    }

    pub fn deliver_all(&mut self) {
        self.cache.deliver_all(&self.server);
    }

    fn next_fate(&mut self) -> Fate {
        self.fates.pop_front().unwrap_or(Fate::Fine)
    }

    pub fn tell(&mut self, what: String) {
        self.story.push(what);
    }

    /// To be called between the syncs.
    pub fn rest(&mut self) {
        self.bounds.rest(&self.server, &self.cache, self.gates);
    }

    /// Looks whether what is promised at every version holds.
    fn look(&mut self) {
        let looked = self.bounds.look(&self.server);
        self.note(looked);
    }

    fn note(&mut self, looked: Result<(), String>) {
        if self.broken.is_none()
            && let Err(what) = looked
        {
            self.tell(format!("BROKEN: {what}"));
            self.broken = Some(what);
        }
    }
}
