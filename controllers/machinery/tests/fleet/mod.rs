//! The objects of a large cluster, on the wire: 200 namespaces, 2,000 nodes; half of the pods are ReplicaSets' (50 each), a fifth are
//! StatefulSets' (20 each, with a claim), the rest are Jobs', whose labels no two pods share.

use model::protobuf::write::Writer;
use model::{ObjectKey, Uid};

const NAMESPACES: usize = 200;
const NODES: usize = 2_000;
/// Pods of a ReplicaSet.
pub(crate) const SET: usize = 50;
/// Pods of a StatefulSet.
pub(crate) const STATEFUL_SET: usize = 20;
/// Revisions of a StatefulSet and of a Deployment, as many as are kept by default.
pub(crate) const HISTORY: usize = 10;

/// The tail of a generated name.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Which objects' UIDs.
#[derive(Clone, Copy)]
pub(crate) enum Class {
    Pod,
    ReplicaSet,
    StatefulSet,
    Job,
    Claim,
    Revision,
    Deployment,
}

/// A place for a pod, which may be filled by one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    ReplicaSet(usize),
    StatefulSet(usize),
    Job(usize),
}

/// What changes about the pod in a place.
#[derive(Clone, Copy)]
pub(crate) struct State {
    /// How many pods were there before it.
    pub(crate) generation: u32,
    pub(crate) version: u64,
    pub(crate) restarts: u64,
    pub(crate) ready: bool,
}

/// A UUID that no other number has.
pub(crate) fn uid(class: Class, n: usize, generation: u32) -> Uid {
    let seed = (class as u64) << 56 | u64::from(generation) << 32 | n as u64;
    let mut bits = u128::from(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(seed);
    bits ^= u128::from(seed.rotate_left(29) ^ 0x5bd1_e995_7b7d_159b) << 32;
    Uid(bits)
}

fn namespace(of: usize) -> String {
    format!("team-{}-production", of % NAMESPACES)
}

fn suffix(n: usize) -> String {
    let digits = (0..5).map(|at| ALPHABET[(n + 531_441) / 27_usize.pow(at) % 27]);
    digits.map(char::from).collect()
}

/// A hash as template and revision hashes look.
fn hash(n: usize) -> String {
    format!("{}{}", suffix(n.wrapping_mul(40_503) % 14_348_907), suffix(n))
}

fn time(seconds: u64) -> Writer {
    Writer::new().varint(1, 1_772_359_200 + seconds).varint(2, 0)
}

fn owner(api_version: &str, kind: &str, name: &str, uid: Uid) -> Writer {
    Writer::new().text(1, kind).text(3, name).text(4, &uid.to_string()).text(5, api_version).varint(6, 1).varint(7, 1)
}

fn metadata(name: &str, namespace: &str, uid: Uid, version: u64, labels: &[(&str, &str)]) -> Writer {
    let meta = Writer::new().text(1, name).text(3, namespace).text(4, "").text(5, &uid.to_string()).text(6, &version.to_string());
    labels.iter().fold(meta.varint(7, 1).message(8, &time(0)), |meta, (key, value)| meta.entry(11, key, value))
}

// --- owners

fn replica_set_name(set: usize) -> String {
    format!("checkout-service-{set}-{}", hash(set))
}

fn stateful_set_name(set: usize) -> String {
    format!("postgres-cluster-{set}")
}

/// The owner of a place's pods, if it is one of ours.
pub(crate) fn owner_of(place: Place) -> Option<(ObjectKey, Uid)> {
    match place {
        Place::ReplicaSet(n) => {
            let set = n / SET;
            Some((ObjectKey::new(namespace(set), replica_set_name(set)), uid(Class::ReplicaSet, set, 0)))
        }
        Place::StatefulSet(n) => {
            let set = n / STATEFUL_SET;
            Some((ObjectKey::new(namespace(set), stateful_set_name(set)), uid(Class::StatefulSet, set, 0)))
        }
        Place::Job(_) => None,
    }
}

// --- pods

/// All places of so many pods.
pub(crate) fn places(pods: usize) -> Vec<Place> {
    let (sets, stateful) = (pods / 2, pods / 5);
    let jobs = pods - sets - stateful;
    let all = (0..sets).map(Place::ReplicaSet).chain((0..stateful).map(Place::StatefulSet));
    all.chain((0..jobs).map(Place::Job)).collect()
}

/// The message of the pod in a place.
pub(crate) fn pod(place: Place, state: State) -> Vec<u8> {
    let (meta, claim) = match place {
        Place::ReplicaSet(n) => (replica_set_pod(n, state), None),
        Place::StatefulSet(n) => (stateful_set_pod(n, state), Some(claim_name(n))),
        Place::Job(n) => (job_pod(n, state), None),
    };
    let number = match place {
        Place::ReplicaSet(n) | Place::StatefulSet(n) | Place::Job(n) => n,
    };
    let node = (number * 7 + state.generation as usize) % NODES;
    let mut spec = Writer::new();
    if let Some(claim) = claim {
        let source = Writer::new().message(10, &Writer::new().text(1, &claim).varint(2, 0));
        spec = spec.message(1, &Writer::new().text(1, "data").message(2, &source));
    }
    let container = Writer::new().text(1, "app").text(2, "registry.example/app:1").message(8, &Writer::new());
    spec = spec.message(2, &container).text(3, "Always");
    spec = spec.text(10, &format!("ip-10-{}-{}.eu-central-1.compute.internal", node / 250, node % 250));
    let condition = Writer::new().text(1, "Ready").text(2, if state.ready { "True" } else { "False" }).message(4, &time(state.version));
    let container = Writer::new().text(1, "app").varint(5, state.restarts);
    let status = Writer::new().text(1, "Running").message(2, &condition).message(8, &container);
    Writer::new().message(1, &meta).message(2, &spec).message(3, &status).into_bytes()
}

fn pod_uid(n: usize, kind: Class, state: State) -> Uid {
    uid(Class::Pod, n * 8 + kind as usize, state.generation)
}

fn replica_set_pod(n: usize, state: State) -> Writer {
    let set = n / SET;
    let (owner_name, app, hash) = (replica_set_name(set), format!("checkout-service-{set}"), hash(set));
    // A pod's successor has another name.
    let name = format!("{owner_name}-{}", suffix(n + state.generation as usize * 1_000_003));
    let labels = [
        ("app.kubernetes.io/instance", app.as_str()),
        ("app.kubernetes.io/name", app.as_str()),
        ("app.kubernetes.io/version", "1.27.3"),
        ("pod-template-hash", hash.as_str()),
    ];
    metadata(&name, &namespace(set), pod_uid(n, Class::ReplicaSet, state), state.version, &labels)
        .message(13, &owner("apps/v1", "ReplicaSet", &owner_name, uid(Class::ReplicaSet, set, 0)))
}

fn stateful_set_pod(n: usize, state: State) -> Writer {
    let (set, ordinal) = (n / STATEFUL_SET, (n % STATEFUL_SET).to_string());
    let app = stateful_set_name(set);
    let (name, revision) = (format!("{app}-{ordinal}"), format!("{app}-{}", hash(set)));
    let labels = [
        ("app.kubernetes.io/name", app.as_str()),
        ("apps.kubernetes.io/pod-index", ordinal.as_str()),
        ("controller-revision-hash", revision.as_str()),
        ("statefulset.kubernetes.io/pod-name", name.as_str()),
    ];
    metadata(&name, &namespace(set), pod_uid(n, Class::StatefulSet, state), state.version, &labels)
        .message(13, &owner("apps/v1", "StatefulSet", &app, uid(Class::StatefulSet, set, 0)))
}

fn job_pod(n: usize, state: State) -> Writer {
    let job = format!("nightly-report-{}", 29_384_720 + n + state.generation as usize * 1_000_000);
    let job_uid = uid(Class::Job, n, state.generation);
    let text = job_uid.to_string();
    let labels = [
        ("app", "nightly-report"),
        ("batch.kubernetes.io/controller-uid", text.as_str()),
        ("batch.kubernetes.io/job-name", job.as_str()),
        ("controller-uid", text.as_str()),
        ("job-name", job.as_str()),
    ];
    let name = format!("{job}-{}", suffix(n));
    metadata(&name, &namespace(n), pod_uid(n, Class::Job, state), state.version, &labels)
        .message(13, &owner("batch/v1", "Job", &job, job_uid))
}

// --- the others

fn claim_name(n: usize) -> String {
    format!("data-{}-{}", stateful_set_name(n / STATEFUL_SET), n % STATEFUL_SET)
}

/// The message of a StatefulSet pod's claim. Every other set owns its claims, as its retention policy may ask.
pub(crate) fn claim(n: usize) -> Vec<u8> {
    let set = n / STATEFUL_SET;
    let app = stateful_set_name(set);
    let meta = metadata(&claim_name(n), &namespace(set), uid(Class::Claim, n, 0), 20_000_000 + n as u64, &[("app", &app)]);
    let meta = if set.is_multiple_of(2) {
        meta.message(13, &owner("apps/v1", "StatefulSet", &app, uid(Class::StatefulSet, set, 0)))
    } else {
        meta
    };
    Writer::new().message(1, &meta.entry(12, "volume.kubernetes.io/storage-provisioner", "ebs.csi.aws.com")).into_bytes()
}

/// The message of one of a StatefulSet's revisions.
pub(crate) fn revision(n: usize) -> Vec<u8> {
    let (set, hash) = (n / HISTORY, hash(n));
    let app = stateful_set_name(set);
    let labels = [("app.kubernetes.io/name", app.as_str()), ("controller.kubernetes.io/hash", hash.as_str())];
    let name = format!("{app}-{hash}");
    let meta = metadata(&name, &namespace(set), uid(Class::Revision, n, 0), 30_000_000 + n as u64, &labels)
        .message(13, &owner("apps/v1", "StatefulSet", &app, uid(Class::StatefulSet, set, 0)));
    let data = format!(r#"{{"spec":{{"template":{{"$patch":"replace","spec":{{"containers":[{{"name":"c{n}"}}]}}}}}}}}"#);
    Writer::new().message(1, &meta).message(2, &Writer::new().bytes(1, data.as_bytes())).varint(3, (n % HISTORY) as u64).into_bytes()
}

/// The JSON of one of a Deployment's old ReplicaSets. Its selector has fewer labels than its template, as with Helm's charts.
pub(crate) fn replica_set_at_zero(n: usize) -> String {
    let (deployment, hash) = (n / HISTORY, hash(n));
    let app = format!("checkout-service-{deployment}");
    let (own, above) = (uid(Class::ReplicaSet, n, 1), uid(Class::Deployment, deployment, 0));
    let selector = format!(r#""app.kubernetes.io/instance":"{app}","app.kubernetes.io/name":"{app}","pod-template-hash":"{hash}""#);
    let labels = format!(r#"{selector},"app.kubernetes.io/version":"1.27.{}""#, n % HISTORY);
    let container = |name: &str| {
        format!(
            r#"{{"name":"{name}","image":"registry.example/{name}:1","env":[{{"name":"MODE","value":"x"}}],"resources":{{"limits":{{"memory":"1Gi"}}}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}"#
        )
    };
    let (one, two) = (container("app"), container("proxy"));
    format!(
        r#"{{"metadata":{{"name":"{app}-{hash}","namespace":"{}","uid":"{own}","resourceVersion":"{}","generation":3,
        "creationTimestamp":"2026-03-01T10:00:00Z","labels":{{{labels}}},"annotations":{{"deployment.kubernetes.io/revision":"{}",
        "deployment.kubernetes.io/desired-replicas":"50","deployment.kubernetes.io/max-replicas":"63","meta.helm.sh/release-name":"x"}},
        "ownerReferences":[{{"apiVersion":"apps/v1","kind":"Deployment","name":"{app}","uid":"{above}","controller":true}}]}},
        "spec":{{"replicas":0,"selector":{{"matchLabels":{{{selector}}}}},"template":{{"metadata":{{"labels":{{{labels}}}}},
        "spec":{{"containers":[{one},{two}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst"}}}}}},
        "status":{{"replicas":0,"observedGeneration":3}}}}"#,
        namespace(deployment),
        40_000_000 + n,
        n % HISTORY + 1,
    )
}

/// A Deployment's ReplicaSets: the newest is at work, the others are kept for a rollback.
pub(crate) fn replica_set(n: usize) -> String {
    let set = replica_set_at_zero(n);
    if n % HISTORY + 1 < HISTORY { set } else { set.replace("\"replicas\":0", "\"replicas\":50") }
}
