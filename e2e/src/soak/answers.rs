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
    let Some(received) = clocks.of(&write.received) else { return false };
    let tries = lives.iter().flat_map(|life| life.requests.iter().map(move |request| (life, request)));
    // Requests about one object come one after the other, so the last one before it came to the server is this one.
    let this = tries.filter(|(_, request)| is_about(request, write) && request.at <= received + SKEW).max_by_key(|(_, request)| request.at);
    this.is_some_and(|(life, request)| {
        let closed = life.requests.iter().filter(|other| closes(other)).filter_map(|other| other.ended);
        let was_cut_off = || life.cuts.iter().copied().chain(closed).any(|cut| cut + SKEW >= request.at && cut <= request.at + EXCHANGE);
        request.status.is_none() || request.status != request.server_status || spoils(request) || was_cut_off()
    })
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
    use http::{HeaderMap, Method};
    use serde_json::Value;

    use super::*;
    use crate::proxy::Target;

    fn request(at: Instant, faults: &[&str]) -> Logged {
        let (method, path) = (Method::PUT, "/apis/apps/v1/namespaces/n/replicasets/web/status");
        let target = Target::of(&method, &path.parse().unwrap(), &HeaderMap::new());
        let faults = faults.iter().map(ToString::to_string).collect();
        Logged { method, path: path.to_owned(), target, status: Some(200), server_status: Some(200), faults, at, ended: Some(at) }
    }

    fn is_missed(faults: &[&str], cut: Option<u64>) -> bool {
        is_missed_beside(faults, cut, &[])
    }

    /// Another request that ends a second later has these faults.
    fn is_missed_beside(faults: &[&str], cut: Option<u64>, beside: &[&str]) -> bool {
        let clocks = Clocks::now();
        let sent = clocks.1 + Duration::from_secs(10);
        let received: Timestamp = (clocks.0 + Duration::from_millis(10_100)).try_into().unwrap();
        let write = Write {
            received: received.to_string(),
            answered: received.to_string(),
            user: "us".to_owned(),
            verb: "update".to_owned(),
            resource: "replicasets/status".to_owned(),
            key: "n/web".to_owned(),
            code: 200,
            version: Some(5),
            body: Value::Null,
        };
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
}
