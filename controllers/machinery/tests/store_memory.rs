//! What the store itself costs for each object, beside the object. Half the memory of a process with 100,000 pods hangs on this number.
//!
//! 115,000 is as interesting as 100,000: hash tables have doubled at 114,688.

use std::alloc::System;
use std::sync::{Arc, LazyLock};

use machinery::source::{Sink, SourceEvent};
use machinery::store::{StoreWriter, store};
use model::labels::{LabelSet, Labels};
use model::{ControllerRef, Object, OwnerKind, OwnerRef, ResourceVersion, Uid};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

static NO_LABELS: LazyLock<LabelSet> = LazyLock::new(|| LabelSet::from_iter::<[(&str, &str); 0]>([]));

struct Thing {
    namespace: Arc<str>,
    name: Box<str>,
    uid: Uid,
    version: ResourceVersion,
    controller: ControllerRef,
}

impl Object for Thing {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn uid(&self) -> Uid {
        self.uid
    }

    fn resource_version(&self) -> ResourceVersion {
        self.version
    }

    fn controller(&self) -> &ControllerRef {
        &self.controller
    }

    fn labels(&self) -> &dyn Labels {
        &*NO_LABELS
    }
}

fn things(count: u64, each_owner: u64) -> Vec<Thing> {
    let namespaces: Vec<Arc<str>> = (0..50).map(|at| format!("namespace-{at}").into()).collect();
    let owner = |at: u64| OwnerRef { kind: OwnerKind::ReplicaSet, name: "owner".into(), uid: Uid(1_000_000 + u128::from(at)) };
    let owners = (0..count.div_ceil(each_owner)).map(|at| Arc::new(owner(at)));
    let owners = owners.flat_map(|owner| std::iter::repeat_n(owner, each_owner as usize));
    let thing = |((at, namespace), owner): ((u64, &Arc<str>), Arc<OwnerRef>)| Thing {
        namespace: Arc::clone(namespace),
        name: format!("deployment-7c9f8d6b5-{at:05}").into(),
        uid: Uid(u128::from(at) << 64 | 0x4000),
        version: ResourceVersion(at + 1),
        controller: ControllerRef::Owner(owner),
    };
    (0..count).zip(namespaces.iter().cycle()).zip(owners).map(thing).collect()
}

fn list(writer: &mut StoreWriter<Thing>, things: Vec<Thing>) {
    let version = ResourceVersion(things.len() as u64);
    writer.apply(SourceEvent::Restarted);
    for thing in things {
        writer.apply(SourceEvent::Listed(thing));
    }
    writer.apply(SourceEvent::Synced(version));
}

/// Bytes that are still there of what was allocated since the region began.
fn held(region: &Region<'_, System>) -> i64 {
    let change = region.change();
    change.bytes_allocated as i64 - change.bytes_deallocated as i64
}

/// Bytes an object, beside the object itself and the two counts of its `Arc`.
fn overhead(count: u64, each_owner: u64) -> f64 {
    let all = things(count, each_owner);
    let vector = (all.capacity() * size_of::<Thing>()) as i64;
    let region = Region::new(ALLOCATOR);
    let (reader, mut writer) = store();
    list(&mut writer, all);
    assert_eq!(reader.len() as u64, count);
    let objects = (size_of::<Thing>() as u64 + 16) * count;
    let bytes = held(&region) + vector - objects as i64;

    let region = Region::new(ALLOCATOR);
    list(&mut writer, things(count, each_owner));
    assert_eq!(held(&region), 0, "a relist without news leaves nothing behind");
    drop(reader);
    bytes as f64 / count as f64
}

#[test]
fn overhead_of_an_object_stays_small() {
    for (count, each_owner, limit) in [(100_000, 10, 48.0), (115_000, 10, 52.0), (100_000, 1, 52.0), (115_000, 1, 62.0)] {
        let bytes = overhead(count, each_owner);
        println!("{count} objects, {each_owner} for each owner: {bytes:.1} bytes of store for each object");
        assert!(bytes < limit, "{count} objects, {each_owner} for each owner: {bytes:.1} bytes, at most {limit} are expected");
    }
}
