//! What the controllers know about the cluster, and the words in which they say what to do about it.
//!
//! Pure: no IO, no clock, no randomness, no logging. Lean forms of the objects the controllers read
//! ([`Pod`], [`ReplicaSet`], [`Deployment`], [`StatefulSet`], [`ControllerRevision`], [`PersistentVolumeClaim`]) with their decoding from the wire, the predicates and rankings over them,
//! and the [`plan`] vocabulary in which a decision is handed to whoever carries it out.

pub mod annotations;
pub mod claim;
pub mod condition;
mod cursor;
pub mod deployment;
pub mod error;
pub mod fingerprint;
mod go_json;
pub mod int_or_percent;
pub mod intern;
mod json;
pub mod labels;
pub mod meta;
pub mod normal_form;
pub mod object;
pub mod ownership;
pub mod plan;
pub mod pod;
pub mod protobuf;
mod quantity;
pub mod rank;
pub mod raw;
pub mod replicaset;
pub mod revision;
pub mod selector;
pub mod statefulset;
pub mod status;
pub mod template;

pub use claim::{PersistentVolumeClaim, PersistentVolumeClaimDecoder};
pub use condition::Condition;
pub use deployment::{Deployment, DeploymentDecoder};
pub use error::DecodeError;
pub use fingerprint::Fingerprint;
pub use int_or_percent::IntOrPercent;
pub use intern::Interner;
pub use json::first_json;
pub use meta::{ControllerRef, ObjectKey, OwnerKind, OwnerRef, ResourceVersion, Time, Timestamp, Uid};
pub use object::{Decode, Format, Object};
pub use pod::Pod;
pub use pod::decode::PodDecoder;
pub use replicaset::{ReplicaSet, ReplicaSetDecoder};
pub use revision::{ControllerRevision, ControllerRevisionDecoder};
pub use statefulset::{StatefulSet, StatefulSetDecoder};
