//! What is made of live reads: bodies of PUTs that keep every field, known or not, as the server has it.

use bytes::Bytes;
use model::plan::{ApiError, ObjectRef};
use model::raw::{self, Fields};
use model::{ResourceVersion, Uid};
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
    let edited = || -> Result<Option<Box<RawValue>>, serde_json::Error> {
        let mut object: Box<RawValue> = serde_json::from_slice(object)?;
        let metadata = raw::get(&object, &["metadata"])?.unwrap_or(RawValue::NULL);
        let metadata = raw::fields(metadata)?;
        if uid_of(&metadata) != Some(target.uid) || version_of(&metadata) != target.resource_version {
            return Ok(None);
        }
        // The server keeps them as they are if a PUT has none.
        object = raw::without(&object, &["metadata", "managedFields"])?;
        for (path, value) in fields {
            object = raw::with(&object, path, value)?;
        }
        Ok(Some(object))
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
