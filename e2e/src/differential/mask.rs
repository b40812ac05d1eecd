//! What two sides need not have in common.
//!
//! | Masked | Why |
//! | --- | --- |
//! | UIDs, resource versions, times, managed fields | the API server's |
//! | template hashes, and ReplicaSet names made of them: `web-#2` is the second name seen | the hash is not part of the contract |
//! | the random end of pod names: `web-#2-*` | random |
//! | generations of ReplicaSets, and observed ones: only whether they are up to date | KCM scales in as many steps as events come |
//! | the order of a StatefulSet's claims among the volumes of a pod | KCM keeps them in a map: random |
//! | events' texts, counts and times: only which reasons an object has had | as above |
//! | the order of conditions | as above |
//! | some reasons and texts of a Deployment's conditions | KCM beside KCM does not agree: see `deployments/chance.rs` |
//! | a few reasons of a StatefulSet's events | chance in KCM, or ours alone: see `statefulsets/chance.rs` |
//!
//! Names of StatefulSets' pods, claims and revisions, and what is in revisions, are compared as they are.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::dump::{Dump, Fields, flatten};
use super::snapshot::{HASH_LABEL, Kind, Snapshot, controller, is_active, is_deleted, is_ready, label, name, number, owners, text, uid};
use super::{deployments, statefulsets};

/// Beyond it an object's events may be dropped: client-go's spam filter lets 25 of a kind pass.
const CROWD: i64 = 20;

/// Fields that hold times or the API server's own marks.
const UNCOMPARED: [&str; 7] =
    ["creationTimestamp", "lastProbeTime", "lastTransitionTime", "lastUpdateTime", "managedFields", "resourceVersion", "uid"];

/// The names of a namespace's ReplicaSets and hashes, in the order in which they were first seen. They outlive their objects, which events
/// and conditions still name.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// A ReplicaSet's name and what stands for it.
    sets: BTreeMap<String, String>,
    hashes: BTreeMap<String, String>,
    /// How many names with a hash there are, by their Deployment's name.
    counts: BTreeMap<String, usize>,
    /// StatefulSets whose pods' updates KCM tells of by chance.
    chancy: BTreeSet<String>,
}

impl Names {
    /// Takes notice of an object.
    pub fn see(&mut self, kind: Kind, object: &Value) {
        match kind {
            Kind::ReplicaSet => self.see_replica_set(object),
            Kind::StatefulSet if statefulsets::chance::updates_by_chance(object) => drop(self.chancy.insert(name(object).to_owned())),
            _ => {}
        }
    }

    fn see_replica_set(&mut self, set: &Value) {
        let set_name = name(set);
        if self.sets.contains_key(set_name) {
            return;
        }
        let hash = label(set, HASH_LABEL).unwrap_or_default();
        let deployment = set_name.strip_suffix(hash).and_then(|rest| rest.strip_suffix('-'));
        // A ReplicaSet that the script has made keeps its name.
        let masked = deployment.filter(|_| !hash.is_empty()).map_or_else(
            || set_name.to_owned(),
            |deployment| {
                let count = self.counts.entry(deployment.to_owned()).or_default();
                *count += 1;
                self.hashes.insert(hash.to_owned(), format!("#{count}"));
                format!("{deployment}-#{count}")
            },
        );
        self.sets.insert(set_name.to_owned(), masked);
    }

    /// Replaces ReplicaSets' and their pods' names, wherever they stand, and a hash that stands alone.
    fn mask(&self, text: &str) -> String {
        if let Some(hash) = self.hashes.get(text) {
            return hash.clone();
        }
        let mut masked = text.to_owned();
        for (set, replacement) in &self.sets {
            masked = replace(&masked, set, replacement);
        }
        masked
    }
}

/// Replaces `name` in `text`, and what follows it if that makes it a pod's name: a dash, and up to five letters or digits. A refusal here
/// names a pod that was not made without them.
fn replace(text: &str, name: &str, replacement: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(name) {
        result.push_str(before);
        result.push_str(replacement);
        rest = after;
        if let Some(after) = after.strip_prefix('-') {
            let end = after.char_indices().find(|(n, c)| *n == 5 || !c.is_ascii_alphanumeric()).map_or(after.len(), |(n, _)| n);
            result.push_str("-*");
            rest = after.get(end..).unwrap_or_default();
        }
    }
    result.push_str(rest);
    result
}

/// A namespace without what need not be equal.
pub fn dump(snapshot: &Snapshot, names: &Names) -> Dump {
    let mut dump = Dump::default();
    for kind in Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Pod | Kind::Event)) {
        for object in snapshot.of(kind) {
            let fields = dump.objects.entry(format!("{kind} {}", names.mask(name(object)))).or_default();
            flatten("", &masked(snapshot, names, kind, object), fields);
        }
    }
    pods(snapshot, names, &mut dump);
    for event in snapshot.of(Kind::Event) {
        see_event(event, names, &mut dump);
    }
    dump.crowded = crowds(snapshot, names);
    dump
}

/// Equal pods are one entry with their number.
fn pods(snapshot: &Snapshot, names: &Names, dump: &mut Dump) {
    let mut groups: BTreeMap<(String, Fields), usize> = BTreeMap::new();
    for pod in snapshot.of(Kind::Pod) {
        let mut fields = Fields::new();
        flatten("", &masked(snapshot, names, Kind::Pod, pod), &mut fields);
        let state = if is_deleted(pod) { "terminating" } else { text(pod, "/status/phase") };
        let readiness = if is_active(pod) && is_ready(pod) { ", ready" } else { "" };
        // Whoever controls it may have taken it from another.
        let owner = controller(pod).map_or("nobody", |owner| text(owner, "/name"));
        let title = format!("Pod {} of {} ({state}{readiness})", names.mask(name(pod)), names.mask(owner));
        *groups.entry((title, fields)).or_default() += 1;
    }
    for ((title, mut fields), count) in groups {
        fields.insert("(number)".to_owned(), count.to_string());
        // Pods that differ in something else than the title says.
        let taken = |title: &String| dump.objects.contains_key(title);
        let title =
            (1..=dump.objects.len() + 1).map(|n| if n == 1 { title.clone() } else { format!("{title} {n}") }).find(|title| !taken(title));
        dump.objects.insert(title.unwrap_or_default(), fields);
    }
}

fn events_of(event: &Value, names: &Names) -> String {
    format!("Events of {} {}", text(event, "/involvedObject/kind"), names.mask(text(event, "/involvedObject/name")))
}

fn see_event(event: &Value, names: &Names, dump: &mut Dump) {
    let [kind, reason, component] = ["/type", "/reason", "/source/component"].map(|pointer| text(event, pointer));
    let is_chancy = names.chancy.contains(text(event, "/involvedObject/name"));
    if text(event, "/involvedObject/kind") == "StatefulSet" && !statefulsets::chance::is_compared(reason, is_chancy) {
        return;
    }
    dump.objects.entry(events_of(event, names)).or_default().insert(format!("{kind} {reason}"), component.to_owned());
}

fn crowds(snapshot: &Snapshot, names: &Names) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for event in snapshot.of(Kind::Event) {
        *counts.entry(events_of(event, names)).or_default() += number(event, "/count").max(1);
    }
    counts.into_iter().filter(|(_, count)| *count >= CROWD).map(|(object, _)| object).collect()
}

/// An object with everything masked.
fn masked(snapshot: &Snapshot, names: &Names, kind: Kind, object: &Value) -> Value {
    let mut copy = walk(object, names);
    let current = number(object, "/metadata/generation") == number(object, "/status/observedGeneration");
    if let Some(metadata) = copy.get_mut("metadata").and_then(Value::as_object_mut) {
        if kind == Kind::ReplicaSet {
            metadata.remove("generation");
        }
        if metadata.contains_key("deletionTimestamp") {
            metadata.insert("deletionTimestamp".to_owned(), Value::from("(set)"));
        }
        let references: Vec<_> = owners(object).map(|owner| reference(snapshot, names, owner)).collect();
        if !references.is_empty() {
            metadata.insert("ownerReferences".to_owned(), Value::from(references));
        }
    }
    match kind {
        Kind::Deployment => deployments::chance::mask(snapshot, object, &mut copy),
        Kind::Pod => statefulsets::chance::order_claims(&mut copy),
        _ => {}
    }
    if let Some(observed) = copy.pointer_mut("/status/observedGeneration") {
        *observed = Value::from(if current { "(current)" } else { "(old)" });
    }
    copy
}

/// An owner reference, with whether the very object that it means is there.
fn reference(snapshot: &Snapshot, names: &Names, owner: &Value) -> Value {
    let kind = Kind::ALL.into_iter().find(|kind| kind.to_string() == text(owner, "/kind"));
    let there = kind.and_then(|kind| snapshot.get(kind, text(owner, "/name"))).is_some_and(|object| uid(object) == text(owner, "/uid"));
    let mut masked = walk(owner, names);
    if let Some(fields) = masked.as_object_mut() {
        fields.insert("(is there)".to_owned(), Value::from(there));
    }
    masked
}

fn walk(value: &Value, names: &Names) -> Value {
    match value {
        Value::String(text) => Value::from(names.mask(text)),
        Value::Array(list) => list.iter().map(|element| walk(element, names)).collect(),
        Value::Object(object) => {
            let compared = object.iter().filter(|(key, _)| !UNCOMPARED.contains(&key.as_str()));
            Value::Object(compared.map(|(key, value)| (key.clone(), walk(value, names))).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use serde_json::json;

    use super::*;

    /// A side on which the first two ReplicaSets have these hashes.
    fn side(hashes: [&str; 2], uids: &str, ends: [&str; 3]) -> (Snapshot, Names) {
        let (mut snapshot, mut names) = (Snapshot::default(), Names::default());
        let mut put = |kind, object: Value| drop(snapshot.objects.insert((kind, name(&object).to_owned()), Rc::new(object)));
        put(
            Kind::Deployment,
            json!({
                "metadata": {"name": "web", "uid": format!("{uids}0"), "generation": 3, "resourceVersion": uids},
                "status": {"observedGeneration": 3, "conditions": [
                    {"type": "Progressing", "message": format!("ReplicaSet \"web-{}\" is progressing.", hashes[1]), "lastUpdateTime": uids},
                ]},
            }),
        );
        for (n, hash) in hashes.iter().enumerate() {
            let set = json!({
                "metadata": {
                    "name": format!("web-{hash}"), "uid": format!("{uids}{n}x"), "labels": {"app": "web", "pod-template-hash": hash},
                    "generation": uids.len(), "creationTimestamp": uids,
                    "ownerReferences": [{"kind": "Deployment", "name": "web", "uid": format!("{uids}0"), "controller": true}],
                },
                "status": {"observedGeneration": uids.len()},
            });
            names.see(Kind::ReplicaSet, &set);
            put(Kind::ReplicaSet, set);
        }
        for end in ends {
            put(
                Kind::Pod,
                json!({
                    "metadata": {
                        "name": format!("web-{}-{end}", hashes[0]), "labels": {"pod-template-hash": hashes[0]},
                        "ownerReferences": [{"kind": "ReplicaSet", "name": format!("web-{}", hashes[0]), "uid": format!("{uids}0x")}],
                    },
                    "status": {"phase": "Pending"},
                }),
            );
        }
        let involved = json!({"kind": "ReplicaSet", "name": format!("web-{}", hashes[1])});
        let event = json!({"metadata": {"name": uids}, "involvedObject": involved, "type": "Normal", "reason": "SuccessfulCreate"});
        put(Kind::Event, event);
        (snapshot, names)
    }

    #[test]
    fn hashes_uids_times_and_names_are_masked() {
        let (one, names) = side(["abc4", "zzz5"], "u", ["aaaaa", "bbbbb", "ccccc"]);
        let (two, other_names) = side(["zzz9", "bcd"], "other", ["x2345", "y2345", "z2345"]);
        let (one, two) = (dump(&one, &names), dump(&two, &other_names));
        assert_eq!(one.difference(&two), "");
        let text = one.to_string();
        for expected in [
            "ReplicaSet web-#2\n",
            "metadata.labels.pod-template-hash: \"#1\"",
            r#"status.conditions[Progressing].message: "ReplicaSet \"web-#2\" is progressing.""#,
            "Events of ReplicaSet web-#2\n",
            "(number): 3",
            "metadata.ownerReferences[0].(is there): true",
            "metadata.generation: 3",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
    }

    #[test]
    fn another_number_of_pods_is_a_difference() {
        let (one, names) = side(["abc4", "zzz5"], "u", ["aaaaa", "bbbbb", "ccccc"]);
        let (two, _) = side(["abc4", "zzz5"], "u", ["aaaaa", "bbbbb", "bbbbb"]);
        let difference = dump(&one, &names).difference(&dump(&two, &names));
        assert!(difference.contains("- (number): 3\n+ (number): 2\n"), "{difference}");
    }

    #[test]
    fn an_owner_that_is_gone_is_a_difference() {
        let (one, names) = side(["abc4", "zzz5"], "u", ["a", "b", "c"]);
        let mut two = one.clone();
        two.objects.remove(&(Kind::Deployment, "web".to_owned()));
        let difference = dump(&one, &names).difference(&dump(&two, &names));
        assert!(difference.contains("- metadata.ownerReferences[0].(is there): true\n+"), "{difference}");
    }

    #[test]
    fn pod_names_in_refusals_end_alike() {
        let (_, names) = side(["abc4", "zzz5"], "u", ["a", "b", "c"]);
        let expected = r#"pods "web-#1-*" is forbidden"#;
        assert_eq!(names.mask(r#"pods "web-abc4-x7k2p" is forbidden"#), expected);
        assert_eq!(names.mask(r#"pods "web-abc4-" is forbidden"#), expected);
        assert_eq!(names.mask("web-abc4 and web-zzz5-bcdfg"), "web-#1 and web-#2-*");
    }

    #[test]
    fn a_set_without_a_hash_keeps_its_name() {
        let mut names = Names::default();
        names.see(Kind::ReplicaSet, &json!({"metadata": {"name": "by-hand", "labels": {"app": "web"}}}));
        assert_eq!(names.mask("by-hand"), "by-hand");
        assert_eq!(names.mask("by-hand-x2345"), "by-hand-*");
    }
}
