//! The PersistentVolumeClaim as the StatefulSet controller reads it: whether it is there, whether it goes, and who owns it
//! (upstream `pkg/controller/statefulset/stateful_set_utils.go`, the functions around `updateClaimOwnerRefForSetAndPod`).

use std::sync::Arc;

use crate::error::DecodeError;
use crate::intern::{Interned, Interner};
use crate::labels::{Labels, NoLabels};
use crate::meta::{ControllerRef, ObjectKey, ResourceVersion, Timestamp, Uid};
use crate::object::{Decode, Format, Object};
use crate::plan::{ObjectRef, PERSISTENTVOLUMECLAIMS};
use crate::protobuf::object_meta::{LABELS, METADATA, OWNER_REFERENCES, ObjectMeta, Owner, sections};

/// A `v1` PersistentVolumeClaim: a part of its metadata.
#[derive(Clone, PartialEq, Debug)]
pub struct PersistentVolumeClaim {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.deletionTimestamp`: no pod may be given this claim any more.
    pub deletion: Option<Timestamp>,
    /// `metadata.ownerReferences`, all of them in their order; shared, since a set owns all of its claims alike. `None` if there are none.
    pub owners: Option<Arc<[ClaimOwner]>>,
}

/// An owner reference of a claim.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClaimOwner {
    /// `apiVersion`: a stale reference is one of the same version, kind and name with another UID (upstream `hasStaleOwnerRef`).
    pub api_version: Arc<str>,
    /// `kind`.
    pub kind: Arc<str>,
    /// `name`.
    pub name: Arc<str>,
    /// `uid`; [`Uid::NONE`] if it is not a UUID, so that it matches nobody.
    pub uid: Uid,
    /// `controller` is true.
    pub controller: bool,
}

/// Reads claims: whole ones, or their `PartialObjectMetadata`, whose metadata stands in the same place.
#[derive(Default)]
pub struct PersistentVolumeClaimDecoder {
    interner: Interner,
}

// === impl PersistentVolumeClaim ===

impl PersistentVolumeClaim {
    /// This claim as a reference.
    pub fn reference(&self) -> ObjectRef {
        let key = ObjectKey { namespace: self.namespace.clone(), name: Arc::from(&*self.name) };
        ObjectRef { resource: &PERSISTENTVOLUMECLAIMS, key, uid: self.uid, resource_version: self.resource_version }
    }

    /// Its owners.
    pub fn owners(&self) -> &[ClaimOwner] {
        self.owners.as_deref().unwrap_or_default()
    }
}

impl Object for PersistentVolumeClaim {
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

    /// Nobody looks claims up by owner, and a claim without one is not up for adoption: they are found by name alone.
    fn controller(&self) -> &ControllerRef {
        &ControllerRef::Foreign
    }

    /// No decision reads a claim's labels.
    fn labels(&self) -> &dyn Labels {
        &NoLabels
    }
}

// === impl PersistentVolumeClaimDecoder ===

impl PersistentVolumeClaimDecoder {
    /// A decoder that shares nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much it shares.
    pub fn interned(&self) -> Interned {
        self.interner.interned()
    }
}

impl Decode for PersistentVolumeClaimDecoder {
    type Object = PersistentVolumeClaim;
    const FORMAT: Format = Format::Protobuf;

    fn decode(&mut self, raw: &[u8]) -> Result<PersistentVolumeClaim, DecodeError> {
        let (mut meta, mut owners) = (ObjectMeta::default(), Vec::new());
        sections(raw, METADATA, |field| {
            match field.number {
                OWNER_REFERENCES => owners.push(Owner::read(&field)?),
                LABELS => {}
                _ => meta.read(field)?,
            }
            Ok(())
        })?;
        Ok(PersistentVolumeClaim {
            uid: meta.identity()?,
            name: meta.name.into(),
            namespace: self.interner.string(meta.namespace),
            resource_version: ResourceVersion::parse(meta.resource_version),
            deletion: meta.deletion,
            owners: self.interner.claim_owners(&owners),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::write::Writer;

    const UID: &str = "0e1b4a9c-6a4e-4c53-9f0a-3f6f1f0f4a11";

    fn reference(kind: &str, uid: &str, controller: Option<bool>) -> Writer {
        let reference = Writer::new().text(1, kind).text(3, "db").text(4, uid).text(5, "apps/v1");
        controller.into_iter().fold(reference, |reference, controller| reference.varint(6, controller.into()).varint(7, 1))
    }

    fn claim(name: &str, owners: &[Writer]) -> Vec<u8> {
        let meta = Writer::new().text(1, name).text(3, "shop").text(5, UID).text(6, "17").entry(11, "app", "db").entry(12, "note", "x");
        let meta = owners.iter().fold(meta, |meta, owner| meta.message(13, owner));
        // What a whole claim has besides is stepped over.
        Writer::new().message(1, &meta).message(2, &Writer::new().text(1, "ReadWriteOnce")).into_bytes()
    }

    #[test]
    fn all_owners_are_kept_and_shared_between_claims() {
        let owners = [reference("StatefulSet", UID, Some(true)), reference("Pod", "odd", None), reference("Backup", UID, Some(false))];
        let mut decoder = PersistentVolumeClaimDecoder::new();
        let [one, two] = ["data-db-0", "data-db-1"].map(|name| decoder.decode(&claim(name, &owners)).unwrap());
        assert_eq!((&*one.name, &*one.namespace, one.resource_version), ("data-db-0", "shop", ResourceVersion(17)));
        assert!(Arc::ptr_eq(one.owners.as_ref().unwrap(), two.owners.as_ref().unwrap()));
        let read: Vec<_> = one.owners().iter().map(|owner| (&*owner.kind, &*owner.api_version, owner.uid, owner.controller)).collect();
        let uid = Uid::parse(UID).unwrap();
        assert_eq!(read, [("StatefulSet", "apps/v1", uid, true), ("Pod", "apps/v1", Uid::NONE, false), ("Backup", "apps/v1", uid, false)]);
        let other = decoder.decode(&claim("data-db-2", &owners[..1])).unwrap();
        assert_ne!(other.owners, one.owners);
        assert_eq!(decoder.decode(&claim("data-db-3", &[])).unwrap().owners, None);
    }

    #[test]
    fn a_claim_without_identity_is_refused() {
        assert!(matches!(PersistentVolumeClaimDecoder::new().decode(&claim("", &[])), Err(DecodeError::Identity { field: "name", .. })));
    }
}
