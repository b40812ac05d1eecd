//! Events of a watch, cut out of its bytes with nothing lost: what comes out is sent on as it is.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderValue};
use model::protobuf::{Bookmark, Envelope, Field, Reader, WatchEvent};
use serde::Deserialize;

use super::rule::Event;

/// How objects are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Protobuf,
}

/// Takes a stream apart.
#[derive(Debug)]
pub(super) struct Frames {
    format: Format,
    buffer: BytesMut,
}

/// The length before a protobuf frame.
const PREFIX: usize = 4;

// === impl Format ===

impl Format {
    /// The form of an answer.
    pub(super) fn of(answer: &HeaderMap) -> Self {
        let protobuf = answer.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().windows(8).any(|part| part == b"protobuf"));
        if protobuf { Self::Protobuf } else { Self::Json }
    }

    pub(super) fn content_type(self, watch: bool) -> HeaderValue {
        HeaderValue::from_static(match (self, watch) {
            (Self::Json, _) => "application/json",
            (Self::Protobuf, false) => "application/vnd.kubernetes.protobuf",
            (Self::Protobuf, true) => "application/vnd.kubernetes.protobuf;stream=watch",
        })
    }
}

// === impl Frames ===

impl Frames {
    pub(super) fn new(format: Format) -> Self {
        Self { format, buffer: BytesMut::new() }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// The next whole frame, its line end or length included.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        let length = match self.format {
            Format::Json => self.buffer.iter().position(|byte| *byte == b'\n')? + 1,
            Format::Protobuf => PREFIX + u32::from_be_bytes(*self.buffer.first_chunk::<PREFIX>()?) as usize,
        };
        (self.buffer.len() >= length).then(|| self.buffer.split_to(length).freeze())
    }

    /// What is left when the stream has ended in the middle of a frame.
    pub(super) fn rest(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }
}

/// What a frame says. One that cannot be read is an event of no type.
pub(super) fn event(format: Format, frame: &[u8]) -> Event {
    match format {
        Format::Json => json_event(frame),
        Format::Protobuf => frame.get(PREFIX..).and_then(protobuf_event),
    }
    .unwrap_or_default()
}

fn json_event(frame: &[u8]) -> Option<Event> {
    #[derive(Deserialize)]
    struct Line {
        r#type: String,
        object: Object,
    }
    #[derive(Deserialize)]
    struct Object {
        #[serde(default)]
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Metadata {
        name: String,
        annotations: Option<Annotations>,
    }
    #[derive(Deserialize)]
    struct Annotations {
        #[serde(default, rename = "k8s.io/initial-events-end")]
        ended: String,
    }
    let Line { r#type, object: Object { metadata } } = serde_json::from_slice(frame).ok()?;
    let ends_list = r#type == "BOOKMARK" && metadata.annotations.is_some_and(|annotations| annotations.ended == "true");
    Some(Event { event_type: r#type, name: metadata.name, ends_list })
}

fn protobuf_event(message: &[u8]) -> Option<Event> {
    let event = WatchEvent::read(message).ok()?;
    let raw = Envelope::open(event.object).ok()?.raw;
    let (name, ends_list) = match event.event_type {
        "ERROR" => ("", false),
        "BOOKMARK" => ("", Bookmark::read(raw).ok()?.initial_events_end),
        // Metadata is field 1 of every object, and the name field 1 of it.
        _ => (first(first(raw)?.bytes().ok()?)?.text().ok()?, false),
    };
    Some(Event { event_type: event.event_type.to_owned(), name: name.to_owned(), ends_list })
}

/// The first field numbered 1.
fn first(message: &[u8]) -> Option<Field<'_>> {
    Reader::new(message).map_while(Result::ok).find(|field| field.number == 1)
}

#[cfg(test)]
mod tests {
    use model::protobuf::write::{self, Writer};

    use super::*;

    fn pod(event_type: &str, name: &str) -> Vec<u8> {
        let object = Writer::new().message(1, &Writer::new().text(1, name)).into_bytes();
        write::frame(&write::watch_event(event_type, &write::envelope("v1", "Pod", &object)))
    }

    #[test]
    fn frames_come_out_whole_whatever_pieces_they_arrive_in() {
        let json = b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n{\"type\":\"BOOKMARK\",\"object\":{}}\n";
        let protobuf = [pod("ADDED", "a"), pod("DELETED", "b")].concat();
        for (format, stream) in [(Format::Json, &json[..]), (Format::Protobuf, &protobuf)] {
            for size in [1, 3, stream.len()] {
                let mut frames = Frames::new(format);
                let mut out = Vec::new();
                for piece in stream.chunks(size) {
                    frames.push(piece);
                    out.extend(std::iter::from_fn(|| frames.next()));
                }
                assert_eq!(out.len(), 2);
                assert_eq!(out.concat(), stream);
                assert!(frames.rest().is_empty());
            }
        }
    }

    #[test]
    fn events_tell_their_type_and_name() {
        let named = |event_type: &str, name: &str| Event { event_type: event_type.to_owned(), name: name.to_owned(), ends_list: false };
        assert_eq!(event(Format::Protobuf, &pod("DELETED", "b")), named("DELETED", "b"));
        assert_eq!(event(Format::Json, br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#), named("ADDED", "a"));
        let end = br#"{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert!(event(Format::Json, end).ends_list);
        assert_eq!(event(Format::Json, b"{"), Event::default());
    }
}
