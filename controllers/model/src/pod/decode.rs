//! Reads `core/v1` Pod out of protobuf straight into the compact form. Field numbers are those of
//! `k8s.io/api/core/v1/generated.proto` and `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`.

use std::mem;

use super::{OwnLabels, POD_INDEX_LABEL, POD_NAME_LABEL, Phase, Pod, index_of};
use crate::error::DecodeError;
use crate::intern::{Interned, Interner, sort_pairs};
use crate::meta::{ControllerRef, ResourceVersion, Timestamp};
use crate::object::{Decode, Format};
use crate::protobuf::Field;
use crate::protobuf::object_meta::{ANNOTATIONS, METADATA, OWNER_REFERENCES, ObjectMeta, Owner, Pairs, sections, time};

/// Reads pods, and shares between them what they have in common.
#[derive(Default)]
pub struct PodDecoder {
    interner: Interner,
    /// Always empty: room for one pod's labels, kept from pod to pod.
    labels: Pairs<'static>,
}

#[derive(Default)]
struct Metadata<'a> {
    object: ObjectMeta<'a>,
    deletion_cost: i32,
    controller: Option<Owner<'a>>,
}

#[derive(Default)]
struct Spec<'a> {
    node: &'a str,
    /// Volumes and the claims they name.
    mounts: Pairs<'a>,
    /// Names of restartable init containers.
    sidecars: Vec<&'a [u8]>,
}

#[derive(Default)]
struct Status {
    phase: Phase,
    /// The first condition `Ready` (upstream `pkg/api/v1/pod` `GetPodConditionFromList`).
    ready: Option<(bool, Option<Timestamp>)>,
    restarts: i32,
    init_restarts: i32,
}

/// Upstream `k8s.io/api/core/v1` `PodDeletionCost`.
const DELETION_COST: &[u8] = b"controller.kubernetes.io/pod-deletion-cost";

/// Room for more labels than this is not kept.
const USUAL_LABELS: usize = 64;

// === impl PodDecoder ===

impl PodDecoder {
    /// A decoder that shares nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much it shares.
    pub fn interned(&self) -> Interned {
        self.interner.interned()
    }

    fn pod(&mut self, raw: &[u8], metadata: &mut Metadata<'_>) -> Result<Pod, DecodeError> {
        let uid = metadata.object.identity()?;
        let name = metadata.object.name;
        let controller = Owner::controller_ref(metadata.controller.as_ref(), &mut self.interner);
        let foreign = controller == ControllerRef::Foreign;
        let mut spec = Spec::default();
        sections(raw, 2, |field| spec.read(field, !foreign))?;
        spec.sidecars.sort_unstable();
        let mut status = Status::default();
        sections(raw, 3, |field| status.read(field, &spec.sidecars))?;
        if foreign {
            // Of a pod that we never touch, only what the ranking of others reads is kept.
            status = Status { phase: status.phase, ..Status::default() };
            metadata.object.created = None;
            metadata.deletion_cost = 0;
        }

        let own_labels = take_own_labels(&mut metadata.object.labels, name);
        let (ready, ready_changed) = status.ready.unwrap_or_default();
        Ok(Pod {
            name: name.into(),
            namespace: self.interner.string(metadata.object.namespace),
            uid,
            resource_version: ResourceVersion::parse(metadata.object.resource_version),
            label_set: self.interner.label_set(&mut metadata.object.labels),
            controller,
            node: (!spec.node.is_empty()).then(|| self.interner.string(spec.node)),
            created: metadata.object.created,
            deletion: metadata.object.deletion,
            ready_changed,
            claims: self.interner.claims(name, &mut spec.mounts),
            restarts: status.restarts,
            init_restarts: status.init_restarts,
            deletion_cost: metadata.deletion_cost,
            phase: status.phase,
            ready,
            own_labels,
        })
    }
}

impl Decode for PodDecoder {
    type Object = Pod;
    const FORMAT: Format = Format::Protobuf;

    fn decode(&mut self, raw: &[u8]) -> Result<Pod, DecodeError> {
        let object = ObjectMeta { labels: mem::take(&mut self.labels), ..ObjectMeta::default() };
        let mut metadata = Metadata { object, ..Metadata::default() };
        let read = sections(raw, METADATA, |field| metadata.read(field));
        let pod = read.and_then(|()| self.pod(raw, &mut metadata));
        self.labels = recycle(metadata.object.labels);
        pod
    }
}

/// The same room under another lifetime: the standard library collects such a vector in place.
fn recycle<'a>(mut pairs: Pairs<'_>) -> Pairs<'a> {
    if pairs.capacity() > USUAL_LABELS {
        return Vec::new();
    }
    pairs.clear();
    pairs.into_iter().map_while(|_| None).collect()
}

/// Takes out the labels that follow from the pod's name, so that the rest is the same for all pods of a `StatefulSet`.
fn take_own_labels(labels: &mut Pairs<'_>, name: &str) -> OwnLabels {
    sort_pairs(labels);
    let mut own = OwnLabels::default();
    labels.retain(|(key, value)| match *key {
        POD_NAME_LABEL if *value == name => {
            own.name = true;
            false
        }
        POD_INDEX_LABEL if Some(*value) == index_of(name) => {
            own.index = true;
            false
        }
        _ => true,
    });
    own
}

// === impl Metadata ===

impl<'a> Metadata<'a> {
    fn read(&mut self, field: Field<'a>) -> Result<(), DecodeError> {
        match field.number {
            ANNOTATIONS => {
                let (key, value) = field.entry()?;
                if key.bytes()? == DELETION_COST {
                    self.deletion_cost = deletion_cost(value.bytes()?);
                }
            }
            // The first one counts (upstream `k8s.io/apimachinery/pkg/apis/meta/v1` `GetControllerOf`).
            OWNER_REFERENCES if self.controller.is_none() => {
                self.controller = Some(Owner::read(&field)?).filter(|owner| owner.controller);
            }
            _ => self.object.read(field)?,
        }
        Ok(())
    }
}

/// Upstream `pkg/apis/core/helper` `GetDeletionCostFromPodAnnotations`: the first character is a minus, or a digit that is no leading zero.
fn deletion_cost(value: &[u8]) -> i32 {
    let valid = match value {
        b"0" | [b'-' | b'1'..=b'9', ..] => std::str::from_utf8(value).ok(),
        _ => None,
    };
    valid.and_then(|text| text.parse().ok()).unwrap_or(0)
}

// === impl Spec ===

impl<'a> Spec<'a> {
    fn read(&mut self, field: Field<'a>, with_claims: bool) -> Result<(), DecodeError> {
        match field.number {
            1 if with_claims => self.mounts.extend(mount(&field)?),
            10 => self.node = field.text()?,
            20 if with_claims => self.sidecars.extend(sidecar(&field)?),
            _ => {}
        }
        Ok(())
    }
}

/// A volume's name and the claim it names, if it is of that kind.
fn mount<'a>(volume: &Field<'a>) -> Result<Option<(&'a str, &'a str)>, DecodeError> {
    let (mut name, mut claim) = ("", None);
    for field in volume.message()? {
        let field = field?;
        match field.number {
            1 => name = field.text()?,
            2 => {
                for source in field.message()? {
                    let source = source?;
                    if source.number == 10 {
                        let claim = claim.get_or_insert("");
                        for field in source.message()? {
                            let field = field?;
                            if field.number == 1 {
                                *claim = field.text()?;
                            }
                        }
                    }
                }
            }
            _ => {}
        }
    }
    Ok(claim.map(|claim| (name, claim)))
}

/// The name of an init container that is restarted whenever it ends.
fn sidecar<'a>(container: &Field<'a>) -> Result<Option<&'a [u8]>, DecodeError> {
    let (mut name, mut restartable) = (&[][..], false);
    for field in container.message()? {
        let field = field?;
        match field.number {
            1 => name = field.bytes()?,
            24 => restartable = field.bytes()? == b"Always",
            _ => {}
        }
    }
    Ok(restartable.then_some(name))
}

// === impl Status ===

impl Status {
    /// Restarts as upstream's `pkg/controller/controller_utils.go` `maxContainerRestarts`; the names are in ascending order.
    fn read(&mut self, field: Field<'_>, sidecars: &[&[u8]]) -> Result<(), DecodeError> {
        match field.number {
            1 => self.phase = phase(field.bytes()?),
            2 if self.ready.is_none() => self.ready = ready(&field)?,
            8 => self.restarts = self.restarts.max(container(&field)?.1),
            10 if !sidecars.is_empty() => {
                let (name, restarts) = container(&field)?;
                if sidecars.binary_search(&name).is_ok() {
                    self.init_restarts = self.init_restarts.max(restarts);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn phase(name: &[u8]) -> Phase {
    match name {
        b"Pending" => Phase::Pending,
        b"Running" => Phase::Running,
        b"Succeeded" => Phase::Succeeded,
        b"Failed" => Phase::Failed,
        b"Unknown" => Phase::Unknown,
        _ => Phase::Other,
    }
}

/// Whether the condition is `True` and since when it is what it is; `None` if it is not the condition `Ready`.
fn ready(condition: &Field<'_>) -> Result<Option<(bool, Option<Timestamp>)>, DecodeError> {
    let (mut is_ready_condition, mut status, mut changed) = (false, false, None);
    for field in condition.message()? {
        let field = field?;
        match field.number {
            1 => is_ready_condition = field.bytes()? == b"Ready",
            2 => status = field.bytes()? == b"True",
            4 => changed = time(&field)?,
            _ => {}
        }
    }
    Ok(is_ready_condition.then_some((status, changed)))
}

/// A container's name and restart count.
fn container<'a>(status: &Field<'a>) -> Result<(&'a [u8], i32), DecodeError> {
    let (mut name, mut restarts) = (&[][..], 0);
    for field in status.message()? {
        let field = field?;
        match field.number {
            1 => name = field.bytes()?,
            5 => restarts = field.int32()?,
            _ => {}
        }
    }
    Ok((name, restarts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletion_costs_as_upstream_reads_them() {
        for (text, cost) in [
            ("0", 0),
            ("10", 10),
            ("-10", -10),
            ("-010", -10),
            ("-0", 0),
            ("2147483647", i32::MAX),
            ("-2147483648", i32::MIN),
            ("+10", 0),
            ("010", 0),
            ("", 0),
            ("-", 0),
            ("-+1", 0),
            ("1_000", 0),
            ("1 ", 0),
            (" 1", 0),
            ("2147483648", 0),
            ("1.5", 0),
        ] {
            assert_eq!(deletion_cost(text.as_bytes()), cost, "{text:?}");
        }
    }

    #[test]
    fn recycling_keeps_the_room() {
        let mut pairs: Pairs<'_> = Vec::with_capacity(USUAL_LABELS);
        pairs.push(("a", "b"));
        assert_eq!(recycle(pairs).capacity(), USUAL_LABELS);
        assert_eq!(recycle(Vec::with_capacity(USUAL_LABELS + 1)).capacity(), 0);
    }
}
