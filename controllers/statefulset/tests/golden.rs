//! Revisions as kube-controller-manager of each release made them, in `golden/RELEASE.json`. Ours are the same to the byte.
//!
//! `make golden` writes the files; `e2e/tests/golden` says how.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test outside of test functions")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::fingerprint::Fingerprint;
use model::revision::is_same;
use model::{ControllerRef, ControllerRevision, Decode as _, ResourceVersion, StatefulSet, StatefulSetDecoder, Uid, raw};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use statefulset::View;
use support::did::Did;
use support::{Api, GATES, NOW, owned, refused, sync};

const RELEASES: [(&str, &str); 4] = [
    ("1.34.4", include_str!("golden/1.34.4.json")),
    ("1.35.4", include_str!("golden/1.35.4.json")),
    ("1.36.3", include_str!("golden/1.36.3.json")),
    ("1.37.2", include_str!("golden/1.37.2.json")),
];

/// Cases whose templates say more where a server knows more fields.
const DIFFERS: [&str; 2] = ["newer", "of-late"];

/// A StatefulSet with the template that a case has next, and what that came to.
#[derive(Deserialize)]
struct Entry<'a> {
    case: &'a str,
    /// As the API server served it; none if the revision was there before, and of another.
    #[serde(borrow)]
    set: Option<&'a RawValue>,
    revision: Golden,
}

#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(rename_all = "camelCase")]
struct Golden {
    name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    owner_references: Value,
    revision: i64,
    data: String,
}

// === impl Golden ===

impl Golden {
    /// As it is cached. `n` tells it from others.
    fn cached(&self, n: usize) -> Arc<ControllerRevision> {
        Arc::new(ControllerRevision {
            name: self.name.clone().into(),
            namespace: Arc::from("golden"),
            uid: Uid(n as u128 + 1),
            resource_version: ResourceVersion(n as u64 + 1),
            created: None,
            label_set: Arc::new(self.labels.iter().map(|(key, value)| (&**key, &**value)).collect()),
            own_hash: false,
            controller: if self.owner_references[0].is_null() { ControllerRef::None } else { owned() },
            revision: self.revision,
            data: Fingerprint::of_bytes(self.data.as_bytes()),
        })
    }

    /// The one that is created by this request.
    fn requested(body: &str) -> Self {
        let body: &RawValue = serde_json::from_str(body).unwrap();
        let get = |path: &[&str]| raw::get(body, path).unwrap().unwrap_or(RawValue::NULL).get();
        Self {
            name: serde_json::from_str(get(&["metadata", "name"])).unwrap(),
            labels: serde_json::from_str(get(&["metadata", "labels"])).unwrap(),
            annotations: serde_json::from_str::<Option<_>>(get(&["metadata", "annotations"])).unwrap().unwrap_or_default(),
            owner_references: serde_json::from_str(get(&["metadata", "ownerReferences"])).unwrap(),
            revision: serde_json::from_str(get(&["revision"])).unwrap(),
            data: get(&["data"]).to_owned(),
        }
    }
}

fn entries(json: &str) -> Vec<Entry<'_>> {
    serde_json::from_str(json).unwrap()
}

fn decoded(set: &RawValue) -> Arc<StatefulSet> {
    Arc::new(StatefulSetDecoder::new().decode(set.get().as_bytes()).unwrap())
}

/// What we make of the set, with these revisions there already.
fn made_of(set: Arc<StatefulSet>, before: &[Golden]) -> Did {
    let mut api = Api::yes();
    for other in before {
        let json = format!(r#"{{"metadata":{{"name":"{}"}},"data":{}}}"#, other.name, other.data);
        api = api.to(&format!("create {}", other.name), refused(409, "AlreadyExists")).finding(&other.name, json);
    }
    let revisions: Vec<_> = before.iter().enumerate().map(|(n, golden)| golden.cached(n)).collect();
    // The set is the owner of its revisions by another UID than those of the other tests.
    let own = |revision: &Arc<ControllerRevision>| {
        let mut revision = ControllerRevision::clone(revision);
        if let ControllerRef::Owner(owner) = &mut revision.controller {
            Arc::make_mut(owner).uid = set.uid;
        }
        Arc::new(revision)
    };
    let revisions = revisions.iter().map(own).collect();
    sync(View::new(set, Vec::new(), revisions, [].into(), None, GATES, NOW), &api)
}

/// Holds what we do about one entry against what upstream has done.
fn check(entry: &Entry<'_>, set: &RawValue, before: &[Golden]) {
    let golden = &entry.revision;
    let did = made_of(decoded(set), before);
    assert_eq!(did.error(), None);
    assert_eq!(did.status()["updateRevision"], *golden.name);
    match before.iter().find(|other| other.name == golden.name) {
        None => {
            let requested = Golden::requested(&did.created_text(&golden.name));
            // Before all the rest, which follows from it.
            assert_eq!(requested.data, golden.data);
            assert_eq!(requested, *golden);
            assert_eq!(did.actions.last(), Some(&format!("create {}", golden.name)));
        }
        Some(same) if same.revision == golden.revision => {
            assert!(did.actions.is_empty(), "{:?}", did.actions);
            assert_eq!(same, golden);
        }
        Some(older) => {
            assert_eq!(did.actions, [format!("raise {} to {}", older.name, golden.revision)]);
            assert_eq!(Golden { revision: golden.revision, ..older.clone() }, *golden, "nothing else of it changes");
        }
    }
}

#[test]
fn revisions_are_upstreams_to_the_byte() {
    for (release, json) in RELEASES {
        let mut before: BTreeMap<&str, Vec<Golden>> = BTreeMap::new();
        for (n, entry) in entries(json).iter().enumerate() {
            println!("{release}, entry {n}: {}", entry.case);
            let before = before.entry(entry.case).or_default();
            if let Some(set) = entry.set {
                check(entry, set, before);
            }
            before.retain(|other| other.name != entry.revision.name);
            before.push(entry.revision.clone());
        }
    }
}

/// The comparison above sees every byte: it would be worth nothing otherwise.
#[test]
fn another_byte_is_another_revision() {
    let (_, json) = RELEASES[RELEASES.len() - 1];
    for entry in entries(json) {
        let Some(set) = entry.set.filter(|set| set.get().contains(r#""generation":1,"#)) else { continue };
        let changed = set.get().replacen(r#""terminationMessagePolicy":"File""#, r#""terminationMessagePolicy":"Film""#, 1);
        assert_ne!(changed, set.get());
        let did = made_of(decoded(&RawValue::from_string(changed).unwrap()), &[]);
        assert_ne!(did.status()["updateRevision"], *entry.revision.name, "{}", entry.case);
    }
}

/// A server of one release, and revisions that another release's controller has written: nothing is rolled out.
#[test]
fn revisions_of_each_release_are_recognised_on_each_other() {
    let all = RELEASES.map(|(release, json)| (release, entries(json)));
    for (theirs, written) in &all {
        for (ours, served) in &all {
            for (written, served) in written.iter().zip(served) {
                assert_eq!(written.case, served.case);
                let Some(set) = served.set.filter(|_| !DIFFERS.contains(&served.case)) else { continue };
                let template = raw::get(set, &["spec", "template"]).unwrap().unwrap();
                let data = RawValue::from_string(written.revision.data.clone()).unwrap();
                assert!(is_same(&data, template), "{} of {theirs} on {ours}", served.case);
            }
        }
    }
}
