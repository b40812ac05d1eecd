//! What is told (upstream `stateful_pod_control.go` `recordPodEvent`, `recordClaimEvent`).

use model::plan::{Action, Event, Outcome, PERSISTENTVOLUMECLAIMS, PODS, Severity, Step};

/// What is done to a pod or claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Create,
    Update,
    Delete,
}

/// The event that a step's outcome calls for.
pub fn event(set: &str, step: &Step, outcome: &Outcome) -> Option<Event> {
    if let Outcome::NotSent = outcome {
        return None;
    }
    match &step.action {
        Action::Create(create) if create.resource == &PERSISTENTVOLUMECLAIMS => claim_event(create.body.name.as_str(), set, outcome),
        Action::Create(create) if create.resource == &PODS => match outcome.error() {
            // Somebody was faster, or the cache is behind: the next sync knows.
            Some(error) if error.is_already_exists() => None,
            Some(error) => Some(failed_pod(Verb::Create, create.body.name.as_str(), set, &error.to_string())),
            None => Some(successful_pod(Verb::Create, create.body.name.as_str(), set)),
        },
        Action::Delete(delete) if delete.target.resource == &PODS => {
            let name = &delete.target.key.name;
            match outcome.error() {
                Some(error) if !delete.found_gone(error) => Some(failed_pod(Verb::Delete, name, set, &error.to_string())),
                _ => Some(successful_pod(Verb::Delete, name, set)),
            }
        }
        Action::Patch(patch) if patch.target.resource == &PODS => {
            let name = &patch.target.key.name;
            match outcome.error() {
                // Somebody else has changed it meanwhile: it is decided again.
                Some(error) if error.is_conflict() => None,
                Some(error) => Some(failed_pod(Verb::Update, name, set, &error.to_string())),
                None => Some(successful_pod(Verb::Update, name, set)),
            }
        }
        _ => None,
    }
}

fn claim_event(claim: &str, set: &str, outcome: &Outcome) -> Option<Event> {
    let ordinal = claim.rsplit_once('-').map_or("", |(_, ordinal)| ordinal);
    match outcome.error() {
        Some(error) if error.is_already_exists() => None,
        Some(error) => {
            let message = format!("Create Claim {claim} for Pod {set}-{ordinal} in StatefulSet {set} failed error: {error}");
            Some(Event { severity: Severity::Warning, reason: "FailedCreate", message })
        }
        None => {
            let message = format!("Create Claim {claim} Pod {set}-{ordinal} in StatefulSet {set} success");
            Some(Event { severity: Severity::Normal, reason: "SuccessfulCreate", message })
        }
    }
}

pub(crate) fn successful_pod(verb: Verb, pod: &str, set: &str) -> Event {
    let (verb, reason) = match verb {
        Verb::Create => ("Create", "SuccessfulCreate"),
        Verb::Update => ("Update", "SuccessfulUpdate"),
        Verb::Delete => ("Delete", "SuccessfulDelete"),
    };
    Event { severity: Severity::Normal, reason, message: format!("{verb} Pod {pod} in StatefulSet {set} successful") }
}

pub(crate) fn failed_pod(verb: Verb, pod: &str, set: &str, error: &str) -> Event {
    let (verb, reason) = match verb {
        Verb::Create => ("Create", "FailedCreate"),
        Verb::Update => ("Update", "FailedUpdate"),
        Verb::Delete => ("Delete", "FailedDelete"),
    };
    warning(reason, format!("{verb} Pod {pod} in StatefulSet {set} failed error: {error}"))
}

pub(crate) fn warning(reason: &'static str, message: String) -> Event {
    Event { severity: Severity::Warning, reason, message }
}
