//! The requests behind a plan's actions.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, Request};
use model::plan::{Create, Delete, ObjectRef, Own, Ownership, Patch, Resource, StatusUpdate};
use model::{ObjectKey, ResourceVersion, Uid};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Nobody needs the 10 KB of a pod back: only what the server decided.
const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
const METADATA_LIST_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const MERGE: HeaderValue = HeaderValue::from_static("application/merge-patch+json");
const STRATEGIC_MERGE: HeaderValue = HeaderValue::from_static("application/strategic-merge-patch+json");

/// The metadata of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AnswerMeta {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) owner_references: Option<Vec<AnswerOwner>>,
}

/// An owner reference of an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AnswerOwner {
    pub(super) uid: String,
    pub(super) controller: Option<bool>,
}

#[derive(Deserialize)]
struct AnswerObject {
    #[serde(default)]
    metadata: AnswerMeta,
}

#[derive(Deserialize)]
struct AnswerList {
    /// The API server writes an empty list of metadata as null.
    #[serde(default)]
    items: Option<Vec<AnswerObject>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions {
    api_version: &'static str,
    kind: &'static str,
    preconditions: Preconditions,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions {
    uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusBody<'a> {
    api_version: String,
    kind: &'static str,
    metadata: &'a RawValue,
    status: &'a RawValue,
}

/// POST of a child under a name.
pub(super) fn create(create: &Create, name: &str) -> Result<Request<Bytes>, http::Error> {
    let path = create.resource.path(Some(&create.namespace));
    write(Method::POST, &path, JSON, Bytes::from(create.body.with_name(name)), METADATA_ONLY)
}

/// A list that has the child of that name or nothing. Reads through to etcd, and needs no right but `list`, which the informers have.
pub(super) fn find(resource: &Resource, namespace: &str, name: &str) -> Result<Request<Bytes>, http::Error> {
    let path = format!("{}?fieldSelector=metadata.name%3D{name}", resource.path(Some(namespace)));
    Request::builder().method(Method::GET).uri(path).header(ACCEPT, METADATA_LIST_ONLY).body(Bytes::new())
}

/// DELETE under preconditions.
pub(super) fn delete(delete: &Delete) -> Result<Request<Bytes>, http::Error> {
    let version = delete.target.resource_version;
    let options = DeleteOptions {
        api_version: "v1",
        kind: "DeleteOptions",
        preconditions: Preconditions {
            uid: delete.target.uid.to_string(),
            resource_version: (delete.at_version && version.is_known()).then(|| version.to_string()),
        },
    };
    write(Method::DELETE, &path_of(&delete.target), JSON, json(&options), METADATA_ONLY)
}

/// PATCH of the owner references; the UID in it makes the server reject a re-created child (upstream `controller_ref_manager.go`
/// `ownerRefControllerPatch`, `GenerateDeleteOwnerRefStrategicMergeBytes`).
pub(super) fn own(own: &Own) -> Result<Request<Bytes>, http::Error> {
    let owner = match own.change {
        Ownership::Adopt => serde_json::json!({
            "apiVersion": "apps/v1", "kind": own.owner.kind.as_str(), "name": &*own.owner.name, "uid": own.owner.uid.to_string(),
            "controller": true, "blockOwnerDeletion": true,
        }),
        Ownership::Release => serde_json::json!({"$patch": "delete", "uid": own.owner.uid.to_string()}),
    };
    let patch = serde_json::json!({"metadata": {"uid": own.target.uid.to_string(), "ownerReferences": [owner]}});
    write(Method::PATCH, &path_of(&own.target), STRATEGIC_MERGE, json(&patch), METADATA_ONLY)
}

/// PATCH of some fields, refused if the object is at another version.
pub(super) fn patch(patch: &Patch) -> Result<Request<Bytes>, http::Error> {
    let mut body = patch.body.clone();
    let precondition = serde_json::json!(patch.target.resource_version.to_string());
    if let Some(body) = body.as_object_mut() {
        let metadata = body.entry("metadata").or_insert_with(|| serde_json::json!({}));
        metadata.as_object_mut().map(|metadata| metadata.insert("resourceVersion".to_owned(), precondition));
    }
    write(Method::PATCH, &path_of(&patch.target), MERGE, json(&body), METADATA_ONLY)
}

/// PUT of a body that is complete.
pub(super) fn put(target: &ObjectRef, body: Bytes) -> Result<Request<Bytes>, http::Error> {
    write(Method::PUT, &path_of(target), JSON, body, METADATA_ONLY)
}

/// GET of a whole object.
pub(super) fn get(target: &ObjectRef) -> Result<Request<Bytes>, http::Error> {
    get_named(target.resource, &target.key)
}

/// GET of whatever has that name.
pub(super) fn get_named(resource: &Resource, key: &ObjectKey) -> Result<Request<Bytes>, http::Error> {
    Request::builder().method(Method::GET).uri(path(resource, key)).header(ACCEPT, JSON).body(Bytes::new())
}

/// GET of an object's metadata.
pub(super) fn get_metadata(target: &ObjectRef) -> Result<Request<Bytes>, http::Error> {
    Request::builder().method(Method::GET).uri(path_of(target)).header(ACCEPT, METADATA_ONLY).body(Bytes::new())
}

/// PUT of a status, with the metadata as it was read.
pub(super) fn update_status(update: &StatusUpdate, metadata: &RawValue) -> Result<Request<Bytes>, http::Error> {
    let resource = update.target.resource;
    let body = StatusBody { api_version: resource.api_version(), kind: resource.kind, metadata, status: &update.status };
    put_status(&update.target, json(&body))
}

/// PUT of a status in a body that is complete.
pub(super) fn put_status(target: &ObjectRef, body: Bytes) -> Result<Request<Bytes>, http::Error> {
    write(Method::PUT, &format!("{}/status", path_of(target)), JSON, body, METADATA_ONLY)
}

/// The metadata of an answer; a Status, which a finished delete answers with, has none to speak of.
pub(super) fn metadata(body: &[u8]) -> AnswerMeta {
    let short = up_to_managed_fields(body).and_then(|short| serde_json::from_slice::<AnswerObject>(&short).ok());
    let object = short.or_else(|| serde_json::from_slice(body).ok());
    object.map(|object| object.metadata).unwrap_or_default()
}

/// An answer without managedFields, which are most of it and behind all that is read. Within a string their name could not stand like
/// this: its quotes would be escaped. Where they belong to something further inside, what is left is no JSON.
fn up_to_managed_fields(body: &[u8]) -> Option<Vec<u8>> {
    let end = memchr::memmem::find(body, br#","managedFields":["#)?;
    Some([body.get(..end)?, b"}}"].concat())
}

/// The only item of a list, if it has one.
pub(super) fn only_item(body: &[u8]) -> Result<Option<AnswerMeta>, serde_json::Error> {
    Ok(serde_json::from_slice::<AnswerList>(body)?.items.unwrap_or_default().into_iter().next().map(|item| item.metadata))
}

fn path_of(target: &ObjectRef) -> String {
    path(target.resource, &target.key)
}

fn path(resource: &Resource, key: &ObjectKey) -> String {
    format!("{}/{}", resource.path(Some(&key.namespace)), key.name)
}

fn write(method: Method, path: &str, content: HeaderValue, body: Bytes, accept: HeaderValue) -> Result<Request<Bytes>, http::Error> {
    Request::builder().method(method).uri(path).header(CONTENT_TYPE, content).header(ACCEPT, accept).body(body)
}

/// Every body here has string keys and cannot fail to be written.
fn json(body: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(body).unwrap_or_default())
}

// === impl AnswerMeta ===

impl AnswerMeta {
    /// The object's version.
    pub(super) fn version(&self) -> ResourceVersion {
        ResourceVersion::parse(&self.resource_version)
    }

    /// Whether it is the object of that UID.
    pub(super) fn is_of(&self, uid: Uid) -> bool {
        Uid::parse(&self.uid) == Some(uid)
    }

    /// Whether that owner controls the object.
    pub(super) fn is_controlled_by(&self, owner: Uid) -> bool {
        let owners = self.owner_references.as_deref().unwrap_or_default();
        owners.iter().any(|one| one.controller == Some(true) && Uid::parse(&one.uid) == Some(owner))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::plan::PODS;
    use model::{ObjectKey, OwnerKind, OwnerRef};
    use serde_json::{Value, json};

    use super::*;

    fn pod() -> ObjectRef {
        ObjectRef { resource: &PODS, key: ObjectKey::new("shop", "web-1"), uid: Uid(42), resource_version: ResourceVersion(7) }
    }

    fn body(request: &Request<Bytes>) -> Value {
        serde_json::from_slice(request.body()).unwrap()
    }

    #[test]
    fn deletes_carry_their_preconditions() {
        let request = delete(&Delete { target: pod(), at_version: true }).unwrap();
        assert_eq!((request.method(), request.uri().path()), (&Method::DELETE, "/api/v1/namespaces/shop/pods/web-1"));
        assert_eq!(body(&request)["preconditions"], json!({"uid": Uid(42).to_string(), "resourceVersion": "7"}));
        let request = delete(&Delete { target: pod(), at_version: false }).unwrap();
        assert_eq!(body(&request)["preconditions"], json!({"uid": Uid(42).to_string()}));
    }

    #[test]
    fn owners_come_and_go_by_strategic_merge() {
        let owner = Arc::new(OwnerRef { kind: OwnerKind::ReplicaSet, name: Arc::from("web"), uid: Uid(1) });
        let request = own(&Own { target: pod(), owner: owner.clone(), change: Ownership::Adopt }).unwrap();
        assert_eq!(request.headers()[CONTENT_TYPE], "application/strategic-merge-patch+json");
        assert_eq!(
            body(&request),
            json!({"metadata": {"uid": Uid(42).to_string(), "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": Uid(1).to_string(), "controller": true, "blockOwnerDeletion": true}]}})
        );
        let request = own(&Own { target: pod(), owner, change: Ownership::Release }).unwrap();
        assert_eq!(body(&request)["metadata"]["ownerReferences"], json!([{"$patch": "delete", "uid": Uid(1).to_string()}]));
    }

    #[test]
    fn answers_are_read_for_what_the_server_decided() {
        let owned = r#"{"metadata":{"name":"a","resourceVersion":"9","ownerReferences":[{"uid":"00000000-0000-0000-0000-000000000001","controller":true}]}}"#;
        let meta = metadata(owned.as_bytes());
        assert_eq!((meta.name.as_str(), meta.version()), ("a", ResourceVersion(9)));
        assert!(meta.is_controlled_by(Uid(1)) && !meta.is_controlled_by(Uid(2)));
        assert_eq!(metadata(br#"{"kind":"Status","metadata":{}}"#).version(), ResourceVersion(0));
        let managed = owned.replace("}]}}", r#"}],"managedFields":[{"manager":"x"}]}}"#);
        assert_eq!(
            (metadata(managed.as_bytes()).version(), metadata(managed.as_bytes()).is_controlled_by(Uid(1))),
            (ResourceVersion(9), true)
        );
        let inside = r#"{"spec":{"template":{"metadata":{"name":"x","managedFields":[]}}},"metadata":{"name":"a","resourceVersion":"9"}}"#;
        assert_eq!(metadata(inside.as_bytes()).version(), ResourceVersion(9));
        for empty in [&br#"{"items":[]}"#[..], br#"{"items":null}"#, b"{}"] {
            assert!(only_item(empty).unwrap().is_none());
        }
    }
}
