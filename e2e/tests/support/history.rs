//! Every change of a namespace's objects of one kind, in the order in which the API server made them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};
use e2e::wait;
use futures::TryStreamExt as _;
use kube::ResourceExt;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use super::PATIENCE;

/// What a watch has shown since [`History::start`].
pub struct History<K> {
    api: Api<K>,
    changes: Arc<Mutex<Vec<Change<K>>>>,
    task: JoinHandle<()>,
}

/// An object as it became.
#[derive(Clone, Debug)]
pub enum Change<K> {
    /// It was there at the start.
    Found(K),
    /// It was made.
    Added(K),
    /// It was written.
    Modified(K),
    /// It was removed; this is how it was at the end.
    Deleted(K),
}

impl<K> Change<K> {
    /// The object.
    pub fn object(&self) -> &K {
        match self {
            Self::Found(object) | Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => object,
        }
    }
}

impl<K> History<K>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    /// Begins to follow.
    pub async fn start(api: Api<K>) -> Result<Self> {
        let list = api.list(&ListParams::default()).await?;
        let version = list.metadata.resource_version.context("a list without a version")?;
        let changes = Arc::new(Mutex::new(list.items.into_iter().map(Change::Found).collect::<Vec<_>>()));
        // One watch lasts longer than a scenario; should it end early, `so_far` never catches up and says so.
        let follow = follow(api.clone(), version, Arc::clone(&changes));
        let task = tokio::spawn(async move { drop(follow.await) });
        Ok(Self { api, changes, task })
    }

    /// All changes up to now, at least.
    pub async fn so_far(&self) -> Result<Vec<Change<K>>> {
        let list = self.api.list(&ListParams::default()).await?;
        let now: u64 = list.metadata.resource_version.context("a list without a version")?.parse()?;
        wait::until("the watch to show what a list shows", PATIENCE, async || {
            let changes = self.changes.lock().unwrap().clone();
            let mut known: BTreeMap<_, _> = changes.iter().map(|change| (change.object().uid(), change)).collect();
            for object in &list.items {
                let change = known.remove(&object.uid()).with_context(|| format!("{} is missing", object.name_any()))?;
                let (seen, version) = (version_of(change.object())?, version_of(object)?);
                ensure!(seen >= version, "version {seen} of {} is seen, not yet {version}", object.name_any());
            }
            for change in known.values() {
                // Made after the list, or else not in it because it is gone.
                let is_newer = version_of(change.object())? > now;
                ensure!(is_newer || matches!(change, Change::Deleted(_)), "{} is gone, and still shown", change.object().name_any());
            }
            Ok(changes)
        })
        .await
    }

    /// Shows `check` the world, by name, as it was at the start and after each change up to now; its first error ends it.
    pub async fn always(&self, mut check: impl FnMut(&BTreeMap<String, K>) -> Result<()>) -> Result<()> {
        let changes = self.so_far().await?;
        let found = changes.iter().take_while(|change| matches!(change, Change::Found(_))).count();
        let mut world: BTreeMap<_, _> =
            changes.iter().take(found).map(|change| (change.object().name_any(), change.object().clone())).collect();
        check(&world).context("at the start")?;
        for change in changes.into_iter().skip(found) {
            let name = change.object().name_any();
            match change {
                Change::Deleted(_) => drop(world.remove(&name)),
                Change::Found(object) | Change::Added(object) | Change::Modified(object) => drop(world.insert(name.clone(), object)),
            }
            check(&world).with_context(|| format!("after a change of {name}"))?;
        }
        Ok(())
    }

    /// The objects that were made since the start.
    pub async fn added(&self) -> Result<Vec<K>> {
        let added = |change| if let Change::Added(object) = change { Some(object) } else { None };
        Ok(self.so_far().await?.into_iter().filter_map(added).collect())
    }

    /// The objects that were removed since the start.
    pub async fn deleted(&self) -> Result<Vec<K>> {
        let deleted = |change| if let Change::Deleted(object) = change { Some(object) } else { None };
        Ok(self.so_far().await?.into_iter().filter_map(deleted).collect())
    }
}

impl<K> Drop for History<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow<K>(api: Api<K>, version: String, changes: Arc<Mutex<Vec<Change<K>>>>) -> Result<()>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut events = std::pin::pin!(api.watch(&WatchParams::default(), &version).await?);
    while let Some(event) = events.try_next().await? {
        let change = match event {
            WatchEvent::Added(object) => Change::Added(object),
            WatchEvent::Modified(object) => Change::Modified(object),
            WatchEvent::Deleted(object) => Change::Deleted(object),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(_) => break,
        };
        changes.lock().unwrap().push(change);
    }
    Ok(())
}

/// Versions of one server's objects of one kind can be compared.
fn version_of<K: kube::Resource>(object: &K) -> Result<u64> {
    object.meta().resource_version.as_deref().unwrap_or_default().parse().context("a version")
}
