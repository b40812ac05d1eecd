//! The messages that carry Kubernetes objects. Field numbers are those of `generated.proto` in
//! `k8s.io/apimachinery/pkg/runtime` and `k8s.io/apimachinery/pkg/apis/meta/v1`.

use super::Reader;
use crate::error::{DecodeError, ProtobufProblem};
use crate::meta::ResourceVersion;

/// `runtime.Unknown` behind the magic bytes: how an object stands in a body or in a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// `apiVersion`.
    pub api_version: &'a str,
    /// `kind`.
    pub kind: &'a str,
    /// The object's own message.
    pub raw: &'a [u8],
}

/// `meta/v1` `WatchEvent`: one frame of a watch, without its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchEvent<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event_type: &'a str,
    /// The object, in its [`Envelope`].
    pub object: &'a [u8],
}

/// What an object of a `BOOKMARK` event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Bookmark {
    /// The version the watch has reached.
    pub resource_version: ResourceVersion,
    /// The annotation `k8s.io/initial-events-end`: a streaming list is complete.
    pub initial_events_end: bool,
}

/// `meta/v1` `ListMeta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ListMeta<'a> {
    /// The version of the list.
    pub resource_version: ResourceVersion,
    /// How to ask for the next page; empty on the last one.
    pub continue_token: &'a str,
    /// How many items follow this page, if the server says so.
    pub remaining_item_count: Option<i64>,
}

/// A list of any kind: they all have the metadata in field 1 and the items in field 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List<'a> {
    /// Its metadata.
    pub meta: ListMeta<'a>,
    raw: &'a [u8],
}

/// The items of a [`List`], each one the message of an object. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Items<'a>(Reader<'a>);

/// The bytes before every enveloped object (upstream `k8s.io/apimachinery/pkg/runtime/serializer/protobuf` `protoEncodingPrefix`).
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// The annotation of the bookmark that ends a streaming list's initial events.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

// === impl Envelope ===

impl<'a> Envelope<'a> {
    /// Opens an envelope. Offsets in errors count from the first byte behind the magic.
    ///
    /// # Errors
    /// When the magic bytes are missing or what follows is no `runtime.Unknown`.
    pub fn open(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let Some(unknown) = bytes.strip_prefix(MAGIC) else {
            return Err(DecodeError::Protobuf { offset: 0, problem: ProtobufProblem::Envelope });
        };
        let mut envelope = Self { api_version: "", kind: "", raw: &[] };
        for field in Reader::new(unknown) {
            let field = field?;
            match field.number {
                1 => {
                    for field in field.message()? {
                        let field = field?;
                        match field.number {
                            1 => envelope.api_version = field.text()?,
                            2 => envelope.kind = field.text()?,
                            _ => {}
                        }
                    }
                }
                2 => envelope.raw = field.bytes()?,
                _ => {}
            }
        }
        Ok(envelope)
    }
}

// === impl WatchEvent ===

impl<'a> WatchEvent<'a> {
    /// Reads a frame, which has no envelope of its own.
    ///
    /// # Errors
    /// When the bytes are no `WatchEvent`.
    pub fn read(frame: &'a [u8]) -> Result<Self, DecodeError> {
        let mut event = Self { event_type: "", object: &[] };
        for field in Reader::new(frame) {
            let field = field?;
            match field.number {
                1 => event.event_type = field.text()?,
                2 => {
                    for field in field.message()? {
                        let field = field?;
                        if field.number == 1 {
                            event.object = field.bytes()?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(event)
    }
}

// === impl Bookmark ===

impl Bookmark {
    /// Reads the metadata of an object of any kind, taken out of its envelope.
    ///
    /// # Errors
    /// When the bytes are no object.
    pub fn read(raw: &[u8]) -> Result<Self, DecodeError> {
        let mut bookmark = Self::default();
        for field in Reader::new(raw) {
            let field = field?;
            if field.number != 1 {
                continue;
            }
            for field in field.message()? {
                let field = field?;
                match field.number {
                    6 => bookmark.resource_version = ResourceVersion::parse(field.text()?),
                    12 => {
                        let (key, value) = field.entry()?;
                        if key.bytes()? == INITIAL_EVENTS_END.as_bytes() {
                            bookmark.initial_events_end = value.bytes()? == b"true";
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(bookmark)
    }
}

// === impl List ===

impl<'a> List<'a> {
    /// Reads a list's message, taken out of its envelope. The items are stepped over once here and again by [`List::items`].
    ///
    /// # Errors
    /// When the bytes are no list.
    pub fn read(raw: &'a [u8]) -> Result<Self, DecodeError> {
        let mut meta = ListMeta::default();
        for field in Reader::new(raw) {
            let field = field?;
            if field.number != 1 {
                continue;
            }
            for field in field.message()? {
                let field = field?;
                match field.number {
                    2 => meta.resource_version = ResourceVersion::parse(field.text()?),
                    3 => meta.continue_token = field.text()?,
                    4 => meta.remaining_item_count = Some(field.int64()?),
                    _ => {}
                }
            }
        }
        Ok(Self { meta, raw })
    }

    /// The items' messages, in order.
    pub fn items(&self) -> Items<'a> {
        Items(Reader::new(self.raw))
    }
}

// === impl Items ===

impl<'a> Iterator for Items<'a> {
    type Item = Result<&'a [u8], DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.0.find(|field| !matches!(field, Ok(field) if field.number != 2))?;
        Some(item.and_then(|field| field.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::write::{self, Writer};
    use proptest::prelude::*;

    #[test]
    fn a_frame_is_opened_down_to_its_object() {
        let object = write::envelope("v1", "Pod", b"\x0a\x00");
        let frame = write::watch_event("ADDED", &object);
        let event = WatchEvent::read(&frame).unwrap();
        assert_eq!(event.event_type, "ADDED");
        let envelope = Envelope::open(event.object).unwrap();
        assert_eq!(envelope, Envelope { api_version: "v1", kind: "Pod", raw: b"\x0a\x00" });
    }

    #[test]
    fn bytes_without_magic_are_no_envelope() {
        let error = Envelope::open(b"{\"kind\":\"Status\"}").unwrap_err();
        assert!(matches!(error, DecodeError::Protobuf { offset: 0, problem: ProtobufProblem::Envelope }));
    }

    #[test]
    fn a_bookmark_tells_whether_the_initial_events_ended() {
        for (key, value, ended) in [(INITIAL_EVENTS_END, "true", true), (INITIAL_EVENTS_END, "false", false), ("other", "true", false)] {
            let meta = Writer::new().text(1, "").text(6, "4711").entry(12, key, value);
            let raw = Writer::new().message(1, &meta).into_bytes();
            let bookmark = Bookmark::read(&raw).unwrap();
            assert_eq!(bookmark, Bookmark { resource_version: ResourceVersion(4711), initial_events_end: ended });
        }
    }

    #[test]
    fn a_list_has_metadata_and_items() {
        let meta = Writer::new().text(1, "").text(2, "99").text(3, "next").varint(4, 12);
        let raw = Writer::new().message(1, &meta).bytes(2, b"one").varint(9, 1).bytes(2, b"").bytes(2, b"three").into_bytes();
        let list = List::read(&raw).unwrap();
        assert_eq!(list.meta, ListMeta { resource_version: ResourceVersion(99), continue_token: "next", remaining_item_count: Some(12) });
        let items: Vec<_> = list.items().collect::<Result<_, _>>().unwrap();
        assert_eq!(items, [&b"one"[..], b"", b"three"]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_end(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), magic in any::<bool>()) {
            if magic {
                bytes.splice(0..0, *MAGIC);
            }
            let _ = Envelope::open(&bytes);
            let _ = WatchEvent::read(&bytes);
            let _ = Bookmark::read(&bytes);
            if let Ok(list) = List::read(&bytes) {
                prop_assert!(list.items().count() <= bytes.len());
            }
        }
    }
}
