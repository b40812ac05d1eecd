//! What is played in a namespace: the words of [`differential`](crate::differential), without its barriers, for nodes that live.
#![allow(clippy::indexing_slicing, reason = "JSON that was made a few lines above, or that is an object")]

use fastrand::Rng;
use serde_json::{Value, json};

use crate::differential::script::{BAD_IMAGE, Cascade, Nodes, Script, Step, Target, Write};
use crate::differential::snapshot::Kind;
use crate::differential::{deployments, statefulsets};

/// What scripts are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Deployments.
    Deployments,
    /// StatefulSets.
    StatefulSets,
    /// ReplicaSets that no Deployment owns.
    ReplicaSets,
}

/// Pods have this long to end: their nodes must end them, and not the API server at once.
const GRACE: u32 = 2;

/// The annotation by which a simulated node knows how a pod behaves.
const BEHAVIOUR: &str = "nodes.wcm.dev/behaviour";

impl Family {
    /// The script of a seed.
    pub fn script(self, seed: u64) -> Script {
        let mut script = match self {
            Self::Deployments => deployments::script(seed),
            Self::StatefulSets => statefulsets::script(seed),
            Self::ReplicaSets => replica_sets(seed),
        };
        for step in &mut script.steps {
            match &mut step.write {
                Write::Create(_, body) | Write::Patch(_, None, body) => enliven(body),
                _ => {}
            }
        }
        script
    }

    /// How namespaces are called.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Deployments => "deployments",
            Self::StatefulSets => "statefulsets",
            Self::ReplicaSets => "replicasets",
        }
    }
}

/// Gives each pod, or template of pods, a time to end, and a node that behaves as its image says.
fn enliven(value: &mut Value) {
    let image = value.pointer("/spec/containers/0/image").and_then(Value::as_str).map(str::to_owned);
    if let Some(image) = image {
        // The same for the same image: a template that comes again must be the same.
        let behaviour = if image.contains(BAD_IMAGE) {
            "never-start".to_owned()
        } else {
            format!("ready-after={}ms,stop-after={}ms", 50 * (image.len() % 7), 100 * (u32::from(image.ends_with('2')) + 1))
        };
        let annotations = &mut value["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[BEHAVIOUR] = json!(behaviour);
        value["spec"]["terminationGracePeriodSeconds"] = json!(GRACE);
    }
    if let Some(template) = value.pointer_mut("/spec/template") {
        enliven(template);
    }
}

/// A ReplicaSet as its script knows it.
struct ReplicaSet {
    name: &'static str,
    exists: bool,
    version: u32,
    loose: bool,
}

/// A script over two ReplicaSets.
fn replica_sets(seed: u64) -> Script {
    let mut rng = Rng::with_seed(seed);
    let mut sets = ["web", "api"].map(|name| ReplicaSet { name, exists: false, version: 1, loose: false });
    let steps = (0..12).map(|_| {
        let n = rng.usize(..sets.len());
        let (text, write) = sets[n].word(&mut rng);
        Step { text: format!("{}: {text}", sets[n].name), write, nodes: Nodes::Idle }
    });
    Script { seed, steps: steps.collect() }
}

impl ReplicaSet {
    fn word(&mut self, rng: &mut Rng) -> (&'static str, Write) {
        if !self.exists {
            self.exists = true;
            return ("create", Write::Create(Kind::ReplicaSet, self.manifest(rng.u32(0..=8))));
        }
        let pods = Target::Labelled(Kind::Pod, "app", self.name.to_owned());
        match rng.u8(..100) {
            0..35 => ("scale", self.patch(&json!({"spec": {"replicas": rng.u32(0..=8)}}))),
            35..50 => {
                self.version += 1;
                ("template", self.patch(&json!({"spec": {"template": self.template()}})))
            }
            50..58 => ("ready", self.patch(&json!({"spec": {"minReadySeconds": rng.u32(0..=1)}}))),
            58..68 => ("fail all", Write::Patch(pods, Some("status"), json!({"status": {"phase": "Failed"}}))),
            68..78 => ("kill all", Write::Delete(pods, Cascade::Background)),
            78..84 if !self.loose => {
                self.loose = true;
                ("lend all", Write::Patch(pods, None, app(&format!("loose-{}", self.name))))
            }
            84..92 if self.loose => {
                self.loose = false;
                let lent = Target::Labelled(Kind::Pod, "app", format!("loose-{}", self.name));
                ("take all back", Write::Patch(lent, None, app(self.name)))
            }
            92.. => {
                self.exists = false;
                let cascade = rng.choice([Cascade::Background, Cascade::Foreground, Cascade::Orphan]).unwrap_or(Cascade::Background);
                ("delete", Write::Delete(Target::Named(Kind::ReplicaSet, self.name.to_owned()), cascade))
            }
            _ => ("annotate", self.patch(&json!({"metadata": {"annotations": {"example.com/cause": rng.u8(..).to_string()}}}))),
        }
    }

    fn patch(&self, patch: &Value) -> Write {
        Write::Patch(Target::Named(Kind::ReplicaSet, self.name.to_owned()), None, patch.clone())
    }

    fn template(&self) -> Value {
        let image = format!("registry.example/app:{}", self.version);
        json!({"metadata": {"labels": {"app": self.name}}, "spec": {"containers": [{"name": "main", "image": image}]}})
    }

    fn manifest(&self, replicas: u32) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": self.name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": self.name}}, "template": self.template()},
        })
    }
}

fn app(value: &str) -> Value {
    json!({"metadata": {"labels": {"app": value}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_get_time_to_end_and_broken_ones_never_start() {
        let pod = |image: &str| json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"image": image}]}});
        let mut set = json!({"spec": {"template": pod("registry.example/broken:2")}});
        enliven(&mut set);
        assert_eq!(set["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], GRACE);
        assert_eq!(set["spec"]["template"]["metadata"]["annotations"][BEHAVIOUR], "never-start");
        let mut alone = pod("registry.example/app:2");
        alone["metadata"]["annotations"] = json!({"note": null});
        enliven(&mut alone);
        assert_eq!(alone["metadata"]["annotations"][BEHAVIOUR], "ready-after=50ms,stop-after=200ms");
        let mut scale = json!({"spec": {"replicas": 3}});
        enliven(&mut scale);
        assert_eq!(scale, json!({"spec": {"replicas": 3}}));
    }

    #[test]
    fn every_word_about_replica_sets_is_said() {
        let said = |text: &str| (0..50).any(|seed| Family::ReplicaSets.script(seed).steps.iter().any(|step| step.text.ends_with(text)));
        let words = ["create", "scale", "template", "ready", "fail all", "kill all", "lend all", "take all back", "delete", "annotate"];
        assert!(words.into_iter().all(said));
    }
}
