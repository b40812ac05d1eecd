//! What stops a list or a watch, and what the answers mean for going on.

use model::plan::ApiError;

use super::frames::FrameTooLong;
use super::wire::WireError;
use crate::client::no_answer;

/// Why a watch is read no further.
#[derive(Debug)]
pub(super) enum Stop {
    /// The server ended it.
    Closed,
    /// The connection broke.
    Lost(ApiError),
    /// It should have ended, or its list should have gone on.
    Silent,
    /// An ERROR event, or something that is no event.
    Error(ApiError),
    /// An object gets a second look.
    Undecodable,
    /// Somebody asked for a list.
    Relist,
    /// Somebody asked whether nothing was missed.
    CatchUp,
}

/// An object could not be decoded for the first time.
pub(super) struct SecondLook;

// === impl Stop ===

impl From<FrameTooLong> for Stop {
    fn from(error: FrameTooLong) -> Self {
        Self::Error(no_answer(UNREADABLE, &format!("a watch event is longer than {} bytes", error.limit)))
    }
}

impl From<WireError> for Stop {
    fn from(error: WireError) -> Self {
        Self::Error(unreadable(&error))
    }
}

/// The reason of what could not be read.
pub(super) const UNREADABLE: &str = "Unreadable";
/// The reason of a list that is older than asked for.
pub(super) const BEHIND: &str = "Behind";

pub(super) fn unreadable(error: &WireError) -> ApiError {
    no_answer(UNREADABLE, &error.to_string())
}

pub(super) fn no_version() -> ApiError {
    no_answer(UNREADABLE, "the list has no resourceVersion")
}

/// Upstream's `isExpiredError`: `Expired` or `Gone`.
pub(super) fn is_gone(error: &ApiError) -> bool {
    error.is_gone() || error.reason == "Expired"
}

/// The server has not yet seen the version that was asked for (upstream `isTooLargeResourceVersionError`).
pub(super) fn is_behind(error: &ApiError) -> bool {
    error.reason == BEHIND || (error.code == 504 && error.message.contains("Too large resource version"))
}

/// The server knows no streaming list, or not for this resource.
pub(super) fn is_no_streaming_list(error: &ApiError) -> bool {
    matches!(error.code, 400 | 405 | 422 | 501)
}
