//! What a controller writes, by the API server's own count.

use std::ops::Sub;

use serde::Serialize;

/// Requests that write, whatever they were answered. Only the controller makes these in a benchmark: the ReplicaSets and namespaces that the
/// benchmark itself makes are not among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Writes {
    /// POST of a pod; in a rollout of a ReplicaSet, too.
    pub creates: f64,
    /// PUT or PATCH of a ReplicaSet's status, and of a Deployment's.
    pub statuses: f64,
    /// PATCH of a pod, of a ReplicaSet, DELETE and everything else.
    pub others: f64,
    /// POST or PATCH of an event.
    pub events: f64,
}

impl Sub for Writes {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            creates: self.creates - before.creates,
            statuses: self.statuses - before.statuses,
            others: self.others - before.others,
            events: self.events - before.events,
        }
    }
}

impl Writes {
    /// All of them but events: those are thrown away by upstream's correlator at its own discretion.
    pub fn without_events(self) -> f64 {
        self.creates + self.statuses + self.others
    }

    /// Sums `apiserver_request_total` of an API server's `/metrics`, where the benchmark makes the ReplicaSets.
    pub(super) fn on(page: &str) -> Self {
        Self::sum(page, |writes, request| match request {
            ("replicasets", "", "POST") => None,
            ("events", ..) => Some(&mut writes.events),
            ("pods", "", "POST") => Some(&mut writes.creates),
            ("replicasets", "status", _) => Some(&mut writes.statuses),
            ("pods" | "replicasets", ..) => Some(&mut writes.others),
            _ => None,
        })
    }

    /// The same where Deployments are rolled on simulated nodes: those write the pods' status and bindings, and delete nothing, since the
    /// pods have no grace period; the benchmark makes and changes Deployments.
    pub(super) fn in_rollout(page: &str) -> Self {
        Self::sum(page, |writes, request| match request {
            ("events", ..) => Some(&mut writes.events),
            ("pods" | "replicasets", "", "POST") => Some(&mut writes.creates),
            ("replicasets" | "deployments", "status", _) => Some(&mut writes.statuses),
            ("pods" | "replicasets", "", _) => Some(&mut writes.others),
            _ => None,
        })
    }

    /// The same where StatefulSets are made and rolled on simulated nodes; the benchmark makes and changes StatefulSets.
    pub(super) fn of_sets(page: &str) -> Self {
        Self::sum(page, |writes, request| match request {
            ("events", ..) => Some(&mut writes.events),
            ("pods" | "controllerrevisions", "", "POST") => Some(&mut writes.creates),
            ("statefulsets", "status", _) => Some(&mut writes.statuses),
            ("pods" | "controllerrevisions", "", _) => Some(&mut writes.others),
            _ => None,
        })
    }

    /// `count` says where a request of that resource, subresource and verb belongs.
    fn sum(page: &str, count: impl for<'w> Fn(&'w mut Self, (&str, &str, &str)) -> Option<&'w mut f64>) -> Self {
        let mut writes = Self::default();
        let samples = page.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{"));
        for (labels, value) in samples.filter_map(|line| line.rsplit_once("} ")) {
            let Ok(value) = value.trim().parse::<f64>() else { continue };
            let label = |name: &str| label(labels, name).unwrap_or_default();
            let verb = label("verb");
            if matches!(verb, "GET" | "LIST" | "WATCH" | "WATCHLIST") {
                continue;
            }
            if let Some(sum) = count(&mut writes, (label("resource"), label("subresource"), verb)) {
                *sum += value;
            }
        }
        writes
    }
}

/// The value of a label. None of those read here holds a quote or a comma.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 98
apiserver_request_total{code="403",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 7
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="PATCH",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="apps",resource="replicasets",scope="resource",subresource="status",verb="PUT",version="v1"} 3
apiserver_request_total{code="201",component="apiserver",dry_run="",group="apps",resource="replicasets",scope="resource",subresource="",verb="POST",version="v1"} 50
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="events",scope="resource",subresource="",verb="POST",version="v1"} 5
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 9
apiserver_request_duration_seconds_count{resource="pods",verb="POST"} 1000
"#;

    #[test]
    fn only_the_controllers_writes_count() {
        let writes = Writes::on(PAGE);
        assert_eq!(writes, Writes { creates: 100.0, statuses: 3.0, others: 1.0, events: 5.0 });
        assert!((writes.without_events() - 104.0).abs() < f64::EPSILON);
    }

    #[test]
    fn in_a_rollout_the_nodes_writes_do_not_count() {
        let nodes = PAGE.replace("subresource=\"\",verb=\"PATCH\"", "subresource=\"status\",verb=\"PATCH\"");
        assert_eq!(Writes::in_rollout(&nodes), Writes { creates: 150.0, statuses: 3.0, others: 0.0, events: 5.0 });
    }

    #[test]
    fn what_was_there_before_is_taken_off() {
        assert_eq!(Writes::on(PAGE) - Writes::on(PAGE), Writes::default());
    }
}
