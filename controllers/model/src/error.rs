//! Why something could not be read.

use std::fmt;

/// Why an object, a page or a frame could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Bytes that are not the JSON we expect.
    #[error("reading JSON failed")]
    Json(#[from] serde_json::Error),
    /// Bytes that are not the protobuf we expect.
    #[error("reading protobuf failed at byte {offset}: {problem}")]
    Protobuf {
        /// Where in the message the reader stood.
        offset: usize,
        /// What was wrong there.
        problem: ProtobufProblem,
    },
    /// A field without which the object cannot be told from others.
    #[error("metadata.{field} is missing or malformed: {value:?}")]
    Identity {
        /// The field's name below `metadata`.
        field: &'static str,
        /// What stood there, shortened.
        value: String,
    },
}

/// What can be wrong with a protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtobufProblem {
    /// The message ends inside a field.
    Truncated,
    /// A varint of more than ten bytes.
    Varint,
    /// A wire type that does not exist (3, 4, 6, 7) or that this field cannot have.
    WireType,
    /// Field number zero, or beyond 29 bits.
    FieldNumber,
    /// A string that is not UTF-8.
    Utf8,
    /// The `k8s\0` envelope is missing.
    Envelope,
}

impl fmt::Display for ProtobufProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the message ends inside a field",
            Self::Varint => "a varint has more than ten bytes",
            Self::WireType => "the wire type does not fit the field",
            Self::FieldNumber => "the field number is zero or too large",
            Self::Utf8 => "a string is not UTF-8",
            Self::Envelope => "the k8s envelope is missing",
        })
    }
}
