//! Credentials are replaced in mid-rollout, and the old ones stop working.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::access::Authority;
use e2e::controlplane::SERVICE_ACCOUNT_USER;
use e2e::endpoint::Endpoint;
use e2e::process::Launch;
use e2e::{ControlPlane, Server, wait};
use http::Request;
use serde_json::{Value, json};

use crate::load::{Load, PODS};
use crate::support::pods::fleet;
use crate::support::{PATIENCE, Space, text};

/// An API server looks at its own files every minute, at the latest.
const RELOAD: Duration = Duration::from_mins(3);

/// Files of one test, which it changes.
struct Files(tempfile::TempDir);

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        // As kubelets and certificate tools do it: nobody finds half a file.
        let new = self.path("new");
        std::fs::write(&new, text)?;
        std::fs::rename(new, self.path(name)).with_context(|| format!("replace {name}"))
    }

    /// A kubeconfig whose server is known by the name `localhost`, and by no other, to the authority in the file `ca.crt`.
    fn kubeconfig(&self, plane: &ControlPlane, user: &Value) -> Result<PathBuf> {
        let cluster = json!({
            "server": plane.api_server_endpoint(0)?.url(), "tls-server-name": "localhost", "certificate-authority": self.path("ca.crt"),
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}], "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        let file = self.path("kubeconfig");
        std::fs::write(&file, config.to_string())?;
        Ok(file)
    }
}

/// A control plane that has files of the test's own: the certificate for the name `localhost`, and the authority of clients.
async fn plane(files: &Files) -> Result<ControlPlane> {
    let sni = format!("--tls-sni-cert-key={},{}:localhost", files.path("server.crt").display(), files.path("server.key").display());
    let clients = format!("--client-ca-file={}", files.path("clients.crt").display());
    ControlPlane::builder().audit().api_server_flag(sni).api_server_flag(clients).start().await
}

/// Slow, so that a rollout is under way while things change; and with a lease that outlives a restart of the API server.
fn slowly(launch: Launch) -> Launch {
    let times = ["--leader-elect-lease-duration=3m", "--leader-elect-renew-deadline=2m", "--leader-elect-retry-period=2s"];
    let controllers = ["deployment-controller", "replicaset-controller"];
    times.iter().fold(launch.controllers(controllers).leader_elect().rate(5, 5), |launch, flag| launch.flag(*flag))
}

/// A token for the program, good as long as a Secret is there.
async fn token(system: &Space, secret: &str) -> Result<String> {
    let made = system.create("secrets", &json!({"metadata": {"name": secret}})).await?;
    let bound = json!({"kind": "Secret", "apiVersion": "v1", "name": secret, "uid": text(&made, "/metadata/uid")?});
    system.token_of("workloads-controller-manager", &json!({"boundObjectRef": bound})).await
}

/// Waits until the API server does not know the caller any more.
async fn refused(caller: &Endpoint) -> Result<()> {
    wait::until("the old credentials to be refused", RELOAD, async || {
        let (code, _) = caller.get("/api/v1/pods?limit=1").await?;
        ensure!(code == 401, "they are answered with {code}");
        Ok(())
    })
    .await
}

/// Ends well: what there should be is there, and every pod was made once, by one process. Of creates that the audit log does not know,
/// since the API server was killed, there may be so many.
async fn ended_right(plane: &ControlPlane, space: &Space, load: &Load<'_>, program: &mut Server, unknown: usize) -> Result<()> {
    load.complete().await?;
    load.ended_right().await?;
    let log = program.printed()?;
    assert_eq!(log.matches("Controllers started").count(), 1, "{log}");
    ensure!(program.terminate().await?.success() && !log.contains("panicked"), "the program ended badly: {log}");
    wait::until("all creates in the audit log", PATIENCE, async || {
        let made = plane.audit()?.count(|request| {
            let kind = &request.kind;
            request.namespace == space.namespace
                && kind.resource == "pods"
                && kind.subresource.is_empty()
                && kind.verb == "create"
                && kind.code == 201
        })?;
        let right = load.pods_so_far();
        ensure!((right - unknown..=right).contains(&made), "{made} pods were made, {right} are right");
        Ok(())
    })
    .await
}

fn files() -> Result<Files> {
    Ok(Files(tempfile::tempdir()?))
}

#[tokio::test]
async fn a_token_and_the_authority_of_the_server_are_replaced_in_mid_rollout() -> Result<()> {
    let files = files()?;
    let (first, second) = (Authority::create("first")?, Authority::create("second")?);
    first.server()?.write(files.0.path(), "server")?;
    files.write("ca.crt", &first.pem())?;
    files.write("clients.crt", &first.pem())?;
    let mut plane = plane(&files).await?;
    let space = Space::new(&plane, "rotation").await?;
    let system = space.system();
    let old = token(&system, "first").await?;
    // A line break at the end, as most tools write it.
    files.write("token", &format!("{old}\n"))?;
    let kubeconfig = files.kubeconfig(&plane, &json!({"tokenFile": files.path("token")}))?;
    let fleet = fleet(&plane).await?;
    let mut program = slowly(plane.launch().kubeconfig(&kubeconfig)).start().await?;
    let mut load = Load::start(&space).await?;

    load.roll().await?;
    load.under_way(PODS / 4).await?;
    files.write("token", &format!("{}\n", token(&system, "second").await?))?;
    let delete = Request::delete("/api/v1/namespaces/kube-system/secrets/first").body(Vec::new())?;
    plane.admin().request::<Value>(delete).await?;
    let caller = Endpoint::new(plane.api_server_endpoint(0)?.url(), Some(&ca_of(&plane)?), Some(&old))?;
    refused(&caller).await?;
    load.complete().await?;
    // None of this one's writes can be in the old one's name.
    load.roll().await?;
    load.complete().await?;

    load.roll().await?;
    load.under_way(PODS / 4).await?;
    second.server()?.write(files.0.path(), "server")?;
    // In order it would wait for its watches, for a minute.
    plane.kill9_api_server(0)?;
    plane.start_api_server(0).await?;
    wait::until("the new certificate to be refused", PATIENCE, async || {
        let errors = program.printed()?.matches("UnknownIssuer").count();
        ensure!(errors > 0, "nobody complains");
        Ok(())
    })
    .await?;
    files.write("ca.crt", &second.pem())?;
    // As many as may be in flight at this rate.
    ended_right(&plane, &space, &load, &mut program, 5).await?;
    fleet.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn a_client_certificate_is_replaced_in_mid_rollout() -> Result<()> {
    let files = files()?;
    let (first, second) = (Authority::create("first")?, Authority::create("second")?);
    first.server()?.write(files.0.path(), "server")?;
    files.write("ca.crt", &first.pem())?;
    files.write("clients.crt", &first.pem())?;
    let old = first.client(SERVICE_ACCOUNT_USER, None)?;
    old.write(files.0.path(), "client")?;
    let plane = plane(&files).await?;
    let space = Space::new(&plane, "rotation").await?;
    let user = json!({"client-certificate": files.path("client.crt"), "client-key": files.path("client.key")});
    let kubeconfig = files.kubeconfig(&plane, &user)?;
    let fleet = fleet(&plane).await?;
    let mut program = slowly(plane.launch().kubeconfig(&kubeconfig)).start().await?;
    let mut load = Load::start(&space).await?;

    load.roll().await?;
    load.under_way(PODS / 4).await?;
    // Both are good for a while; the new pair is written one file after the other.
    files.write("clients.crt", &format!("{}{}", first.pem(), second.pem()))?;
    let new = second.client(SERVICE_ACCOUNT_USER, None)?;
    known(&Endpoint::secure(plane.api_server_endpoint(0)?.url(), &ca_of(&plane)?, Some(&new))?).await?;
    files.write("client.key", &new.key)?;
    files.write("client.crt", &new.certificate)?;
    files.write("clients.crt", &second.pem())?;
    refused(&Endpoint::secure(plane.api_server_endpoint(0)?.url(), &ca_of(&plane)?, Some(&old))?).await?;
    load.complete().await?;
    load.roll().await?;
    ended_right(&plane, &space, &load, &mut program, 0).await?;
    fleet.shutdown().await?;
    Ok(())
}

/// Waits until the API server knows a caller.
async fn known(caller: &Endpoint) -> Result<()> {
    wait::until("the new credentials to be known", RELOAD, async || caller.text("/api/v1/pods?limit=1").await.map(drop)).await
}

/// The authority of the control plane's own certificate (DER).
fn ca_of(plane: &ControlPlane) -> Result<Vec<u8>> {
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    let file: &Path = &plane.folder().join("credentials/ca.crt");
    Ok(CertificateDer::from_pem_file(file).with_context(|| format!("read {}", file.display()))?.to_vec())
}
