//! What goes wrong with requests all the time, each kind now and then.

use std::time::Duration;

use e2e::proxy::{Ending, EventMatch, Fault, Loss, Match, Moment, Point, Proxy, Refusal, Rule, WatchFault, When};
use http::Method;

/// Puts faults in force. Those of the lease's requests may cost its holder the lease, and come on request.
pub(crate) fn add(proxy: &Proxy, with_lease: bool) {
    for resource in ["pods", "replicasets", "deployments", "statefulsets", "controllerrevisions", "persistentvolumeclaims", "events"] {
        for (fault, chance) in of_writes() {
            proxy.add(Rule::new(Match::writes(resource), fault).when(When::chance(chance)));
        }
        for (fault, chance) in of_watches() {
            proxy.add(Rule::new(Match::watches(resource), fault).when(When::chance(chance)));
        }
        let lists = Match { watch: Some(false), ..Match::lists(resource) };
        proxy.add(Rule::new(lists, Fault::Refuse(Moment::Before, Refusal::unavailable())).when(When::chance(0.1)));
        let reads = Match { list: Some(false), watch: Some(false), ..Match::of(resource).method(Method::GET) };
        proxy.add(Rule::new(reads.clone(), Fault::Refuse(Moment::Before, Refusal::internal())).when(When::chance(0.05)));
        proxy.add(Rule::new(reads, Fault::Lose(Moment::After, Loss::Stream)).when(When::chance(0.05)));
    }
    if with_lease {
        let renewals = Match::of("leases").method(Method::PUT);
        for (fault, chance) in [
            (Fault::Slow(Duration::from_millis(500)), 0.1),
            (Fault::Refuse(Moment::Before, Refusal::internal()), 0.05),
            (Fault::Refuse(Moment::After, Refusal::timeout()), 0.05),
            (Fault::Lose(Moment::After, Loss::Stream), 0.05),
        ] {
            proxy.add(Rule::new(renewals.clone(), fault).when(When::chance(chance)));
        }
    }
}

/// One write in nine or so.
fn of_writes() -> Vec<(Fault, f64)> {
    vec![
        (Fault::Delay(Duration::from_millis(400)), 0.02),
        (Fault::Slow(Duration::from_millis(700)), 0.02),
        (Fault::Lose(Moment::Before, Loss::Stream), 0.01),
        (Fault::Lose(Moment::After, Loss::Stream), 0.02),
        (Fault::Lose(Moment::After, Loss::Connection), 0.003),
        (Fault::Refuse(Moment::Before, Refusal::too_many_requests().retry_after(1)), 0.01),
        (Fault::Refuse(Moment::Before, Refusal::internal()), 0.01),
        (Fault::Refuse(Moment::Before, Refusal::unavailable()), 0.01),
        (Fault::Refuse(Moment::Before, Refusal::conflict()), 0.005),
        (Fault::Refuse(Moment::After, Refusal::timeout()), 0.005),
        (Fault::Truncate(Ending::Reset), 0.005),
    ]
}

/// The first ones are of watches that begin, the others of events.
fn of_watches() -> Vec<(Fault, f64)> {
    let cut = |ending, point| Fault::Watch(WatchFault::Cut(ending, point));
    vec![
        (Fault::Refuse(Moment::Before, Refusal::expired()), 0.03),
        (Fault::ErrorEvent(Refusal::expired()), 0.03),
        (Fault::Refuse(Moment::Before, Refusal::unavailable()), 0.05),
        (Fault::Lose(Moment::Before, Loss::Stream), 0.03),
        (cut(Ending::Reset, Point::Before(EventMatch::any())), 0.001),
        (cut(Ending::Close, Point::After(EventMatch::any())), 0.001),
        (cut(Ending::Reset, Point::Inside(EventMatch::any())), 0.001),
    ]
}
