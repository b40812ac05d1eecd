//! What lists and watch events say, in either format.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use model::plan::ApiError;
use model::protobuf::kubernetes::INITIAL_EVENTS_END;
use model::protobuf::{Bookmark, Envelope, List, Reader, WatchEvent};
use model::{DecodeError, Format, ResourceVersion, first_json, status};
use serde::Deserialize;
use serde_json::value::RawValue;

/// One event of a watch. Objects are what [`model::Decode::decode`] reads; behind one in JSON the rest of its event may follow.
#[derive(Debug)]
pub(super) enum Event<'a> {
    /// `ADDED` and `MODIFIED`: after a lost event either may stand for the other.
    Applied(&'a [u8]),
    Deleted(&'a [u8]),
    Bookmark(Bookmark),
    Error(ApiError),
}

/// One page of a list.
#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) version: ResourceVersion,
    /// For the next page; `None` on the last one.
    pub(super) continue_token: Option<String>,
    pub(super) items: Vec<&'a [u8]>,
}

/// Why a frame or a page could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("a watch event has the unknown type {0:?}")]
    EventType(String),
}

/// Reads a frame.
pub(super) fn event(format: Format, frame: &[u8]) -> Result<Event<'_>, WireError> {
    match format {
        Format::Json => {
            if let Some(event) = spelled_by_go(frame) {
                return Ok(event);
            }
            let event: JsonEvent<'_> = json(frame)?;
            let object = event.object.get().as_bytes();
            Ok(match &*event.event_type {
                "ADDED" | "MODIFIED" => Event::Applied(object),
                "DELETED" => Event::Deleted(object),
                "BOOKMARK" => Event::Bookmark(json_bookmark(object)?),
                "ERROR" => Event::Error(status::from_json(500, object)?),
                other => return Err(WireError::EventType(other.to_owned())),
            })
        }
        Format::Protobuf => {
            let event = WatchEvent::read(frame)?;
            Ok(match event.event_type {
                "ADDED" | "MODIFIED" => Event::Applied(Envelope::open(event.object)?.raw),
                "DELETED" => Event::Deleted(Envelope::open(event.object)?.raw),
                "BOOKMARK" => Event::Bookmark(Bookmark::read(Envelope::open(event.object)?.raw)?),
                "ERROR" => Event::Error(status::from_protobuf(500, event.object)?),
                other => return Err(WireError::EventType(other.to_owned())),
            })
        }
    }
}

/// An event of an object, if it is spelled as Go's encoder spells it: the type first. The object is not looked for its end, since a
/// decoder finds it anyway: to read every object twice was an eighth of all work.
fn spelled_by_go(frame: &[u8]) -> Option<Event<'_>> {
    let rest = frame.strip_prefix(br#"{"type":""#)?;
    let applied = || rest.strip_prefix(br#"ADDED","object":"#).or_else(|| rest.strip_prefix(br#"MODIFIED","object":"#));
    let deleted = || rest.strip_prefix(br#"DELETED","object":"#);
    applied().map(Event::Applied).or_else(|| deleted().map(Event::Deleted))
}

/// Reads a page.
pub(super) fn page(format: Format, body: &[u8]) -> Result<Page<'_>, WireError> {
    match format {
        Format::Json => {
            let list: JsonList<'_> = json(body)?;
            let meta = list.metadata.unwrap_or_default();
            Ok(Page {
                version: ResourceVersion::parse(meta.resource_version.as_deref().unwrap_or_default()),
                continue_token: meta.token.filter(|token| !token.is_empty()).map(Cow::into_owned),
                items: list.items.unwrap_or_default().into_iter().map(|item| item.get().as_bytes()).collect(),
            })
        }
        Format::Protobuf => {
            let list = List::read(Envelope::open(body)?.raw)?;
            let token = list.meta.continue_token;
            Ok(Page {
                version: list.meta.resource_version,
                continue_token: (!token.is_empty()).then(|| token.to_owned()),
                items: list.items().collect::<Result<_, _>>()?,
            })
        }
    }
}

/// What tells an object that cannot be decoded from others: its namespace, name and UID if they can be read, else its bytes.
pub(super) fn identity(format: Format, object: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let named = match format {
        Format::Json => json_identity(object, &mut hasher),
        Format::Protobuf => protobuf_identity(object, &mut hasher),
    };
    if named.is_none() {
        object.hash(&mut hasher);
    }
    hasher.finish()
}

/// Without a name nothing is hashed.
fn json_identity(object: &[u8], hasher: &mut DefaultHasher) -> Option<()> {
    let meta = first_json::<JsonObject<'_>>(object).ok()?.metadata?;
    (meta.namespace, meta.name?, meta.uid).hash(hasher);
    Some(())
}

/// Without a name nothing is hashed.
fn protobuf_identity(object: &[u8], hasher: &mut DefaultHasher) -> Option<()> {
    let meta = Reader::new(object).find_map(|field| field.ok().filter(|field| field.number == 1))?;
    let (mut name, mut namespace, mut uid) = (None, None, None);
    for field in meta.message().ok()?.map_while(Result::ok) {
        match field.number {
            1 => name = field.bytes().ok(),
            3 => namespace = field.bytes().ok(),
            5 => uid = field.bytes().ok(),
            _ => {}
        }
    }
    (namespace, name?, uid).hash(hasher);
    Some(())
}

#[derive(Deserialize)]
struct JsonEvent<'a> {
    #[serde(rename = "type", borrow)]
    event_type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct JsonList<'a> {
    #[serde(borrow)]
    metadata: Option<JsonListMeta<'a>>,
    /// Go writes an empty list as null where it was never made.
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct JsonListMeta<'a> {
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(rename = "continue", borrow)]
    token: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct JsonObject<'a> {
    #[serde(borrow)]
    metadata: Option<JsonMeta<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct JsonMeta<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

fn json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DecodeError> {
    Ok(serde_json::from_slice(bytes)?)
}

fn json_bookmark(object: &[u8]) -> Result<Bookmark, DecodeError> {
    #[derive(Deserialize)]
    struct Annotations<'a> {
        #[serde(rename = "k8s.io/initial-events-end", borrow)]
        ended: Option<Cow<'a, str>>,
    }
    debug_assert_eq!(INITIAL_EVENTS_END, "k8s.io/initial-events-end");
    let meta = json::<JsonObject<'_>>(object)?.metadata.unwrap_or_default();
    let ended = match meta.annotations {
        Some(annotations) => json::<Option<Annotations<'_>>>(annotations.get().as_bytes())?.and_then(|annotations| annotations.ended),
        None => None,
    };
    Ok(Bookmark {
        resource_version: ResourceVersion::parse(meta.resource_version.as_deref().unwrap_or_default()),
        initial_events_end: ended.as_deref() == Some("true"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_event_is_read_in_any_field_order() {
        let frame = br#"{"object":{"metadata":{"name":"a"}},"type":"MODIFIED"}"#;
        assert!(matches!(event(Format::Json, frame).unwrap(), Event::Applied(br#"{"metadata":{"name":"a"}}"#)));
    }

    #[test]
    fn json_event_as_go_spells_it_is_not_read_twice() {
        for (kind, deleted) in [("ADDED", false), ("MODIFIED", false), ("DELETED", true)] {
            let frame = format!(r#"{{"type":"{kind}","object":{{"metadata":{{"name":"a","uid":"u"}}}},"newer":1}}"#);
            let event = event(Format::Json, frame.as_bytes()).unwrap();
            assert_eq!(matches!(event, Event::Deleted(_)), deleted);
            let (Event::Applied(object) | Event::Deleted(object)) = event else { panic!("{frame}") };
            let alone = br#"{"metadata":{"name":"a","uid":"u"}}"#;
            assert!(object.starts_with(alone));
            assert_eq!(first_json::<serde_json::Value>(object).unwrap(), serde_json::from_slice::<serde_json::Value>(alone).unwrap());
            assert_eq!(identity(Format::Json, object), identity(Format::Json, alone));
        }
    }

    #[test]
    fn json_bookmark_with_and_without_the_annotation() {
        for (annotations, ended) in
            [("", false), (r#","annotations":null"#, false), (r#","annotations":{"k8s.io/initial-events-end":"true","a":"b"}"#, true)]
        {
            let frame = format!(
                r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","metadata":{{"resourceVersion":"77","creationTimestamp":null{annotations}}}}}}}"#
            );
            let Event::Bookmark(bookmark) = event(Format::Json, frame.as_bytes()).unwrap() else { panic!("{frame}") };
            assert_eq!(bookmark, Bookmark { resource_version: ResourceVersion(77), initial_events_end: ended });
        }
    }

    #[test]
    fn json_page_with_null_items_and_no_token() {
        let page = page(Format::Json, br#"{"kind":"PodList","metadata":{"resourceVersion":"5","continue":""},"items":null}"#).unwrap();
        assert_eq!((page.version, page.continue_token, page.items.len()), (ResourceVersion(5), None, 0));
    }

    #[test]
    fn unknown_event_type_is_an_error() {
        assert!(matches!(event(Format::Json, br#"{"type":"NEWS","object":{}}"#), Err(WireError::EventType(_))));
        assert!(event(Format::Json, b"{").is_err());
        assert!(event(Format::Protobuf, b"\x0a\x04NEWS").is_err());
    }

    #[test]
    fn identity_survives_a_change_of_the_object() {
        let a = identity(Format::Json, br#"{"metadata":{"name":"a","namespace":"n","uid":"u","labels":7},"spec":1}"#);
        let b = identity(Format::Json, br#"{"metadata":{"name":"a","namespace":"n","uid":"u"},"spec":2}"#);
        let c = identity(Format::Json, br#"{"metadata":{"name":"c","namespace":"n","uid":"u"},"spec":2}"#);
        assert_eq!(a, b);
        assert_ne!(a, c);
        assert_ne!(identity(Format::Json, b"1"), identity(Format::Json, b"2"), "without a name the bytes are the identity");
    }
}
