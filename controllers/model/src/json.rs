//! What the kinds that travel as JSON have in common: their metadata, and odds and ends of their statuses.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::annotations::{Annotations, is_copied};
use crate::error::DecodeError;
use crate::intern::Interner;
use crate::labels::LabelSet;
use crate::meta::{ControllerRef, ObjectKey, ResourceVersion, Timestamp, Uid, identity};
use crate::raw::Fields;

/// The fields of `metadata` that decisions read.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WireMeta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    pub(crate) generation: Option<i64>,
    #[serde(borrow)]
    creation_timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    deletion_timestamp: Option<Cow<'a, str>>,
    pub(crate) labels: Option<WireLabels>,
    #[serde(borrow)]
    pub(crate) annotations: Option<WireAnnotations<'a>>,
    #[serde(borrow)]
    owner_references: Option<Vec<WireOwner<'a>>>,
}

/// `metadata` as it is kept: without managedFields, every other field byte for byte.
///
/// managedFields are most of it, so they are passed over where they are met.
#[derive(Default)]
pub(crate) struct WholeMetadata<'a>(Fields<'a>);

struct MetadataVisitor;

/// Borrowed where it is spelled without escapes; serde would copy every name of a map.
#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireOwner<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    controller: Option<bool>,
}

pub(crate) type WireLabels = BTreeMap<String, String>;
pub(crate) type WireAnnotations<'a> = BTreeMap<Cow<'a, str>, Option<Cow<'a, str>>>;

/// Reads the value that a text begins with. What follows is not looked at: it is the rest of a watch event, which nobody needs to have
/// read on its own first.
pub fn first_json<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, serde_json::Error> {
    T::deserialize(&mut serde_json::Deserializer::from_slice(text))
}

/// The shared form of labels.
pub(crate) fn labels(wire: Option<WireLabels>, interner: &mut Interner) -> Arc<LabelSet> {
    let labels = wire.unwrap_or_default();
    interner.label_set(&mut labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect())
}

/// The shared form of the annotations that are handed on.
pub(crate) fn copied_annotations(wire: &WireAnnotations<'_>, interner: &mut Interner) -> Arc<Annotations> {
    let pairs = wire.iter().filter(|(key, _)| is_copied(key));
    let pairs: Vec<_> = pairs.map(|(key, value)| (interner.string(key), Box::from(value.as_deref().unwrap_or_default()))).collect();
    interner.annotations(Annotations::from_sorted(pairs.into_iter()))
}

/// The value of an annotation.
pub(crate) fn annotation(wire: &WireAnnotations<'_>, key: &str) -> Option<Box<str>> {
    wire.get(key).map(|value| Box::from(value.as_deref().unwrap_or_default()))
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads null as nothing.
pub(crate) fn null_is_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

// === impl WholeMetadata ===

impl WholeMetadata<'_> {
    /// One text of it.
    pub(crate) fn text(&self) -> Result<Box<RawValue>, DecodeError> {
        Ok(to_raw_value(&self.0)?)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for WholeMetadata<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MetadataVisitor)
    }
}

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = WholeMetadata<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object's metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::new();
        while let Some(FieldName(name)) = map.next_key()? {
            if name == "managedFields" {
                map.next_value::<IgnoredAny>()?;
            } else {
                fields.insert(name, map.next_value()?);
            }
        }
        Ok(WholeMetadata(fields))
    }
}

// === impl WireMeta ===

impl WireMeta<'_> {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn key(&self, interner: &mut Interner) -> Result<ObjectKey, DecodeError> {
        for (field, value) in [("name", &self.name), ("namespace", &self.namespace)] {
            if value.is_empty() {
                return Err(identity(field, value));
            }
        }
        Ok(ObjectKey { namespace: interner.string(&self.namespace), name: Arc::from(&*self.name) })
    }

    pub(crate) fn uid(&self) -> Result<Uid, DecodeError> {
        Uid::parse(&self.uid).filter(|uid| *uid != Uid::NONE).ok_or_else(|| identity("uid", &self.uid))
    }

    pub(crate) fn version(&self) -> ResourceVersion {
        ResourceVersion::parse(&self.resource_version)
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.creation_timestamp.as_deref().and_then(Timestamp::parse)
    }

    pub(crate) fn deletion(&self) -> Option<Timestamp> {
        self.deletion_timestamp.as_deref().and_then(Timestamp::parse)
    }

    /// The controlling owner, and its UID if it is of a kind that we do not run.
    pub(crate) fn controller(&self, interner: &mut Interner) -> (ControllerRef, Option<Uid>) {
        // Upstream `k8s.io/apimachinery/pkg/apis/meta/v1` `GetControllerOf`: the first reference that says so.
        let owners = self.owner_references.as_deref().unwrap_or_default();
        let Some(owner) = owners.iter().find(|owner| owner.controller == Some(true)) else { return (ControllerRef::None, None) };
        match interner.controller_ref(&owner.kind, &owner.name, &owner.uid) {
            ControllerRef::Foreign => (ControllerRef::Foreign, Uid::parse(&owner.uid)),
            own => (own, None),
        }
    }
}
