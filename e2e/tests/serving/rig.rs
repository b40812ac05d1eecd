//! A control plane, and the program with whatever flags a scenario wants.

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use e2e::access::{Authority, Identity};
use e2e::endpoint::Endpoint;
use e2e::process::{self, Launch};
use e2e::{ControlPlane, Server, wait};
use http::Request;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::support::PATIENCE;
use crate::support::scenarios::Context;

/// The scenarios take turns: some stop the API server, others count what a process uses.
pub struct Plane(pub Mutex<ControlPlane>);

/// Short: the scenarios' functions.
pub type Shared = Rc<Plane>;

impl Context for Plane {
    async fn start() -> Result<Self> {
        process::binary()?;
        Ok(Self(Mutex::new(ControlPlane::builder().start().await?)))
    }

    async fn stop(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The program with a certificate of an authority of this scenario, in files that can be changed.
pub struct Rig {
    pub server: Server,
    pub authority: Authority,
    pub folder: tempfile::TempDir,
}

impl Rig {
    /// Starts the program; `flags` come last and win.
    pub async fn start(plane: &ControlPlane, flags: &[String]) -> Result<Self> {
        let rig = Self::start_unseen(plane, flags)?;
        let nobody = rig.nobody()?;
        wait::until("the program to serve", PATIENCE, async || nobody.text("/healthz").await.map(drop)).await?;
        Ok(rig)
    }

    /// The same without waiting until it serves.
    pub fn start_unseen(plane: &ControlPlane, flags: &[String]) -> Result<Self> {
        let (authority, folder) = (Authority::create("serving")?, tempfile::tempdir()?);
        authority.server()?.write(folder.path(), "server")?;
        std::fs::write(folder.path().join("ca.crt"), authority.pem())?;
        let file = |name: &str| folder.path().join(name).display().to_string();
        let launch = flags.iter().fold(
            plane
                .launch()
                .controllers(["replicaset-controller"])
                .flag(format!("--tls-cert-file={}", file("server.crt")))
                .flag(format!("--tls-private-key-file={}", file("server.key")))
                .flag(format!("--client-ca-file={}", file("ca.crt"))),
            Launch::flag,
        );
        let server = launch.spawn()?;
        Ok(Self { server, authority, folder })
    }

    /// Asks without saying who it is.
    pub fn nobody(&self) -> Result<Endpoint> {
        Endpoint::secure(self.server.endpoint().url(), &self.authority.der(), None)
    }

    /// Asks with a client certificate.
    pub fn with(&self, identity: &Identity) -> Result<Endpoint> {
        Endpoint::secure(self.server.endpoint().url(), &self.authority.der(), Some(identity))
    }

    /// Asks as somebody who may read everything.
    pub fn master(&self) -> Result<Endpoint> {
        self.with(&self.authority.client("master", Some("system:masters"))?)
    }

    /// Asks with a token.
    pub fn token(&self, token: &str) -> Result<Endpoint> {
        Endpoint::new(self.server.endpoint().url(), Some(&self.authority.der()), Some(token))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn log(&self) -> Result<String> {
        self.server.printed()
    }
}

/// Flags that let the program ask as the administrator about its clients.
pub fn reviews(plane: &ControlPlane) -> Vec<String> {
    let kubeconfig = plane.admin_kubeconfig().display();
    vec![
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        // A right that has just been given is not to be waited for.
        "--authorization-webhook-cache-unauthorized-ttl=0s".to_owned(),
    ]
}

/// Waits until a GET is answered with a code.
pub async fn answers(endpoint: &Endpoint, path: &str, code: u16) -> Result<String> {
    wait::until(&format!("{code} of {path}"), PATIENCE, async || {
        let (got, body) = endpoint.get(path).await?;
        ensure!(got == code, "{got}: {body}");
        Ok(body)
    })
    .await
}

/// Lets a subject read `/metrics`.
pub async fn may_read_metrics(plane: &ControlPlane, name: &str, subject: &Value) -> Result<()> {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}, "subjects": [subject],
    });
    post(plane, &format!("{rbac}/clusterroles"), &role).await?;
    post(plane, &format!("{rbac}/clusterrolebindings"), &binding).await.map(drop)
}

/// Creates something as the administrator.
pub async fn post(plane: &ControlPlane, path: &str, body: &Value) -> Result<Value> {
    let request = Request::post(path).header("content-type", "application/json").body(body.to_string().into_bytes())?;
    plane.admin().request(request).await.with_context(|| format!("POST {path}"))
}

/// Changes something as the administrator.
pub async fn patch(plane: &ControlPlane, path: &str, body: &Value) -> Result<Value> {
    let request = Request::patch(path).header("content-type", "application/merge-patch+json").body(body.to_string().into_bytes())?;
    plane.admin().request(request).await.with_context(|| format!("PATCH {path}"))
}

/// Reads something as the administrator.
pub async fn get(plane: &ControlPlane, path: &str) -> Result<Value> {
    plane.admin().request(Request::get(path).body(Vec::new())?).await.with_context(|| format!("GET {path}"))
}
