//! What is made of live reads: bodies of PUTs that keep every field, known or not, as the server has it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use model::plan::{ApiError, ObjectRef};
use model::{ResourceVersion, Uid};
use serde_json::value::{RawValue, to_raw_value};

/// The fields of a JSON object; their values byte for byte.
type Fields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// A live object's metadata without managedFields, if it still is the same object.
pub(super) fn metadata(object: &[u8], uid: Uid) -> Option<Box<RawValue>> {
    let object: Fields<'_> = serde_json::from_slice(object).ok()?;
    let mut metadata: Fields<'_> = serde_json::from_str(object.get("metadata")?.get()).ok()?;
    metadata.remove("managedFields");
    if uid_of(&metadata) == Some(uid) { to_raw_value(&metadata).ok() } else { None }
}

/// The whole live object with another status.
///
/// # Errors
/// A conflict if it is not the version of the object that the target names.
pub(super) fn with_status(object: &[u8], target: &ObjectRef, status: &RawValue) -> Result<Bytes, ApiError> {
    let mut object: Fields<'_> = serde_json::from_slice(object).map_err(|error| unreadable(&error))?;
    let metadata = object.get("metadata").map_or("{}", |metadata| metadata.get());
    let mut metadata: Fields<'_> = serde_json::from_str(metadata).map_err(|error| unreadable(&error))?;
    if uid_of(&metadata) != Some(target.uid) || version_of(&metadata) != target.resource_version {
        return Err(conflict(target));
    }
    // The server keeps them as they are if a PUT has none.
    metadata.remove("managedFields");
    let metadata = to_raw_value(&metadata).map_err(|error| unreadable(&error))?;
    object.insert(Cow::Borrowed("metadata"), &metadata);
    object.insert(Cow::Borrowed("status"), status);
    serde_json::to_vec(&object).map(Bytes::from).map_err(|error| unreadable(&error))
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

fn unreadable(error: &serde_json::Error) -> ApiError {
    ApiError { message: format!("reading a live object failed: {error}"), ..ApiError::default() }
}
