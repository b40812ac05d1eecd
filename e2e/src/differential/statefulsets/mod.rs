//! Scripts over one or two StatefulSets.
//!
//! Only what KCM itself answers in one way is asked here; KCM beside KCM has shown what that is. Not asked, since chance decides it:
//! - two pods of an `OrderedReady` set that fail, or are deleted, at once: the first to be seen is made again, and the other waits for it or
//!   not;
//! - an update of several pods at once (`maxUnavailable`) of an `OrderedReady` set that are gone as soon as they are deleted: KCM does not wait
//!   until its cache shows that, and whether the higher one is made again before the lower one is missed is chance. Where they are held until
//!   the nodes let them go, there is no doubt;
//! - deletion in the foreground while pods are held: a pod may be made anew before the set is seen to be deleted, and then it stays.
//!
//! Not asked either, since the README says that it differs:
//! - a claim that vanishes under a pod which is Pending, or while its pod's place is empty: KCM does not hear of it. So none is lost while a
//!   pod is lent. Where claims go with pods that are scaled away (`whenScaled: Delete`), pods are never held; and none becomes unready or fails
//!   there in an `OrderedReady` set: of several such, those that are to be scaled away wait, owning their claims already;
//! - pods without the volume of a claim template: a pod that is made by hand, or left by an earlier set, meets no more templates than it has;
//! - pods of an `OrderedReady` set that have ended and are to be scaled away: in KCM they may wait for ever. So only pods end that are replaced
//!   at once;
//! - `Parallel` pods that are scaled away while others cannot be made: only an `OrderedReady` set has pods that are refused, or lends one and so
//!   has no name for its successor.

pub(super) mod chance;
mod next;
pub(super) mod settled;
mod words;

use fastrand::Rng;
use serde_json::{Value, json};

use super::generator::{nodes, nothing, pick, say, without_nulls};
use super::script::{Script, Step};
use super::snapshot::Snapshot;
use super::template::Template;
use words::WORDS;

/// Whether the pod's StatefulSet replaces it at once when it ends.
pub fn is_replaced_at_once(snapshot: &Snapshot, pod: &Value) -> bool {
    next::is_replaced_at_once(snapshot, pod)
}

/// The templates that claims may be made from.
const CLAIMS: [&str; 2] = ["data", "logs"];

/// What the generator knows of a StatefulSet.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Set {
    name: &'static str,
    exists: bool,
    template: Template,
    /// The templates that it has had.
    earlier: Vec<Template>,
    versions: u32,
    replicas: u32,
    start: u32,
    parallel: bool,
    on_delete: bool,
    /// How many of the claim templates it has.
    claims: usize,
    delete_when_deleted: bool,
    delete_when_scaled: bool,
    min_ready_seconds: u32,
    /// Its pods are all held, so that several may be updated at once although they are made in order.
    several: bool,
    /// There may be pods that nodes have to release.
    held: bool,
    /// One of its pods has been taken out of its reach.
    loose: bool,
    /// There may be pods without claims.
    bare: bool,
    /// It was deleted, and its pods were not.
    left: bool,
}

/// A script in the making.
struct Writer {
    rng: Rng,
    sets: Vec<Set>,
}

/// The script of a seed.
pub fn script(seed: u64) -> Script {
    let mut rng = Rng::with_seed(seed);
    // The pods of the one are called as the other is.
    let names = if rng.u8(..100) < 30 { &["web", "web-1"][..] } else { &["web"] };
    let mut writer = Writer { rng, sets: names.iter().map(|name| Set::new(name)).collect() };
    let count = writer.rng.usize(8..=14);
    let steps = (0..count).map(|_| writer.step()).collect();
    Script { seed, steps }
}

impl Set {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            exists: false,
            template: Template { version: 1, ..Template::default() },
            earlier: Vec::new(),
            versions: 1,
            replicas: 0,
            start: 0,
            parallel: false,
            on_delete: false,
            claims: 0,
            delete_when_deleted: false,
            delete_when_scaled: false,
            min_ready_seconds: 0,
            several: false,
            held: false,
            loose: false,
            bare: false,
            left: false,
        }
    }

    /// Claims go with the pods that are scaled away.
    fn claims_go(&self) -> bool {
        self.delete_when_scaled && self.claims > 0
    }

    /// Two pods that are not available, are to be scaled away and wait for each other own their claims, also if they are wanted again.
    fn fears_the_unready(&self) -> bool {
        self.claims_go() && !self.parallel
    }

    /// A merge patch that leads to the template from any other.
    fn template(&self) -> Value {
        let mut template = self.template.patch(self.name);
        // One of a name that is a claim's, too: the claim takes its place.
        if let Some(spec) = template.pointer_mut("/spec").and_then(Value::as_object_mut) {
            spec.insert("volumes".to_owned(), json!([{"name": "data", "emptyDir": {}}, {"name": "scratch", "emptyDir": {}}]));
        }
        template
    }

    fn retention(&self) -> Value {
        let policy = |delete| if delete { "Delete" } else { "Retain" };
        json!({"whenDeleted": policy(self.delete_when_deleted), "whenScaled": policy(self.delete_when_scaled)})
    }
}

impl Writer {
    fn step(&mut self) -> Step {
        let Self { rng, sets } = self;
        let n = rng.usize(..sets.len());
        let Some(set) = sets.get_mut(n) else {
            let (text, write) = nothing();
            return Step { text, write, nodes: nodes(rng, false) };
        };
        let (text, write) = say(WORDS, rng, set, |word, set| (word.when)(set));
        Step { text: format!("{}: {text}", set.name), write, nodes: nodes(rng, set.exists) }
    }
}

/// A manifest with everything that is left to chance at a StatefulSet's creation.
fn manifest(rng: &mut Rng, set: &Set) -> Value {
    let app = set.name;
    let claims = CLAIMS.iter().take(set.claims).map(|name| claim_template(name));
    let spec = json!({
        "replicas": set.replicas, "selector": {"matchLabels": {"app": app}}, "template": set.template(),
        "podManagementPolicy": if set.parallel { "Parallel" } else { "OrderedReady" },
        "updateStrategy": some_strategy(rng, set), "minReadySeconds": set.min_ready_seconds, "revisionHistoryLimit": history_limit(rng),
        "ordinals": if set.start > 0 || rng.bool() { json!({"start": set.start}) } else { Value::Null },
        "volumeClaimTemplates": claims.collect::<Vec<_>>(),
        "persistentVolumeClaimRetentionPolicy": if set.delete_when_deleted || set.delete_when_scaled || rng.bool() { set.retention() } else { Value::Null },
        "serviceName": pick(rng, &[json!("web"), Value::Null]),
    });
    let annotations = json!({"example.com/cause": format!("created {}", rng.u8(..3))});
    without_nulls(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": app, "labels": {"app": app}, "annotations": annotations}, "spec": spec,
    }))
}

fn claim_template(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "claims", "of": name}, "annotations": {"example.com/note": "a < b"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"},
    })
}

/// For a merge patch as well as for a manifest.
fn some_strategy(rng: &mut Rng, set: &Set) -> Value {
    if set.on_delete {
        return json!({"type": "OnDelete", "rollingUpdate": null});
    }
    json!({"type": "RollingUpdate", "rollingUpdate": {"partition": some_partition(rng, set), "maxUnavailable": some_limit(rng, set)}})
}

/// Mostly none.
fn some_partition(rng: &mut Rng, set: &Set) -> u32 {
    if rng.u8(..100) < 65 { 0 } else { rng.u32(0..=set.replicas + 1) }
}

/// A maxUnavailable. The last ones are more than one pod.
fn some_limit(rng: &mut Rng, set: &Set) -> Value {
    let limits = [json!(1), json!(1), json!("10%"), json!(2), json!(3), json!("50%"), json!("100%")];
    pick(rng, limits.get(..if set.parallel || set.several { 7 } else { 3 }).unwrap_or_default())
}

/// Null is the API server's default, 10.
fn history_limit(rng: &mut Rng) -> Value {
    pick(rng, &[json!(0), json!(1), json!(2), json!(10), Value::Null])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_always_makes_the_same_script() {
        for seed in 0..50 {
            assert_eq!(script(seed), script(seed));
        }
        assert_ne!(script(1).steps, script(2).steps);
    }

    #[test]
    fn every_word_is_said_to_sets_of_every_kind() {
        let mut said = BTreeSet::new();
        for seed in 1..=300 {
            said.extend(script(seed).steps.iter().map(|step| step.text.split_once(": ").unwrap().1.split(' ').next().unwrap().to_owned()));
        }
        let words: BTreeSet<_> = WORDS.iter().map(|word| word.name.to_owned()).collect();
        assert_eq!(said, words);
    }
}
