//! What is made of live reads: bodies of PUTs that keep every field, known or not, as the server has it.

use bytes::Bytes;
use model::plan::{ApiError, ObjectRef, Owner, Reown};
use model::raw::{self, Fields};
use model::{ResourceVersion, Uid};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

/// A live object's metadata without managedFields, if it still is the same object.
pub(super) fn metadata(object: &[u8], uid: Uid) -> Option<Box<RawValue>> {
    let object: Fields<'_> = serde_json::from_slice(object).ok()?;
    let mut metadata: Fields<'_> = serde_json::from_str(object.get("metadata")?.get()).ok()?;
    metadata.remove("managedFields");
    if uid_of(&metadata) == Some(uid) { to_raw_value(&metadata).ok() } else { None }
}

/// The whole live object with other values at some paths.
///
/// # Errors
/// A conflict if it is not the version of the object that the target names.
pub(super) fn with(object: &[u8], target: &ObjectRef, fields: &[(&[&str], &RawValue)]) -> Result<Bytes, ApiError> {
    edited(object, target, |mut object| {
        for (path, value) in fields {
            object = raw::with(&object, path, value)?;
        }
        Ok(object)
    })
}

/// The whole live object with other owners.
///
/// # Errors
/// As [`with`].
pub(super) fn with_owners(object: &[u8], reown: &Reown) -> Result<Bytes, ApiError> {
    edited(object, &reown.target, |object| {
        let owners = raw::get(&object, &["metadata", "ownerReferences"])?.unwrap_or(RawValue::NULL);
        let mut owners: Vec<&RawValue> = serde_json::from_str::<Option<_>>(owners.get())?.unwrap_or_default();
        owners.retain(|owner| !reown.remove.iter().any(|gone| is_named(owner, gone)));
        let added = reown.add.as_ref().map(reference).transpose()?;
        owners.extend(added.as_deref());
        raw::with(&object, &["metadata", "ownerReferences"], &to_raw_value(&owners)?)
    })
}

/// Upstream `pkg/controller/statefulset` `matchesRef`.
fn is_named(reference: &RawValue, owner: &Owner) -> bool {
    let Ok(fields) = raw::fields(reference) else { return false };
    let is = |field: &str, value: &str| text(&fields, field).is_some_and(|text| text == value);
    is("apiVersion", &owner.resource.api_version()) && is("kind", owner.resource.kind) && is("name", &owner.name)
}

fn reference(owner: &Owner) -> Result<Box<RawValue>, serde_json::Error> {
    to_raw_value(&json!({
        "apiVersion": owner.resource.api_version(), "kind": owner.resource.kind, "name": &*owner.name, "uid": owner.uid.to_string(),
        "controller": true, "blockOwnerDeletion": true,
    }))
}

fn edited(
    object: &[u8],
    target: &ObjectRef,
    edit: impl FnOnce(Box<RawValue>) -> Result<Box<RawValue>, serde_json::Error>,
) -> Result<Bytes, ApiError> {
    let edited = || -> Result<Option<Box<RawValue>>, serde_json::Error> {
        let object: Box<RawValue> = serde_json::from_slice(object)?;
        let metadata = raw::get(&object, &["metadata"])?.unwrap_or(RawValue::NULL);
        let metadata = raw::fields(metadata)?;
        if uid_of(&metadata) != Some(target.uid) || version_of(&metadata) != target.resource_version {
            return Ok(None);
        }
        // The server keeps them as they are if a PUT has none.
        edit(raw::without(&object, &["metadata", "managedFields"])?).map(Some)
    };
    match edited() {
        Ok(Some(object)) => Ok(Bytes::from(object.get().to_owned())),
        Ok(None) => Err(conflict(target)),
        Err(error) => Err(ApiError { message: format!("reading a live object failed: {error}"), ..ApiError::default() }),
    }
}

fn uid_of(metadata: &Fields<'_>) -> Option<Uid> {
    Uid::parse(&text(metadata, "uid")?)
}

fn version_of(metadata: &Fields<'_>) -> ResourceVersion {
    text(metadata, "resourceVersion").map_or_else(ResourceVersion::default, |version| ResourceVersion::parse(&version))
}

fn text(fields: &Fields<'_>, field: &str) -> Option<String> {
    serde_json::from_str(fields.get(field)?.get()).ok()
}

/// As the API server would have refused a PUT of an older version.
fn conflict(target: &ObjectRef) -> ApiError {
    let message = format!("{} {} is not at version {} any more", target.resource.kind, target.key, target.resource_version);
    ApiError { code: 409, reason: "Conflict".to_owned(), message, ..ApiError::default() }
}
