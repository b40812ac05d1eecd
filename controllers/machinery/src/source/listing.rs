//! How a source lists: by the first events of a watch, or by pages.

use model::plan::ApiError;
use model::{Decode, ResourceVersion};
use tracing::warn;

use tokio::time::Instant;

use super::failure::{BEHIND, SecondLook, Stop, is_behind, is_gone, is_no_streaming_list, no_version, unreadable};
use super::reflector::{After, Source, State, Way};
use super::sink::{Sink, SourceEvent};
use super::transport::{Freshness, PageRequest, PageStart, Transport, WatchStart};
use super::wire;
use crate::client::{CallError, no_answer};

/// After so many streaming lists that broke off, one is read by pages: progress matters more than the way.
const BROKEN: u32 = 3;

/// A list is begun again so often for objects that fail for the first time; then even they are left out, so that it ends.
const LOOKS: u32 = 3;

// === impl Source ===

impl<D: Decode, T: Transport> Source<D, T> {
    pub(super) async fn begin_list<S: Sink<D::Object>>(&mut self, sink: &mut S) -> State<T::Chunks> {
        self.counters.lists.inc();
        self.report.list_begun();
        self.second_look = false;
        self.list_answers = (self.wanted == Freshness::Consistent).then(|| self.wishes.asked());
        if self.way == Way::Pages || matches!(self.way, Way::Stream { broken } if broken >= BROKEN) {
            return State::Page(None);
        }
        match self.open(WatchStart::InitialEvents(self.wanted)).await {
            Ok(open) => {
                sink.apply(SourceEvent::Restarted);
                State::Read(open)
            }
            Err(error) => {
                let error = error.into_error();
                if is_no_streaming_list(&error) {
                    warn!(resource = self.config.resource.plural, error = error.message, "server has no streaming list, reading pages");
                    self.way = Way::Pages;
                    return State::Page(None);
                }
                if error.code >= 500 { self.stream_failed(error) } else { self.list_failed(error) }
            }
        }
    }

    pub(super) async fn read_page<S: Sink<D::Object>>(&mut self, token: Option<String>, sink: &mut S) -> State<T::Chunks> {
        let first = token.is_none();
        let at = token.clone().map_or(PageStart::First(self.wanted), PageStart::Continue);
        let body = match self.transport.list(&PageRequest { limit: self.page_size, at }).await {
            Ok(body) => body,
            Err(error) => return self.page_failed(error, token),
        };
        let page = match wire::page(D::FORMAT, &body) {
            Ok(page) => page,
            Err(error) => return self.list_failed(unreadable(&error)),
        };
        if !page.version.is_known() {
            return self.list_failed(no_version());
        }
        if matches!(self.wanted, Freshness::NotOlderThan(version) if page.version < version) {
            return self.list_failed(no_answer(BEHIND, "the list is older than was asked for"));
        }
        if first {
            sink.apply(SourceEvent::Restarted);
        }
        for item in page.items {
            if let Some(object) = self.decode_listed(item) {
                sink.apply(SourceEvent::Listed(object));
            }
        }
        if page.continue_token.is_some() {
            return State::Page(page.continue_token);
        }
        if self.second_look {
            return self.look_again();
        }
        self.list_done(page.version, sink);
        State::Watch
    }

    /// A page that was not read. The pages before it count, unless their list is gone.
    fn page_failed(&mut self, error: CallError, token: Option<String>) -> State<T::Chunks> {
        if error.is_too_large() && self.page_size > 1 {
            self.page_size /= 2;
            return self.wait(error.into_error(), After::Page(token));
        }
        let error = error.into_error();
        // 410 may offer a token that goes on at another version: such a list would be of no single moment.
        if token.is_none() || is_gone(&error) || matches!(error.code, 400 | 422) {
            return if token.is_some() { self.wait(error, After::List) } else { self.list_failed(error) };
        }
        self.wait(error, After::Page(token))
    }

    fn list_failed(&mut self, error: ApiError) -> State<T::Chunks> {
        if is_gone(&error) {
            self.wanted = Freshness::Consistent;
        } else if is_behind(&error) {
            // Either that server is late, and another try will do; or the storage was set back, which only the storage can say.
            self.is_stuck();
        }
        self.wait(error, After::List)
    }

    /// A streaming list broke off.
    fn stream_failed(&mut self, error: ApiError) -> State<T::Chunks> {
        if let Way::Stream { broken } = &mut self.way
            && !is_behind(&error)
            && !is_gone(&error)
        {
            *broken += 1;
        }
        self.list_failed(error)
    }

    pub(super) fn look_again(&mut self) -> State<T::Chunks> {
        self.looks += 1;
        self.wait(no_answer("Undecodable", "objects could not be decoded: listing again"), After::List)
    }

    pub(super) fn list_done<S: Sink<D::Object>>(&mut self, version: ResourceVersion, sink: &mut S) {
        self.version = version;
        self.listed = Some(Instant::now());
        self.wanted = Freshness::NotOlderThan(version);
        self.looks = 0;
        self.stuck = 0;
        if let Way::Stream { broken } = &mut self.way {
            *broken = 0;
        }
        sink.apply(SourceEvent::Synced(version));
        self.report.synced(version);
        let answered = self.list_answers.take();
        self.listed_for(answered);
    }

    pub(super) fn stream_stopped(&mut self, stop: Stop) -> State<T::Chunks> {
        match stop {
            Stop::Undecodable => self.look_again(),
            Stop::Closed | Stop::Relist | Stop::CatchUp => {
                self.stream_failed(no_answer("ListCutOff", "the streaming list ended before its end was marked"))
            }
            Stop::Silent => self.stream_failed(no_answer("ListSilent", "the streaming list said nothing for too long")),
            Stop::Lost(error) | Stop::Error(error) => self.stream_failed(error),
        }
    }

    pub(super) fn decode_listed(&mut self, raw: &[u8]) -> Option<D::Object> {
        self.decode(raw, self.looks >= LOOKS).unwrap_or_else(|SecondLook| {
            self.second_look = true;
            None
        })
    }
}
