//! Protobuf read field by field out of a slice: what nobody asks for is stepped over and costs nothing.
//!
//! There is no schema here. A caller walks the fields of a message, takes those it knows by number and drops the rest;
//! nested messages are walked only when the caller opens them, so depth is the caller's and nothing recurses.
//! [`kubernetes`] knows the messages that carry objects, [`mod@write`] is the other direction for tests and fakes.

use crate::error::{DecodeError, ProtobufProblem};

pub mod kubernetes;
pub(crate) mod object_meta;
pub mod write;

pub use kubernetes::{Bookmark, Envelope, Items, List, ListMeta, WatchEvent};

/// The fields of one message, in the order they were written. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// Where `rest` begins in the outermost message.
    offset: usize,
}

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its number.
    pub number: u32,
    /// What it holds.
    pub value: Value<'a>,
    /// Where the value begins in the outermost message.
    offset: usize,
}

/// A field's value, as far as the wire tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Wire type 0: integers, booleans, enumerations.
    Varint(u64),
    /// Wire type 1.
    Fixed64(u64),
    /// Wire type 2: strings, bytes, messages, map entries.
    Bytes(&'a [u8]),
    /// Wire type 5.
    Fixed32(u32),
}

/// Field numbers have 29 bits.
const LAST_FIELD: u64 = (1 << 29) - 1;

// === impl Reader ===

impl<'a> Reader<'a> {
    /// Reads an outermost message.
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message, offset: 0 }
    }

    fn read_field(&mut self) -> Result<Field<'a>, DecodeError> {
        let start = self.offset;
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number > LAST_FIELD {
            return Err(problem(start, ProtobufProblem::FieldNumber));
        }
        let mut offset = self.offset;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let length = self.varint()?;
                offset = self.offset;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.fixed()?)),
            _ => return Err(problem(start, ProtobufProblem::WireType)),
        };
        Ok(Field { number: number as u32, value, offset })
    }

    /// Bits beyond 64 are lost, as in Go's generated readers.
    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let Some((&byte, rest)) = self.rest.split_first() else {
                return Err(problem(self.offset, ProtobufProblem::Truncated));
            };
            self.rest = rest;
            self.offset += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(problem(self.offset, ProtobufProblem::Varint))
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (value, rest) = self.rest.split_first_chunk().ok_or(problem(self.offset, ProtobufProblem::Truncated))?;
        self.rest = rest;
        self.offset += N;
        Ok(*value)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], DecodeError> {
        let parts = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let Some((value, rest)) = parts else { return Err(problem(self.offset, ProtobufProblem::Truncated)) };
        self.rest = rest;
        self.offset += value.len();
        Ok(value)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Field<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read_field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

// === impl Field ===

impl<'a> Field<'a> {
    /// A length-delimited field as it stands.
    ///
    /// # Errors
    /// When the field is of another wire type.
    pub fn bytes(&self) -> Result<&'a [u8], DecodeError> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => Err(self.problem(ProtobufProblem::WireType)),
        }
    }

    /// A string.
    ///
    /// # Errors
    /// When the field is of another wire type or not UTF-8.
    pub fn text(&self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| self.problem(ProtobufProblem::Utf8))
    }

    /// A nested message.
    ///
    /// # Errors
    /// When the field is of another wire type.
    pub fn message(&self) -> Result<Reader<'a>, DecodeError> {
        Ok(Reader { rest: self.bytes()?, offset: self.offset })
    }

    /// A `map<string, …>` entry: its key, and its value if it was written.
    ///
    /// # Errors
    /// When the field is no message of two length-delimited fields.
    pub fn entry(&self) -> Result<(Field<'a>, Field<'a>), DecodeError> {
        let absent = Field { number: 0, value: Value::Bytes(&[]), offset: self.offset };
        let (mut key, mut value) = (absent, absent);
        for field in self.message()? {
            let field = field?;
            match field.number {
                1 => key = field,
                2 => value = field,
                _ => {}
            }
        }
        key.bytes()?;
        value.bytes()?;
        Ok((key, value))
    }

    /// A varint: `uint64`, or anything that fits into one.
    ///
    /// # Errors
    /// When the field is of another wire type.
    pub fn uint64(&self) -> Result<u64, DecodeError> {
        match self.value {
            Value::Varint(value) => Ok(value),
            Value::Fixed64(_) | Value::Bytes(_) | Value::Fixed32(_) => Err(self.problem(ProtobufProblem::WireType)),
        }
    }

    /// An `int64`.
    ///
    /// # Errors
    /// When the field is of another wire type.
    pub fn int64(&self) -> Result<i64, DecodeError> {
        self.uint64().map(|value| value as i64)
    }

    /// An `int32`; higher bits are lost, as in Go's generated readers.
    ///
    /// # Errors
    /// When the field is of another wire type.
    pub fn int32(&self) -> Result<i32, DecodeError> {
        self.uint64().map(|value| value as i32)
    }

    /// A `bool`.
    ///
    /// # Errors
    /// When the field is of another wire type.
    pub fn bool(&self) -> Result<bool, DecodeError> {
        self.uint64().map(|value| value != 0)
    }

    fn problem(&self, what: ProtobufProblem) -> DecodeError {
        problem(self.offset, what)
    }
}

fn problem(offset: usize, problem: ProtobufProblem) -> DecodeError {
    DecodeError::Protobuf { offset, problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error_of(bytes: &[u8]) -> (usize, ProtobufProblem) {
        match Reader::new(bytes).find_map(Result::err) {
            Some(DecodeError::Protobuf { offset, problem }) => (offset, problem),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reads_every_wire_type() {
        let bytes = [
            0x08, 0xac, 0x02, // 1: varint 300
            0x11, 1, 0, 0, 0, 0, 0, 0, 0x80, // 2: fixed64
            0x1a, 2, b'h', b'i', // 3: bytes
            0x25, 7, 0, 0, 0, // 4: fixed32
            0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, // 5: -1
        ];
        let fields: Vec<_> = Reader::new(&bytes).collect::<Result<_, _>>().unwrap();
        let values: Vec<_> = fields.iter().map(|field| (field.number, field.value)).collect();
        assert_eq!(
            values,
            [
                (1, Value::Varint(300)),
                (2, Value::Fixed64(1 << 63 | 1)),
                (3, Value::Bytes(b"hi")),
                (4, Value::Fixed32(7)),
                (5, Value::Varint(u64::MAX)),
            ]
        );
        assert_eq!(fields[4].int32().unwrap(), -1);
        assert_eq!(fields[4].int64().unwrap(), -1);
        assert_eq!(fields[2].text().unwrap(), "hi");
    }

    #[test]
    fn errors_say_where_and_what() {
        assert_eq!(error_of(&[0x08]), (1, ProtobufProblem::Truncated));
        assert_eq!(error_of(&[0x08, 1, 0x1a, 5, 1]), (4, ProtobufProblem::Truncated));
        assert_eq!(error_of(&[0x11, 1, 2]), (1, ProtobufProblem::Truncated));
        assert_eq!(error_of(&[0x08, 1, 0x02, 0]), (2, ProtobufProblem::FieldNumber));
        assert_eq!(error_of(&[0x0b]), (0, ProtobufProblem::WireType));
        assert_eq!(error_of(&[0x80; 11]), (10, ProtobufProblem::Varint));
        let huge = [0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(error_of(&huge), (11, ProtobufProblem::Truncated));
    }

    #[test]
    fn offsets_of_nested_messages_count_from_the_outermost() {
        let bytes = [0x08, 1, 0x12, 4, 0x08, 1, 0x12, 9];
        let outer = Reader::new(&bytes).last().unwrap().unwrap();
        let error = outer.message().unwrap().find_map(Result::err).unwrap();
        assert!(matches!(error, DecodeError::Protobuf { offset: 8, problem: ProtobufProblem::Truncated }), "{error:?}");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut fields = 0;
            for field in Reader::new(&bytes) {
                fields += 1;
                if let Ok(field) = field {
                    let _ = (field.text(), field.uint64(), field.entry());
                }
            }
            prop_assert!(fields <= bytes.len());
        }
    }
}
