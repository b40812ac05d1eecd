//! Whether the StatefulSet controller has anything left to do. See [`differential::settled`](crate::differential::settled) for what this is not.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::next::Slots;
use crate::differential::settled::{SOON, expect, selects, up_to_date};
use crate::differential::snapshot::{Kind, Snapshot, controller, is_deleted, is_ready, label, name, number, text, uid};

/// The label with the name of a pod's revision.
pub(super) const REVISION: &str = "controller-revision-hash";

/// Fails with what is still to be done.
pub(in crate::differential) fn check(snapshot: &Snapshot, set: &Value) -> Result<()> {
    up_to_date(Kind::StatefulSet, set)?;
    ownership(snapshot, set)?;
    counts(snapshot, set)?;
    revisions(snapshot, set)?;
    if is_deleted(set) { Ok(()) } else { Slots::of(snapshot, set).check() }
}

/// The ordinal of a pod that is called as a pod of the set is.
pub(super) fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    name(pod).strip_prefix(name(set))?.strip_prefix('-')?.parse().ok()
}

fn ownership(snapshot: &Snapshot, set: &Value) -> Result<()> {
    if is_deleted(set) {
        return Ok(());
    }
    for pod in snapshot.of(Kind::Pod) {
        match controller(pod) {
            None => {
                let is_member = selects(set, pod) && ordinal(set, pod).is_some() && !is_deleted(pod);
                ensure!(!is_member, "pod {} is to be adopted", name(pod));
            }
            Some(owner) => ensure!(text(owner, "/uid") != uid(set) || selects(set, pod), "pod {} is to be released", name(pod)),
        }
    }
    for revision in snapshot.of(Kind::ControllerRevision) {
        ensure!(controller(revision).is_some() || !selects(set, revision), "ControllerRevision {} is to be adopted", name(revision));
    }
    Ok(())
}

fn counts(snapshot: &Snapshot, set: &Value) -> Result<()> {
    let pods: Vec<_> = snapshot.controlled(Kind::Pod, set).collect();
    let ready = pods.iter().filter(|pod| text(pod, "/status/phase") == "Running" && is_ready(pod)).count();
    let of = |revision: &str| pods.iter().filter(|pod| !is_deleted(pod) && label(pod, REVISION) == Some(text(set, revision))).count();
    expect(set, "/status/replicas", pods.len())?;
    expect(set, "/status/readyReplicas", ready)?;
    expect(set, "/status/availableReplicas", if number(set, "/spec/minReadySeconds") <= SOON { ready } else { 0 })?;
    expect(set, "/status/currentReplicas", of("/status/currentRevision"))?;
    expect(set, "/status/updatedReplicas", of("/status/updateRevision"))?;
    let of_spec = ["/status/updatedReplicas", "/status/readyReplicas", "/status/replicas"].map(|count| number(set, count));
    let is_complete = of_spec == [number(set, "/spec/replicas"); 3];
    ensure!(
        !is_complete || text(set, "/status/currentRevision") == text(set, "/status/updateRevision"),
        "StatefulSet {}: the revision of all its pods is to become the current one",
        name(set)
    );
    Ok(())
}

/// The last revision is the template's, and none is left that the history has no room for.
fn revisions(snapshot: &Snapshot, set: &Value) -> Result<()> {
    let mut revisions: Vec<_> = snapshot.controlled(Kind::ControllerRevision, set).collect();
    revisions.sort_by_key(|revision| number(revision, "/revision"));
    let [current, update] = ["/status/currentRevision", "/status/updateRevision"].map(|path| text(set, path));
    let last = revisions.last().copied();
    let is_last = last.is_some_and(|last| name(last) == update && template_of(last) == set.pointer("/spec/template").cloned());
    ensure!(is_last, "StatefulSet {}: {update} is not the revision of its template", name(set));
    let mut live: Vec<_> = snapshot.controlled(Kind::Pod, set).filter_map(|pod| label(pod, REVISION)).collect();
    live.extend([current, update]);
    let history = revisions.iter().filter(|revision| !live.contains(&name(revision))).count();
    let limit = usize::try_from(number(set, "/spec/revisionHistoryLimit")).unwrap_or(usize::MAX);
    ensure!(history <= limit, "StatefulSet {}: its history of {history} is to be cut", name(set));
    Ok(())
}

/// The template that a revision has kept.
pub(super) fn template_of(revision: &Value) -> Option<Value> {
    let mut template = revision.pointer("/data/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    Some(template)
}
