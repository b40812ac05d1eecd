//! The rights that the program needs, and whether they are there.

use bytes::Bytes;
use futures::StreamExt as _;
use http::Request;
use http::header::CONTENT_TYPE;
use machinery::client::{ApiClient, CallError, Class};
use serde_json::{Value, json};

use super::writers::ManagerLease;
use crate::options::ControllerName;

/// A right. The API server says whether somebody has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) verb: &'static str,
    pub(super) group: &'static str,
    pub(super) resource: &'static str,
    /// Empty for the object itself.
    pub(super) subresource: &'static str,
    /// Where; empty is everywhere.
    pub(super) namespace: String,
    /// Of what; empty is of everything.
    pub(super) name: String,
    /// Who is to have it; none is whoever asks.
    pub(super) account: Option<ControllerName>,
    /// Without it the program does not work. Else something less is lost, which this says.
    pub(super) otherwise: Option<&'static str>,
}

/// What is to be run.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) controllers: &'a [ControllerName],
    /// Whether it writes.
    pub(super) active: bool,
    /// Whether the controllers write in the name of their own accounts.
    pub(super) accounts: bool,
    /// The lease, if there is leader election.
    pub(super) lease: Option<&'a (String, String)>,
}

/// A right, and whether it is there; an error if that could not be found out.
pub(super) type Answered = (Right, Result<bool, String>);

type Row = (&'static str, &'static str, &'static [&'static str]);

const ENFORCED: &str = "adoption fails where the admission plugin OwnerReferencesPermissionEnforcement is on";
const UNTOLD: &str = "events are lost";
const POLLED: &str = "the lease is polled, and a takeover comes up to two retry periods later";
const UNSEEN: &str = "a kube-controller-manager that does the same work is not seen";
const UNPUBLISHED: &str = "a start fails that asks the cluster about client CAs (in a pod, or with --authentication-kubeconfig), \
                           unless --authentication-tolerate-lookup-failure is set";
const CLOSED: &str = "only system:masters, and what is open to everybody, can be read of the program";

/// What each controller reads: resources of `apps` or of the core group, and verbs. It is what its built-in role has, where it has it.
const DEPLOYMENT_READS: &[Row] = &[
    ("apps", "deployments", &["get", "list", "watch"]),
    ("apps", "replicasets", &["get", "list", "watch"]),
    ("", "pods", &["list", "watch"]),
];
const REPLICASET_READS: &[Row] = &[("apps", "replicasets", &["get", "list", "watch"]), ("", "pods", &["list", "watch"])];
const STATEFULSET_READS: &[Row] = &[
    ("apps", "statefulsets", &["get", "list", "watch"]),
    ("apps", "controllerrevisions", &["get", "list", "watch"]),
    ("", "pods", &["list", "watch"]),
    ("", "persistentvolumeclaims", &["get", "list", "watch"]),
];

/// What each controller writes.
const DEPLOYMENT_WRITES: &[Row] = &[
    ("apps", "deployments", &["update"]),
    ("apps", "deployments/status", &["update"]),
    ("apps", "replicasets", &["create", "patch", "delete"]),
];
const REPLICASET_WRITES: &[Row] = &[("apps", "replicasets/status", &["update"]), ("", "pods", &["create", "patch", "delete"])];
const STATEFULSET_WRITES: &[Row] = &[
    ("apps", "statefulsets/status", &["update"]),
    ("apps", "controllerrevisions", &["create", "patch", "delete"]),
    ("", "pods", &["create", "patch", "delete"]),
    ("", "persistentvolumeclaims", &["create", "update"]),
];

/// What each controller needs besides where owner references are enforced.
const DEPLOYMENT_ENFORCED: &[Row] = &[("apps", "deployments/finalizers", &["update"])];
const REPLICASET_ENFORCED: &[Row] = &[("apps", "replicasets/finalizers", &["update"])];
const STATEFULSET_ENFORCED: &[Row] =
    &[("apps", "statefulsets/finalizers", &["update"]), ("", "pods/finalizers", &["update"]), ("", "persistentvolumeclaims", &["delete"])];

const LEASE: &[Row] = &[("coordination.k8s.io", "leases", &["get", "update"])];
const NEW_LEASE: &[Row] = &[("coordination.k8s.io", "leases", &["create"])];
const WATCHED_LEASE: &[Row] = &[("coordination.k8s.io", "leases", &["watch"])];
const OTHERS_LEASE: &[Row] = &[("coordination.k8s.io", "leases", &["get"])];
const PUBLISHED: &[Row] = &[("", "configmaps", &["get"])];
const EVENTS: &[Row] = &[("", "events", &["create", "patch"])];
const REVIEWS: &[Row] =
    &[("authentication.k8s.io", "tokenreviews", &["create"]), ("authorization.k8s.io", "subjectaccessreviews", &["create"])];
const ACCOUNTS: &[Row] = &[("", "serviceaccounts", &["create"]), ("", "serviceaccounts/token", &["create"])];

/// Reviews in flight.
const AT_ONCE: usize = 8;

/// The rows of a controller: what it reads, what it writes, what it needs where owner references are enforced.
fn rows(controller: ControllerName) -> [&'static [Row]; 3] {
    match controller {
        ControllerName::Deployment => [DEPLOYMENT_READS, DEPLOYMENT_WRITES, DEPLOYMENT_ENFORCED],
        ControllerName::ReplicaSet => [REPLICASET_READS, REPLICASET_WRITES, REPLICASET_ENFORCED],
        ControllerName::StatefulSet => [STATEFULSET_READS, STATEFULSET_WRITES, STATEFULSET_ENFORCED],
    }
}

// === impl Right ===

impl Right {
    fn of((group, path, verbs): &Row) -> impl Iterator<Item = Self> {
        let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
        let right = move |verb: &&'static str| Self {
            verb,
            group,
            resource,
            subresource,
            namespace: String::new(),
            name: String::new(),
            account: None,
            otherwise: None,
        };
        verbs.iter().map(right)
    }

    /// The rights of these rows in one namespace, to objects of that name.
    fn within(namespace: &str, rows: &'static [Row], name: &str, otherwise: Option<&'static str>) -> impl Iterator<Item = Self> {
        let there = move |right| Self { namespace: namespace.to_owned(), name: name.to_owned(), otherwise, ..right };
        rows.iter().flat_map(Self::of).map(there)
    }

    fn review(&self) -> (&'static str, Value) {
        let Self { verb, group, resource, subresource, namespace, name, account, .. } = self;
        let attributes = json!({
            "verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace, "name": name,
        });
        let (kind, path, spec) = match account {
            None => (
                "SelfSubjectAccessReview",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                json!({"resourceAttributes": attributes}),
            ),
            Some(account) => {
                let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];
                let user = format!("system:serviceaccount:kube-system:{}", account.as_str());
                let spec = json!({"resourceAttributes": attributes, "user": user, "groups": groups});
                ("SubjectAccessReview", "/apis/authorization.k8s.io/v1/subjectaccessreviews", spec)
            }
        };
        (path, json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}))
    }
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, group, resource, subresource, namespace, name, account, .. } = self;
        write!(f, "{verb} {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if !subresource.is_empty() {
            write!(f, "/{subresource}")?;
        }
        if !name.is_empty() {
            write!(f, " {name}")?;
        }
        if !namespace.is_empty() {
            write!(f, " in {namespace}")?;
        }
        account.map_or(Ok(()), |account| write!(f, " as kube-system/{}", account.as_str()))
    }
}

// === impl Plan ===

impl Plan<'_> {
    /// All that is needed, each right once.
    pub(super) fn rights(&self) -> Vec<Right> {
        let mut all: Vec<Right> = Vec::new();
        for controller in self.controllers {
            let [reads, writes, enforced] = rows(*controller);
            // The caches are the program's, whoever writes.
            let caches = reads.iter().flat_map(Right::of).filter(|right| self.alone() || right.verb != "get");
            all.extend(caches);
            if !self.active {
                continue;
            }
            let account = self.accounts.then_some(*controller);
            let live = reads.iter().flat_map(Right::of).filter(|right| right.verb == "get" && self.accounts);
            let must = writes.iter().flat_map(Right::of).chain(live);
            all.extend(must.map(|right| Right { account, ..right }));
            let should = |rows: &'static [Row], otherwise| rows.iter().flat_map(Right::of).map(move |right| (right, otherwise));
            let should = should(enforced, ENFORCED).chain(should(EVENTS, UNTOLD));
            all.extend(should.map(|(right, otherwise)| Right { account, otherwise: Some(otherwise), ..right }));
        }
        if self.active {
            all.extend(self.own());
        }
        all.extend(Right::within("kube-system", PUBLISHED, "extension-apiserver-authentication", Some(UNPUBLISHED)));
        all.extend(REVIEWS.iter().flat_map(Right::of).map(|right| Right { otherwise: Some(CLOSED), ..right }));
        let mut once: Vec<Right> = Vec::new();
        for right in all {
            if !once.contains(&right) {
                once.push(right);
            }
        }
        once
    }

    /// Whether one identity does everything.
    fn alone(&self) -> bool {
        !(self.active && self.accounts)
    }

    /// What the process itself asks for: its lease, tokens, and the lease of kube-controller-manager.
    fn own(&self) -> Vec<Right> {
        let mut own = Vec::new();
        if self.accounts {
            own.extend(Right::within("kube-system", ACCOUNTS, "", None));
        }
        if let Some((namespace, name)) = self.lease {
            own.extend(Right::within(namespace, LEASE, name, None));
            own.extend(Right::within(namespace, NEW_LEASE, "", None));
            own.extend(Right::within(namespace, WATCHED_LEASE, name, Some(POLLED)));
            own.extend(Right::within(namespace, EVENTS, "", Some(UNTOLD)));
        }
        let upstream = ManagerLease::default_name();
        // Who competes for it needs it anyway.
        if self.lease != Some(&upstream) {
            own.extend(Right::within(&upstream.0, OTHERS_LEASE, &upstream.1, Some(UNSEEN)));
        }
        own
    }
}

/// Asks the API server about each of them.
pub(super) async fn ask(client: &ApiClient, rights: Vec<Right>) -> Vec<Answered> {
    let asked = rights.into_iter().map(|right| async move {
        let answer = allowed(client, &right).await;
        (right, answer)
    });
    futures::stream::iter(asked).buffered(AT_ONCE).collect().await
}

async fn allowed(client: &ApiClient, right: &Right) -> Result<bool, String> {
    let (path, review) = right.review();
    let request = Request::post(path).header(CONTENT_TYPE, "application/json").body(Bytes::from(review.to_string()));
    let request = request.map_err(|error| error.to_string())?;
    let answer = client.send(request, Class::Write).await.map_err(|error: CallError| error.into_error().to_string())?;
    let review: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
    review.pointer("/status/allowed").and_then(Value::as_bool).ok_or_else(|| format!("no answer in {review}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ControllerName; 3] = [ControllerName::Deployment, ControllerName::ReplicaSet, ControllerName::StatefulSet];

    fn rights(plan: &Plan<'_>) -> Vec<String> {
        plan.rights().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn who_observes_needs_to_read_only() {
        let lease = ("kube-system".to_owned(), "wcm".to_owned());
        for accounts in [false, true] {
            let plan = Plan { controllers: &ALL, active: false, accounts, lease: Some(&lease) };
            let rights = rights(&plan);
            assert!(
                rights
                    .iter()
                    .all(|right| ["get ", "list ", "watch "].iter().any(|verb| right.starts_with(verb)) || right.contains("reviews"))
            );
            assert!(rights.contains(&"get controllerrevisions.apps".to_owned()), "{rights:?}");
        }
    }

    #[test]
    fn with_accounts_the_controllers_write_and_the_process_reads() {
        let lease = ("a".to_owned(), "wcm".to_owned());
        let plan = Plan { controllers: &ALL[1..2], active: true, accounts: true, lease: Some(&lease) };
        let rights = rights(&plan);
        for right in [
            "list pods",
            "watch replicasets.apps",
            "create pods as kube-system/replicaset-controller",
            "get replicasets.apps as kube-system/replicaset-controller",
            "update replicasets.apps/status as kube-system/replicaset-controller",
            "create serviceaccounts/token in kube-system",
            "get leases.coordination.k8s.io wcm in a",
            "create leases.coordination.k8s.io in a",
        ] {
            assert!(rights.contains(&right.to_owned()), "{right} in {rights:?}");
        }
        assert!(!rights.contains(&"create pods".to_owned()) && !rights.iter().any(|right| right.contains("statefulset")), "{rights:?}");
    }

    #[test]
    fn each_right_is_asked_for_once() {
        let upstream = ManagerLease::default_name();
        for lease in [Some(&upstream), None] {
            let mut all = rights(&Plan { controllers: &ALL, active: true, accounts: false, lease });
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count, "{lease:?}");
        }
        let all = rights(&Plan { controllers: &ALL, active: true, accounts: false, lease: None });
        assert!(!all.iter().any(|right| right.contains("leases") && !right.contains("kube-controller-manager")), "{all:?}");
    }
}
