//! Identities, versions and times: the parts every object shares.

use std::fmt;
use std::num::NonZeroI64;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::DecodeError;

/// `metadata.uid`, a UUID in 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(pub u128);

/// `metadata.resourceVersion` as a number; zero when it is absent or not a canonical decimal.
///
/// Versions of different resources are never compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub struct ResourceVersion(pub u64);

/// A point in time of an API object, in whole seconds since the Unix epoch; Go's zero time is `None` around it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Timestamp(NonZeroI64);

/// One reading of the wall clock, in nanoseconds since the Unix epoch; handed into decisions as a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Time(pub i64);

/// `namespace/name`: what a work queue carries.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

/// The kinds that may own what we manage. A controller of any other kind is [`ControllerRef::Foreign`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum OwnerKind {
    /// `apps/v1` Deployment.
    Deployment,
    /// `apps/v1` ReplicaSet.
    ReplicaSet,
    /// `apps/v1` StatefulSet.
    StatefulSet,
}

/// The owner reference with `controller: true`, of a kind that we run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OwnerRef {
    /// The owner's kind; its API group is not compared (upstream `resolveControllerRef`).
    pub kind: OwnerKind,
    /// The owner's name.
    pub name: Arc<str>,
    /// The owner's UID; [`Uid::NONE`] if it is not a UUID, so that it matches nobody.
    pub uid: Uid,
}

/// Who controls an object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ControllerRef {
    /// Nobody: an orphan, which may be adopted.
    None,
    /// A kind that is none of ours: never touched, and nothing more about it is kept.
    Foreign,
    /// One of our kinds.
    Owner(Arc<OwnerRef>),
}

// === impl Uid ===

impl Uid {
    /// What no object has. Stands for owner UIDs that are not UUIDs.
    pub const NONE: Self = Self(u128::MAX);

    /// Reads the canonical spelling: lower case, hyphens at 8-4-4-4-12. Anything else is `None`, since it could not be written back as it was.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 36 {
            return None;
        }
        let mut value = 0_u128;
        for (at, byte) in bytes.iter().enumerate() {
            let digit = match byte {
                b'-' if matches!(at, 8 | 13 | 18 | 23) => continue,
                b'0'..=b'9' if !matches!(at, 8 | 13 | 18 | 23) => byte - b'0',
                b'a'..=b'f' if !matches!(at, 8 | 13 | 18 | 23) => byte - b'a' + 10,
                _ => return None,
            };
            value = value << 4 | u128::from(digit);
        }
        Some(Self(value))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            (v >> 96) as u32,
            (v >> 80) as u16,
            (v >> 64) as u16,
            (v >> 48) as u16,
            v & 0xffff_ffff_ffff
        )
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl ResourceVersion ===

impl ResourceVersion {
    /// Reads a canonical decimal: digits only, no leading zero, not `0`. Anything else is version zero, which compares with nothing
    /// (upstream `k8s.io/apimachinery/pkg/util/resourceversion`).
    pub fn parse(text: &str) -> Self {
        if text.starts_with('0') || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Self(0);
        }
        Self(text.parse().unwrap_or(0))
    }

    /// Whether this is a version that can be compared and sent as a precondition.
    pub fn is_known(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl Timestamp ===

impl Timestamp {
    /// From seconds since the epoch; the epoch itself reads as Go's zero time.
    pub fn from_seconds(seconds: i64) -> Option<Self> {
        NonZeroI64::new(seconds).map(Self)
    }

    /// Seconds since the epoch.
    pub fn seconds(self) -> i64 {
        self.0.get()
    }

    /// Reads RFC 3339, cutting fractions off; `None` if it is no time.
    pub fn parse(text: &str) -> Option<Self> {
        let at = jiff::Timestamp::from_str(text).ok()?;
        Self::from_seconds(at.as_second())
    }

    /// The same point as a [`Time`].
    pub fn time(self) -> Time {
        Time(self.0.get().saturating_mul(NANOS))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_second(self.0.get()) {
            Ok(at) => at.fmt(f),
            Err(_) => f.write_str("invalid"),
        }
    }
}

// === impl Time ===

const NANOS: i64 = 1_000_000_000;

impl Time {
    /// Cut to whole seconds, as the API server stores it.
    pub fn timestamp(self) -> Option<Timestamp> {
        Timestamp::from_seconds(self.0.div_euclid(NANOS))
    }

    /// Nanoseconds from `earlier` to here; negative if `earlier` is later.
    pub fn nanos_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This time plus that much.
    #[must_use]
    pub fn after(self, duration: std::time::Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// This time plus so many seconds.
    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(NANOS)))
    }
}

// === impl ObjectKey ===

impl ObjectKey {
    /// A key from its two parts.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl OwnerKind ===

impl OwnerKind {
    /// The kind of that name, if it is one we run.
    pub fn from_kind(kind: &str) -> Option<Self> {
        match kind {
            "Deployment" => Some(Self::Deployment),
            "ReplicaSet" => Some(Self::ReplicaSet),
            "StatefulSet" => Some(Self::StatefulSet),
            _ => None,
        }
    }

    /// As `kind` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
        }
    }
}

// === impl ControllerRef ===

impl ControllerRef {
    /// The owner, if it is of a kind that we run.
    pub fn owner(&self) -> Option<&Arc<OwnerRef>> {
        match self {
            Self::Owner(owner) => Some(owner),
            Self::None | Self::Foreign => None,
        }
    }

    /// Whether the object of that UID controls this one.
    pub fn is(&self, uid: Uid) -> bool {
        self.owner().is_some_and(|owner| owner.uid == uid)
    }

    /// Whether nobody controls this object.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// The error for an identity field, with what stood there cut to a size that a log line can bear.
pub(crate) fn identity(field: &'static str, value: &str) -> DecodeError {
    DecodeError::Identity { field, value: value.chars().take(80).collect() }
}
