//! What is really there, read from the server by rules of its own.

use std::collections::BTreeMap;

use serde_json::Value;

use super::WEB;
use super::server::{Kind, Server, finished};

/// The Deployment, as far as promises depend on it.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a field of the object")]
pub struct Wanted {
    pub replicas: i64,
    pub surge: i64,
    pub unavailable: i64,
    pub rolling: bool,
    pub paused: bool,
    /// The annotation asks for an earlier template.
    pub rolls_back: bool,
    pub min_ready: i64,
    pub image: String,
    /// Its status is of this generation.
    pub observed: bool,
}

/// A ReplicaSet and its pods.
#[derive(Clone, Debug)]
pub struct Have {
    pub size: i64,
    /// Pods that neither terminate nor have finished.
    pub active: i64,
    pub ready: i64,
    pub terminating: i64,
    pub image: String,
    /// The Deployment's size that is noted on it.
    pub noted: Option<String>,
    pub revision: i64,
    /// Its status says what is true, of this generation.
    pub told: bool,
}

// === impl Wanted ===

impl Wanted {
    pub fn read(server: &Server) -> Self {
        let web = server.get(Kind::Deployment, WEB).unwrap();
        let spec = &web["spec"];
        let replicas = spec["replicas"].as_i64().unwrap();
        let rolling = spec["strategy"]["type"] == "RollingUpdate";
        let fenceposts = &spec["strategy"]["rollingUpdate"];
        let part = |value: &Value, up: bool| match value.as_str().and_then(|text| text.strip_suffix('%')) {
            Some(percent) => {
                let hundredths = percent.parse::<i64>().unwrap() * replicas;
                if up { (hundredths + 99) / 100 } else { hundredths / 100 }
            }
            None => value.as_i64().unwrap_or(0),
        };
        let (surge, unavailable) = (part(&fenceposts["maxSurge"], true), part(&fenceposts["maxUnavailable"], false));
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self {
            replicas,
            surge: if rolling { surge } else { 0 },
            unavailable: if rolling { unavailable.min(replicas) } else { 0 },
            rolling,
            paused: spec["paused"] == true,
            rolls_back: web["metadata"]["annotations"].get("deprecated.deployment.rollback.to").is_some(),
            min_ready: spec["minReadySeconds"].as_i64().unwrap_or(0),
            image: image(spec),
            observed: web["status"]["observedGeneration"] == web["metadata"]["generation"],
        }
    }

    /// How many pods there may be. A rollback by annotation first makes a ReplicaSet of the template it leaves, if there is none yet, and
    /// gives it what its strategy says: with Recreate all pods at once, whatever else is there (upstream `rollback`).
    pub fn most(&self) -> i64 {
        if self.rolls_back && !self.rolling { i64::MAX } else { self.replicas + self.surge }
    }

    /// How many must be available.
    pub fn fewest(&self) -> i64 {
        self.replicas - self.unavailable
    }
}

// === impl Have ===

impl Have {
    pub fn read_all(server: &Server) -> BTreeMap<String, Self> {
        let sets = server.all(Kind::ReplicaSet).filter(|(_, set)| is_of_web(set));
        sets.map(|(name, set)| (name.to_owned(), Self::read(server, set))).collect()
    }

    fn read(server: &Server, set: &Value) -> Self {
        let pods: Vec<_> = server.all(Kind::Pod).map(|(_, pod)| pod).filter(|pod| controls(set, pod) && !finished(pod)).collect();
        let active: Vec<_> = pods.iter().filter(|pod| pod["metadata"].get("deletionTimestamp").is_none()).collect();
        let ready = active.iter().filter(|pod| is_ready(pod)).count() as i64;
        let (status, count) = (&set["status"], active.len() as i64);
        let says = |field: &str| status[field].as_i64().unwrap_or(0);
        let annotation = |key: &str| set["metadata"]["annotations"][format!("deployment.kubernetes.io/{key}")].as_str().map(str::to_owned);
        let observed = status["observedGeneration"] == set["metadata"]["generation"];
        Self {
            size: set["spec"]["replicas"].as_i64().unwrap(),
            active: count,
            ready,
            terminating: (pods.len() - active.len()) as i64,
            image: image(&set["spec"]),
            noted: annotation("desired-replicas"),
            revision: annotation("revision").and_then(|revision| revision.parse().ok()).unwrap_or(0),
            told: observed && says("replicas") == count && says("readyReplicas") == ready && says("availableReplicas") == ready,
        }
    }
}

/// Whether a ReplicaSet has the Deployment's labels; those that only have one of its names do not.
pub fn is_of_web(set: &Value) -> bool {
    set["metadata"]["labels"]["app"] == "web"
}

pub fn controls(set: &Value, pod: &Value) -> bool {
    pod["metadata"]["ownerReferences"][0]["uid"] == set["metadata"]["uid"]
}

pub fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True"
}

fn image(spec: &Value) -> String {
    spec["template"]["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}
