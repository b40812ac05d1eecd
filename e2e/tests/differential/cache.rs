//! What a control plane holds, kept up to date by watches: scripts look at it all the time, and asking the API server would be most of its work.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use anyhow::Result;
use e2e::differential::mask::Names;
use e2e::differential::snapshot::{Kind, Snapshot, name, text};
use futures::TryStreamExt as _;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube_runtime::WatchStreamExt as _;
use kube_runtime::watcher::{self, Event, watcher};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::spawn_local;

/// All namespaces of a control plane.
pub(crate) struct Cache {
    spaces: RefCell<BTreeMap<String, Space>>,
    /// The newest version that the watch of a kind has brought.
    seen: RefCell<BTreeMap<Kind, u64>>,
    changed: watch::Sender<()>,
}

/// One namespace.
#[derive(Clone, Default)]
pub(crate) struct Space {
    pub(crate) snapshot: Snapshot,
    pub(crate) names: Names,
    /// Counts changes other than those of events, which controllers repeat and count up even when nothing else happens.
    pub(crate) changes: u64,
}

impl Cache {
    /// Watches begin now, and go on until the runtime ends.
    pub(crate) async fn start(client: &Client) -> Result<Rc<Self>> {
        let cache = Rc::new(Self { spaces: RefCell::default(), seen: RefCell::default(), changed: watch::Sender::new(()) });
        for kind in Kind::ALL {
            spawn_local(Rc::clone(&cache).keep(client.clone(), kind));
        }
        let mut changed = cache.changed.subscribe();
        while cache.seen.borrow().len() < Kind::ALL.len() {
            changed.changed().await?;
        }
        Ok(cache)
    }

    /// Tells of every change of anything.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// A namespace as it is now.
    pub(crate) fn space(&self, namespace: &str) -> Space {
        self.spaces.borrow().get(namespace).cloned().unwrap_or_default()
    }

    /// Whether everything up to this version has been seen.
    pub(crate) fn has_seen(&self, kind: Kind, version: u64) -> bool {
        self.seen.borrow().get(&kind).is_some_and(|seen| *seen >= version)
    }

    async fn keep(self: Rc<Self>, client: Client, kind: Kind) {
        let (group, version) = kind.group().trim_start_matches("/apis/").trim_start_matches("/api/").split_once('/').unwrap_or(("", "v1"));
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
            kind: kind.to_string(),
            plural: kind.plural().to_owned(),
        };
        let api: Api<DynamicObject> = Api::all_with(client, &resource);
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
        let mut listed = BTreeSet::new();
        loop {
            match events.try_next().await {
                Ok(Some(event)) => self.take(kind, event, &mut listed),
                Ok(None) => return,
                // It is tried again; a script that misses it for too long says what it waits for.
                Err(error) => eprintln!("watch of {}: {error}", kind.plural()),
            }
        }
    }

    fn take(&self, kind: Kind, event: Event<DynamicObject>, listed: &mut BTreeSet<(String, String)>) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                let object = to_value(&object);
                listed.insert(key(&object));
                self.put(kind, &object);
            }
            Event::InitDone => {
                self.seen.borrow_mut().entry(kind).or_default();
                for (namespace, space) in self.spaces.borrow_mut().iter_mut() {
                    space.snapshot.objects.retain(|(of, name), _| *of != kind || listed.contains(&(namespace.clone(), name.clone())));
                }
            }
            Event::Apply(object) => self.put(kind, &to_value(&object)),
            Event::Delete(object) => self.remove(kind, &to_value(&object)),
        }
        self.changed.send_replace(());
    }

    fn put(&self, kind: Kind, object: &Value) {
        self.see(kind, object);
        self.change(kind, object, |space| {
            space.names.see(kind, object);
            space.snapshot.objects.insert((kind, name(object).to_owned()), Rc::new(object.clone()));
        });
    }

    fn remove(&self, kind: Kind, object: &Value) {
        self.see(kind, object);
        self.change(kind, object, |space| drop(space.snapshot.objects.remove(&(kind, name(object).to_owned()))));
    }

    fn change(&self, kind: Kind, object: &Value, change: impl FnOnce(&mut Space)) {
        let mut spaces = self.spaces.borrow_mut();
        let space = spaces.entry(text(object, "/metadata/namespace").to_owned()).or_default();
        space.changes += u64::from(kind != Kind::Event);
        change(space);
    }

    fn see(&self, kind: Kind, object: &Value) {
        let mut seen = self.seen.borrow_mut();
        let newest = seen.entry(kind).or_default();
        *newest = (*newest).max(version(object));
    }
}

/// An object's resource version.
pub(crate) fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap_or_default()
}

fn key(object: &Value) -> (String, String) {
    (text(object, "/metadata/namespace").to_owned(), name(object).to_owned())
}

fn to_value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).expect("an object that came as JSON")
}
