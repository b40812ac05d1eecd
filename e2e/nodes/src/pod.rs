//! The pod as kubelets and the scheduler see it: what they decide on, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use model::labels::{LabelSet, Labels};
use model::plan::PODS;
use model::pod::Phase;
use model::protobuf::{Field, Reader};
use model::{ControllerRef, Decode, DecodeError, Format, Interner, Object, ResourceVersion, Timestamp, Uid};

/// The annotation with which a pod asks for a behaviour, see [`crate::behaviour`].
pub const BEHAVIOUR_ANNOTATION: &str = "nodes.wcm.dev/behaviour";

/// A pod.
#[derive(Clone, PartialEq, Debug)]
pub struct Pod {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.labels`.
    pub labels: Arc<LabelSet>,
    /// The value of [`BEHAVIOUR_ANNOTATION`].
    pub behaviour: Option<Arc<str>>,
    /// `metadata.deletionTimestamp`: the pod is terminating.
    pub deletion: Option<Timestamp>,
    /// `metadata.deletionGracePeriodSeconds`.
    pub deletion_grace: Option<i64>,
    /// `spec.nodeName`; `None` while unassigned.
    pub node: Option<Arc<str>>,
    /// The scheduler may place it: `spec.schedulerName` is the default one and `spec.schedulingGates` is empty.
    pub schedulable: bool,
    /// Container names and their images, by name: the order in which a kubelet reports them, too.
    pub containers: Arc<LabelSet>,
    /// `status.startTime`: some kubelet has taken the pod in.
    pub started: Option<Timestamp>,
    /// Highest `restartCount` among the containers.
    pub restarts: i32,
    /// `status.phase`.
    pub phase: Phase,
    /// The condition `Ready` is `True`.
    pub ready: bool,
    /// It has finalizers, so that it will outlive its kubelet.
    pub finalizers: bool,
}

/// Reads pods off the wire, and shares between them what they have in common.
#[derive(Default)]
pub struct PodDecoder {
    interner: Interner,
}

/// One pod in the making, borrowed from the wire.
#[derive(Default)]
struct Parts<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    resource_version: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    behaviour: Option<&'a str>,
    deletion: Option<Timestamp>,
    deletion_grace: Option<i64>,
    finalizers: bool,
    node: &'a str,
    scheduler: &'a str,
    gated: bool,
    containers: Vec<(&'a str, &'a str)>,
    started: Option<Timestamp>,
    restarts: i32,
    phase: Phase,
    ready: bool,
}

/// Upstream `k8s.io/api/core/v1` `DefaultSchedulerName`.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

static NO_CONTROLLER: ControllerRef = ControllerRef::None;

// === impl Pod ===

impl Pod {
    /// `Succeeded` or `Failed`.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// How long it may take to end after its deletion.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.deletion_grace.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0))
    }

    /// Its path, with whatever is below it (`/status`).
    pub fn path(&self, below: &str) -> String {
        format!("{}/{}{below}", PODS.path(Some(&self.namespace)), self.name)
    }
}

impl Object for Pod {
    fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn uid(&self) -> Uid {
        self.uid
    }

    fn resource_version(&self) -> ResourceVersion {
        self.resource_version
    }

    /// Nobody here asks who owns a pod: for the store they are all orphans.
    fn controller(&self) -> &ControllerRef {
        &NO_CONTROLLER
    }

    fn labels(&self) -> &dyn Labels {
        &*self.labels
    }
}

// === impl PodDecoder ===

impl PodDecoder {
    /// A decoder that shares nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Decode for PodDecoder {
    type Object = Pod;
    const FORMAT: Format = Format::Protobuf;

    /// Field numbers are those of `k8s.io/api/core/v1/generated.proto`.
    fn decode(&mut self, raw: &[u8]) -> Result<Pod, DecodeError> {
        let mut parts = Parts::default();
        for section in Reader::new(raw) {
            let section = section?;
            match section.number {
                1 => parts.read_all(&section, Parts::metadata)?,
                2 => parts.read_all(&section, Parts::spec)?,
                3 => parts.read_all(&section, Parts::status)?,
                _ => {}
            }
        }
        let identity = |field, value: &str| DecodeError::Identity { field, value: value.chars().take(80).collect() };
        if parts.name.is_empty() || parts.namespace.is_empty() {
            return Err(identity("name", parts.name));
        }
        let uid = Uid::parse(parts.uid).ok_or_else(|| identity("uid", parts.uid))?;
        Ok(Pod {
            name: parts.name.into(),
            namespace: self.interner.string(parts.namespace),
            uid,
            resource_version: ResourceVersion::parse(parts.resource_version),
            labels: self.interner.label_set(&mut parts.labels),
            behaviour: parts.behaviour.map(|value| self.interner.string(value)),
            deletion: parts.deletion,
            deletion_grace: parts.deletion_grace,
            node: (!parts.node.is_empty()).then(|| self.interner.string(parts.node)),
            schedulable: parts.scheduler == DEFAULT_SCHEDULER && !parts.gated,
            containers: self.interner.label_set(&mut parts.containers),
            started: parts.started,
            restarts: parts.restarts,
            phase: parts.phase,
            ready: parts.ready,
            finalizers: parts.finalizers,
        })
    }
}

// === impl Parts ===

impl<'a> Parts<'a> {
    fn read_all(&mut self, section: &Field<'a>, read: impl Fn(&mut Self, Field<'a>) -> Result<(), DecodeError>) -> Result<(), DecodeError> {
        for field in section.message()? {
            read(self, field?)?;
        }
        Ok(())
    }

    fn metadata(&mut self, field: Field<'a>) -> Result<(), DecodeError> {
        match field.number {
            1 => self.name = field.text()?,
            3 => self.namespace = field.text()?,
            5 => self.uid = field.text()?,
            6 => self.resource_version = field.text()?,
            9 => self.deletion = time(&field)?,
            10 => self.deletion_grace = Some(field.int64()?),
            11 => {
                let (key, value) = field.entry()?;
                self.labels.push((key.text()?, value.text()?));
            }
            12 => {
                let (key, value) = field.entry()?;
                if key.bytes()? == BEHAVIOUR_ANNOTATION.as_bytes() {
                    self.behaviour = Some(value.text()?);
                }
            }
            14 => self.finalizers = true,
            _ => {}
        }
        Ok(())
    }

    fn spec(&mut self, field: Field<'a>) -> Result<(), DecodeError> {
        match field.number {
            2 => {
                let (mut name, mut image) = ("", "");
                for field in field.message()? {
                    let field = field?;
                    match field.number {
                        1 => name = field.text()?,
                        2 => image = field.text()?,
                        _ => {}
                    }
                }
                self.containers.push((name, image));
            }
            10 => self.node = field.text()?,
            19 => self.scheduler = field.text()?,
            38 => self.gated = true,
            _ => {}
        }
        Ok(())
    }

    fn status(&mut self, field: Field<'a>) -> Result<(), DecodeError> {
        match field.number {
            1 => {
                self.phase = match field.bytes()? {
                    b"Pending" => Phase::Pending,
                    b"Running" => Phase::Running,
                    b"Succeeded" => Phase::Succeeded,
                    b"Failed" => Phase::Failed,
                    b"Unknown" => Phase::Unknown,
                    _ => Phase::Other,
                }
            }
            2 => {
                let (mut kind, mut status) = (&[][..], &[][..]);
                for field in field.message()? {
                    let field = field?;
                    match field.number {
                        1 => kind = field.bytes()?,
                        2 => status = field.bytes()?,
                        _ => {}
                    }
                }
                if kind == b"Ready" {
                    self.ready = status == b"True";
                }
            }
            7 => self.started = time(&field)?,
            8 => {
                for field in field.message()? {
                    let field = field?;
                    if field.number == 5 {
                        self.restarts = self.restarts.max(field.int32()?);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// `meta/v1` Time: whole seconds; Go's zero time is an empty message.
fn time(field: &Field<'_>) -> Result<Option<Timestamp>, DecodeError> {
    let mut seconds = 0;
    for field in field.message()? {
        let field = field?;
        if field.number == 1 {
            seconds = field.int64()?;
        }
    }
    Ok(Timestamp::from_seconds(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::protobuf::write::Writer;

    const UID: &str = "00000000-0000-0000-0000-00000000000a";

    fn metadata() -> Writer {
        Writer::new().text(1, "web-0").text(3, "shop").text(5, UID).text(6, "42")
    }

    fn decode(metadata: &Writer, spec: &Writer, status: &Writer) -> Result<Pod, DecodeError> {
        PodDecoder::new().decode(&Writer::new().message(1, metadata).message(2, spec).message(3, status).into_bytes())
    }

    #[test]
    fn every_field_is_found() {
        let metadata = metadata()
            .message(9, &Writer::new().varint(1, 1_700_000_000))
            .varint(10, 30)
            .entry(11, "app", "web")
            .entry(12, "other", "x")
            .entry(12, BEHAVIOUR_ANNOTATION, "fail")
            .text(14, "example.com/hold");
        let spec = Writer::new()
            .message(2, &Writer::new().text(1, "sidecar").text(2, "proxy:1"))
            .message(2, &Writer::new().text(1, "main").text(2, "web:2"))
            .text(10, "node-3")
            .text(19, DEFAULT_SCHEDULER);
        let status = Writer::new()
            .text(1, "Running")
            .message(2, &Writer::new().text(1, "ContainersReady").text(2, "False"))
            .message(2, &Writer::new().text(1, "Ready").text(2, "True"))
            .message(7, &Writer::new().varint(1, 1_600_000_000))
            .message(8, &Writer::new().text(1, "main").varint(5, 3))
            .message(8, &Writer::new().text(1, "sidecar").varint(5, 1));
        let pod = decode(&metadata, &spec, &status).unwrap();
        assert_eq!((&*pod.name, &*pod.namespace, pod.uid, pod.resource_version.0), ("web-0", "shop", Uid(10), 42));
        assert_eq!((pod.labels.get("app"), pod.behaviour.as_deref()), (Some("web"), Some("fail")));
        assert_eq!(pod.deletion.map(Timestamp::seconds), Some(1_700_000_000));
        assert_eq!((pod.grace(), pod.finalizers), (Duration::from_secs(30), true));
        assert_eq!((pod.node.as_deref(), pod.schedulable), (Some("node-3"), true));
        assert_eq!(pod.containers.iter().collect::<Vec<_>>(), [("main", "web:2"), ("sidecar", "proxy:1")]);
        assert_eq!((pod.phase, pod.ready, pod.restarts), (Phase::Running, true, 3));
        assert_eq!(pod.started.map(Timestamp::seconds), Some(1_600_000_000));
    }

    #[test]
    fn a_bare_pod_is_unassigned_and_belongs_to_no_scheduler() {
        let pod = decode(&metadata(), &Writer::new(), &Writer::new()).unwrap();
        assert_eq!((pod.node, pod.schedulable, pod.phase, pod.ready), (None, false, Phase::Other, false));
    }

    #[test]
    fn gates_and_foreign_schedulers_keep_the_scheduler_off() {
        for spec in [Writer::new().text(19, "mine"), Writer::new().text(19, DEFAULT_SCHEDULER).message(38, &Writer::new().text(1, "g"))] {
            assert!(!decode(&metadata(), &spec, &Writer::new()).unwrap().schedulable);
        }
    }

    #[test]
    fn a_pod_without_identity_is_refused() {
        let nameless = Writer::new().text(3, "shop").text(5, UID);
        let odd = Writer::new().text(1, "a").text(3, "shop").text(5, "mirror");
        for metadata in [nameless, odd] {
            assert!(matches!(decode(&metadata, &Writer::new(), &Writer::new()), Err(DecodeError::Identity { .. })));
        }
    }
}
