//! The ControllerRevision as the StatefulSet controller reads it, its data being fetched when they are needed, and what goes into a new
//! one (upstream `pkg/controller/history`).

mod data;
mod defaults;
mod image;
mod restore;
mod typed;

use std::sync::Arc;

use crate::error::DecodeError;
use crate::fingerprint::Fingerprint;
use crate::intern::{Interned, Interner};
use crate::labels::{LabelSet, Labels};
use crate::meta::{ControllerRef, ObjectKey, ResourceVersion, Timestamp, Uid};
use crate::object::{Decode, Format, Object};
use crate::plan::{CONTROLLERREVISIONS, ObjectRef};
use crate::protobuf::object_meta::{METADATA, OWNER_REFERENCES, ObjectMeta, Owner, Pairs, sections};
use crate::protobuf::{Field, Reader};
pub use data::{data, hash, name};
pub use restore::is_same;

/// The label with the hash of the data (upstream `pkg/controller/history` `ControllerRevisionHashLabel`).
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// An `apps/v1` ControllerRevision without its data.
#[derive(Clone, PartialEq, Debug)]
pub struct ControllerRevision {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// `metadata.labels`, but for [`HASH_LABEL`] where that follows from the name: the rest is the same for all revisions of a set.
    pub label_set: Arc<LabelSet>,
    /// [`HASH_LABEL`] is there and equals what stands behind the name's last hyphen.
    pub own_hash: bool,
    /// The controlling owner.
    pub controller: ControllerRef,
    /// `revision`.
    pub revision: i64,
    /// Of the bytes of `data`: equal fingerprints are equal bytes, which is all that is asked of most revisions.
    pub data: Fingerprint,
}

/// Reads revisions, and shares between them what they have in common.
#[derive(Default)]
pub struct ControllerRevisionDecoder {
    interner: Interner,
}

// === impl ControllerRevision ===

impl ControllerRevision {
    /// This revision as a reference.
    pub fn reference(&self) -> ObjectRef {
        let key = ObjectKey { namespace: self.namespace.clone(), name: Arc::from(&*self.name) };
        ObjectRef { resource: &CONTROLLERREVISIONS, key, uid: self.uid, resource_version: self.resource_version }
    }
}

impl Labels for ControllerRevision {
    fn get(&self, key: &str) -> Option<&str> {
        if self.own_hash && key == HASH_LABEL { hash_of(&self.name) } else { self.label_set.get(key) }
    }

    fn len(&self) -> usize {
        self.label_set.len() + usize::from(self.own_hash)
    }
}

impl Object for ControllerRevision {
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

    fn controller(&self) -> &ControllerRef {
        &self.controller
    }

    fn labels(&self) -> &dyn Labels {
        self
    }
}

/// What stands behind a name's last hyphen: the hash, unless it had collided (upstream `pkg/controller/history` `ControllerRevisionName`).
fn hash_of(name: &str) -> Option<&str> {
    name.rsplit_once('-').map(|(_, hash)| hash)
}

// === impl ControllerRevisionDecoder ===

impl ControllerRevisionDecoder {
    /// A decoder that shares nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much it shares.
    pub fn interned(&self) -> Interned {
        self.interner.interned()
    }
}

impl Decode for ControllerRevisionDecoder {
    type Object = ControllerRevision;
    const FORMAT: Format = Format::Protobuf;

    fn decode(&mut self, raw: &[u8]) -> Result<ControllerRevision, DecodeError> {
        let (mut meta, mut controlling) = (ObjectMeta::default(), None);
        sections(raw, METADATA, |field| {
            match field.number {
                OWNER_REFERENCES if controlling.is_none() => controlling = Some(Owner::read(&field)?).filter(|owner| owner.controller),
                _ => meta.read(field)?,
            }
            Ok(())
        })?;
        let (mut data, mut revision) = (&[][..], 0);
        for field in Reader::new(raw) {
            let field = field?;
            match field.number {
                2 => data = raw_extension(&field)?,
                3 => revision = field.int64()?,
                _ => {}
            }
        }
        let uid = meta.identity()?;
        let own_hash = take_own_hash(&mut meta.labels, meta.name);
        Ok(ControllerRevision {
            name: meta.name.into(),
            namespace: self.interner.string(meta.namespace),
            uid,
            resource_version: ResourceVersion::parse(meta.resource_version),
            created: meta.created,
            label_set: self.interner.label_set(&mut meta.labels),
            own_hash,
            controller: Owner::controller_ref(controlling.as_ref(), &mut self.interner),
            revision,
            data: Fingerprint::of_bytes(data),
        })
    }
}

/// The bytes in a `runtime.RawExtension`.
fn raw_extension<'a>(field: &Field<'a>) -> Result<&'a [u8], DecodeError> {
    let mut raw = &[][..];
    for field in field.message()? {
        let field = field?;
        if field.number == 1 {
            raw = field.bytes()?;
        }
    }
    Ok(raw)
}

/// Takes out the hash label if it is the one that the name says; of a repeated one, the last counts.
fn take_own_hash(labels: &mut Pairs<'_>, name: &str) -> bool {
    let label = labels.iter().rev().find(|(key, _)| *key == HASH_LABEL);
    let own = label.is_some_and(|(_, value)| Some(*value) == hash_of(name));
    if own {
        labels.retain(|(key, _)| *key != HASH_LABEL);
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::write::Writer;

    const UID: &str = "0e1b4a9c-6a4e-4c53-9f0a-3f6f1f0f4a11";

    fn revision(name: &str, hash: &str, number: u64, data: &[u8]) -> Vec<u8> {
        let owner = Writer::new().text(1, "StatefulSet").text(3, "db").text(4, UID).text(5, "apps/v1").varint(6, 1);
        let meta = Writer::new().text(1, name).text(3, "shop").text(5, UID).text(6, "17").message(8, &Writer::new().varint(1, 99));
        let meta = meta.entry(11, "app", "db").entry(11, HASH_LABEL, hash).message(13, &owner);
        Writer::new().message(1, &meta).message(2, &Writer::new().bytes(1, data)).varint(3, number).into_bytes()
    }

    #[test]
    fn the_data_leave_a_fingerprint() {
        let mut decoder = ControllerRevisionDecoder::new();
        let one = decoder.decode(&revision("db-55fd57d68", "55fd57d68", 3, b"{}")).unwrap();
        assert_eq!((&*one.name, one.revision, one.created), ("db-55fd57d68", 3, Timestamp::from_seconds(99)));
        assert_eq!(one.controller.owner().map(|owner| owner.uid), Uid::parse(UID));
        assert_eq!(one.data, Fingerprint::of_bytes(b"{}"));
        assert_ne!(one.data, decoder.decode(&revision("db-55fd57d68", "55fd57d68", 3, b"{ }")).unwrap().data);
    }

    #[test]
    fn revisions_of_a_set_share_their_labels() {
        let mut decoder = ControllerRevisionDecoder::new();
        let [one, two] = ["aaa", "bbb"].map(|hash| decoder.decode(&revision(&format!("db-{hash}"), hash, 1, b"")).unwrap());
        assert!(Arc::ptr_eq(&one.label_set, &two.label_set));
        assert_eq!((two.get(HASH_LABEL), two.get("app"), two.len()), (Some("bbb"), Some("db"), 2));
        // After a collision the label keeps the first hash.
        let collided = decoder.decode(&revision("db-ccc", "bbb", 1, b"")).unwrap();
        assert_eq!((collided.get(HASH_LABEL), collided.own_hash, collided.len()), (Some("bbb"), false, 2));
    }
}
