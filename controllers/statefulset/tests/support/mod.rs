//! Builders of objects, and a sync without IO: every action is answered by a script.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test program uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "support of tests, which fail by panicking"
)]

pub mod did;
pub mod executor;
pub mod json;
pub mod script;

use std::sync::Arc;

use model::claim::ClaimOwner;
use model::labels::LabelSet;
use model::plan::{ApiError, Outcome};
use model::pod::{Claim, OwnLabels, Phase};
use model::revision;
use model::statefulset::REVISION_LABEL;
use model::{
    ControllerRef, ControllerRevision, Decode as _, Fingerprint, OwnerKind, OwnerRef, PersistentVolumeClaim, Pod, ResourceVersion,
    StatefulSet, StatefulSetDecoder, Time, Timestamp, Uid,
};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use statefulset::{Gates, View};

pub use self::json::{both, merge};
pub use self::script::{Api, sync};

/// 2027-01-15T08:00:00Z
pub const NOW: Time = Time(1_800_000_000_000_000_000);
/// As 1.37 has them.
pub const GATES: Gates = Gates { max_unavailable: true, recreate: false, semantic_comparison: true };
pub const DB_UID: Uid = Uid(0x6d9f_8a3e_0000_4000_8000_0000_0000_0001);
/// The version that the StatefulSet was read at.
pub const DB_VERSION: ResourceVersion = ResourceVersion(71);
/// Versions of the template that are known by name.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 1..=9;

// --- the set

/// The StatefulSet `shop/db` with that version of the template. It was at revision 1 before, and is of generation 3, which has not been
/// observed: a sync that comes to a status writes it. `change` is merged into it.
pub fn db(template: u32, replicas: i32, change: Value) -> Arc<StatefulSet> {
    decode_db(&db_json(template, replicas, change))
}

pub fn db_json(template: u32, replicas: i32, change: Value) -> Value {
    let mut json = json!({
        "metadata": {"name": "db", "namespace": "shop", "uid": DB_UID.to_string(), "resourceVersion": DB_VERSION.to_string(), "generation": 3},
        "spec": {"replicas": replicas, "serviceName": "dbs", "selector": {"matchLabels": {"app": "db"}}, "template": template_of(template),
            "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}},
        "status": {"observedGeneration": 2, "currentRevision": name_of(1), "updateRevision": name_of(template), "collisionCount": 0},
    });
    merge(&mut json, change);
    json
}

pub fn decode_db(json: &Value) -> Arc<StatefulSet> {
    Arc::new(StatefulSetDecoder::new().decode(json.to_string().as_bytes()).unwrap())
}

pub fn template_of(version: u32) -> Value {
    json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": format!("db:v{version}")}]}})
}

pub fn parallel() -> Value {
    json!({"spec": {"podManagementPolicy": "Parallel"}})
}

pub fn partition(partition: i32) -> Value {
    json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": partition}}}})
}

pub fn max_unavailable(count: impl Into<Value>) -> Value {
    json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": count.into()}}}})
}

/// A strategy without `rollingUpdate`.
pub fn strategy(r#type: &str) -> Value {
    json!({"spec": {"updateStrategy": {"type": r#type, "rollingUpdate": null}}})
}

pub fn min_ready(seconds: i32) -> Value {
    json!({"spec": {"minReadySeconds": seconds}})
}

pub fn start(ordinal: i32) -> Value {
    json!({"spec": {"ordinals": {"start": ordinal}}})
}

pub fn deleting() -> Value {
    json!({"metadata": {"deletionTimestamp": "2027-01-15T07:59:00Z"}})
}

/// Claim templates of these names.
pub fn claiming(names: &[&str]) -> Value {
    let templates = names.iter().map(|name| json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"]}}));
    json!({"spec": {"volumeClaimTemplates": templates.collect::<Vec<_>>()}})
}

/// A claim template `data`, and what becomes of its claims.
pub fn retention(when_deleted: &str, when_scaled: &str) -> Value {
    let policy = json!({"whenDeleted": when_deleted, "whenScaled": when_scaled});
    both(claiming(&["data"]), json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}}))
}

// --- revisions

pub fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

pub fn data_of(template: &Value) -> Box<RawValue> {
    revision::data(&raw(template)).unwrap()
}

/// The name of the revision of that version of the template.
pub fn name_of(version: u32) -> String {
    revision::name("db", &hash_of(version))
}

pub fn hash_of(version: u32) -> String {
    revision::hash(data_of(&template_of(version)).get(), Some(0))
}

/// The revision of that version of the template, with that number, owned by the set.
pub fn revision(version: u32, number: i64, change: impl FnOnce(&mut ControllerRevision)) -> Arc<ControllerRevision> {
    let mut revision = ControllerRevision {
        name: name_of(version).into(),
        namespace: Arc::from("shop"),
        uid: revision_uid(version),
        resource_version: ResourceVersion(200 + u64::from(version)),
        created: Timestamp::from_seconds(1_790_000_000 + i64::from(version)),
        label_set: Arc::new(labels(&[("app", "db")])),
        own_hash: true,
        controller: owned(),
        revision: number,
        data: Fingerprint::of_bytes(data_of(&template_of(version)).get().as_bytes()),
    };
    change(&mut revision);
    Arc::new(revision)
}

pub fn revision_uid(version: u32) -> Uid {
    Uid(0x6d9f_8a3e_0000_4000_8000_0000_0002_0000 + u128::from(version))
}

/// A revision as it is read live.
pub fn revision_json(name: &str, data: &RawValue) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"data":{},"revision":1}}"#, data.get())
}

// --- pods

/// A pod of that ordinal and version of the template, which has run and been ready for an hour.
pub fn well(ordinal: i32, version: u32) -> Arc<Pod> {
    pod(ordinal, version, |_| {})
}

/// The same, changed.
pub fn pod(ordinal: i32, version: u32, change: impl FnOnce(&mut Pod)) -> Arc<Pod> {
    let hour_ago = Timestamp::from_seconds(NOW.0 / 1_000_000_000 - 3600);
    let mut pod = Pod {
        name: format!("db-{ordinal}").into(),
        namespace: Arc::from("shop"),
        uid: pod_uid(ordinal),
        resource_version: ResourceVersion(100 + ordinal as u64),
        label_set: Arc::new(labels(&[("app", "db"), (REVISION_LABEL, &name_of(version))])),
        controller: owned(),
        node: Some(Arc::from("n")),
        created: hour_ago,
        deletion: None,
        ready_changed: hour_ago,
        claims: None,
        restarts: 0,
        init_restarts: 0,
        deletion_cost: 0,
        phase: Phase::Running,
        ready: true,
        own_labels: OwnLabels { name: true, index: true },
    };
    change(&mut pod);
    Arc::new(pod)
}

pub fn all_well(ordinals: std::ops::Range<i32>, version: u32) -> Vec<Arc<Pod>> {
    ordinals.map(|ordinal| well(ordinal, version)).collect()
}

pub fn pod_uid(ordinal: i32) -> Uid {
    Uid(0x6d9f_8a3e_0000_4000_8000_0000_0001_0000 + ordinal as u128)
}

pub fn unready(pod: &mut Pod) {
    pod.ready = false;
}

pub fn pending(pod: &mut Pod) {
    pod.phase = Phase::Pending;
    pod.ready = false;
}

pub fn failed(pod: &mut Pod) {
    pod.phase = Phase::Failed;
    pod.ready = false;
}

pub fn succeeded(pod: &mut Pod) {
    pod.phase = Phase::Succeeded;
    pod.ready = false;
}

pub fn terminating(pod: &mut Pod) {
    pod.deletion = NOW.timestamp();
}

pub fn failed_and_terminating(pod: &mut Pod) {
    failed(pod);
    terminating(pod);
}

/// Ready for so many seconds.
pub fn ready_for(seconds: i64) -> impl Fn(&mut Pod) {
    move |pod| pod.ready_changed = Timestamp::from_seconds(NOW.0 / 1_000_000_000 - seconds)
}

/// Mounts these volumes' claims, called as those of a set are.
pub fn mounting(volumes: &[&str]) -> impl Fn(&mut Pod) {
    let claims: Arc<[Claim]> = volumes.iter().map(|volume| Claim::Conventional(Arc::from(*volume))).collect();
    move |pod| pod.claims = Some(claims.clone())
}

pub fn labels(pairs: &[(&str, &str)]) -> LabelSet {
    pairs.iter().copied().collect()
}

/// The set controls it.
pub fn owned() -> ControllerRef {
    ControllerRef::Owner(Arc::new(OwnerRef { kind: OwnerKind::StatefulSet, name: Arc::from("db"), uid: DB_UID }))
}

// --- claims

/// The claim of the template `data` for the pod of that ordinal.
pub fn claim(ordinal: i32, owners: impl IntoIterator<Item = ClaimOwner>) -> Arc<PersistentVolumeClaim> {
    claim_of("data", ordinal, |claim| claim.owners = Some(owners.into_iter().collect()))
}

pub fn claim_of(template: &str, ordinal: i32, change: impl FnOnce(&mut PersistentVolumeClaim)) -> Arc<PersistentVolumeClaim> {
    let mut claim = PersistentVolumeClaim {
        name: format!("{template}-db-{ordinal}").into(),
        namespace: Arc::from("shop"),
        uid: Uid(0x6d9f_8a3e_0000_4000_8000_0000_0003_0000 + ordinal as u128),
        resource_version: ResourceVersion(300 + ordinal as u64),
        deletion: None,
        owners: None,
    };
    change(&mut claim);
    Arc::new(claim)
}

pub fn owner(api_version: &str, kind: &str, name: &str, uid: Uid) -> ClaimOwner {
    let [api_version, kind, name] = [api_version, kind, name].map(Arc::from);
    ClaimOwner { api_version, kind, name, uid, controller: true }
}

pub fn set_owner() -> ClaimOwner {
    owner("apps/v1", "StatefulSet", "db", DB_UID)
}

pub fn pod_owner(ordinal: i32) -> ClaimOwner {
    owner("v1", "Pod", &format!("db-{ordinal}"), pod_uid(ordinal))
}

pub fn foreign_owner() -> ClaimOwner {
    owner("example.com/v1", "Backup", "nightly", Uid(77))
}

// --- views

/// With the revisions of all versions of the template up to the set's, and no claims.
pub fn view(set: &Arc<StatefulSet>, pods: impl IntoIterator<Item = Arc<Pod>>) -> View {
    let data = data_of(&serde_json::from_str(set.spec.template.raw().get()).unwrap());
    let version = VERSIONS.into_iter().find(|version| data_of(&template_of(*version)).get() == data.get()).unwrap_or(0);
    let revisions = (1..=version).map(|version| revision(version, version.into(), |_| {})).collect();
    View::new(set.clone(), pods.into_iter().collect(), revisions, [].into(), None, GATES, NOW)
}

pub fn with_claims(mut view: View, claims: impl IntoIterator<Item = Arc<PersistentVolumeClaim>>) -> View {
    view.claims = claims.into_iter().map(|claim| (claim.name.to_string(), claim)).collect();
    view
}

pub fn with_revisions(mut view: View, revisions: impl IntoIterator<Item = Arc<ControllerRevision>>) -> View {
    view.revisions = revisions.into_iter().collect();
    view
}

pub fn with_gates(mut view: View, gates: Gates) -> View {
    view.gates = gates;
    view
}

// --- answers

pub fn api_error(code: u16, reason: &str) -> ApiError {
    ApiError { code, reason: reason.to_owned(), message: format!("{reason} for a test"), ..ApiError::default() }
}

pub fn refused(code: u16, reason: &str) -> Outcome {
    Outcome::Failed(api_error(code, reason))
}
