//! Events as JSON: core/v1, as upstream's recorder writes them (`client-go/tools/record/event.go` `makeEvent`).

use model::plan::ObjectRef;
use model::{Time, Timestamp, Uid};
use serde::Serialize;

use super::correlator::{Correlated, Occurrence};

/// The longest name an object can have.
const MAX_NAME: usize = 253;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: Metadata<'a>,
    involved_object: InvolvedObject<'a>,
    reason: &'a str,
    message: &'a str,
    source: Source<'a>,
    first_timestamp: String,
    last_timestamp: String,
    count: u32,
    #[serde(rename = "type")]
    severity: &'a str,
    event_time: (),
    reporting_component: &'a str,
    reporting_instance: &'a str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InvolvedObject<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: String,
    api_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

#[derive(Serialize)]
struct Source<'a> {
    component: &'a str,
}

/// The parts that change when an event happens again (upstream `eventObserve`).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Patch<'a> {
    count: u32,
    last_timestamp: String,
    message: &'a str,
}

/// The event's name (upstream `client-go/tools/record/util` `GenerateEventName`). Where the object's name leaves no room for the time,
/// upstream takes a random UUID; ours is the object's, changed by the time, so that it need not be remembered.
pub(super) fn name(object: &ObjectRef, first: Time) -> String {
    let name = format!("{}.{:x}", object.key.name, first.0);
    if name.len() <= MAX_NAME { name } else { Uid(object.uid.0 ^ u128::from(first.0 as u64)).to_string() }
}

/// The namespace the event is written to: its object's (upstream `makeEvent`).
pub(super) fn namespace(object: &ObjectRef) -> &str {
    if object.key.namespace.is_empty() { "default" } else { &object.key.namespace }
}

/// The whole event.
pub(super) fn create(component: &str, occurrence: &Occurrence, correlated: &Correlated) -> Result<Vec<u8>, serde_json::Error> {
    let Occurrence { object, event, .. } = occurrence;
    let version = object.resource_version;
    serde_json::to_vec(&Body {
        kind: "Event",
        api_version: "v1",
        metadata: Metadata { name: &name(object, correlated.first), namespace: namespace(object) },
        involved_object: InvolvedObject {
            kind: object.resource.kind,
            namespace: &object.key.namespace,
            name: &object.key.name,
            uid: object.uid.to_string(),
            api_version: object.resource.api_version(),
            resource_version: version.is_known().then(|| version.to_string()),
        },
        reason: event.reason,
        message: &correlated.message,
        source: Source { component },
        first_timestamp: timestamp(correlated.first),
        last_timestamp: timestamp(correlated.last),
        count: correlated.count,
        severity: event.severity.as_str(),
        event_time: (),
        // Upstream's aggregated events lose it (`EventAggregate` does not copy the field).
        reporting_component: if correlated.combined { "" } else { component },
        reporting_instance: "",
    })
}

/// The strategic merge patch of an event that happened again.
pub(super) fn patch(correlated: &Correlated) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Patch { count: correlated.count, last_timestamp: timestamp(correlated.last), message: &correlated.message })
}

fn timestamp(at: Time) -> String {
    at.timestamp().as_ref().map(Timestamp::to_string).unwrap_or_default()
}
