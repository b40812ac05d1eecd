//! What a request is about.

use http::{HeaderMap, Method, Uri};

/// A request as rules see it, read from its path, query and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The HTTP method.
    pub method: Method,
    /// `pods`; empty for what is no resource.
    pub resource: String,
    /// `status`; empty for the object itself.
    pub subresource: String,
    /// The namespace; empty where there is none.
    pub namespace: String,
    /// The object's name; empty for a list, and for a create, whose name is in its body.
    pub name: String,
    /// The answer is a stream of events.
    pub watch: bool,
    /// The answer begins with everything there is. A streaming list is a watch too.
    pub list: bool,
    /// A list of the metadata of owners: the look for other writers before the first write. No cache is filled by it.
    pub glance: bool,
    /// The client program, as it calls itself.
    pub user_agent: String,
}

/// What is never cached as metadata alone.
const WHOLE: [&str; 3] = ["deployments", "replicasets", "statefulsets"];

// === impl Target ===

impl Target {
    /// Reads a request's head.
    pub fn of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let path: Vec<_> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let [namespace, resource, name, subresource] = parts(&path);
        let asked = |parameter: &str| {
            let pairs = uri.query().unwrap_or_default().split('&');
            pairs.filter_map(|pair| pair.split_once('=')).any(|(key, value)| key == parameter && matches!(value, "true" | "1"))
        };
        let watch = *method == Method::GET && asked("watch");
        let list = *method == Method::GET && !resource.is_empty() && name.is_empty() && (!watch || asked("sendInitialEvents"));
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let glance = list && WHOLE.contains(&resource) && header(http::header::ACCEPT).contains("PartialObjectMetadata");
        Self {
            method: method.clone(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            watch,
            list,
            glance,
            user_agent: header(http::header::USER_AGENT).to_owned(),
        }
    }
}

/// Namespace, resource, name, subresource.
fn parts<'a>(path: &[&'a str]) -> [&'a str; 4] {
    let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = path else { return [""; 4] };
    match *rest {
        // A namespace's own subresources look like a resource in it.
        ["namespaces", name, sub @ ("status" | "finalize")] => ["", "namespaces", name, sub],
        ["namespaces", namespace, resource] => [namespace, resource, "", ""],
        ["namespaces", namespace, resource, name] => [namespace, resource, name, ""],
        ["namespaces", namespace, resource, name, sub, ..] => [namespace, resource, name, sub],
        [resource] => ["", resource, "", ""],
        [resource, name] => ["", resource, name, ""],
        [resource, name, sub, ..] => ["", resource, name, sub],
        [] => [""; 4],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: &Method, uri: &str) -> Target {
        Target::of(method, &uri.parse().unwrap(), &HeaderMap::new())
    }

    #[test]
    fn paths_are_read_as_the_api_server_reads_them() {
        for (uri, expected) in [
            ("/api/v1/pods", ["", "pods", "", ""]),
            ("/api/v1/namespaces/n/pods", ["n", "pods", "", ""]),
            ("/api/v1/namespaces/n/pods/p/status", ["n", "pods", "p", "status"]),
            ("/apis/apps/v1/namespaces/n/replicasets/r", ["n", "replicasets", "r", ""]),
            ("/api/v1/namespaces/n", ["", "namespaces", "n", ""]),
            ("/api/v1/namespaces/n/finalize", ["", "namespaces", "n", "finalize"]),
            ("/api/v1/nodes/x/status", ["", "nodes", "x", "status"]),
            ("/healthz", ["", "", "", ""]),
            ("/version", ["", "", "", ""]),
        ] {
            let target = target(&Method::GET, uri);
            assert_eq!([&*target.namespace, &*target.resource, &*target.name, &*target.subresource], expected, "{uri}");
        }
    }

    #[test]
    fn a_streaming_list_is_a_list_and_a_watch() {
        for (uri, watch, list) in [
            ("/api/v1/pods?limit=500", false, true),
            ("/api/v1/pods?watch=true&resourceVersion=5", true, false),
            ("/api/v1/pods?watch=1&sendInitialEvents=true", true, true),
            ("/api/v1/namespaces/n/pods/p", false, false),
            ("/healthz", false, false),
        ] {
            let target = target(&Method::GET, uri);
            assert_eq!((target.watch, target.list), (watch, list), "{uri}");
        }
        let create = target(&Method::POST, "/api/v1/namespaces/n/pods");
        assert!(!create.watch && !create.list);
    }
}
