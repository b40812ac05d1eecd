//! How a pod behaves, and who says so.
//!
//! A [`Behaviour`] is asked for by a test, through [`Rulebook`], or by whoever makes the pod, through the annotation
//! `nodes.wcm.dev/behaviour`. Its value is a list of words, separated by commas:
//!
//! | Word | The pod |
//! |---|---|
//! | `unready` | runs and is never ready; one that was becomes unready |
//! | `never-start` | stays in `ContainerCreating` |
//! | `fail` | ends in phase Failed |
//! | `succeed` | ends in phase Succeeded |
//! | `evict` | ends in phase Failed with reason Evicted and a `DisruptionTarget` condition |
//! | `reject=<Reason>` | is refused by the kubelet, before it starts: phase Failed with that reason (`NodeAffinity`, `OutOfcpu`, `SysctlForbidden`) |
//! | `run-for=<duration>` | runs so long before it fails, succeeds or is evicted; without it, it does so at once |
//! | `start-after=<duration>` | is in `ContainerCreating` so long |
//! | `ready-after=<duration>` | runs so long before it is ready |
//! | `stop-after=<duration>` | takes so long to end after its deletion, but no longer than its grace period |
//! | `stuck-terminating` | ignores its deletion until it is told otherwise |
//! | `restarts=<n>` | shows at least so many restarts of each container |
//!
//! Durations are a number and a unit: `500ms`, `5s`, `2m`, `1h`. `kubectl annotate --overwrite` changes a pod that is there already.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use model::ObjectKey;
use model::selector::Selector;
use parking_lot::RwLock;

use crate::pod::Pod;

/// What a pod does. The default one starts, is ready and ends without delay.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Behaviour {
    /// What becomes of it.
    pub fate: Fate,
    /// Between its arrival at the node and its start.
    pub start_after: Duration,
    /// Between its start and its readiness.
    pub ready_after: Duration,
    /// Between its start and its fate, if that is an end.
    pub run_for: Duration,
    /// Between its deletion and its end; the grace period limits it.
    pub stop_after: Duration,
    /// Its deletion is ignored.
    pub stuck_terminating: bool,
    /// At least so many restarts of each container.
    pub restarts: i32,
}

/// What becomes of a pod.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Fate {
    /// It runs and is ready.
    #[default]
    Ready,
    /// It runs and is not ready.
    Unready,
    /// It never starts.
    NeverStart,
    /// It fails.
    Fail,
    /// It succeeds.
    Succeed,
    /// The node puts it out.
    Evict,
    /// The node does not take it in, for this reason.
    Reject(Box<str>),
}

/// Why a list of words is no behaviour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownWord(String);

/// The pods that a rule is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Matching {
    /// One namespace, or all.
    pub namespace: Option<Box<str>>,
    /// Their labels.
    pub selector: Selector,
}

/// Who behaves how. The first that has something to say decides: a rule for the very pod, the pod's annotation, the latest rule whose
/// selector matches, the default.
#[derive(Debug, Default)]
pub struct Rulebook(RwLock<Rules>);

#[derive(Debug, Default)]
struct Rules {
    pods: HashMap<ObjectKey, Behaviour>,
    matching: Vec<(Matching, Behaviour)>,
    default: Behaviour,
}

// === impl Behaviour ===

impl Behaviour {
    /// The behaviour with that fate and no delay.
    pub fn of(fate: Fate) -> Self {
        Self { fate, ..Self::default() }
    }

    /// Ignores its deletion.
    pub fn stuck_terminating() -> Self {
        Self { stuck_terminating: true, ..Self::default() }
    }
}

impl FromStr for Behaviour {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let mut behaviour = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let duration = || duration(value).ok_or_else(|| UnknownWord(word.to_owned()));
            match (name, value) {
                ("unready", "") => behaviour.fate = Fate::Unready,
                ("never-start", "") => behaviour.fate = Fate::NeverStart,
                ("fail", "") => behaviour.fate = Fate::Fail,
                ("succeed", "") => behaviour.fate = Fate::Succeed,
                ("evict", "") => behaviour.fate = Fate::Evict,
                ("stuck-terminating", "") => behaviour.stuck_terminating = true,
                ("reject", reason) if !reason.is_empty() => behaviour.fate = Fate::Reject(reason.into()),
                ("run-for", _) => behaviour.run_for = duration()?,
                ("start-after", _) => behaviour.start_after = duration()?,
                ("ready-after", _) => behaviour.ready_after = duration()?,
                ("stop-after", _) => behaviour.stop_after = duration()?,
                ("restarts", count) => behaviour.restarts = count.parse().map_err(|_| UnknownWord(word.to_owned()))?,
                _ => return Err(UnknownWord(word.to_owned())),
            }
        }
        Ok(behaviour)
    }
}

fn duration(text: &str) -> Option<Duration> {
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(unit)?;
    let number: u64 = number.parse().ok()?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

// === impl UnknownWord ===

impl std::fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} is no behaviour", self.0)
    }
}

impl std::error::Error for UnknownWord {}

// === impl Matching ===

impl Matching {
    /// All pods of a namespace.
    pub fn namespace(namespace: &str) -> Self {
        Self { namespace: Some(namespace.into()), selector: Selector::All(Box::default()) }
    }

    fn has(&self, pod: &Pod) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| **namespace == *pod.namespace) && self.selector.matches(&*pod.labels)
    }
}

// === impl Rulebook ===

impl Rulebook {
    /// A book in which all that is said is the default.
    pub fn new(default: Behaviour) -> Self {
        Self(RwLock::new(Rules { default, ..Rules::default() }))
    }

    /// How the pod behaves. A bad annotation is an error: whoever reads it may be told.
    pub fn of(&self, pod: &Pod) -> Result<Behaviour, UnknownWord> {
        let rules = self.0.read();
        // Most books are empty, and a key costs an allocation.
        if !rules.pods.is_empty()
            && let Some(behaviour) = rules.pods.get(&ObjectKey::new(pod.namespace.clone(), &*pod.name))
        {
            return Ok(behaviour.clone());
        }
        if let Some(words) = &pod.behaviour {
            return words.parse();
        }
        let matching = rules.matching.iter().rev().find(|(matching, _)| matching.has(pod));
        Ok(matching.map_or(&rules.default, |(_, behaviour)| behaviour).clone())
    }

    /// Sets the behaviour of a pod, which need not exist yet; `None` takes it back.
    pub(crate) fn set_pod(&self, pod: ObjectKey, behaviour: Option<Behaviour>) {
        let mut rules = self.0.write();
        match behaviour {
            Some(behaviour) => rules.pods.insert(pod, behaviour),
            None => rules.pods.remove(&pod),
        };
    }

    /// Sets the behaviour of matching pods; `None` takes it back.
    pub(crate) fn set_matching(&self, matching: Matching, behaviour: Option<Behaviour>) {
        let mut rules = self.0.write();
        rules.matching.retain(|(known, _)| *known != matching);
        rules.matching.extend(behaviour.map(|behaviour| (matching, behaviour)));
    }

    pub(crate) fn set_default(&self, behaviour: Behaviour) {
        self.0.write().default = behaviour;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::tests::pod;
    use std::sync::Arc;

    fn selector(labels: &serde_json::Value) -> Selector {
        Selector::from_wire(serde_json::from_value(serde_json::json!({ "matchLabels": labels })).unwrap()).unwrap()
    }

    #[test]
    fn words_are_read() {
        let behaviour: Behaviour = "start-after=500ms, ready-after=5s,run-for=2m,stop-after=1h,restarts=3,fail".parse().unwrap();
        let want = Behaviour {
            fate: Fate::Fail,
            start_after: Duration::from_millis(500),
            ready_after: Duration::from_secs(5),
            run_for: Duration::from_secs(120),
            stop_after: Duration::from_secs(3600),
            stuck_terminating: false,
            restarts: 3,
        };
        assert_eq!(behaviour, want);
        assert_eq!("".parse(), Ok(Behaviour::default()));
        assert_eq!("stuck-terminating".parse(), Ok(Behaviour::stuck_terminating()));
        assert_eq!("reject=OutOfcpu".parse(), Ok(Behaviour::of(Fate::Reject("OutOfcpu".into()))));
    }

    #[test]
    fn unknown_words_are_named() {
        for text in
            ["fial", "reject", "run-for=5", "run-for=s", "run-for=-1s", "restarts=many", "fail=5s", "start-after=99999999999999999h"]
        {
            let error = format!("unready,{text}").parse::<Behaviour>().unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn the_nearest_rule_decides() {
        let book = Rulebook::new(Behaviour::of(Fate::Unready));
        let mut pod = pod();
        let fate = |pod: &Pod| book.of(pod).unwrap().fate;
        assert_eq!(fate(&pod), Fate::Unready);

        let web = Matching { namespace: None, selector: selector(&serde_json::json!({"app": "web"})) };
        book.set_matching(web.clone(), Some(Behaviour::of(Fate::Fail)));
        assert_eq!(fate(&pod), Fate::Unready);
        pod.labels = Arc::new([("app", "web")].into_iter().collect());
        assert_eq!(fate(&pod), Fate::Fail);
        book.set_matching(Matching::namespace(&pod.namespace), Some(Behaviour::of(Fate::NeverStart)));
        assert_eq!(fate(&pod), Fate::NeverStart, "the latest of several");
        book.set_matching(web, Some(Behaviour::of(Fate::Fail)));
        assert_eq!(fate(&pod), Fate::Fail, "said again, it is the latest");

        pod.behaviour = Some("succeed".into());
        assert_eq!(fate(&pod), Fate::Succeed);
        let key = ObjectKey::new(pod.namespace.clone(), &*pod.name);
        book.set_pod(key.clone(), Some(Behaviour::of(Fate::Evict)));
        assert_eq!(fate(&pod), Fate::Evict);
        book.set_pod(key, None);
        pod.behaviour = Some("suceed".into());
        assert!(book.of(&pod).is_err());
    }
}
