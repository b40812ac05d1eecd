//! A static pod, as kubeadm's are: it needs nothing but a kubelet and a kubeconfig on its node.

use std::fmt::Write as _;

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::rights;
use crate::options::Options;

/// Prints a manifest for /etc/kubernetes/manifests. It names no service account, secret or config map, which kubelets reject in static
/// pods since 1.34; the kubeconfig is a file of the node.
///
/// By default it is kubeadm's controller-manager.conf, whose user may not create pods: each controller writes in the name of its service
/// account. What else that user may need, --print-rbac prints; apply it before the manifest is put in place.
#[derive(Args, Clone, Debug)]
pub(crate) struct StaticPodOptions {
    /// The image.
    #[arg(long, value_name = "IMAGE", default_value = concat!("localhost/workloads-controller-manager:", env!("CARGO_PKG_VERSION")))]
    image: String,

    /// When it is pulled.
    #[arg(long, value_name = "POLICY", default_value = "IfNotPresent", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: String,

    /// The kubeconfig, a file of the node.
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/controller-manager.conf", value_parser = absolute)]
    kubeconfig: String,

    /// The pod's namespace.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    namespace: String,

    /// The user of the node that it runs as. Kubeconfigs belong to root, and nobody else may read them; it has no capabilities.
    #[arg(long, value_name = "UID", default_value_t = 0)]
    run_as_user: u32,

    /// One more file or folder of the node that it may read, for flags that name files; may be repeated.
    #[arg(long, value_name = "PATH", value_parser = absolute)]
    host_path: Vec<String>,

    /// Let each controller write in the name of a service account of its own in kube-system.
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    use_service_account_credentials: bool,

    /// Print, instead of the pod, the rights that kubeadm's user system:kube-controller-manager lacks for it.
    #[arg(long)]
    print_rbac: bool,

    /// Flags of the program.
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

/// Not kube-controller-manager's port, which is taken on its nodes.
const PORT: &str = "10261";
const NAME: &str = "workloads-controller-manager";
/// What the priority class system-node-critical stands for. No API server resolves it before a static pod runs.
const SYSTEM_NODE_CRITICAL: i32 = 2_000_001_000;

/// What was asked for, as YAML.
///
/// # Errors
/// When the program could not be started with the flags that are passed on.
pub(super) fn generate(asked: &StaticPodOptions) -> anyhow::Result<String> {
    let arguments = asked.arguments();
    let options = Options::of(std::iter::once(NAME.to_owned()).chain(arguments.clone()))?;
    ensure!(options.command.is_none(), "only flags can be passed on to the program");
    if !asked.print_rbac {
        return yaml(&asked.pod(&arguments, &options));
    }
    let controllers = options.controllers.enabled().map_err(anyhow::Error::msg)?;
    let objects = rights::objects(&options, &controllers);
    if objects.is_empty() {
        return Ok("# The user has every right that is needed.\n".to_owned());
    }
    let mut text = String::new();
    for object in &objects {
        write!(text, "---\n{}", yaml(object)?)?;
    }
    Ok(text)
}

// === impl StaticPodOptions ===

impl StaticPodOptions {
    /// The program's, in which the last of several wins.
    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<_> = ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
            .map(|flag| format!("--{flag}={}", self.kubeconfig))
            .into();
        arguments.extend(["--bind-address=127.0.0.1".to_owned(), format!("--secure-port={PORT}")]);
        arguments.push(format!("--use-service-account-credentials={}", self.use_service_account_credentials));
        arguments.extend(self.flags.iter().cloned());
        arguments
    }

    fn pod(&self, arguments: &[String], options: &Options) -> Value {
        let (volumes, mounts) = self.volumes();
        let container = json!({
            "name": NAME,
            "image": self.image,
            "imagePullPolicy": self.image_pull_policy,
            "args": arguments,
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": mounts,
        });
        let container = with(container, if options.serving.secure_port == 0 { Vec::new() } else { probes(options) });
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": NAME, "namespace": self.namespace,
                "labels": {"app.kubernetes.io/name": NAME, "component": NAME, "tier": "control-plane"},
            },
            "spec": {
                "hostNetwork": true,
                "dnsPolicy": "Default",
                "enableServiceLinks": false,
                "automountServiceAccountToken": false,
                "priorityClassName": "system-node-critical",
                "priority": SYSTEM_NODE_CRITICAL,
                "terminationGracePeriodSeconds": 30,
                "securityContext": {
                    "runAsUser": self.run_as_user, "runAsGroup": self.run_as_user, "runAsNonRoot": self.run_as_user != 0,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
                "volumes": volumes,
            },
        })
    }

    /// What the pod sees of its node, and where: in the same places.
    fn volumes(&self) -> (Vec<Value>, Vec<Value>) {
        let kubeconfig = json!({"name": "kubeconfig", "hostPath": {"path": self.kubeconfig, "type": "File"}});
        let more = self.host_path.iter().enumerate();
        let volumes = more.clone().map(|(n, path)| json!({"name": format!("host-path-{n}"), "hostPath": {"path": path}}));
        let mount = |name: String, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
        let mounts = more.map(|(n, path)| mount(format!("host-path-{n}"), path));
        let own = mount("kubeconfig".to_owned(), &self.kubeconfig);
        (std::iter::once(kubeconfig).chain(volumes).collect(), std::iter::once(own).chain(mounts).collect())
    }
}

fn probes(options: &Options) -> Vec<(&'static str, Value)> {
    let probe = |path: &str, failures: u8, period: u8| json!({"httpGet": probed(options, path), "failureThreshold": failures, "periodSeconds": period, "timeoutSeconds": 15});
    vec![("startupProbe", probe("/livez", 24, 10)), ("livenessProbe", probe("/livez", 8, 10)), ("readinessProbe", probe("/readyz", 3, 5))]
}

/// The kubelet asks at the node's address where nothing else is said.
fn probed(options: &Options, path: &str) -> Value {
    let get = json!({"path": path, "port": options.serving.secure_port, "scheme": "HTTPS"});
    let address = options.serving.bind_address;
    with(get, (!address.is_unspecified()).then(|| ("host", json!(address.to_string()))))
}

/// The object with some more fields.
fn with(mut object: Value, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    if let Value::Object(object) = &mut object {
        object.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
    object
}

fn yaml(object: &Value) -> anyhow::Result<String> {
    let mut text = serde_saphyr::to_string(object).context("writing YAML")?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

fn absolute(path: &str) -> Result<String, String> {
    if path.starts_with('/') { Ok(path.to_owned()) } else { Err("must be an absolute path of the node".to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: StaticPodOptions,
    }

    fn generated(arguments: &[&str]) -> anyhow::Result<String> {
        generate(&Line::try_parse_from(["generate"].iter().chain(arguments))?.options)
    }

    fn documents(arguments: &[&str]) -> Vec<Value> {
        let text = generated(arguments).unwrap();
        text.split("---\n").filter(|part| !part.is_empty()).map(|part| serde_saphyr::from_str(part).unwrap()).collect()
    }

    fn names(arguments: &[&str]) -> Vec<String> {
        let all = documents(arguments).into_iter();
        all.map(|object| format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())).collect()
    }

    #[test]
    fn a_pod_takes_flags_and_probes_where_they_say() {
        let pod = &documents(&["--kubeconfig=/k", "--host-path=/pki", "--", "--controllers=*,-deployment", "--secure-port=1234"])[0];
        let container = &pod["spec"]["containers"][0];
        let args: Vec<_> = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
        assert!(
            args.starts_with(&["--kubeconfig=/k"]) && args.ends_with(&["--controllers=*,-deployment", "--secure-port=1234"]),
            "{args:?}"
        );
        let get = json!({"host": "127.0.0.1", "path": "/livez", "port": 1234, "scheme": "HTTPS"});
        assert_eq!(container["livenessProbe"]["httpGet"], get);
        assert_eq!(pod["spec"]["volumes"][0], json!({"name": "kubeconfig", "hostPath": {"path": "/k", "type": "File"}}));
        assert_eq!(container["volumeMounts"][1], json!({"name": "host-path-0", "mountPath": "/pki", "readOnly": true}));
        let pod = &documents(&["--", "--bind-address=0.0.0.0"])[0];
        assert_eq!(pod["spec"]["containers"][0]["readinessProbe"]["httpGet"].get("host"), None);
        let pod = &documents(&["--run-as-user=65532", "--", "--secure-port=0"])[0];
        assert_eq!(pod["spec"]["containers"][0].get("livenessProbe"), None);
        assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"], true);
    }

    #[test]
    fn rights_follow_the_flags() {
        let nothing = generated(&["--print-rbac"]).unwrap();
        assert!(nothing.starts_with("# The user has every right"), "{nothing}");
        let lease = ["Role workloads-controller-manager:leader-election", "RoleBinding workloads-controller-manager:leader-election"];
        assert_eq!(names(&["--print-rbac", "--", "--leader-elect-resource-namespace=a"]), lease);
        let own = names(&["--print-rbac", "--use-service-account-credentials=false", "--", "--controllers=replicaset"]);
        assert_eq!(own, ["ClusterRoleBinding workloads-controller-manager:replicaset-controller"]);
        let observe = ["ClusterRole workloads-controller-manager:observe", "ClusterRoleBinding workloads-controller-manager:observe"];
        assert_eq!(names(&["--print-rbac", "--", "--mode=observe"]), observe);
    }

    #[test]
    fn flags_that_the_program_does_not_take_are_named() {
        for (arguments, named) in [
            (&["--", "--no-such-flag"][..], "--no-such-flag"),
            (&["--", "--controllers=nonsense"], "nonsense"),
            (&["--kubeconfig=conf"], "--kubeconfig"),
            (&["--", "doctor"], "doctor"),
        ] {
            let error = format!("{:#}", generated(arguments).unwrap_err());
            assert!(error.contains(named), "{error} should name {named}");
        }
    }
}
