//! The writes.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{ApiError, Event, ObjectRef, Resource};
use crate::meta::{OwnerRef, Uid};

/// A write.
#[derive(Clone, Debug)]
pub enum Action {
    /// Create a child.
    Create(Create),
    /// Delete a child.
    Delete(Delete),
    /// Change a child's owner references.
    Own(Own),
    /// Change some fields.
    Patch(Patch),
    /// Change some fields where the role allows no patch.
    Edit(Edit),
    /// Change owner references where the role allows no patch.
    Reown(Reown),
}

/// A child to be created.
#[derive(Clone, Debug)]
pub struct Create {
    /// What it is.
    pub resource: &'static Resource,
    /// Where.
    pub namespace: Arc<str>,
    /// Who will control it: how a repeated create recognises its own work. `None` for what serves its purpose whoever made it.
    pub owner: Option<Arc<OwnerRef>>,
    /// Its body.
    pub body: Arc<NewObject>,
    /// What is told once it is done.
    pub news: Option<Event>,
}

/// The JSON of a child whose name is still open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewObject {
    /// How it is going to be called.
    pub name: NewName,
    /// Everything up to where the name's JSON string goes.
    pub before_name: String,
    /// Everything behind it.
    pub after_name: String,
}

/// The name of a new child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewName {
    /// This prefix (`metadata.generateName`, already in the body) and a random suffix, drawn when the request is made, so that the same plan
    /// can be decided twice.
    Generated(Arc<str>),
    /// This one; if it is taken, the create has failed.
    Given(Arc<str>),
}

/// A child to be deleted, under preconditions.
#[derive(Clone, Debug)]
pub struct Delete {
    /// Which.
    pub target: ObjectRef,
    /// Whether the resourceVersion is a precondition besides the UID.
    pub at_version: bool,
}

/// A change of the controlling owner, by strategic merge patch (upstream `controller_ref_manager.go`).
#[derive(Clone, Debug)]
pub struct Own {
    /// The child.
    pub target: ObjectRef,
    /// The owner to add or to remove.
    pub owner: Arc<OwnerRef>,
    /// Which of the two.
    pub change: Ownership,
}

/// A change of some fields by JSON merge patch, at the version it was decided from.
#[derive(Clone, Debug)]
pub struct Patch {
    /// What is changed.
    pub target: ObjectRef,
    /// The patch, without the precondition.
    pub body: serde_json::Value,
    /// What is told once it is done.
    pub news: Option<Event>,
}

/// A change of some fields by PUT of what a live read has, if that still is the version it was decided from.
#[derive(Clone, Debug)]
pub struct Edit {
    /// What is changed.
    pub target: ObjectRef,
    /// The fields, by their path, and their new values.
    pub fields: Vec<(&'static [&'static str], Box<RawValue>)>,
    /// What is told once it is done.
    pub news: Option<Event>,
}

/// A change of owner references by PUT of what a live read has, if that still is the version it was decided from.
#[derive(Clone, Debug)]
pub struct Reown {
    /// What is changed.
    pub target: ObjectRef,
    /// Owners to remove; their UIDs make no difference.
    pub remove: Vec<Owner>,
    /// The controlling owner to add.
    pub add: Option<Owner>,
}

/// An owner as a reference names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// What it is.
    pub resource: &'static Resource,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Uid,
}

/// Whether an owner comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Add our controllerRef.
    Adopt,
    /// Remove our owner reference.
    Release,
}

// === impl NewObject ===

impl NewObject {
    /// The body with its name in place. The name is made of characters that JSON need not escape.
    pub fn with_name(&self, name: &str) -> String {
        [&self.before_name, "\"", name, "\"", &self.after_name].concat()
    }
}

// === impl NewName ===

impl NewName {
    /// The name, or what it begins with.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Generated(text) | Self::Given(text) => text,
        }
    }
}

// === impl Delete ===

impl Delete {
    /// Whether a refusal says that what was to be deleted is not there any more: nothing has its name, or another object has.
    pub fn found_gone(&self, error: &ApiError) -> bool {
        error.is_not_found() || !self.at_version && error.is_conflict()
    }
}

// === impl Action ===

impl Action {
    /// The resource it writes.
    pub fn resource(&self) -> &'static Resource {
        match self {
            Self::Create(create) => create.resource,
            Self::Delete(delete) => delete.target.resource,
            Self::Own(own) => own.target.resource,
            Self::Patch(patch) => patch.target.resource,
            Self::Edit(edit) => edit.target.resource,
            Self::Reown(reown) => reown.target.resource,
        }
    }

    /// What is told once it is done.
    pub fn news(&self) -> Option<&Event> {
        match self {
            Self::Create(create) => create.news.as_ref(),
            Self::Patch(patch) => patch.news.as_ref(),
            Self::Edit(edit) => edit.news.as_ref(),
            Self::Delete(_) | Self::Own(_) | Self::Reown(_) => None,
        }
    }

    /// The child that is there already, if it is not a create.
    pub fn target(&self) -> Option<&ObjectRef> {
        match self {
            Self::Create(_) => None,
            Self::Delete(delete) => Some(&delete.target),
            Self::Own(own) => Some(&own.target),
            Self::Patch(patch) => Some(&patch.target),
            Self::Edit(edit) => Some(&edit.target),
            Self::Reown(reown) => Some(&reown.target),
        }
    }
}
