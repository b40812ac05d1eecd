//! What is told about each step (upstream `pkg/controller/controller_utils.go` `RealPodControl`).

use model::plan::{Action, Event, Outcome, Severity, Step};

/// The event that a step's outcome calls for.
pub fn event(step: &Step, outcome: &Outcome) -> Option<Event> {
    let (severity, reason, message) = match (&step.action, outcome) {
        (Action::Create(_), Outcome::Done { name, .. }) => (Severity::Normal, "SuccessfulCreate", format!("Created pod: {name}")),
        (Action::Delete(delete), Outcome::Done { .. }) => {
            (Severity::Normal, "SuccessfulDelete", format!("Deleted pod: {}", delete.target.key.name))
        }
        (Action::Create(_), Outcome::Failed(error) | Outcome::Unknown(error)) if !error.namespace_terminating => {
            (Severity::Warning, "FailedCreate", format!("Error creating: {error}"))
        }
        (Action::Delete(_), Outcome::Failed(error) | Outcome::Unknown(error)) if !error.is_not_found() && !error.is_conflict() => {
            (Severity::Warning, "FailedDelete", format!("Error deleting: {error}"))
        }
        _ => return None,
    };
    Some(Event { severity, reason, message })
}
