//! A kubelet's report as the API has it: the body of a strategic merge patch of a pod's status.

use std::net::Ipv4Addr;

use model::Timestamp;
use model::pod::Phase;
use serde_json::{Map, Value, json};

use crate::lifecycle::{End, Report};
use crate::pod::Pod;

/// Where a pod is, for its status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The node's address.
    pub(crate) host: Ipv4Addr,
    /// The pod's own, if it gets one now.
    pub(crate) pod: Ipv4Addr,
}

/// The patch. The UID in it is a precondition: another pod of the same name is left alone.
pub(crate) fn patch(pod: &Pod, report: &Report, place: Place, now: Timestamp) -> String {
    let now = now.to_string();
    let mut status = Map::new();
    if pod.started.is_none() {
        status.insert("startTime".to_owned(), json!(now));
        status.insert("hostIP".to_owned(), json!(place.host));
        status.insert("hostIPs".to_owned(), json!([{ "ip": place.host }]));
    }
    match report {
        Report::Rejected(reason) => {
            status.insert("phase".to_owned(), json!("Failed"));
            status.insert("reason".to_owned(), json!(reason));
            status.insert("message".to_owned(), json!(format!("Pod was rejected: {reason}")));
        }
        Report::Creating => {
            status.insert("phase".to_owned(), json!("Pending"));
            let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
            status.insert("containerStatuses".to_owned(), containers(pod, &waiting, (false, false), pod.restarts, None));
        }
        Report::Running { ready, restarts } => running(&mut status, pod, *ready, *restarts, place, &now),
        Report::Ended(end) => ended(&mut status, pod, *end, &now),
    }
    if !matches!(report, Report::Rejected(_)) {
        status.insert("conditions".to_owned(), conditions(pod, report, &now));
    }
    json!({"metadata": {"uid": pod.uid.to_string()}, "status": status}).to_string()
}

fn running(status: &mut Map<String, Value>, pod: &Pod, ready: bool, restarts: i32, place: Place, now: &str) {
    if pod.phase != Phase::Running {
        status.insert("phase".to_owned(), json!("Running"));
        status.insert("podIP".to_owned(), json!(place.pod));
        status.insert("podIPs".to_owned(), json!([{ "ip": place.pod }]));
    }
    // A restart begins now. What the containers said before is not kept here: the pod's start comes nearest.
    let since = if restarts > pod.restarts { now.to_owned() } else { pod.started.map_or_else(|| now.to_owned(), |at| at.to_string()) };
    let last = (restarts > 0).then(|| json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": since, "finishedAt": since}}));
    let state = json!({"running": {"startedAt": since}});
    status.insert("containerStatuses".to_owned(), containers(pod, &state, (true, ready), restarts, last.as_ref()));
}

fn ended(status: &mut Map<String, Value>, pod: &Pod, end: End, now: &str) {
    let (phase, exit_code, reason) = match end {
        End::Succeeded => ("Succeeded", 0, "Completed"),
        End::Failed => ("Failed", 1, "Error"),
        End::Evicted => ("Failed", 137, "Error"),
    };
    status.insert("phase".to_owned(), json!(phase));
    if end == End::Evicted {
        status.insert("reason".to_owned(), json!("Evicted"));
        status.insert("message".to_owned(), json!(EVICTION));
    }
    let since = pod.started.map_or_else(|| now.to_owned(), |at| at.to_string());
    let state = json!({"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": since, "finishedAt": now}});
    status.insert("containerStatuses".to_owned(), containers(pod, &state, (false, false), pod.restarts, None));
}

/// As upstream's `pkg/kubelet/eviction/helpers.go` words it.
const EVICTION: &str = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 64Mi. ";

/// Every container in the same state; `(started, ready)`. The list is one value for the API server, so it must be complete.
fn containers(pod: &Pod, state: &Value, (started, ready): (bool, bool), restarts: i32, last: Option<&Value>) -> Value {
    let one = |(name, image)| {
        let mut container = json!({
            "name": name, "image": image, "imageID": "", "state": state, "ready": ready, "started": started, "restartCount": restarts,
        });
        if let (Some(container), Some(last)) = (container.as_object_mut(), last) {
            container.insert("lastState".to_owned(), last.clone());
        }
        container
    };
    pod.containers.iter().map(one).collect()
}

/// Only those that change: the API server merges conditions by type, and a transition must not be told twice.
fn conditions(pod: &Pod, report: &Report, now: &str) -> Value {
    let condition = |kind: &str, status: bool, reason: Option<&str>| {
        let status = if status { "True" } else { "False" };
        let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": now});
        if let (Some(condition), Some(reason)) = (condition.as_object_mut(), reason) {
            condition.insert("reason".to_owned(), json!(reason));
        }
        condition
    };
    let runs = matches!(report, Report::Running { .. });
    let mut all = Vec::new();
    if pod.started.is_none() {
        all.push(condition("PodScheduled", true, None));
        all.push(condition("Initialized", true, None));
    }
    if pod.started.is_none() || (pod.phase == Phase::Running) != runs {
        all.push(condition("PodReadyToStartContainers", runs, None));
    }
    let (ready, reason) = match report {
        Report::Running { ready: true, .. } => (true, None),
        Report::Ended(End::Succeeded) => (false, Some("PodCompleted")),
        Report::Ended(End::Failed | End::Evicted) | Report::Rejected(_) => (false, Some("PodFailed")),
        Report::Creating | Report::Running { .. } => (false, Some("ContainersNotReady")),
    };
    if pod.started.is_none() || pod.ready != ready || !runs {
        let mut both = ["ContainersReady", "Ready"].map(|kind| condition(kind, ready, reason));
        if reason.is_none() {
            // A merge keeps what it is not told to drop.
            both.iter_mut().filter_map(Value::as_object_mut).for_each(|one| _ = one.insert("reason".to_owned(), Value::Null));
        }
        all.extend(both);
    }
    if *report == Report::Ended(End::Evicted) {
        let mut target = condition("DisruptionTarget", true, Some("TerminationByKubelet"));
        if let Some(target) = target.as_object_mut() {
            target.insert("message".to_owned(), json!(EVICTION));
        }
        all.push(target);
    }
    Value::Array(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::tests::pod;

    const PLACE: Place = Place { host: Ipv4Addr::new(198, 18, 0, 1), pod: Ipv4Addr::new(10, 0, 0, 1) };

    fn body(pod: &Pod, report: &Report) -> Value {
        serde_json::from_str(&patch(pod, report, PLACE, Timestamp::from_seconds(1_700_000_000).unwrap())).unwrap()
    }

    fn conditions_of(body: &Value) -> Vec<(&str, &str)> {
        let conditions = body["status"]["conditions"].as_array().unwrap();
        conditions.iter().map(|one| (one["type"].as_str().unwrap(), one["status"].as_str().unwrap())).collect()
    }

    #[test]
    fn one_write_says_everything_about_a_ready_pod() {
        let body = body(&pod(), &Report::Running { ready: true, restarts: 0 });
        assert_eq!(body["metadata"]["uid"], "00000000-0000-0000-0000-000000000001");
        let status = &body["status"];
        assert_eq!((&status["phase"], &status["podIP"], &status["hostIP"]), (&json!("Running"), &json!("10.0.0.1"), &json!("198.18.0.1")));
        assert_eq!(status["startTime"], "2023-11-14T22:13:20Z");
        assert_eq!(
            conditions_of(&body),
            [
                ("PodScheduled", "True"),
                ("Initialized", "True"),
                ("PodReadyToStartContainers", "True"),
                ("ContainersReady", "True"),
                ("Ready", "True")
            ]
        );
        let container = &status["containerStatuses"][0];
        assert_eq!((&container["name"], &container["image"], &container["ready"]), (&json!("main"), &json!("web:1"), &json!(true)));
    }

    #[test]
    fn a_change_of_readiness_tells_only_that() {
        let running = Pod { phase: Phase::Running, ready: true, started: Timestamp::from_seconds(1), ..pod() };
        let body_of = body(&running, &Report::Running { ready: false, restarts: 0 });
        assert_eq!(conditions_of(&body_of), [("ContainersReady", "False"), ("Ready", "False")]);
        let mut fields: Vec<_> = body_of["status"].as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["conditions", "containerStatuses"]);
        let restarted = body(&running, &Report::Running { ready: true, restarts: 2 });
        assert!(conditions_of(&restarted).is_empty(), "still ready since when it was");
        assert_eq!(restarted["status"]["containerStatuses"][0]["restartCount"], 2);
    }

    #[test]
    fn ends_say_why() {
        let evicted = body(&pod(), &Report::Ended(End::Evicted));
        assert_eq!((&evicted["status"]["phase"], &evicted["status"]["reason"]), (&json!("Failed"), &json!("Evicted")));
        assert!(conditions_of(&evicted).contains(&("DisruptionTarget", "True")));
        let rejected = body(&pod(), &Report::Rejected("NodeAffinity".into()));
        assert_eq!((&rejected["status"]["phase"], &rejected["status"]["reason"]), (&json!("Failed"), &json!("NodeAffinity")));
        assert!(rejected["status"].get("conditions").is_none());
        let succeeded = body(&pod(), &Report::Ended(End::Succeeded));
        assert_eq!(succeeded["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    }
}
