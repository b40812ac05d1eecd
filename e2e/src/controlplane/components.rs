//! The command lines of the control plane's programs.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::binaries::{Binaries, Program};
use super::credentials::Credentials;

/// Feature gates as a flag's value: `A=true,B=false`.
pub(crate) fn gates(gates: &[(String, bool)]) -> String {
    gates.iter().map(|(gate, on)| format!("{gate}={on}")).collect::<Vec<_>>().join(",")
}

/// What tests may change about the API servers.
#[derive(Debug, Clone, Default)]
pub(super) struct ApiServerOptions {
    pub(super) feature_gates: Vec<(String, bool)>,
    pub(super) admission: Vec<String>,
    pub(super) service_account_admission: bool,
    pub(super) audit: bool,
    pub(super) flags: Vec<String>,
}

/// Which of kube-controller-manager's controllers to run, and how.
#[derive(Debug, Clone)]
pub struct ControllerManager {
    controllers: Vec<String>,
    feature_gates: Vec<(String, bool)>,
    flags: Vec<String>,
}

impl Default for ControllerManager {
    /// What deletion needs: the garbage collector (cascades) and the namespace controller.
    fn default() -> Self {
        Self::only(["garbage-collector-controller", "namespace-controller"])
    }
}

impl ControllerManager {
    /// Exactly these controllers, by their names on the command line (`deployment-controller`).
    pub fn only<I: IntoIterator<Item = S>, S: Into<String>>(controllers: I) -> Self {
        Self { controllers: controllers.into_iter().map(Into::into).collect(), feature_gates: Vec::new(), flags: Vec::new() }
    }

    /// One more controller.
    #[must_use]
    pub fn with(mut self, controller: &str) -> Self {
        self.controllers.push(controller.to_owned());
        self
    }

    /// Switches a feature gate.
    #[must_use]
    pub fn feature_gate(mut self, gate: &str, on: bool) -> Self {
        self.feature_gates.push((gate.to_owned(), on));
        self
    }

    /// One more argument, `--flag=value`; a later one overrides an earlier one.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Lets the client send as fast as it can: for comparisons that are not about its limiter.
    #[must_use]
    pub fn unlimited(self) -> Self {
        self.flag("--kube-api-qps=5000").flag("--kube-api-burst=5000")
    }

    pub(super) fn command(&self, binaries: &Binaries, credentials: &Credentials, kubeconfig: &Path, port: u16) -> Result<Command> {
        let mut command = Command::new(binaries.path(Program::ControllerManager)?);
        client_of(&mut command, credentials, kubeconfig, port);
        command
            // The program's own user may not create pods; its controllers' service accounts may do what each needs.
            .arg("--use-service-account-credentials")
            .args(flag("service-account-private-key-file", credentials.file("service-account.key")))
            .args(flag("root-ca-file", credentials.file("ca.crt")))
            .arg(format!("--controllers={}", self.controllers.join(",")));
        finish(&mut command, &self.feature_gates, &self.flags);
        Ok(command)
    }
}

/// kube-scheduler's command line.
pub(super) fn scheduler(binaries: &Binaries, credentials: &Credentials, kubeconfig: &Path, port: u16) -> Result<Command> {
    let mut command = Command::new(binaries.path(Program::Scheduler)?);
    client_of(&mut command, credentials, kubeconfig, port);
    Ok(command)
}

/// etcd's command line. No fsync: it outlives crashes of the program, which is all that tests need, and is much faster.
pub(crate) fn etcd(binaries: &Binaries, data: &Path, client_port: u16, peer_port: u16) -> Result<Command> {
    let (client, peer) = (format!("http://127.0.0.1:{client_port}"), format!("http://127.0.0.1:{peer_port}"));
    let mut command = Command::new(binaries.path(Program::Etcd)?);
    command
        .args(["--unsafe-no-fsync", "--log-level=warn", "--name=test"])
        .args(flag("data-dir", data))
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=test={peer}"))
        // Twice etcd's default of 2 GiB: 100,000 realistic pods and their history need it.
        .arg("--quota-backend-bytes=4294967296");
    Ok(command)
}

/// kube-apiserver's command line; the last pair is the audit policy and the audit log.
pub(super) fn api_server(
    options: &ApiServerOptions,
    binaries: &Binaries,
    credentials: &Credentials,
    (port, etcd_port): (u16, u16),
    (audit_policy, audit_log): (&Path, &Path),
) -> Result<Command> {
    let mut command = Command::new(binaries.path(Program::ApiServer)?);
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{etcd_port}"))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"])
        .arg(format!("--secure-port={port}"))
        .args(flag("tls-cert-file", credentials.file("server.crt")))
        .args(flag("tls-private-key-file", credentials.file("server.key")))
        .args(flag("client-ca-file", credentials.file("ca.crt")))
        // As every real cluster has it; programs with delegated authentication complain without it.
        .args(flag("requestheader-client-ca-file", credentials.file("ca.crt")))
        .args(["--requestheader-allowed-names=front-proxy-client", "--requestheader-username-headers=X-Remote-User"])
        .args(["--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-"])
        .args(flag("token-auth-file", credentials.file("users.csv")))
        .arg("--authorization-mode=RBAC")
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .args(flag("service-account-key-file", credentials.file("service-account.pub")))
        .args(flag("service-account-signing-key-file", credentials.file("service-account.key")))
        .arg("--service-cluster-ip-range=10.0.0.0/24");
    if !options.service_account_admission {
        // It refuses pods in namespaces without the default account, which nothing makes here unless a test asks for it.
        command.arg("--disable-admission-plugins=ServiceAccount");
    }
    if !options.admission.is_empty() {
        command.arg(format!("--enable-admission-plugins={}", options.admission.join(",")));
    }
    if options.audit {
        command.args(flag("audit-policy-file", audit_policy)).args(flag("audit-log-path", audit_log));
    }
    finish(&mut command, &options.feature_gates, &options.flags);
    Ok(command)
}

/// The flags of a program that is a client of the API server and serves its own health and metrics.
fn client_of(command: &mut Command, credentials: &Credentials, kubeconfig: &Path, port: u16) {
    command
        .args(flag("kubeconfig", kubeconfig))
        .args(flag("authentication-kubeconfig", kubeconfig))
        .args(flag("authorization-kubeconfig", kubeconfig))
        .args(["--leader-elect=false", "--bind-address=127.0.0.1"])
        .arg(format!("--secure-port={port}"))
        .args(flag("tls-cert-file", credentials.file("server.crt")))
        .args(flag("tls-private-key-file", credentials.file("server.key")));
}

fn finish(command: &mut Command, feature_gates: &[(String, bool)], flags: &[String]) {
    if !feature_gates.is_empty() {
        command.arg(format!("--feature-gates={}", gates(feature_gates)));
    }
    command.args(flags);
}

/// A flag whose value is a path, as two arguments: a path need not be text.
fn flag(name: &str, path: impl AsRef<Path>) -> [std::ffi::OsString; 2] {
    [format!("--{name}").into(), path.as_ref().into()]
}
