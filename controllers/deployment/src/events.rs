//! What is told about each step.

use model::plan::{Action, Event, NewName, Outcome, Severity, Step};

use crate::conditions::REPLICA_SET_CREATE_ERROR;

/// The event that a step's outcome calls for.
pub fn event(step: &Step, outcome: &Outcome) -> Option<Event> {
    match (&step.action, outcome) {
        (action, Outcome::Done { .. }) => action.news().cloned(),
        (Action::Create(create), Outcome::Failed(error) | Outcome::Unknown(error))
            if !error.namespace_terminating && !error.is_already_exists() =>
        {
            let NewName::Given(name) = &create.body.name else { return None };
            Some(warning(REPLICA_SET_CREATE_ERROR, create_error(name, error)))
        }
        _ => None,
    }
}

/// What the event and the condition say of a ReplicaSet that could not be made.
pub(crate) fn create_error(name: &str, error: &model::plan::ApiError) -> String {
    format!("Failed to create new replica set {name:?}: {error}")
}

/// An event of type Warning.
pub(crate) fn warning(reason: &'static str, message: String) -> Event {
    Event { severity: Severity::Warning, reason, message }
}

/// An event of type Normal.
pub(crate) fn normal(reason: &'static str, message: String) -> Event {
    Event { severity: Severity::Normal, reason, message }
}

/// A ReplicaSet has another size (upstream `scaleReplicaSet`, `getNewReplicaSet`).
pub(crate) fn scaled(name: &str, from: i32, to: i32) -> Event {
    let direction = if from < to { "up" } else { "down" };
    normal("ScalingReplicaSet", format!("Scaled {direction} replica set {name} from {from} to {to}"))
}
