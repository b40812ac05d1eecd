//! `/configz`: the options by the names that upstream's component configuration has for them (component-base `configz/configz.go`,
//! kube-controller-manager `config/v1alpha1/types.go`). Only what this program has is there.

use serde_json::{Map, Value, json};

use super::{Listed, Pages};
use crate::options::{Options, format_go_duration};
use crate::serve::answer::{self, JSON};

const GROUP: &str = "kubecontrollermanager.config.k8s.io";

/// Fields of upstream's `LeaderElectionConfiguration`, and the flags they are set by.
const LEADER_ELECTION: &[(&str, &str)] = &[
    ("leaseDuration", "leader-elect-lease-duration"),
    ("renewDeadline", "leader-elect-renew-deadline"),
    ("retryPeriod", "leader-elect-retry-period"),
    ("resourceLock", "leader-elect-resource-lock"),
    ("resourceName", "leader-elect-resource-name"),
    ("resourceNamespace", "leader-elect-resource-namespace"),
];

pub(super) fn install(pages: &Pages, options: &Options) {
    let body = format!("{}", config(options));
    pages.add("/configz", Listed::Yes, move |_| answer::answer(http::StatusCode::OK, JSON, body.clone()));
}

fn config(options: &Options) -> Value {
    let connection = &options.connection;
    let mut election = Map::from_iter([("leaderElect".to_owned(), json!(options.leader_election.leader_elect))]);
    for (field, flag) in LEADER_ELECTION {
        if let Some(value) = options.given.get(*flag) {
            election.insert((*field).to_owned(), json!(value));
        }
    }
    let kubeconfig = connection.kubeconfig.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let controllers = &options.controllers;
    json!({GROUP: {
        "kind": "KubeControllerManagerConfiguration",
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "Generic": {
            "Port": 0,
            "Address": options.serving.bind_address.to_string(),
            "MinResyncPeriod": format_go_duration(controllers.min_resync_period),
            "ClientConnection": {
                "kubeconfig": kubeconfig,
                "acceptContentTypes": "",
                "contentType": connection.kube_api_content_type,
                // A flag's 20 is no 20.0.
                "qps": f64::from(connection.kube_api_qps),
                "burst": connection.kube_api_burst,
            },
            "LeaderElection": election,
            "Controllers": controllers.controllers,
            "Debugging": {"enableProfiling": options.debugging.profiling, "enableContentionProfiling": options.debugging.contention_profiling},
            "ControllerStartInterval": format_go_duration(controllers.controller_start_interval),
            "LeaderMigrationEnabled": options.leader_migration.enable_leader_migration,
        },
        "DeploymentController": {"ConcurrentDeploymentSyncs": controllers.concurrent_deployment_syncs},
        "ReplicaSetController": {"ConcurrentRSSyncs": controllers.concurrent_replicaset_syncs},
        "StatefulSetController": {"ConcurrentStatefulSetSyncs": controllers.concurrent_statefulset_syncs},
    }})
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn options_have_upstreams_names() {
        let options = Options::try_parse_from(["wcm", "--concurrent-replicaset-syncs=7", "--min-resync-period=90m"]).unwrap();
        let config = config(&options);
        let config = &config[GROUP];
        assert_eq!(config["ReplicaSetController"]["ConcurrentRSSyncs"], 7);
        assert_eq!(config["Generic"]["MinResyncPeriod"], "1h30m0s");
        assert_eq!(config["Generic"]["ClientConnection"]["qps"], 20.0);
    }
}
