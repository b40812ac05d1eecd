//! `meta/v1` `ObjectMeta`, as far as the lean objects keep it. Field numbers are those of
//! `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`.

use super::{Field, Reader};
use crate::error::DecodeError;
use crate::intern::Interner;
use crate::meta::{ControllerRef, Timestamp, Uid, identity};

/// Keys and values, in the order they were written.
pub(crate) type Pairs<'a> = Vec<(&'a str, &'a str)>;

/// The fields that every kind reads. Annotations and owner references are read by those that need them.
#[derive(Default)]
pub(crate) struct ObjectMeta<'a> {
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) resource_version: &'a str,
    pub(crate) created: Option<Timestamp>,
    pub(crate) deletion: Option<Timestamp>,
    pub(crate) labels: Pairs<'a>,
}

/// An owner reference.
#[derive(Default)]
pub(crate) struct Owner<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) controller: bool,
}

/// The number of [`ObjectMeta`] in every object's message.
pub(crate) const METADATA: u32 = 1;
/// `labels`, a map.
pub(crate) const LABELS: u32 = 11;
/// `annotations`, a map.
pub(crate) const ANNOTATIONS: u32 = 12;
/// `ownerReferences`, repeated.
pub(crate) const OWNER_REFERENCES: u32 = 13;

/// Hands out the fields of the top-level messages of one number: in whatever order a writer puts them, each part of an object
/// is read after those it depends on. A message that comes in pieces reads as one, as protobuf has it.
pub(crate) fn sections<'a>(
    raw: &'a [u8],
    number: u32,
    mut read: impl FnMut(Field<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    for section in Reader::new(raw) {
        let section = section?;
        if section.number == number {
            for field in section.message()? {
                read(field?)?;
            }
        }
    }
    Ok(())
}

/// `meta/v1` Time: whole seconds; Go's zero time is an empty message.
pub(crate) fn time(field: &Field<'_>) -> Result<Option<Timestamp>, DecodeError> {
    let mut seconds = 0;
    for field in field.message()? {
        let field = field?;
        if field.number == 1 {
            seconds = field.int64()?;
        }
    }
    Ok(Timestamp::from_seconds(seconds))
}

// === impl ObjectMeta ===

impl<'a> ObjectMeta<'a> {
    /// Takes a field of the message.
    pub(crate) fn read(&mut self, field: Field<'a>) -> Result<(), DecodeError> {
        match field.number {
            1 => self.name = field.text()?,
            3 => self.namespace = field.text()?,
            5 => self.uid = field.text()?,
            6 => self.resource_version = field.text()?,
            8 => self.created = time(&field)?,
            9 => self.deletion = time(&field)?,
            LABELS => {
                let (key, value) = field.entry()?;
                self.labels.push((key.text()?, value.text()?));
            }
            _ => {}
        }
        Ok(())
    }

    /// The UID, if the object can be told from others.
    pub(crate) fn identity(&self) -> Result<Uid, DecodeError> {
        if self.name.is_empty() {
            return Err(identity("name", self.name));
        }
        if self.namespace.is_empty() {
            return Err(identity("namespace", self.namespace));
        }
        Uid::parse(self.uid).filter(|parsed| *parsed != Uid::NONE).ok_or_else(|| identity("uid", self.uid))
    }
}

// === impl Owner ===

impl<'a> Owner<'a> {
    /// Reads a reference.
    pub(crate) fn read(field: &Field<'a>) -> Result<Self, DecodeError> {
        let mut owner = Self::default();
        for field in field.message()? {
            let field = field?;
            match field.number {
                1 => owner.kind = field.text()?,
                3 => owner.name = field.text()?,
                4 => owner.uid = field.text()?,
                5 => owner.api_version = field.text()?,
                6 => owner.controller = field.bool()?,
                _ => {}
            }
        }
        Ok(owner)
    }

    /// What the object's controlling reference comes to; the first one counts
    /// (upstream `k8s.io/apimachinery/pkg/apis/meta/v1` `GetControllerOf`).
    pub(crate) fn controller_ref(controlling: Option<&Self>, interner: &mut Interner) -> ControllerRef {
        match controlling {
            None => ControllerRef::None,
            Some(owner) => interner.controller_ref(owner.kind, owner.name, owner.uid),
        }
    }

    /// The UID; [`Uid::NONE`] if it is not a UUID, so that it matches nobody.
    pub(crate) fn parsed_uid(&self) -> Uid {
        Uid::parse(self.uid).unwrap_or(Uid::NONE)
    }
}
