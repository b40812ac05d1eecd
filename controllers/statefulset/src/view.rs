//! One StatefulSet and all that concerns it as one sync sees them, with what the sync has found out and done so far.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use model::ownership::Claimant;
use model::plan::{Answer, Outcomes, Plan};
use model::pod::parent_and_ordinal;
use model::selector::Selector;
use model::{ControllerRevision, PersistentVolumeClaim, Pod, ResourceVersion, StatefulSet, Time};

use crate::replicas::MAX_NEW_PODS;

/// Feature gates the decisions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `MaxUnavailableStatefulSet`: a rolling update may take several pods at once.
    pub max_unavailable: bool,
    /// `StatefulSetRecreateStrategy`: the update strategy `Recreate`.
    pub recreate: bool,
    /// `StatefulSetSemanticRevisionComparison`: the last revision is compared by what it means, too.
    pub semantic_comparison: bool,
}

/// The claims of a set's pods that are there, by name.
pub type Claims = HashMap<String, Arc<PersistentVolumeClaim>>;

/// The last revision means what the set's template says, though it spells it in another way: true as long as neither changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sameness {
    /// The set's generation.
    pub generation: i64,
    /// The version of the revision.
    pub revision: ResourceVersion,
}

/// What a sync finds out besides what it comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// For [`View::known_same`] of the next.
    pub sameness: Option<Sameness>,
    /// Known only where an update may go on, with the gate `MaxUnavailableStatefulSet` (upstream `pkg/controller/statefulset/metrics`).
    pub unavailable: Option<Unavailable>,
}

/// Replicas that are missing or not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// How many.
    pub replicas: usize,
    /// How many there may be while an update goes on.
    pub limit: usize,
}

/// What a sync decides from.
#[derive(Debug)]
pub struct View {
    /// The StatefulSet.
    pub set: Arc<StatefulSet>,
    /// The pods it controls and the namespace's orphans.
    pub pods: Vec<Arc<Pod>>,
    /// The revisions it controls and the namespace's orphans.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// What is there of [`wanted_claims`].
    pub claims: Claims,
    /// What an earlier sync found out.
    pub known_same: Option<Sameness>,
    /// Feature gates.
    pub gates: Gates,
    /// The one clock reading of this sync: every round must come to the same.
    pub now: Time,
    pub(crate) progress: Progress,
}

/// How far this sync has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// What became of the plans, in their order.
    pub(crate) outcomes: Vec<Outcomes>,
    /// The answers, in their order.
    pub(crate) answers: Vec<Answer>,
}

/// The names of all claims that a sync may ask for: those of every pod that is there or may be made.
pub fn wanted_claims<'a>(set: &'a StatefulSet, pods: &[Arc<Pod>]) -> impl Iterator<Item = String> + 'a {
    let templates = &*set.spec.claim_templates;
    let mut ordinals = BTreeSet::new();
    if !templates.is_empty() {
        let members = pods.iter().map(|pod| parent_and_ordinal(&pod.name)).filter(|(parent, _)| *parent == &*set.key.name);
        ordinals.extend(members.filter_map(|(_, ordinal)| ordinal));
        let empty = set.spec.ordinals().filter(|ordinal| !ordinals.contains(ordinal)).take(MAX_NEW_PODS);
        let empty: Vec<_> = empty.collect();
        ordinals.extend(empty);
    }
    ordinals.into_iter().flat_map(move |ordinal| templates.iter().map(move |template| set.claim_name(template, ordinal)))
}

// === impl View ===

impl View {
    /// A view of which nothing has been done yet.
    pub fn new(
        set: Arc<StatefulSet>,
        pods: Vec<Arc<Pod>>,
        revisions: Vec<Arc<ControllerRevision>>,
        claims: Claims,
        known_same: Option<Sameness>,
        gates: Gates,
        now: Time,
    ) -> Self {
        Self { set, pods, revisions, claims, known_same, gates, now, progress: Progress::default() }
    }

    /// Takes the answer to the question that [`crate::decide()`] asked last.
    pub fn answer(&mut self, answer: Answer) {
        self.progress.answers.push(answer);
    }

    /// Takes what became of the plan that [`crate::decide()`] handed out last; a plan without steps leaves no trace.
    pub fn absorb(&mut self, plan: &Plan, outcomes: Outcomes) {
        if plan.stages.iter().any(|stage| !stage.steps.is_empty()) {
            self.progress.outcomes.push(outcomes);
        }
    }

    /// The StatefulSet as a claimant of pods.
    pub(crate) fn claimant<'a>(&'a self, selector: &'a Selector) -> Claimant<'a> {
        let set = &self.set;
        Claimant {
            owner: set.reference(),
            owner_ref: set.as_owner(),
            is_deleting: set.deletion.is_some(),
            selector,
            named_after: Some(&set.key.name),
        }
    }
}
