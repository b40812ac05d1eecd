//! The API server: objects as JSON, with the versions, preconditions and checks that the controller counts on.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::plan::{ApiError, Delete, ObjectRef, Own, Ownership, Patch, Reown, Resource, StatusUpdate};
use model::{Time, Uid};
use serde_json::{Value, json};

use crate::support::{NOW, merge};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Set,
    Pod,
    Claim,
    Revision,
}

/// What a watch tells: the object as it is since that version; `None` if it is gone.
#[derive(Clone, Debug)]
pub struct Change {
    pub version: u64,
    pub kind: Kind,
    pub name: String,
    pub object: Option<Arc<Value>>,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub now: Time,
    /// Everything that ever happened.
    pub log: Vec<Change>,
    objects: BTreeMap<(Kind, String), Arc<Value>>,
    version: u64,
    made: u128,
}

type Written = Result<u64, ApiError>;

pub const KINDS: [Kind; 4] = [Kind::Set, Kind::Pod, Kind::Claim, Kind::Revision];

// === impl Server ===

impl Server {
    pub fn new() -> Self {
        Self { now: NOW, log: Vec::new(), objects: BTreeMap::new(), version: 1000, made: 0 }
    }

    pub fn get(&self, kind: Kind, name: &str) -> Option<&Arc<Value>> {
        self.objects.get(&(kind, name.to_owned()))
    }

    pub fn all(&self, kind: Kind) -> impl Iterator<Item = (&str, &Value)> {
        self.objects.iter().filter(move |((of, _), _)| *of == kind).map(|((_, name), object)| (name.as_str(), &**object))
    }

    pub fn names(&self, kind: Kind) -> Vec<String> {
        self.all(kind).map(|(name, _)| name.to_owned()).collect()
    }

    /// The version of the last change of that kind.
    pub fn version_of(&self, kind: Kind) -> u64 {
        self.log.iter().rev().find(|change| change.kind == kind).map_or(0, |change| change.version)
    }

    pub fn pass(&mut self, seconds: i64) {
        self.now = self.now.plus_seconds(seconds);
    }

    pub fn create(&mut self, kind: Kind, mut object: Value) -> Written {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if self.get(kind, &name).is_some() {
            return Err(error(409, "AlreadyExists"));
        }
        self.made += 1;
        let uid = Uid(0x6d9f_8a3e_0000_4000_8000_0000_1000_0000 + self.made);
        merge(
            &mut object,
            json!({"metadata": {"namespace": "shop", "uid": uid.to_string(), "generation": 1, "creationTimestamp": self.timestamp()}}),
        );
        if kind == Kind::Pod {
            object["status"] = json!({"phase": "Pending"});
        }
        Ok(self.store(kind, &name, Some(object)))
    }

    /// Changes an object as whoever may do so without conditions.
    pub fn update(&mut self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) -> Written {
        let Some(before) = self.get(kind, name) else { return Err(error(404, "NotFound")) };
        let mut after = Value::clone(before);
        change(&mut after);
        if after["spec"] != before["spec"] {
            after["metadata"]["generation"] = json!(before["metadata"]["generation"].as_i64().unwrap() + 1);
        }
        if after == **before {
            return Ok(version_of(&after));
        }
        Ok(self.store(kind, name, Some(after)))
    }

    pub fn remove(&mut self, kind: Kind, name: &str) -> Written {
        self.get(kind, name).ok_or_else(|| error(404, "NotFound"))?;
        Ok(self.store(kind, name, None))
    }

    pub fn patch(&mut self, patch: &Patch) -> Written {
        let (kind, name) = self.found(&patch.target, true)?;
        self.update(kind, &name, |object| merge(object, patch.body.clone()))
    }

    pub fn own(&mut self, own: &Own) -> Written {
        let (kind, name) = self.found(&own.target, false)?;
        let uid = json!(own.owner.uid.to_string());
        let owner =
            json!({"apiVersion": "apps/v1", "kind": own.owner.kind.as_str(), "name": &*own.owner.name, "uid": uid, "controller": true});
        self.update(kind, &name, |object| {
            let mut owners = owners_of(object);
            owners.retain(|other| other["uid"] != uid);
            owners.extend((own.change == Ownership::Adopt).then_some(owner));
            object["metadata"]["ownerReferences"] = json!(owners);
        })
    }

    pub fn reown(&mut self, reown: &Reown) -> Written {
        let (kind, name) = self.found(&reown.target, true)?;
        self.update(kind, &name, |object| {
            let mut owners = owners_of(object);
            owners.retain(|owner| !reown.remove.iter().any(|gone| owner["kind"] == gone.resource.kind && owner["name"] == *gone.name));
            owners.extend(reown.add.as_ref().map(|owner| {
                json!({"apiVersion": owner.resource.api_version(), "kind": owner.resource.kind, "name": &*owner.name,
                    "uid": owner.uid.to_string(), "controller": true})
            }));
            object["metadata"]["ownerReferences"] = json!(owners);
        })
    }

    /// A pod terminates first.
    pub fn delete(&mut self, delete: &Delete) -> Written {
        let (kind, name) = self.found(&delete.target, delete.at_version)?;
        let now = self.timestamp();
        if kind == Kind::Pod {
            return self.update(kind, &name, |pod| {
                if !is_terminating(pod) {
                    pod["metadata"]["deletionTimestamp"] = json!(now);
                }
            });
        }
        self.remove(kind, &name)
    }

    /// A PUT of a status takes annotations, labels and owners from the request.
    pub fn put_status(&mut self, update: &StatusUpdate) -> Written {
        let metadata: Value = serde_json::from_str(update.metadata.as_ref().unwrap().get()).unwrap();
        assert_eq!(metadata["resourceVersion"], update.target.resource_version.to_string());
        let (kind, name) = self.found(&update.target, true)?;
        let status: Value = serde_json::from_str(update.status.get()).unwrap();
        validate(&self.get(kind, &name).unwrap()["status"], &status)?;
        self.update(kind, &name, |object| {
            object["status"] = status;
            for field in ["annotations", "ownerReferences", "finalizers", "labels"] {
                match metadata.get(field) {
                    Some(value) => object["metadata"][field] = value.clone(),
                    None => drop(object["metadata"].as_object_mut().unwrap().remove(field)),
                }
            }
        })
    }

    fn found(&self, target: &ObjectRef, at_version: bool) -> Result<(Kind, String), ApiError> {
        let (kind, name) = (kind_of(target.resource), target.key.name.to_string());
        let object = self.get(kind, &name).ok_or_else(|| error(404, "NotFound"))?;
        if object["metadata"]["uid"] != target.uid.to_string() || at_version && version_of(object) != target.resource_version.0 {
            return Err(error(409, "Conflict"));
        }
        Ok((kind, name))
    }

    fn store(&mut self, kind: Kind, name: &str, object: Option<Value>) -> u64 {
        self.version += 1;
        let object = object.map(|mut object| {
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            Arc::new(object)
        });
        match &object {
            Some(object) => drop(self.objects.insert((kind, name.to_owned()), object.clone())),
            None => drop(self.objects.remove(&(kind, name.to_owned()))),
        }
        self.log.push(Change { version: self.version, kind, name: name.to_owned(), object });
        self.version
    }

    pub fn timestamp(&self) -> String {
        self.now.timestamp().unwrap().to_string()
    }
}

/// What the API server checks of a status (upstream `pkg/apis/apps/validation` `ValidateStatefulSetStatus`).
fn validate(before: &Value, status: &Value) -> Result<(), ApiError> {
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let fields = ["replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "observedGeneration"];
    let sound = fields.iter().all(|field| count(field) >= 0)
        && ["readyReplicas", "currentReplicas", "updatedReplicas"].iter().all(|field| count(field) <= count("replicas"))
        && count("availableReplicas") <= count("readyReplicas")
        && before["collisionCount"].as_i64() <= status["collisionCount"].as_i64();
    if sound { Ok(()) } else { Err(ApiError { message: format!("unsound status: {status}"), ..error(422, "Invalid") }) }
}

pub fn owners_of(object: &Value) -> Vec<Value> {
    object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}

pub fn is_terminating(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

pub fn is_finished(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

pub fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True"
}

/// The claims that a pod mounts.
pub fn claims_of(pod: &Value) -> Vec<String> {
    let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    volumes.iter().filter_map(|volume| Some(volume["persistentVolumeClaim"]["claimName"].as_str()?.to_owned())).collect()
}

pub fn image_in(template: &Value) -> &Value {
    &template["spec"]["containers"][0]["image"]
}

pub fn version_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

pub fn kind_of(resource: &Resource) -> Kind {
    match resource.plural {
        "statefulsets" => Kind::Set,
        "pods" => Kind::Pod,
        "persistentvolumeclaims" => Kind::Claim,
        "controllerrevisions" => Kind::Revision,
        other => panic!("{other} are not of this world"),
    }
}

pub fn error(code: u16, reason: &str) -> ApiError {
    ApiError { code, reason: reason.to_owned(), message: format!("{reason} of the server"), ..ApiError::default() }
}
