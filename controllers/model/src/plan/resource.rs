//! The resources of the API that the controllers know.

/// A resource of the API, as paths and bodies name it.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource {
    /// Empty for the core group.
    pub group: &'static str,
    /// `v1`.
    pub version: &'static str,
    /// `pods`.
    pub plural: &'static str,
    /// `Pod`.
    pub kind: &'static str,
}

/// `v1` Pod.
pub static PODS: Resource = Resource { group: "", version: "v1", plural: "pods", kind: "Pod" };
/// `v1` PersistentVolumeClaim.
pub static PERSISTENTVOLUMECLAIMS: Resource =
    Resource { group: "", version: "v1", plural: "persistentvolumeclaims", kind: "PersistentVolumeClaim" };
/// `apps/v1` ControllerRevision.
pub static CONTROLLERREVISIONS: Resource =
    Resource { group: "apps", version: "v1", plural: "controllerrevisions", kind: "ControllerRevision" };
/// `apps/v1` ReplicaSet.
pub static REPLICASETS: Resource = Resource { group: "apps", version: "v1", plural: "replicasets", kind: "ReplicaSet" };
/// `apps/v1` StatefulSet.
pub static STATEFULSETS: Resource = Resource { group: "apps", version: "v1", plural: "statefulsets", kind: "StatefulSet" };
/// `apps/v1` Deployment.
pub static DEPLOYMENTS: Resource = Resource { group: "apps", version: "v1", plural: "deployments", kind: "Deployment" };

// === impl Resource ===

impl Resource {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The collection's path, in one namespace or over all.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { format!("/api/{}", self.version) } else { format!("/apis/{}/{}", self.group, self.version) };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }
}
