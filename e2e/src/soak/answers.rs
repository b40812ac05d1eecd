//! Which of the writes in an audit log were answered, as far as the process that sent them could know.

use std::time::{Duration, Instant, SystemTime};

use k8s_openapi::jiff::Timestamp;

use super::audit::Write;
use super::fencing::Life;
use crate::proxy::Logged;

/// One moment on both clocks: audit logs have the time of day, proxies the other one.
#[derive(Debug, Clone, Copy)]
pub struct Clocks(SystemTime, Instant);

/// From a request's arrival to the end of its answer, delays included, if nothing is wrong.
const EXCHANGE: Duration = Duration::from_secs(3);

/// By how much the clocks of two processes on one machine may seem to differ. Less than a read takes: whoever repeats a write reads first.
const SKEW: Duration = Duration::from_millis(1);

impl Clocks {
    /// The present moment.
    pub fn now() -> Self {
        // Whoever is interrupted between two looks at two clocks looks again.
        let looks = (0..50).map(|_| {
            let (before, day) = (Instant::now(), SystemTime::now());
            (before.elapsed(), Self(day, before))
        });
        looks.min_by_key(|(took, _)| *took).map_or_else(|| Self(SystemTime::now(), Instant::now()), |(_, clocks)| clocks)
    }

    fn of(&self, text: &str) -> Option<Instant> {
        let at = SystemTime::from(text.parse::<Timestamp>().ok()?);
        match at.duration_since(self.0) {
            Ok(later) => Some(self.1 + later),
            Err(earlier) => self.1.checked_sub(earlier.duration()),
        }
    }
}

/// Whether who sent a write can have missed its answer.
pub fn may_be_missed(write: &Write, lives: &[Life], clocks: Clocks) -> bool {
    request_of(write, lives, clocks).is_some_and(|(life, request)| {
        let closed = life.requests.iter().filter(|other| closes(other)).filter_map(|other| other.ended);
        let was_cut_off = || life.cuts.iter().copied().chain(closed).any(|cut| cut + SKEW >= request.at && cut <= request.at + EXCHANGE);
        request.status.is_none() || request.status != request.server_status || request.abandoned || spoils(request) || was_cut_off()
    })
}

/// Whether a write was sent before another one was answered, given up by its sender, and came late to the server.
pub fn is_late(write: &Write, other: &Write, lives: &[Life], clocks: Clocks) -> bool {
    let (request, answered) = (request_of(write, lives, clocks), clocks.of(&other.answered));
    request.zip(answered).is_some_and(|((_, request), answered)| request.abandoned && request.at <= answered)
}

/// The request that a write was: of those about the object, which do not overtake each other behind the proxy, the last one that had gone on
/// to the server when the write came there.
fn request_of<'a>(write: &Write, lives: &'a [Life], clocks: Clocks) -> Option<(&'a Life, &'a Logged)> {
    let received = clocks.of(&write.received)?;
    let tries = lives.iter().flat_map(|life| life.requests.iter().map(move |request| (life, request)));
    let forwarded = tries.filter(|(_, request)| is_about(request, write)).filter_map(|found| Some((found.1.forwarded?, found)));
    forwarded.filter(|(at, _)| *at <= received + SKEW).max_by_key(|(at, _)| *at).map(|(_, found)| found)
}

fn is_about(request: &Logged, write: &Write) -> bool {
    let (resource, subresource) = write.resource.split_once('/').unwrap_or((&write.resource, ""));
    let verb = match request.method.as_str() {
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => return false,
    };
    let target = &request.target;
    verb == write.verb
        && target.resource == resource
        && target.subresource == subresource
        && write.key.split_once('/') == Some((&*target.namespace, &*target.name))
}

/// Whether the connection was closed for it, under all others that were on it: by a fault, or since the server was away.
fn closes(request: &Logged) -> bool {
    let by_fault = request.faults.iter().any(|fault| fault.starts_with("lost") && fault.ends_with("Connection"));
    by_fault || request.status.is_none() && request.server_status.is_none() && request.faults.is_empty()
}

/// Whether a fault has taken the answer's content.
fn spoils(request: &Logged) -> bool {
    request.faults.iter().any(|fault| fault.starts_with("lost") || fault.starts_with("truncated") || fault.starts_with("refused"))
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::Value;

    use super::*;

    fn request(at: Instant, faults: &[&str]) -> Logged {
        Logged::answered(&Method::PUT, "/apis/apps/v1/namespaces/n/replicasets/web/status", faults, at)
    }

    fn is_missed(faults: &[&str], cut: Option<u64>) -> bool {
        is_missed_beside(faults, cut, &[])
    }

    /// A write that came so many milliseconds after the moment, and was answered at once.
    fn write(clocks: Clocks, milliseconds: u64) -> Write {
        let received = Timestamp::try_from(clocks.0 + Duration::from_millis(milliseconds)).unwrap().to_string();
        Write {
            answered: received.clone(),
            received,
            user: "us".to_owned(),
            verb: "update".to_owned(),
            resource: "replicasets/status".to_owned(),
            key: "n/web".to_owned(),
            code: 200,
            version: Some(5),
            body: Value::Null,
        }
    }

    /// Another request that ends a second later has these faults.
    fn is_missed_beside(faults: &[&str], cut: Option<u64>, beside: &[&str]) -> bool {
        let clocks = Clocks::now();
        let sent = clocks.1 + Duration::from_secs(10);
        let write = write(clocks, 10_100);
        let mut other = request(sent + Duration::from_secs(1), beside);
        other.target.name = "api".to_owned();
        let requests = vec![request(clocks.1, &["lost After Stream"]), request(sent, faults), other, request(sent + EXCHANGE, &["lost"])];
        let cuts = cut.map(|seconds| clocks.1 + Duration::from_secs(seconds)).into_iter().collect();
        may_be_missed(&write, &[Life { name: "one".to_owned(), requests, cuts, lease: EXCHANGE }], clocks)
    }

    #[test]
    fn only_the_writes_own_answer_counts() {
        assert!(!is_missed(&[], None));
        assert!(!is_missed(&["answer delayed 1s"], None));
        assert!(is_missed(&["lost After Stream"], None));
        assert!(is_missed(&["truncated Reset"], None));
        assert!(is_missed_beside(&[], None, &["lost Before Connection"]) && !is_missed_beside(&[], None, &["lost Before Stream"]));
        assert!(is_missed(&[], Some(11)) && !is_missed(&[], Some(20)) && !is_missed(&[], Some(5)));
    }

    #[test]
    fn a_write_is_late_if_its_sender_gave_it_up_before_the_other_was_answered() {
        let clocks = Clocks::now();
        let at = |milliseconds| clocks.1 + Duration::from_millis(milliseconds);
        let is_late_if = |change: fn(&mut Logged)| {
            let mut late = Logged { forwarded: Some(at(500)), abandoned: true, ..request(at(100), &["delayed 400ms"]) };
            change(&mut late);
            let requests = vec![late, request(at(300), &[]), Logged { forwarded: None, ..request(at(400), &["lost Before Stream"]) }];
            let lives = [Life { name: "one".to_owned(), requests, cuts: Vec::new(), lease: EXCHANGE }];
            let (first, second) = (write(clocks, 310), write(clocks, 510));
            assert!(!may_be_missed(&first, &lives, clocks), "its own request was answered");
            is_late(&second, &first, &lives, clocks)
        };
        assert!(is_late_if(|_| {}));
        assert!(!is_late_if(|request| request.abandoned = false), "whoever waits for an answer does not send it again");
        assert!(!is_late_if(|request| request.at += Duration::from_millis(300)), "the first was answered by then");
    }
}
