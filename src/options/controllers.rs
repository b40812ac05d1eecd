//! Which controllers run, and how.

use std::time::Duration;

use clap::Args;
use model::plan::{DEPLOYMENTS, REPLICASETS, Resource, STATEFULSETS};

use super::duration::go_duration;

/// Which controllers run, and how.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Controllers")]
pub(crate) struct ControllerOptions {
    /// Controllers to run: '*' is all of them, 'name' turns one on, '-name' off; the first that matches wins.
    #[arg(long, value_name = "LIST", default_value = "*", value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) controllers: Vec<String>,

    /// Deployments synced at the same time.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrent_deployment_syncs: u16,

    /// ReplicaSets synced at the same time.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrent_replicaset_syncs: u16,

    /// StatefulSets synced at the same time.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrent_statefulset_syncs: u16,

    /// Every object is looked at again after a random time between this and twice this; 0 is never; a Go duration.
    #[arg(long, value_name = "DURATION", default_value = "12h", value_parser = go_duration)]
    pub(crate) min_resync_period: Duration,

    /// How long each controller waits before it starts, or up to twice as long, so that not all start at once; a Go duration.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration)]
    pub(crate) controller_start_interval: Duration,

    /// How long the controllers may take to finish what is in flight when stopping; 0 is no limit; a Go duration.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub(crate) controller_shutdown_timeout: Duration,
}

/// The controllers this program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ControllerName {
    /// `deployment-controller`.
    Deployment,
    /// `replicaset-controller`.
    ReplicaSet,
    /// `statefulset-controller`.
    StatefulSet,
}

/// A controller as `--controllers` names it: upstream's name, and the older alias.
const CONTROLLERS: &[(ControllerName, &str, &str)] = &[
    (ControllerName::Deployment, ControllerName::Deployment.as_str(), "deployment"),
    (ControllerName::ReplicaSet, ControllerName::ReplicaSet.as_str(), "replicaset"),
    (ControllerName::StatefulSet, ControllerName::StatefulSet.as_str(), "statefulset"),
];

/// Upstream's other controllers (`cmd/kube-controller-manager/names`, and the aliases in `app`), which stay with kube-controller-manager: a
/// command line that names them is taken as it is.
const ELSEWHERE: &[&str] = &[
    "attachdetach",
    "bootstrap-signer-controller",
    "bootstrapsigner",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "cloud-node-lifecycle",
    "cloud-node-lifecycle-controller",
    "clusterrole-aggregation",
    "clusterrole-aggregation-controller",
    "cronjob",
    "cronjob-controller",
    "csrapproving",
    "csrcleaner",
    "csrsigning",
    "daemonset",
    "daemonset-controller",
    "device-taint-eviction-controller",
    "disruption",
    "disruption-controller",
    "endpoint",
    "endpoints-controller",
    "endpointslice",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "endpointslicemirroring",
    "ephemeral-volume",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "garbagecollector",
    "horizontal-pod-autoscaler-controller",
    "horizontalpodautoscaling",
    "job",
    "job-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "legacy-service-account-token-cleaner",
    "legacy-serviceaccount-token-cleaner-controller",
    "namespace",
    "namespace-controller",
    "node-ipam-controller",
    "node-lifecycle-controller",
    "node-route-controller",
    "nodeipam",
    "nodelifecycle",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder",
    "persistentvolume-binder-controller",
    "persistentvolume-expander",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "podcertificaterequest-cleaner-controller",
    "podgc",
    "podgroup-protection-controller",
    "pv-protection",
    "pvc-protection",
    "replicationcontroller",
    "replicationcontroller-controller",
    "resource-claim-controller",
    "resourceclaim-controller",
    "resourcepoolstatusrequest-controller",
    "resourcequota",
    "resourcequota-controller",
    "root-ca-cert-publisher",
    "root-ca-certificate-publisher-controller",
    "route",
    "selinux-warning-controller",
    "service",
    "service-cidr-controller",
    "service-lb-controller",
    "serviceaccount",
    "serviceaccount-controller",
    "serviceaccount-token",
    "serviceaccount-token-controller",
    "storage-version-gc",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
    "taint-eviction-controller",
    "token-cleaner-controller",
    "tokencleaner",
    "ttl",
    "ttl-after-finished",
    "ttl-after-finished-controller",
    "ttl-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
];

// === impl ControllerName ===

impl ControllerName {
    /// Upstream's name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "deployment-controller",
            Self::ReplicaSet => "replicaset-controller",
            Self::StatefulSet => "statefulset-controller",
        }
    }

    /// The older name, which its queue and its metrics have, too.
    pub(crate) fn alias(self) -> &'static str {
        CONTROLLERS.iter().find(|(controller, ..)| *controller == self).map_or("", |(.., alias)| alias)
    }

    /// What it controls.
    pub(crate) fn resource(self) -> &'static Resource {
        match self {
            Self::Deployment => &DEPLOYMENTS,
            Self::ReplicaSet => &REPLICASETS,
            Self::StatefulSet => &STATEFULSETS,
        }
    }

    /// Whether this is one of its names.
    pub(crate) fn is_named(self, name: &str) -> bool {
        name == self.as_str() || name == self.alias()
    }

    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        CONTROLLERS.iter().map(|(controller, ..)| *controller)
    }

    /// Whether such a list turns it on (upstream `k8s.io/controller-manager/app` `IsControllerEnabled`): the first entry that names it
    /// wins, then the star.
    pub(crate) fn is_enabled(self, list: &[String]) -> bool {
        let names =
            |item: &str| CONTROLLERS.iter().any(|(controller, full, alias)| *controller == self && (item == *full || item == *alias));
        for item in list {
            if names(item) {
                return true;
            }
            if item.strip_prefix('-').is_some_and(names) {
                return false;
            }
        }
        list.iter().any(|item| item == "*")
    }
}

// === impl ControllerOptions ===

impl ControllerOptions {
    /// Which controllers to run.
    ///
    /// # Errors
    /// A name that nobody knows, or none at all.
    pub(crate) fn enabled(&self) -> Result<Vec<ControllerName>, String> {
        for item in &self.controllers {
            let name = item.strip_prefix('-').unwrap_or(item);
            let known =
                name == "*" || ELSEWHERE.contains(&name) || CONTROLLERS.iter().any(|(_, full, alias)| name == *full || name == *alias);
            if !known {
                let names: Vec<_> = CONTROLLERS.iter().map(|(_, full, _)| *full).collect();
                return Err(format!("--controllers: {name:?} is not in the list of known controllers: {}", names.join(", ")));
            }
        }
        let enabled: Vec<_> = ControllerName::all().filter(|controller| controller.is_enabled(&self.controllers)).collect();
        if enabled.is_empty() {
            return Err("--controllers: no controller is left to run".to_owned());
        }
        Ok(enabled)
    }
}
