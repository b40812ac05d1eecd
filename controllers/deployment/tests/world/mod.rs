//! A small world: an API server, users and kubelets, and our process, whose decisions are the real ones of both controllers.
//!
//! It keeps what the machinery promises. A sync does not run before the stores show the writes of the same key that were answered, and a
//! ReplicaSet's not before they show those that were not (the machinery's expectations, simplified). Everything else may be late: the stores
//! of the three kinds follow the server each at its own pace. Requests may be refused, their answers lost with or without the effect, and
//! the process may die at any of them.
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
pub mod truth;
mod waits;

use std::collections::{BTreeMap, VecDeque};

use model::plan::Wait;
use serde_json::Value;

use self::bounds::Bounds;
use self::cache::Cache;
use self::drive::Fate;
use self::server::{Kind, Server};
use crate::support::web_json;

#[derive(Clone, Debug)]
pub struct World {
    pub server: Server,
    pub cache: Cache,
    /// What was written on behalf of an object and must be seen before its next sync.
    guard: BTreeMap<String, BTreeMap<Kind, u64>>,
    /// What becomes of the next requests; of those beyond, nothing special.
    fates: VecDeque<Fate>,
    /// Requests sent so far.
    pub requests: usize,
    /// What becomes of one certain request, by its number.
    pub fate_of: Option<(usize, Fate)>,
    bounds: Bounds,
    names_drawn: u32,
    /// What the last sync of the Deployment waits for.
    pub waits: Vec<Wait>,
    /// What went on, for whoever has to find out why.
    pub story: Vec<String>,
    /// The first promise that was broken.
    pub broken: Option<String>,
}

pub const WEB: &str = "web";

// === impl World ===

impl World {
    /// A world with a Deployment that nobody has seen yet.
    pub fn new(replicas: i32, change: Value) -> Self {
        let mut server = Server::new();
        let mut json = web_json(0, replicas, change);
        let metadata = json["metadata"].as_object_mut().unwrap();
        metadata.remove("annotations");
        json.as_object_mut().unwrap().remove("status");
        server.create(Kind::Deployment, json).unwrap();
        let bounds = Bounds::new(&server);
        Self {
            server,
            cache: Cache::default(),
            guard: BTreeMap::new(),
            fates: VecDeque::new(),
            requests: 0,
            fate_of: None,
            bounds,
            names_drawn: 0,
            waits: Vec::new(),
            story: Vec::new(),
            broken: None,
        }
    }

    pub fn deployment(&self) -> &Value {
        self.server.get(Kind::Deployment, WEB).expect("the Deployment is never deleted")
    }

    /// The names of all ReplicaSets that are there for the Deployment.
    pub fn set_names(&self) -> Vec<String> {
        self.server.all(Kind::ReplicaSet).filter(|(_, set)| truth::is_of_web(set)).map(|(name, _)| name.to_owned()).collect()
    }

    pub fn pod_names(&self) -> Vec<String> {
        self.server.all(Kind::Pod).map(|(name, _)| name.to_owned()).collect()
    }

    /// The process starts anew: it has listed everything, and remembers nothing.
    pub fn restart(&mut self) {
        self.tell("restart".to_owned());
        self.guard.clear();
        self.cache.deliver_all(&self.server);
    }

    pub fn deliver(&mut self, kind: Kind, count: usize) {
        self.cache.deliver(&self.server, kind, count);
    }

    pub fn deliver_all(&mut self) {
        self.cache.deliver_all(&self.server);
    }

    fn next_fate(&mut self) -> Fate {
        self.requests += 1;
        let certain = self.fate_of.filter(|(number, _)| *number == self.requests).map(|(_, fate)| fate);
        certain.or_else(|| self.fates.pop_front()).unwrap_or(Fate::Fine)
    }

    pub fn tell(&mut self, what: String) {
        self.story.push(what);
    }

    /// Looks whether every promise is kept; to be called at every revision.
    fn look(&mut self) {
        if self.broken.is_none()
            && let Err(what) = self.bounds.look(&self.server, &self.cache)
        {
            self.tell(format!("BROKEN: {what}"));
            self.broken = Some(what);
        }
    }
}
