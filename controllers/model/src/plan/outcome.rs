//! What became of the writes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Plan, Step};
use crate::meta::ResourceVersion;

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Carried out.
    Done {
        /// The object's name: news for a create.
        name: Arc<str>,
        /// The version the answer carried, if it did.
        resource_version: ResourceVersion,
    },
    /// Not sent: an earlier step failed, or the process is stopping.
    NotSent,
    /// Refused: it has had no effect.
    Failed(ApiError),
    /// Sent, but the answer was lost: it may have had its effect.
    Unknown(ApiError),
}

/// The outcomes of a plan: one list a stage, one outcome a step.
#[derive(Debug, Default)]
pub struct Outcomes(pub Vec<Vec<Outcome>>);

/// What the API server, or the way to it, said instead of yes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApiError {
    /// The HTTP status; zero if there was no answer.
    pub code: u16,
    /// `reason` of the Status, `AlreadyExists` for one.
    pub reason: String,
    /// `message` of the Status, or the best text there is.
    pub message: String,
    /// A cause of the Status says that the namespace is being deleted.
    pub namespace_terminating: bool,
    /// What the server asked us to wait.
    pub retry_after: Option<Duration>,
}

// === impl Outcomes ===

impl Outcomes {
    /// The plan's steps, each with what became of it.
    pub fn of<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = (&'a Step, &'a Outcome)> {
        let stages = plan.stages.iter().zip(&self.0);
        stages.flat_map(|(stage, outcomes)| stage.steps.iter().zip(outcomes))
    }
}

// === impl Outcome ===

impl Outcome {
    /// Whether the step was carried out.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// What went wrong, whether or not there was an effect.
    pub fn error(&self) -> Option<&ApiError> {
        match self {
            Self::Failed(error) | Self::Unknown(error) => Some(error),
            Self::Done { .. } | Self::NotSent => None,
        }
    }
}

// === impl ApiError ===

impl ApiError {
    /// 404: there is no such object.
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }

    /// 409 with reason `AlreadyExists`: the name is taken.
    pub fn is_already_exists(&self) -> bool {
        self.code == 409 && self.reason == "AlreadyExists"
    }

    /// 409 otherwise: a precondition did not hold.
    pub fn is_conflict(&self) -> bool {
        self.code == 409 && self.reason != "AlreadyExists"
    }

    /// 422: the object is not valid as asked.
    pub fn is_invalid(&self) -> bool {
        self.code == 422
    }

    /// 410: the version is too old.
    pub fn is_gone(&self) -> bool {
        self.code == 410
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}
