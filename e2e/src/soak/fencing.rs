//! Whether anybody wrote who did not hold the lease, from what came by in front of each process.

use std::time::{Duration, Instant};

use http::Method;

use crate::proxy::Logged;

/// The requests of one process, from its start to its end.
#[derive(Debug, Clone)]
pub struct Life {
    /// For people.
    pub name: String,
    /// In the order they came.
    pub requests: Vec<Logged>,
    /// When its connections were closed or fell silent.
    pub cuts: Vec<Instant>,
    /// How long it holds the lease after having written it.
    pub lease: Duration,
}

impl Life {
    /// The writes of the lease that were carried out.
    fn renewals(&self) -> impl Iterator<Item = &Logged> {
        self.requests.iter().filter(|request| is_write(request) && request.target.resource == "leases" && has_worked(request))
    }

    /// Everything else that changes something, events included.
    pub fn writes(&self) -> impl Iterator<Item = &Logged> {
        self.requests.iter().filter(|request| is_write(request) && request.target.resource != "leases")
    }
}

/// Whether it changes something.
pub fn is_write(request: &Logged) -> bool {
    request.method != Method::GET
}

fn has_worked(request: &Logged) -> bool {
    request.server_status.is_some_and(|status| (200..300).contains(&status))
}

/// The writes of processes that did not hold the lease: such as came when it was over, counted from when the process last wrote it, and
/// such as came after another process had taken it.
pub fn unfenced(lives: &[Life]) -> Vec<String> {
    let began: Vec<Option<Instant>> = lives.iter().map(|life| life.renewals().next().map(|request| request.at)).collect();
    let mut found = Vec::new();
    for (life, began_here) in lives.iter().zip(&began) {
        // A lease that was taken is never taken back by the process that has lost it: that one ends.
        let successor = |life: &Life| life.renewals().next().filter(|first| began_here.is_some_and(|here| first.at > here)).cloned();
        let successor = lives.iter().filter_map(|other| Some((other, successor(other)?))).min_by_key(|(_, first)| first.at);
        for write in life.writes() {
            let mut tell = |why: String| {
                let seen = write.server_status.map_or_else(|| "not carried out".to_owned(), |status| format!("answered {status}"));
                found.push(format!("{}: {} {} ({seen}) {why}", life.name, write.method, write.path));
            };
            match life.renewals().take_while(|renewal| renewal.at <= write.at).last() {
                None => tell("before it held the lease".to_owned()),
                Some(last) if write.at - last.at > life.lease => tell(format!("{:.2?} after its last renewal", write.at - last.at)),
                Some(_) => {}
            }
            let taken = successor.as_ref().and_then(|(other, first)| Some((other, first.ended?)));
            if let Some((other, taken)) = taken.filter(|(_, taken)| write.at > *taken) {
                tell(format!("{:.2?} after {} had taken the lease", write.at - taken, other.name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(8);

    fn request(began: Instant, seconds: u64, method: &Method, path: &str) -> Logged {
        Logged::answered(method, path, &[], began + Duration::from_secs(seconds))
    }

    /// Two processes; `true` is a write of the lease, `false` of something else.
    fn found(one: &[(u64, bool)], two: &[(u64, bool)]) -> usize {
        let began = Instant::now();
        let life = |name: &str, requests: &[(u64, bool)]| Life {
            name: name.to_owned(),
            requests: requests
                .iter()
                .map(|(seconds, lease)| {
                    let path = if *lease { "/apis/coordination.k8s.io/v1/namespaces/n/leases/l" } else { "/api/v1/namespaces/n/pods/p" };
                    request(began, *seconds, &Method::PUT, path)
                })
                .collect(),
            cuts: Vec::new(),
            lease: LEASE,
        };
        unfenced(&[life("one", one), life("two", two)]).len()
    }

    #[test]
    fn who_holds_the_lease_may_write() {
        assert_eq!(found(&[(0, true), (1, false), (7, true), (9, false)], &[(20, true), (21, false)]), 0);
    }

    #[test]
    fn a_standby_writes_nothing() {
        assert_eq!(found(&[(0, true), (1, false)], &[(2, false)]), 1);
    }

    #[test]
    fn a_leader_that_woke_up_late_writes_nothing() {
        assert_eq!(found(&[(0, true), (9, false)], &[]), 1);
        assert_eq!(found(&[(0, true), (6, false)], &[(5, true)]), 1, "after the lease was given up and taken");
        assert_eq!(found(&[(0, true), (10, false)], &[(9, true), (10, false)]), 2);
    }
}
