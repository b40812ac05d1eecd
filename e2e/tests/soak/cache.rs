//! What the control plane holds, and everything that it has held: watches of the API server that never ends.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::differential::snapshot::{Kind, Snapshot, name, text};
use e2e::soak::history::{self, Change};
use e2e::wait;
use futures::TryStreamExt as _;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::task::spawn_local;
use tokio::time::Instant;

use crate::support::PATIENCE;

/// What is followed. Events are not: there are many, and no rule reads them.
const KINDS: [Kind; 6] =
    [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet, Kind::ControllerRevision, Kind::PersistentVolumeClaim, Kind::Pod];

/// All namespaces of a control plane.
pub(crate) struct Cache {
    began: Instant,
    spaces: RefCell<BTreeMap<String, Space>>,
    /// The newest version that the watch of a kind has brought.
    seen: RefCell<BTreeMap<Kind, u64>>,
    history: RefCell<Vec<Change>>,
    changes: Cell<u64>,
    /// Why a watch has ended for good.
    broken: RefCell<Option<String>>,
}

/// One namespace.
#[derive(Clone, Default)]
pub(crate) struct Space {
    pub(crate) snapshot: Snapshot,
}

impl Cache {
    /// Watches begin now, when there is nothing to be seen yet, and go on until the runtime ends.
    pub(crate) async fn start(client: &Client) -> Result<Rc<Self>> {
        let cache = Rc::new(Self {
            began: Instant::now(),
            spaces: RefCell::default(),
            seen: RefCell::default(),
            history: RefCell::default(),
            changes: Cell::default(),
            broken: RefCell::default(),
        });
        for kind in KINDS {
            let api = api(client, kind);
            let list = api.list_metadata(&ListParams::default()).await?;
            ensure!(list.items.is_empty(), "there are {} already", kind.plural());
            let version = list.metadata.resource_version.context("a list without a version")?;
            let cache = Rc::clone(&cache);
            spawn_local(async move {
                if let Err(error) = cache.follow(&api, kind, version).await {
                    cache.broken.borrow_mut().get_or_insert(format!("watch of {}: {error:#}", kind.plural()));
                }
            });
        }
        Ok(cache)
    }

    /// A namespace as it is now.
    pub(crate) fn space(&self, namespace: &str) -> Space {
        self.spaces.borrow().get(namespace).cloned().unwrap_or_default()
    }

    /// Whether everything up to this version has been seen.
    pub(crate) fn has_seen(&self, kind: Kind, version: u64) -> bool {
        self.seen.borrow().get(&kind).is_some_and(|seen| *seen >= version)
    }

    /// How many changes there have been.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Everything that must never be and was, up to now. Fails if something cannot have been seen.
    pub(crate) fn violations(&self) -> Result<Vec<String>> {
        if let Some(why) = &*self.broken.borrow() {
            bail!("changes were missed: {why}");
        }
        Ok(history::violations(&mut self.history.borrow_mut()))
    }

    async fn follow(&self, api: &Api<DynamicObject>, kind: Kind, mut version: String) -> Result<()> {
        loop {
            // It ends in order after some minutes, and goes on where it was.
            let began = wait::until("a watch to begin", PATIENCE, async || Ok(api.watch(&WatchParams::default(), &version).await?)).await?;
            let mut events = std::pin::pin!(began);
            loop {
                let event = match events.try_next().await {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(error) => {
                        eprintln!("watch of {}: {error}", kind.plural());
                        break;
                    }
                };
                let (object, gone) = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                    WatchEvent::Deleted(object) => (object, true),
                    WatchEvent::Bookmark(bookmark) => {
                        version = bookmark.metadata.resource_version;
                        continue;
                    }
                    WatchEvent::Error(status) => bail!("{status:?}"),
                };
                version = object.metadata.resource_version.clone().context("an object without a version")?;
                self.take(kind, &serde_json::to_value(&object)?, gone);
            }
        }
    }

    fn take(&self, kind: Kind, object: &Value, gone: bool) {
        self.changes.set(self.changes.get() + 1);
        self.seen.borrow_mut().insert(kind, version(object));
        self.history.borrow_mut().extend(history::change(self.since(), kind, object, gone));
        let mut spaces = self.spaces.borrow_mut();
        let space = spaces.entry(text(object, "/metadata/namespace").to_owned()).or_default();
        let key = (kind, name(object).to_owned());
        if gone {
            space.snapshot.objects.remove(&key);
        } else {
            space.snapshot.objects.insert(key, Rc::new(object.clone()));
        }
    }

    /// The time in the record.
    pub(crate) fn since(&self) -> Duration {
        self.began.elapsed()
    }
}

fn api(client: &Client, kind: Kind) -> Api<DynamicObject> {
    let (group, version) = kind.group().trim_start_matches("/apis/").trim_start_matches("/api/").split_once('/').unwrap_or(("", "v1"));
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
        kind: kind.to_string(),
        plural: kind.plural().to_owned(),
    };
    Api::all_with(client.clone(), &resource)
}

/// An object's resource version.
pub(crate) fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap_or_default()
}
