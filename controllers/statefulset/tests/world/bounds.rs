//! What is promised, as far as upstream gives it.
//!
//! Of every plan, against the view it was decided from ([`look_at_plan`]):
//!
//! - **Identity.** A pod is made only where the view has none, and deleted by the UID that the view has.
//! - **Order.** With `OrderedReady` a pod is made or deleted only if all before it are running, ready and available, and one at a time.
//! - **Partition.** No pod below the partition is deleted for an update, and none there is made from the update revision while the current one
//!   is known.
//! - **Availability.** No pod that is available is deleted for an update if more than maxUnavailable were unavailable then.
//! - **Recreate.** No pod is made while there is one of another revision.
//! - **Claims** are never deleted, and their owners are changed as the policy says.
//! - **History.** No revision is deleted that a pod, the status or the template names.
//!
//! Of every conclusion ([`look_at_waits`]): who has done nothing and is not as it should be says why.
//!
//! And of the world ([`Bounds`]): a rollout keeps all but maxUnavailable pods available, however late our process sees anything. The promise
//! begins when everything is seen and available, and lasts until somebody else makes something worse.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::int_or_percent::Round;
use model::labels::Labels as _;
use model::plan::{Action, Conclusion, Create, Delete, Plan, Reown, Rule};
use model::pod::{Phase, parent_and_ordinal};
use model::statefulset::{REVISION_LABEL, UpdateStrategyType};
use model::{Pod, StatefulSet};
use serde_json::Value;
use statefulset::{Gates, View};

use super::DB;
use super::cache::Cache;
use super::server::{Kind, Server, image_in, is_ready, is_terminating};

type Looked = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Looked {
    if holds { Ok(()) } else { Err(what()) }
}

/// What the view shows, read by rules of its own.
struct Seen<'a> {
    view: &'a View,
    set: &'a StatefulSet,
    server: &'a Server,
    /// All pods that are the set's, or are going to be.
    mine: BTreeMap<String, Arc<Pod>>,
}

/// Looks whether a plan keeps what is promised.
pub fn look_at_plan(view: &View, plan: &Plan, server: &Server) -> Looked {
    let set = &*view.set;
    // An orphan that is gone cannot be adopted.
    let is_there = |pod: &Pod| server.get(Kind::Pod, &pod.name).is_some_and(|live| live["metadata"]["uid"] == pod.uid.to_string());
    let is_adopted = |pod: &Pod| pod.controller.is_none() && pod.deletion.is_none() && is_there(pod);
    let is_named = |pod: &Pod| parent_and_ordinal(&pod.name).0 == &*set.key.name;
    let is_mine = |pod: &&Arc<Pod>| is_named(pod) && (pod.controller.is(set.uid) || is_adopted(pod));
    let mine = view.pods.iter().filter(is_mine).map(|pod| (pod.name.to_string(), pod.clone())).collect();
    let seen = Seen { view, set, server, mine };
    for step in plan.stages.iter().flat_map(|stage| &stage.steps) {
        match &step.action {
            Action::Create(create) if create.resource.kind == "Pod" => seen.look_at_new_pod(create)?,
            Action::Delete(delete) => match delete.target.resource.kind {
                "Pod" => seen.look_at_end_of_pod(delete, step.reason)?,
                "ControllerRevision" => seen.look_at_end_of_revision(&delete.target.key.name)?,
                other => return Err(format!("a {other} was deleted")),
            },
            Action::Reown(reown) => seen.look_at_owners(reown)?,
            Action::Create(_) | Action::Own(_) | Action::Patch(_) => {}
            Action::Edit(edit) => return Err(format!("an edit: {edit:?}")),
        }
    }
    seen.look_at_pods_at_once(plan)
}

// === impl Seen ===

impl Seen<'_> {
    fn slot(&self, ordinal: i32) -> Option<&Arc<Pod>> {
        self.mine.get(&self.set.pod_name(ordinal))
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod.deletion.is_none() && pod.is_available(self.set.spec.min_ready_seconds, self.view.now)
    }

    fn is_well(&self, ordinal: i32) -> bool {
        self.slot(ordinal).is_some_and(|pod| pod.phase == Phase::Running && pod.ready && self.is_available(pod))
    }

    /// All slots before that one.
    fn is_its_turn(&self, ordinal: i32) -> bool {
        self.set.spec.allows_burst() || self.set.spec.ordinals().filter(|before| *before < ordinal).all(|before| self.is_well(before))
    }

    fn is_above_partition(&self, ordinal: i32) -> bool {
        let partition = self.set.spec.update_strategy.rolling_update.as_ref().map_or(0, |parameters| parameters.partition);
        ordinal - self.set.spec.start >= partition
    }

    fn look_at_new_pod(&self, create: &Create) -> Looked {
        let name = create.body.name.as_str();
        let ordinal = parent_and_ordinal(name).1.unwrap();
        ensure(self.set.spec.wants(ordinal), || format!("{name} is not wanted"))?;
        ensure(!self.view.pods.iter().any(|pod| &*pod.name == name && pod.controller.is(self.set.uid)), || format!("{name} is there"))?;
        ensure(self.is_its_turn(ordinal), || format!("{name} is made before its turn"))?;
        let body: Value = serde_json::from_str(&create.body.with_name(name)).unwrap();
        let revision = body["metadata"]["labels"][REVISION_LABEL].as_str().unwrap();
        let template: Value = serde_json::from_str(self.set.spec.template.raw().get()).unwrap();
        let current = &self.set.status.current_revision;
        let is_known = self.view.revisions.iter().any(|revision| *revision.name == **current);
        let strategy = &self.set.spec.update_strategy;
        if strategy.rolling_update.is_some() && !self.is_above_partition(ordinal) && is_known {
            ensure(revision == current, || format!("{name} is not made from the current revision"))?;
            let old = self.server.get(Kind::Revision, revision);
            let image = old.map(|old| image_in(&old["data"]["spec"]["template"]).clone());
            ensure(image.is_none_or(|image| image == *image_in(&body)), || format!("{name} is not what its revision says"))?;
        } else if strategy.rolling_update.is_some() || strategy.r#type != UpdateStrategyType::RollingUpdate {
            ensure(image_in(&body) == image_in(&template), || format!("{name} is not made from the template"))?;
        }
        if strategy.r#type == UpdateStrategyType::Recreate {
            let others = self.mine.values().filter(|pod| pod.get(REVISION_LABEL) != Some(revision)).count();
            ensure(others == 0, || format!("{name} is made while there are {others} of another revision"))?;
        }
        Ok(())
    }

    fn look_at_end_of_pod(&self, delete: &Delete, reason: Rule) -> Looked {
        let name = &*delete.target.key.name;
        let pod = self.mine.get(name).ok_or_else(|| format!("{name} is not seen"))?;
        ensure(pod.uid == delete.target.uid && !delete.at_version, || format!("{name} is deleted by something else than its UID"))?;
        ensure(pod.deletion.is_none(), || format!("{name} is going already"))?;
        let (ordinal, r#type) = (parent_and_ordinal(name).1.unwrap(), &self.set.spec.update_strategy.r#type);
        let is_wanted = self.set.spec.wants(ordinal);
        match reason {
            Rule::PodFinished => ensure(is_wanted && pod.is_finished() && self.is_its_turn(ordinal), || format!("{name} is replaced"))?,
            Rule::ScaledDown => ensure(!is_wanted && self.is_its_turn(i32::MAX), || format!("{name} is scaled away"))?,
            Rule::RevisionOutdated => {
                let may_go = is_wanted && *r#type == UpdateStrategyType::RollingUpdate && self.is_above_partition(ordinal);
                ensure(may_go && self.is_its_turn(i32::MAX), || format!("{name} is updated"))?;
            }
            Rule::RecreateStopsOld => {
                ensure(*r#type == UpdateStrategyType::Recreate && self.view.gates.recreate, || format!("{name} is recreated"))?;
            }
            other => return Err(format!("{name} is deleted for {other:?}")),
        }
        ensure(*r#type != UpdateStrategyType::Recreate || self.view.gates.recreate, || format!("{name} is touched"))
    }

    fn look_at_end_of_revision(&self, name: &str) -> Looked {
        let by_pods = self.mine.values().any(|pod| pod.get(REVISION_LABEL) == Some(name));
        let status = &self.set.status;
        let of_template = self.set.spec.template.revision_fingerprint();
        let equal =
            self.view.revisions.iter().find(|revision| *revision.name == *name).is_some_and(|revision| Some(revision.data) == of_template);
        ensure(!by_pods && status.current_revision != name && !equal, || format!("{name} is named, and is deleted"))
    }

    fn look_at_owners(&self, reown: &Reown) -> Looked {
        let claim = &self.view.claims[&*reown.target.key.name];
        let ordinal = parent_and_ordinal(&claim.name).1.unwrap();
        let pod = self.set.pod_name(ordinal);
        let (policy, is_condemned) = (self.set.spec.retention_policy, !self.set.spec.wants(ordinal));
        let pod_uid = self.mine.get(&pod).map(|pod| pod.uid);
        let is_stale = claim.owners().iter().any(|owner| {
            *owner.kind == *"StatefulSet" && owner.uid != self.set.uid
                || *owner.kind == *"Pod" && *owner.name == *pod && Some(owner.uid) != pod_uid
        });
        ensure(!is_stale, || format!("{} belongs to others, and is given to {:?}", claim.name, reown.add))?;
        let seized =
            claim.owners().iter().any(|owner| *owner.kind == *"Backup") && policy != model::statefulset::RetentionPolicy::default();
        let wanted = match (policy.delete_with_set, policy.delete_when_scaled && is_condemned) {
            _ if seized => None,
            (_, true) => pod_uid,
            (true, false) => Some(self.set.uid),
            (false, false) => None,
        };
        let given = reown.add.as_ref().map(|owner| owner.uid);
        ensure(given == wanted, || format!("{} is given to {given:?} instead of {wanted:?}", claim.name))
    }

    fn look_at_pods_at_once(&self, plan: &Plan) -> Looked {
        let steps = || plan.stages.iter().flat_map(|stage| &stage.steps);
        let of_pods =
            steps().filter(|step| step.action.resource().kind == "Pod" && matches!(step.action, Action::Create(_) | Action::Delete(_)));
        let in_turn = of_pods.filter(|step| !matches!(step.reason, Rule::RevisionOutdated | Rule::RecreateStopsOld)).count();
        ensure(in_turn <= 1 || self.set.spec.allows_burst(), || format!("{in_turn} pods at once"))?;
        let outdated = steps().filter(|step| step.reason == Rule::RevisionOutdated).filter_map(|step| step.action.target());
        let outdated: Vec<_> = outdated.filter_map(|target| self.mine.get(&*target.key.name)).collect();
        let well = outdated.iter().filter(|pod| self.is_available(pod)).count() as i64;
        let down = self.set.spec.ordinals().filter(|ordinal| !self.slot(*ordinal).is_some_and(|pod| self.is_available(pod))).count() as i64;
        let most = max_unavailable(self.set, self.view.gates);
        if self.view.gates.max_unavailable {
            ensure(well == 0 || well + down <= most, || format!("{well} go while {down} are down, of which {most} may be"))
        } else {
            ensure(outdated.len() <= 1, || format!("{} go at once", outdated.len()))
        }
    }
}

fn max_unavailable(set: &StatefulSet, gates: Gates) -> i64 {
    let parameters = set.spec.update_strategy.rolling_update.as_ref().filter(|_| gates.max_unavailable);
    let limit = parameters.and_then(|parameters| parameters.max_unavailable.as_ref()?.of(set.spec.replicas, Round::Down));
    i64::from(limit.unwrap_or(1).max(1))
}

#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// How many pods must be available, while that is promised.
    fewest: Option<i64>,
}

// === impl Bounds ===

impl Bounds {
    /// Somebody has made something worse, or has changed what is promised.
    pub fn made_worse(&mut self) {
        self.fewest = None;
    }

    /// To be called when our process has nothing in hand.
    pub fn rest(&mut self, server: &Server, cache: &Cache, gates: Gates) {
        let Some(set) = cache.sets.get(DB).filter(|_| self.fewest.is_none() && cache.is_all_current(server)) else { return };
        let is_rolling = set.spec.update_strategy.r#type == UpdateStrategyType::RollingUpdate && set.spec.min_ready_seconds == 0;
        let replicas = i64::from(set.spec.replicas);
        let pods = server.all(Kind::Pod).count() as i64;
        if is_rolling && available(server) == replicas && pods == replicas {
            self.fewest = Some(replicas - max_unavailable(set, gates));
        }
    }

    pub fn look(&self, server: &Server) -> Looked {
        let available = available(server);
        ensure(self.fewest.is_none_or(|fewest| available >= fewest), || {
            format!("{available} are available, at least {:?} must be", self.fewest)
        })
    }
}

/// Pods that run where they are wanted.
fn available(server: &Server) -> i64 {
    let Some(set) = server.get(Kind::Set, DB) else { return i64::MAX };
    let (replicas, start) = (set["spec"]["replicas"].as_i64().unwrap(), set["spec"]["ordinals"]["start"].as_i64().unwrap_or(0));
    let pods = (start..start + replicas).filter_map(|ordinal| server.get(Kind::Pod, &format!("db-{ordinal}")));
    pods.filter(|pod| is_ready(pod) && !is_terminating(pod)).count() as i64
}

/// `has_acted`: the sync has sent something.
pub fn look_at_waits(set: &StatefulSet, conclusion: &Conclusion, has_acted: bool) -> Looked {
    let status = conclusion
        .status
        .as_ref()
        .map_or_else(|| serde_json::to_value(&set.status).unwrap(), |update| serde_json::from_str::<Value>(update.status.get()).unwrap());
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let wanted = i64::from(set.spec.replicas);
    let is_short = count("availableReplicas") < wanted || count("updatedReplicas") < wanted;
    // Where all pods go at once, nothing comes behind them.
    let is_open = is_short || !set.spec.allows_burst() && count("replicas") > wanted;
    let goes_on = has_acted || conclusion.error.is_some() || !conclusion.waits.is_empty();
    ensure(goes_on || !is_open, || format!("nothing says what the set waits for: {status}"))
}
