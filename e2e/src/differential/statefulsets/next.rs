//! What a StatefulSet controller would do next with pods and claims, as upstream's `updateStatefulSet` has it.

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use super::settled::{REVISION, ordinal, template_of};
use crate::differential::settled::SOON;
use crate::differential::snapshot::{Kind, Snapshot, controller, is_deleted, is_ready, is_running, label, name, number, owners, text, uid};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";

/// A StatefulSet's pods by what is to become of them.
pub(super) struct Slots<'a> {
    snapshot: &'a Snapshot,
    set: &'a Value,
    in_order: bool,
    /// The ordinals that are wanted, and who is there.
    wanted: Vec<(i64, Option<&'a Value>)>,
    /// The pods that are not wanted, highest ordinal first.
    condemned: Vec<&'a Value>,
}

/// Whether the pod's StatefulSet has nothing to wait for before it.
pub(super) fn is_replaced_at_once(snapshot: &Snapshot, pod: &Value) -> bool {
    let Some(set) = controller(pod).and_then(|owner| snapshot.get(Kind::StatefulSet, text(owner, "/name"))) else { return false };
    let (slots, ordinal) = (Slots::of(snapshot, set), ordinal(set, pod));
    let is_wanted = slots.wanted.iter().any(|(wanted, _)| Some(*wanted) == ordinal);
    let mut before = slots.wanted.iter().take_while(|(wanted, _)| Some(*wanted) != ordinal);
    !slots.in_order || is_wanted && before.all(|(_, pod)| pod.is_some_and(|pod| slots.is_well(pod)))
}

/// Whether the next is looked at.
#[derive(PartialEq, Eq)]
enum Then {
    GoOn,
    Wait,
}

// === impl Slots ===

impl<'a> Slots<'a> {
    pub(super) fn of(snapshot: &'a Snapshot, set: &'a Value) -> Self {
        let mut pods: Vec<_> =
            snapshot.controlled(Kind::Pod, set).filter_map(|pod| ordinal(set, pod).map(|ordinal| (ordinal, pod))).collect();
        pods.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        let start = number(set, "/spec/ordinals/start");
        let range = start..start + number(set, "/spec/replicas");
        let there = |wanted: i64| pods.iter().find(|(ordinal, _)| *ordinal == wanted).map(|(_, pod)| *pod);
        let wanted = range.clone().map(|ordinal| (ordinal, there(ordinal))).collect();
        let condemned = pods.iter().filter(|(ordinal, _)| !range.contains(ordinal)).map(|(_, pod)| *pod).collect();
        Self { snapshot, set, in_order: text(set, "/spec/podManagementPolicy") != "Parallel", wanted, condemned }
    }

    /// Fails with what is still to be done.
    pub(super) fn check(&self) -> Result<()> {
        for (ordinal, pod) in &self.wanted {
            let then = match pod {
                Some(pod) => self.replica(*ordinal, pod)?,
                None => self.empty(*ordinal)?,
            };
            if then == Then::Wait {
                return Ok(());
            }
        }
        if self.condemned()? == Then::Wait { Ok(()) } else { self.update() }
    }

    fn empty(&self, ordinal: i64) -> Result<Then> {
        let pod = format!("{}-{ordinal}", name(self.set));
        let is_taken = self.snapshot.get(Kind::Pod, &pod).is_some();
        let partition = self.partition();
        let is_current = partition.is_some_and(|partition| self.slot(ordinal) < partition);
        let revision = text(self.set, if is_current { "/status/currentRevision" } else { "/status/updateRevision" });
        let template = self.snapshot.get(Kind::ControllerRevision, revision).and_then(template_of).unwrap_or_default();
        let is_refused = template.pointer("/spec/priorityClassName").is_some();
        ensure!(is_taken || is_refused, "pod {pod} is to be made");
        Ok(Then::Wait)
    }

    fn replica(&self, ordinal: i64, pod: &Value) -> Result<Then> {
        let name_of = name(pod);
        if !is_running(pod) {
            ensure!(is_deleted(pod), "pod {name_of} has ended and is to be replaced");
            return Ok(self.wait());
        }
        if text(pod, "/status/phase") == "Pending" {
            self.claims(ordinal, pod, true)?;
        }
        if self.in_order && !self.is_well(pod) {
            return Ok(Then::Wait);
        }
        ensure!(label(pod, POD_NAME) == Some(name_of), "pod {name_of} is to have its label");
        self.claims(ordinal, pod, false)?;
        Ok(Then::GoOn)
    }

    fn condemned(&self) -> Result<Then> {
        for pod in &self.condemned {
            self.claims(ordinal(self.set, pod).unwrap_or_default(), pod, false)?;
        }
        let first_unavailable = self.condemned.iter().rfind(|pod| self.is_unavailable(pod)).map(|pod| uid(pod));
        for pod in &self.condemned {
            let waits = self.in_order && !self.is_well(pod) && first_unavailable != Some(uid(pod));
            ensure!(is_deleted(pod) || waits, "pod {} is to be scaled away", name(pod));
            if self.in_order {
                return Ok(Then::Wait);
            }
        }
        Ok(Then::GoOn)
    }

    fn update(&self) -> Result<()> {
        // Without it: OnDelete.
        let Some(partition) = self.partition() else { return Ok(()) };
        let update = text(self.set, "/status/updateRevision");
        let is_down = |pod: &&Value| self.is_unavailable(pod);
        let unavailable = self.wanted.iter().filter(|(_, pod)| pod.as_ref().is_none_or(|pod| self.is_unavailable(pod))).count();
        let targets = self.wanted.iter().filter(|(ordinal, _)| self.slot(*ordinal) >= partition).filter_map(|(_, pod)| *pod);
        let outdated: Vec<_> = targets.filter(|pod| !is_deleted(pod) && label(pod, REVISION) != Some(update)).collect();
        let room = self.limit() > unavailable;
        match outdated.first() {
            Some(pod) if room => bail!("pod {} is to be updated", name(pod)),
            Some(_) if !self.in_order => match outdated.into_iter().find(is_down) {
                Some(pod) => bail!("pod {}, which is down, is to be updated", name(pod)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The claims are there, and have the owners that the policy wants.
    fn claims(&self, ordinal: i64, pod: &Value, must_be_there: bool) -> Result<()> {
        let templates = self.set.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
        for template in templates.into_iter().flatten() {
            let claim_name = format!("{}-{}-{ordinal}", name(template), name(self.set));
            let Some(claim) = self.snapshot.get(Kind::PersistentVolumeClaim, &claim_name) else {
                ensure!(!must_be_there, "claim {claim_name} is to be made");
                continue;
            };
            // Those of an earlier set or pod stay as they are.
            let is_stale = |of: &Value| owners(claim).any(|owner| text(owner, "/name") == name(of) && text(owner, "/uid") != uid(of));
            if is_stale(self.set) || is_stale(pod) {
                continue;
            }
            let owned_by = |of: &Value| owners(claim).any(|owner| text(owner, "/uid") == uid(of));
            let [goes_with_set, goes_when_scaled] = ["whenDeleted", "whenScaled"]
                .map(|when| text(self.set, &format!("/spec/persistentVolumeClaimRetentionPolicy/{when}")) == "Delete");
            let is_condemned = !self.wanted.iter().any(|(wanted, _)| *wanted == ordinal);
            let wanted = [goes_with_set && !(goes_when_scaled && is_condemned), goes_when_scaled && is_condemned];
            ensure!([owned_by(self.set), owned_by(pod)] == wanted, "claim {claim_name} is to have other owners");
        }
        Ok(())
    }

    fn slot(&self, ordinal: i64) -> i64 {
        ordinal - number(self.set, "/spec/ordinals/start")
    }

    fn partition(&self) -> Option<i64> {
        let rolling = self.set.pointer("/spec/updateStrategy/rollingUpdate")?;
        Some(number(rolling, "/partition"))
    }

    /// How many pods may be unavailable.
    fn limit(&self) -> usize {
        let limit = self.set.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable");
        let percent = limit.and_then(Value::as_str).and_then(|limit| limit.strip_suffix('%')?.parse::<i64>().ok());
        let count = percent.map(|percent| number(self.set, "/spec/replicas") * percent / 100).or_else(|| limit.and_then(Value::as_i64));
        usize::try_from(count.unwrap_or(1).max(1)).unwrap_or(1)
    }

    /// Whoever is ready is available by now, or never. One that has ended may be called ready still, and upstream believes it here.
    fn is_unavailable(&self, pod: &Value) -> bool {
        is_deleted(pod) || !is_ready(pod) || number(self.set, "/spec/minReadySeconds") > SOON
    }

    fn is_well(&self, pod: &Value) -> bool {
        text(pod, "/status/phase") == "Running" && !self.is_unavailable(pod)
    }

    fn wait(&self) -> Then {
        if self.in_order { Then::Wait } else { Then::GoOn }
    }
}
