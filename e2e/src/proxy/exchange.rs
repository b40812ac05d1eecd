//! One request on its way: through the faults before it, to the server, and back through the faults behind it.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::Shared;
use super::active::{Active, Gate};
use super::body::{self, Body};
use super::frames::Format;
use super::log::Entry;
use super::recording::Recorded;
use super::refusal::{self, Refusal};
use super::rule::{Ending, Fault, Loss, Moment};
use super::target::Target;
use super::upstream::{Connector, Error, end_to_end};
use super::watch::Pump;

/// A request, all of it, and where it came from. It goes its way even when its client has gone: it had been sent.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) shared: Arc<Shared>,
    pub(super) connector: Connector,
    pub(super) head: Parts,
    pub(super) body: Bytes,
    pub(super) target: Target,
    pub(super) rules: Vec<Arc<Active>>,
    pub(super) entry: Entry,
}

/// What the client gets.
#[derive(Debug)]
pub(super) enum Reply {
    Answer(Response<Body>),
    Lost(Loss),
}

// === impl Exchange ===

impl Exchange {
    pub(super) async fn run(self) -> Reply {
        let reply = self.pass().await;
        match &reply {
            Reply::Answer(response) => self.shared.log.answered(self.entry, response.status()),
            Reply::Lost(_) => {}
        }
        let open = matches!(&reply, Reply::Answer(response) if matches!(response.body(), Body::Stream(_)));
        if !open {
            self.shared.log.ended(self.entry);
        }
        reply
    }

    async fn pass(&self) -> Reply {
        for active in &self.rules {
            if let Some(reply) = self.before(active).await {
                return reply;
            }
        }
        self.shared.log.forwarded(self.entry);
        let response = match self.connector.send(&self.head, self.body.clone()).await {
            Ok(response) => response,
            // A server that cannot be reached has no connections either.
            Err(Error::Unsent) => return Reply::Lost(Loss::Connection),
            Err(Error::Broken) => return Reply::Lost(Loss::Stream),
        };
        self.shared.log.served(self.entry, response.status());
        if self.target.watch && response.status() == StatusCode::OK {
            return self.watch(response);
        }
        let (head, body) = response.into_parts();
        let Ok(body) = body.collect().await else { return Reply::Lost(Loss::Stream) };
        let mut answer = Recorded { status: head.status, headers: end_to_end(&head.headers), body: body.to_bytes() };
        for active in &self.rules {
            if let Some(reply) = self.after(active, &mut answer).await {
                return reply;
            }
        }
        Reply::Answer(answer.into_response())
    }

    /// A fault in front of the server; an answer, if it settles the matter.
    async fn before(&self, active: &Active) -> Option<Reply> {
        match &active.rule.fault {
            Fault::Delay(delay) => tokio::time::sleep(*delay).await,
            Fault::Hold if active.hold().await == Gate::Discarded => return Some(Reply::Lost(Loss::Stream)),
            Fault::Lose(Moment::Before, loss) => return Some(Reply::Lost(*loss)),
            Fault::Refuse(Moment::Before, refusal) => return Some(Reply::Answer(refusal.answer(&self.head.headers))),
            Fault::ErrorEvent(refusal) if self.target.watch => return Some(Reply::Answer(self.error_event(refusal))),
            Fault::Replay(Moment::Before, recording) => {
                let recorded = recording.find(self.head.uri.path(), &self.target)?;
                return Some(if self.target.watch { self.replay(recorded, active) } else { Reply::Answer(recorded.into_response()) });
            }
            _ => {}
        }
        None
    }

    /// A fault behind the server; an answer, if it settles the matter.
    async fn after(&self, active: &Active, answer: &mut Recorded) -> Option<Reply> {
        match &active.rule.fault {
            Fault::Slow(delay) => tokio::time::sleep(*delay).await,
            Fault::HoldAnswer if active.hold().await == Gate::Discarded => return Some(Reply::Lost(Loss::Stream)),
            Fault::Lose(Moment::After, loss) => return Some(Reply::Lost(*loss)),
            Fault::Refuse(Moment::After, refusal) => return Some(Reply::Answer(refusal.answer(&self.head.headers))),
            Fault::Truncate(ending) => return Some(self.truncate(answer, *ending)),
            Fault::Record(recording) => recording.keep(self.head.uri.path(), &self.target, answer.clone()),
            Fault::Replay(Moment::After, recording) => {
                if let Some(recorded) = recording.find(self.head.uri.path(), &self.target) {
                    answer.body = recorded.body;
                }
            }
            _ => {}
        }
        None
    }

    fn watch(&self, response: Response<Incoming>) -> Reply {
        let (head, incoming) = response.into_parts();
        let headers = end_to_end(&head.headers);
        let recordings = self.rules.iter().filter_map(|active| match &active.rule.fault {
            Fault::Record(recording) if self.target.list => Some(recording.clone()),
            _ => None,
        });
        let (sender, body) = Body::stream();
        let pump = Pump::new(&self.shared, self.target.clone(), Format::of(&headers), sender);
        let recorded = Recorded { status: head.status, headers: headers.clone(), body: Bytes::new() };
        let pump = pump.recording(recordings.collect(), self.head.uri.path(), recorded);
        let (shared, entry) = (Arc::clone(&self.shared), self.entry);
        self.shared.tasks.spawn(async move {
            pump.run(incoming).await;
            shared.log.ended(entry);
        });
        let mut response = Response::new(body);
        *response.headers_mut() = headers;
        Reply::Answer(response)
    }

    /// What was recorded of a streaming list, then silence until the rule ends.
    fn replay(&self, recorded: Recorded, active: &Active) -> Reply {
        let (sender, body) = Body::stream();
        let (shared, entry) = (Arc::clone(&self.shared), self.entry);
        let ended = active.ended();
        self.shared.tasks.spawn(async move {
            let _ = sender.send(Ok(recorded.body)).await;
            tokio::select! {
                () = sender.closed() => {}
                () = ended => {}
            }
            shared.log.ended(entry);
        });
        let mut response = Response::new(body);
        *response.headers_mut() = recorded.headers;
        Reply::Answer(response)
    }

    fn truncate(&self, answer: &Recorded, ending: Ending) -> Reply {
        let (sender, body) = Body::stream();
        let half = answer.body.slice(..answer.body.len() / 2);
        let (shared, entry) = (Arc::clone(&self.shared), self.entry);
        self.shared.tasks.spawn(async move {
            let _ = sender.send(Ok(half)).await;
            match ending {
                Ending::Close => {}
                Ending::Reset => drop(sender.send(Err(body::reset())).await),
                Ending::Silence => sender.closed().await,
            }
            shared.log.ended(entry);
        });
        let mut response = Response::new(body);
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers.clone();
        Reply::Answer(response)
    }

    fn error_event(&self, refusal: &Refusal) -> Response<Body> {
        let format = refusal::accepted(&self.head.headers, true);
        let mut response = Response::new(Body::full(refusal.event(format)));
        response.headers_mut().insert(CONTENT_TYPE, format.content_type(true));
        response
    }
}

// === impl Recorded ===

impl Recorded {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::full(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}
