//! Scripts over one or two Deployments.
//!
//! Only what KCM itself answers in one way is asked here; KCM beside KCM has shown what that is. Not asked, since the outcome depends on which
//! of KCM's controllers is first:
//! - two writes without a barrier between them: whether the first template ever gets its ReplicaSet is chance;
//! - changing a ReplicaSet's size by hand: the Deployment controller may change it back before or after there are pods.
//!
//! Not asked either, since the README says that it differs: a wrong `desired-replicas` annotation, what becomes of an old ReplicaSet that is
//! scaled up and has no room in the history, and the hash of a template (in KCM it depends on how amounts are written).

pub(super) mod chance;
mod newest;
pub(super) mod settled;
mod words;

use serde_json::{Value, json};

use super::generator::{nodes, nothing, pick, say};
use super::script::{Script, Step, Write};
use super::settled::SOON;
use super::snapshot::Kind;
use super::template::Template;
use words::WORDS;

/// What the generator knows of a Deployment.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Deployment {
    name: &'static str,
    exists: bool,
    template: Template,
    versions: u32,
    replicas: u32,
    paused: bool,
    recreate: bool,
    /// There may be pods that nodes have to release.
    held: bool,
    min_ready_seconds: u32,
    deadline: u32,
    /// A ReplicaSet, or pods, have been taken out of its reach.
    loose_set: bool,
    loose_pods: bool,
    /// It was deleted, and its ReplicaSets were not.
    left_sets: bool,
}

/// A script in the making.
struct Writer {
    rng: fastrand::Rng,
    deployments: Vec<Deployment>,
}

/// The script of a seed.
pub fn script(seed: u64) -> Script {
    let mut rng = fastrand::Rng::with_seed(seed);
    let names = if rng.u8(..100) < 30 { &["web", "api"][..] } else { &["web"] };
    let deployments = names.iter().map(|name| Deployment::new(name)).collect();
    let mut writer = Writer { rng, deployments };
    let count = writer.rng.usize(8..=14);
    let steps = (0..count).map(|_| writer.step()).collect();
    Script { seed, steps }
}

impl Deployment {
    fn new(name: &'static str) -> Self {
        let template = Template { version: 1, ..Template::default() };
        Self {
            name,
            exists: false,
            template,
            versions: 1,
            replicas: 0,
            paused: false,
            recreate: false,
            held: false,
            min_ready_seconds: 0,
            deadline: 600,
            loose_set: false,
            loose_pods: false,
            left_sets: false,
        }
    }

    /// One that passes in a script.
    fn has_short_deadline(&self) -> bool {
        i64::from(self.deadline) <= SOON
    }
}

impl Writer {
    fn step(&mut self) -> Step {
        let n = self.rng.usize(..self.deployments.len());
        let (text, write) = self.word(n);
        let exists = self.deployments.get(n).is_some_and(|deployment| deployment.exists);
        let nodes = nodes(&mut self.rng, exists);
        let name = self.deployments.get(n).map_or("", |deployment| deployment.name);
        Step { text: format!("{name}: {text}"), write, nodes }
    }

    fn word(&mut self, n: usize) -> (String, Write) {
        let Self { rng, deployments } = self;
        let Some(deployment) = deployments.get_mut(n) else { return nothing() };
        // In KCM a template in another spelling has another hash. That must not be seen: no ReplicaSet is made of it.
        say(
            WORDS,
            rng,
            deployment,
            |word, deployment| if deployment.template.respelt { word.name == "respell" } else { (word.when)(deployment) },
        )
    }
}

/// A manifest with everything that is left to chance at a Deployment's creation.
fn manifest(rng: &mut fastrand::Rng, deployment: &Deployment) -> Value {
    let app = deployment.name;
    let mut spec = json!({
        "replicas": deployment.replicas, "selector": {"matchLabels": {"app": app}}, "template": deployment.template.manifest(app),
        "strategy": some_strategy(rng, deployment.recreate), "paused": deployment.paused,
    });
    let more = [
        ("minReadySeconds", json!(deployment.min_ready_seconds)),
        ("progressDeadlineSeconds", json!(deployment.deadline)),
        ("revisionHistoryLimit", history_limit(rng)),
    ];
    if let Some(spec) = spec.as_object_mut() {
        spec.extend(more.into_iter().map(|(key, value)| (key.to_owned(), value)));
    }
    let annotations = json!({"example.com/cause": format!("created {}", rng.u8(..3))});
    json!({
        "apiVersion": "apps/v1", "kind": Kind::Deployment.to_string(),
        "metadata": {"name": app, "labels": {"app": app}, "annotations": annotations}, "spec": spec,
    })
}

/// For a merge patch as well as for a manifest.
fn some_strategy(rng: &mut fastrand::Rng, recreate: bool) -> Value {
    if recreate {
        return json!({"type": "Recreate", "rollingUpdate": null});
    }
    let surge = [json!(0), json!(1), json!(2), json!("25%"), json!("50%"), json!("100%")];
    let unavailable = [json!(1), json!(2), json!("25%"), json!("50%"), json!("100%"), json!(0)];
    let (mut surge, unavailable) = (pick(rng, &surge), pick(rng, &unavailable));
    if unavailable == 0 && surge == 0 {
        surge = json!(1);
    }
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

/// A progress deadline: the usual one, none, one that never passes in a script, or one that does. It must be longer than minReadySeconds.
/// None that passes where pods are recreated: too much is left to chance there.
fn some_deadline(rng: &mut fastrand::Rng, deployment: &Deployment) -> u32 {
    match (deployment.min_ready_seconds, rng.u8(..100)) {
        (60.., _) => 7200,
        (0, 0..5) if !deployment.recreate && !deployment.paused => 1,
        (_, 0..75) => 600,
        _ => i32::MAX.unsigned_abs(),
    }
}

/// Null is the API server's default, 10.
fn history_limit(rng: &mut fastrand::Rng) -> Value {
    pick(rng, &[json!(0), json!(1), json!(2), json!(10), Value::Null, json!(i32::MAX)])
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
    fn scripts_begin_with_a_creation_and_every_word_is_said() {
        let mut said = BTreeSet::new();
        for seed in 1..=300 {
            let script = script(seed);
            assert!(matches!(script.steps[0].write, Write::Create(..)), "{seed}: {:?}", script.steps[0]);
            said.extend(script.steps.iter().map(|step| step.text.split_once(": ").unwrap().1.split(' ').next().unwrap().to_owned()));
        }
        let words: BTreeSet<_> = WORDS.iter().map(|word| word.name.to_owned()).collect();
        assert_eq!(said, words);
    }
}
