//! The configuration files of a node's programs.

use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::images::PAUSE;
use crate::child::on_path;

/// Where containerd listens.
pub(super) const SOCKET: &str = "/run/containerd/containerd.sock";

/// The folder of networks' descriptions.
pub(super) const NETWORKS: &str = "/run/cni";

/// What pods take their nameservers from.
pub(super) const RESOLV_CONF: &str = "/run/resolv.conf";

/// The folder of static pods' manifests.
pub const MANIFESTS: &str = "/run/manifests";

/// The range of pods' addresses.
const PODS: &str = "10.244.0.0/24";

/// containerd's configuration: runc and CNI.
pub(super) fn containerd() -> Result<String> {
    let runc = on_path("runc".as_ref()).or_else(|| Some("/usr/sbin/runc".into()).filter(|file: &std::path::PathBuf| file.is_file()));
    let runc = runc.context("runc is not on PATH")?;
    Ok(format!(
        r#"version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
address = "{SOCKET}"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
# Without CAP_SYS_RESOURCE no process's score can be lowered.
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{NETWORKS}"
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{}"
SystemdCgroup = false
"#,
        runc.display()
    ))
}

/// The pods' network: a bridge.
pub(super) fn network() -> Value {
    let ranges = json!([[{"subnet": PODS}]]);
    json!({"cniVersion": "1.0.0", "name": "node", "plugins": [
        {
            "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
            "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni-addresses"},
        },
        {"type": "portmap", "capabilities": {"portMappings": true}},
    ]})
}

/// kubelet's configuration. `cgroup` is the parent of all that it makes.
pub(super) fn kubelet(cgroup: &str) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
        "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{cgroup}"),
        // Machines with cgroup v1 or with swap are as good.
        "failCgroupV1": false, "failSwapOn": false,
        // Nobody but the node itself reaches it.
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}}, "authorization": {"mode": "AlwaysAllow"},
        "staticPodPath": MANIFESTS,
        "clusterDomain": "cluster.local", "resolvConf": RESOLV_CONF,
        // No image can be fetched again.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "kubeAPIQPS": 100, "kubeAPIBurst": 200,
    })
}

/// kube-proxy's configuration.
pub(super) fn proxy(kubeconfig: &Path, address: IpAddr) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig},
        "mode": "iptables", "clusterCIDR": PODS,
        "bindAddress": address, "healthzBindAddress": "127.0.0.1:10256", "metricsBindAddress": "127.0.0.1:10249",
        // The machine's settings stay as they are.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    })
}
