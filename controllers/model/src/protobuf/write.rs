//! Writes protobuf. For tests and fakes: what the product sends is JSON.

use super::kubernetes::MAGIC;

/// A message in the making; fields stand in the order they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writer(Vec<u8>);

/// An object's message in its envelope: a body, or the object of a watch event.
pub fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = Writer::new().text(1, api_version).text(2, kind);
    let unknown = Writer::new().message(1, &type_meta).bytes(2, raw).text(3, "").text(4, "");
    [MAGIC, unknown.into_bytes().as_slice()].concat()
}

/// A `WatchEvent` around an enveloped object.
pub fn watch_event(event_type: &str, object: &[u8]) -> Vec<u8> {
    Writer::new().text(1, event_type).message(2, &Writer::new().bytes(1, object)).into_bytes()
}

/// A frame of a watch: the length in four bytes, highest first, and the message.
pub fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes(), message].concat()
}

// === impl Writer ===

impl Writer {
    /// An empty message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an integer, a boolean (0 or 1) or an enumeration. Negative numbers are written as their `u64` bits.
    #[must_use]
    pub fn varint(mut self, number: u32, value: u64) -> Self {
        self.raw_varint(u64::from(number) << 3);
        self.raw_varint(value);
        self
    }

    /// Adds bytes.
    #[must_use]
    pub fn bytes(mut self, number: u32, value: &[u8]) -> Self {
        self.raw_varint(u64::from(number) << 3 | 2);
        self.raw_varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// Adds a string.
    #[must_use]
    pub fn text(self, number: u32, value: &str) -> Self {
        self.bytes(number, value.as_bytes())
    }

    /// Adds a nested message.
    #[must_use]
    pub fn message(self, number: u32, value: &Self) -> Self {
        self.bytes(number, &value.0)
    }

    /// Adds an entry of a `map<string, string>`.
    #[must_use]
    pub fn entry(self, number: u32, key: &str, value: &str) -> Self {
        self.message(number, &Self::new().text(1, key).text(2, value))
    }

    /// The message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
