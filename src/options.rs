//! The command line: kube-controller-manager's flag names and defaults.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::gates::FeatureGates;

/// Runs Kubernetes' workload controllers in place of kube-controller-manager's.
#[derive(Parser, Clone, Debug)]
// As with upstream's flags, the last of several wins.
#[command(name = "workloads-controller-manager", version, max_term_width = 120, args_override_self = true)]
pub(crate) struct Options {
    /// Kubeconfig with the API server's address and credentials. Default: the pod's service account.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Address of the API server; overrides the one in the kubeconfig.
    #[arg(long, value_name = "URL")]
    pub(crate) master: Option<String>,

    /// Controllers to run: '*' is all of them, 'name' turns one on, '-name' off; the first that matches wins.
    #[arg(long, value_name = "LIST", default_value = "*", value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) controllers: Vec<String>,

    /// Take part in leader election. Not available yet: false is the only value that can be served.
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(crate) leader_elect: bool,

    /// Speak HTTP/1.1 to the API server, one connection a request in flight: for proxies and load balancers without HTTP/2.
    #[arg(long)]
    pub(crate) http1: bool,

    /// Feature gates, as Name=true or Name=false, separated by commas.
    #[arg(long, value_name = "GATES", default_value = "")]
    pub(crate) feature_gates: FeatureGates,

    /// Requests a second that each controller may make.
    #[arg(long, value_name = "QPS", default_value_t = 20.0, value_parser = positive)]
    pub(crate) kube_api_qps: f32,

    /// Requests that each controller may make at once before the rate counts.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) kube_api_burst: u32,

    /// Deployments synced at the same time.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrent_deployment_syncs: u16,

    /// ReplicaSets synced at the same time.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrent_replicaset_syncs: u16,

    /// StatefulSets synced at the same time.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrent_statefulset_syncs: u16,

    /// Every object is looked at again after a random time between this and twice this; a Go duration.
    #[arg(long, value_name = "DURATION", default_value = "12h", value_parser = go_duration)]
    pub(crate) min_resync_period: Duration,

    /// How long the controllers may take to finish what is in flight when stopping; 0 is no limit; a Go duration.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub(crate) controller_shutdown_timeout: Duration,

    /// Address to serve /healthz and /metrics on. Loopback only, since there is no TLS and no authentication yet.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = loopback)]
    pub(crate) bind_address: IpAddr,

    /// Port to serve /healthz and /metrics on, unencrypted; 0 serves nothing.
    #[arg(long, value_name = "PORT", default_value_t = 10252)]
    pub(crate) port: u16,

    /// Log lines: text or json.
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    pub(crate) logging_format: String,

    /// Verbosity, as in klog: 2 adds syncs and their steps, 4 what the libraries say, 6 and above everything.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub(crate) verbosity: u8,
}

/// The controllers this program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

// === impl Options ===

impl Options {
    /// Which controllers to run.
    ///
    /// # Errors
    /// A name that nobody knows, or none at all.
    pub(crate) fn enabled_controllers(&self) -> Result<Vec<ControllerName>, String> {
        for item in &self.controllers {
            let name = item.strip_prefix('-').unwrap_or(item);
            let known =
                name == "*" || ELSEWHERE.contains(&name) || CONTROLLERS.iter().any(|(_, full, alias)| name == *full || name == *alias);
            if !known {
                let names: Vec<_> = CONTROLLERS.iter().map(|(_, full, _)| *full).collect();
                return Err(format!("--controllers: {name:?} is not in the list of known controllers: {}", names.join(", ")));
            }
        }
        let enabled: Vec<_> = CONTROLLERS.iter().filter(|(_, full, alias)| self.is_enabled(full, alias)).map(|(id, ..)| *id).collect();
        if enabled.is_empty() {
            return Err("--controllers: no controller is left to run".to_owned());
        }
        Ok(enabled)
    }

    /// Upstream `k8s.io/controller-manager/app` `IsControllerEnabled`: the first entry that names it wins, then the star.
    fn is_enabled(&self, full: &str, alias: &str) -> bool {
        for item in &self.controllers {
            if item == full || item == alias {
                return true;
            }
            if let Some(off) = item.strip_prefix('-')
                && (off == full || off == alias)
            {
                return false;
            }
        }
        self.controllers.iter().any(|item| item == "*")
    }

    /// What no parser of a single flag can see.
    ///
    /// # Errors
    /// A sentence that names the flag.
    pub(crate) fn validate(&self) -> Result<(), String> {
        if self.leader_elect {
            return Err("--leader-elect: leader election is not available yet; run one replica with --leader-elect=false".to_owned());
        }
        self.enabled_controllers().map(|_| ())
    }
}

fn positive(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        Ok(_) => Err("must be greater than zero".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn loopback(text: &str) -> Result<IpAddr, String> {
    let address: IpAddr = text.parse().map_err(|_| "not an IP address".to_owned())?;
    if address.is_loopback() { Ok(address) } else { Err("only a loopback address can be served without TLS and authentication".to_owned()) }
}

/// Go's `time.ParseDuration` for durations that are not negative: `1h30m`, `1.5s`, `0`.
fn go_duration(text: &str) -> Result<Duration, String> {
    const UNITS: &[(&str, f64)] = &[("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
    let wrong = || format!("{text:?} is not a duration such as 30s, 5m or 1h30m");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let (unit, factor) = UNITS.iter().find(|(unit, _)| tail.starts_with(unit)).ok_or_else(wrong)?;
        seconds += number.parse::<f64>().map_err(|_| wrong())? * factor;
        rest = tail.get(unit.len()..).unwrap_or_default();
    }
    if text.is_empty() {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let all = ["workloads-controller-manager", "--leader-elect=false"].iter().chain(arguments);
        let options = Options::try_parse_from(all).map_err(|error| error.to_string())?;
        options.validate().map(|()| options)
    }

    #[test]
    fn the_first_entry_that_names_a_controller_wins() {
        use ControllerName::{Deployment, ReplicaSet, StatefulSet};
        for (list, expected) in [
            ("*", &[Deployment, ReplicaSet, StatefulSet][..]),
            ("replicaset-controller", &[ReplicaSet]),
            ("replicaset", &[ReplicaSet]),
            ("*,-replicaset-controller,replicaset", &[Deployment, StatefulSet]),
            ("replicaset,-replicaset-controller", &[ReplicaSet]),
            ("-deployment-controller,*", &[ReplicaSet, StatefulSet]),
            ("statefulset", &[StatefulSet]),
            ("*,bootstrapsigner,tokencleaner", &[Deployment, ReplicaSet, StatefulSet]),
            ("bootstrapsigner,tokencleaner", &[]),
        ] {
            let got = parse(&["--controllers", list]).and_then(|options| options.enabled_controllers());
            assert_eq!(got.unwrap_or_default(), expected, "{list}");
        }
    }

    #[test]
    fn bad_flags_are_named() {
        for (arguments, names) in [
            (&["--controllers", "nonsense"][..], "nonsense"),
            (&["--controllers", "-replicaset"], "no controller is left"),
            (&["--leader-elect=true"], "--leader-elect=false"),
            (&["--kube-api-qps", "0"], "--kube-api-qps"),
            (&["--concurrent-replicaset-syncs", "0"], "--concurrent-replicaset-syncs"),
            (&["--min-resync-period", "12"], "--min-resync-period"),
            (&["--bind-address", "0.0.0.0"], "loopback"),
            (&["--feature-gates", "Nope=true"], "Nope"),
        ] {
            let mut all = vec!["wcm", "--leader-elect=false"];
            if arguments == ["--leader-elect=true"] {
                all.pop();
            }
            all.extend(arguments);
            let error = Options::try_parse_from(all).map_err(|error| error.to_string()).and_then(|options| options.validate()).unwrap_err();
            assert!(error.contains(names), "{error} should contain {names}");
        }
    }

    #[test]
    fn flags_may_be_repeated_as_upstreams() {
        let options =
            parse(&["--kube-api-burst=5", "--kube-api-burst=7", "--controllers=bootstrapsigner", "--controllers=replicaset"]).unwrap();
        assert_eq!(options.kube_api_burst, 7);
        assert_eq!(options.controllers, ["bootstrapsigner", "replicaset"]);
    }

    #[test]
    fn leader_election_is_on_unless_turned_off_as_upstream() {
        let options = Options::try_parse_from(["wcm"]).unwrap();
        assert!(options.validate().unwrap_err().contains("--leader-elect=false"));
    }

    #[test]
    fn durations_read_as_gos() {
        for (text, want) in [("12h", 43200.0), ("1h30m", 5400.0), ("1.5s", 1.5), ("250ms", 0.25), ("0", 0.0), ("2m0s", 120.0)] {
            assert_eq!(go_duration(text).unwrap(), Duration::from_secs_f64(want), "{text}");
        }
        for text in ["", "5", "h", "-5s", "5 s", "1.2.3s", "5x"] {
            assert!(go_duration(text).is_err(), "{text}");
        }
    }
}
