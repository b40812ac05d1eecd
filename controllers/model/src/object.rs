//! What a store and a source ask of the objects they carry.

use std::sync::Arc;

use crate::error::DecodeError;
use crate::labels::Labels;
use crate::meta::{ControllerRef, ResourceVersion, Uid};

/// An object that a store can index.
pub trait Object: Send + Sync + 'static {
    /// `metadata.namespace`.
    fn namespace(&self) -> &Arc<str>;
    /// `metadata.name`.
    fn name(&self) -> &str;
    /// `metadata.uid`.
    fn uid(&self) -> Uid;
    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> ResourceVersion;
    /// The owner reference with `controller: true`.
    fn controller(&self) -> &ControllerRef;
    /// `metadata.labels`.
    fn labels(&self) -> &dyn Labels;
}

/// How a resource travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `application/json`; a watch is one JSON document a line.
    Json,
    /// `application/vnd.kubernetes.protobuf`; a watch is length-delimited frames.
    Protobuf,
}

/// Reads one resource's objects off the wire. A decoder belongs to one source and may keep what it shares between objects.
pub trait Decode: Send + 'static {
    /// What it reads.
    type Object: Object;
    /// The form it reads.
    const FORMAT: Format;

    /// Reads one object: its JSON text, or its protobuf message without the `k8s\0` envelope. What follows a JSON text is not looked at.
    ///
    /// # Errors
    /// When the bytes are not readable or the object has no identity. Anything else that is odd about it must be borne.
    fn decode(&mut self, raw: &[u8]) -> Result<Self::Object, DecodeError>;
}
