use super::*;
use crate::gates::Release;
use crate::options::ControllerName::{Deployment, ReplicaSet, StatefulSet};

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let all = ["workloads-controller-manager", "--leader-elect=false"].iter().chain(arguments);
    Options::of(all).map_err(|error| error.to_string())
}

#[test]
fn the_first_entry_that_names_a_controller_wins() {
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
        let got = parse(&["--controllers", list]).and_then(|options| options.controllers.enabled());
        assert_eq!(got.unwrap_or_default(), expected, "{list}");
    }
}

#[test]
fn bad_flags_are_named() {
    for (arguments, names) in [
        (&["--controllers", "nonsense"][..], "nonsense"),
        (&["--controllers", "-replicaset"], "no controller is left"),
        (&["--leader-elect=true", "--leader-elect-lease-duration=5s"], "--leader-elect-lease-duration"),
        (&["--kube-api-qps", "0"], "--kube-api-qps"),
        (&["--concurrent-replicaset-syncs", "0"], "--concurrent-replicaset-syncs"),
        (&["--min-resync-period", "12"], "--min-resync-period"),
        (&["--bind-address", "localhost"], "--bind-address"),
        (&["--tls-cert-file", "c"], "--tls-private-key-file"),
        (&["--tls-min-version", "VersionTLS11"], "VersionTLS11"),
        (&["--tls-cipher-suites", "TLS_RSA_WITH_RC4_128_SHA"], "TLS_RSA_WITH_RC4_128_SHA"),
        (&["--authorization-always-allow-paths", "/a*b"], "--authorization-always-allow-paths"),
        (&["--requestheader-allowed-names", "a, "], "--requestheader-allowed-names"),
        (&["--port", "0"], "--port"),
        (&["--feature-gates", "Nope=true"], "Nope"),
        (&["--mode", "watch"], "--mode"),
        (&["--observe-overdue-after", "0"], "--observe-overdue-after"),
        (&["--kube-api-content-type", "application/json"], "--kube-api-content-type"),
        (&["--enable-leader-migration"], "--enable-leader-migration: needs --leader-elect"),
        (&["--emulated-version", "1.33"], "--emulated-version"),
        (&["--emulated-version=1.36", "--feature-gates=StatefulSetRecreateStrategy=true"], "StatefulSetRecreateStrategy"),
        (&["--version=v1.2.3"], "--version"),
        (&["--v=-1"], "--v"),
        (&["--v=2147483648"], "--v"),
        (&["--vmodule", "reflector"], "--vmodule"),
        (&["--vmodule=a=1", "--logging-format=json"], "--vmodule"),
        (&["--log-flush-frequency", "0s"], "--log-flush-frequency"),
        (&["--log-text-split-stream"], "--log-text-split-stream: needs --feature-gates=LoggingAlphaOptions=true"),
        (&["--log-json-info-buffer-size=1Mi"], "--log-json-info-buffer-size: needs"),
        (&["--log-text-info-buffer-size=much"], "--log-text-info-buffer-size"),
        (&["--logging-format=json", "--feature-gates=LoggingBetaOptions=false"], "--logging-format: json is disabled"),
        (&["--tls-sni-cert-key", "a.crt"], "--tls-sni-cert-key"),
        (&["--tls-curve-preferences", "29,4588"], "4588"),
        (&["--http2-max-streams-per-connection=-1"], "--http2-max-streams-per-connection"),
        (&["--terminated-pod-gc-threshold=1"], "--terminated-pod-gc-threshold"),
        (&["--terminated-pod-gc-threshold", "1"], "--ignore-foreign-flags"),
        (&["--no-such-flag", "--ignore-foreign-flags"], "--no-such-flag"),
        (&["--feature-gates=NoSuchGate=true", "--ignore-foreign-flags"], "NoSuchGate"),
    ] {
        let mut all = vec!["wcm", "--leader-elect=false"];
        all.extend(arguments);
        let error = Options::of(all).unwrap_err().to_string();
        assert!(error.contains(names), "{error} should contain {names}");
    }
}

#[test]
fn flags_may_be_repeated_as_upstreams() {
    let options =
        parse(&["--kube-api-burst=5", "--kube-api-burst=7", "--controllers=bootstrapsigner", "--controllers=replicaset"]).unwrap();
    assert_eq!(options.connection.kube_api_burst, 7);
    assert_eq!(options.controllers.controllers, ["bootstrapsigner", "replicaset"]);
}

#[test]
fn leader_election_is_on_unless_turned_off_as_upstream() {
    let options = Options::of(["wcm"]).unwrap();
    assert!(options.leader_election.leader_elect);
}

#[test]
fn booleans_are_read_as_gos() {
    for (text, on) in [("--leader-elect", true), ("--leader-elect=T", true), ("--leader-elect=0", false), ("--leader-elect=False", false)] {
        assert_eq!(parse(&[text]).unwrap().leader_election.leader_elect, on, "{text}");
    }
    assert!(parse(&["--profiling=yes"]).unwrap_err().contains("--profiling"));
}

#[test]
fn underscores_in_a_flags_name_are_dashes() {
    let options = parse(&["--leader_elect", "--min_resync-period=3h", "--kubeconfig", "/a_b", "--leader-elect-resource-name=a-b"]).unwrap();
    assert!(options.leader_election.leader_elect);
    assert_eq!(options.controllers.min_resync_period.as_secs(), 3 * 3600);
    assert_eq!(options.connection.kubeconfig.as_deref(), Some(std::path::Path::new("/a_b")));
    assert!(parse(&["--vmodule=sync_loop=3"]).unwrap().logging.modules()[0].pattern == "sync_loop", "values are left alone");
    let error = parse(&["--no_such_flag"]).unwrap_err();
    assert!(error.contains("--no-such-flag"), "{error}");
}

#[test]
fn flags_of_other_controllers_are_taken_if_that_is_asked_for() {
    let options = parse(&[
        "--allocate-node-cidrs=true",
        "--cluster-cidr",
        "10.0.0.0/16",
        "--cluster-cidr=10.1.0.0/16",
        "--enable-garbage-collector",
        "--terminated-pod-gc-threshold",
        "-1",
        "--service_cluster_ip_range=10.2.0.0/16",
        "--ignore-foreign-flags",
        "--feature-gates=JobManagedBy=true,PodDeletionCost=false",
        "--kubeconfig=x",
    ])
    .unwrap();
    let flag = |name: &str| Ignored::Flag(name.to_owned());
    assert_eq!(
        options.ignored,
        [
            flag("--allocate-node-cidrs"),
            flag("--cluster-cidr"),
            flag("--enable-garbage-collector"),
            flag("--service-cluster-ip-range"),
            flag("--terminated-pod-gc-threshold"),
            Ignored::Gate("JobManagedBy".to_owned()),
        ]
    );
    assert_eq!(options.connection.kubeconfig.as_deref(), Some(std::path::Path::new("x")));
    assert!(!options.gates.enabled("PodDeletionCost", Release::BASELINE));
    assert!(!options.given.contains_key("cluster-cidr"));
}

#[test]
fn the_version_is_asked_for_as_upstreams() {
    for (arguments, version) in [
        (&[][..], Version::No),
        (&["--version=false"], Version::No),
        (&["--version"], Version::Short),
        (&["-V"], Version::Short),
        (&["--version=true", "--controllers=nonsense"], Version::Short),
        (&["--version=raw"], Version::Raw),
    ] {
        assert_eq!(parse(arguments).unwrap().version, version, "{arguments:?}");
    }
    assert_eq!(Version::Short.to_string(), concat!("workloads-controller-manager ", env!("CARGO_PKG_VERSION")));
    assert!(Version::Raw.to_string().starts_with("version.Info{Major:\"0\", "), "{}", Version::Raw);
}

#[test]
fn gates_may_be_set_by_several_flags() {
    let options = parse(&["--feature-gates=AllAlpha=true", "--feature-gates=AllBeta=false,AllAlpha=false"]).unwrap();
    assert!(!options.gates.enabled("StatefulSetRecreateStrategy", Release::BASELINE));
    assert!(!options.gates.enabled("PodDeletionCost", Release::BASELINE));
}

#[test]
fn every_flag_is_in_a_group_of_the_help() {
    let command = Options::command();
    let alone: Vec<_> = command.get_arguments().filter(|argument| argument.get_help_heading().is_none()).map(clap::Arg::get_id).collect();
    assert!(alone.is_empty(), "{alone:?}");
    let version = command.get_arguments().find(|argument| argument.get_id() == "version").unwrap();
    assert_eq!(version.get_help_heading(), Some("Global"));
}
