//! Certificates that change while the program runs.

use anyhow::{Result, ensure};
use e2e::access::Authority;
use e2e::endpoint::Endpoint;
use e2e::wait;

use super::rig::{Rig, Shared, answers};
use crate::support::PATIENCE;

pub async fn certificates_and_authorities_are_read_again(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let rig = Rig::start(&plane, &[]).await?;
    let url = rig.server.endpoint().url().to_owned();
    assert_eq!(rig.nobody()?.text("/healthz").await?, "ok");
    // The certificate is that of another authority from now on; its key comes first, so that they do not go together for a while.
    let next = Authority::create("next")?;
    let identity = next.server()?;
    std::fs::write(rig.path("server.key"), &identity.key)?;
    wait::until("the broken pair to be noticed", PATIENCE, async || {
        ensure!(rig.log()?.contains("do not go together"), "it is not");
        Ok(())
    })
    .await?;
    assert_eq!(rig.nobody()?.text("/healthz").await?, "ok");
    identity.write(rig.folder.path(), "server")?;
    answers(&Endpoint::secure(&url, &next.der(), None)?, "/healthz", 200).await?;
    assert!(rig.nobody()?.get("/healthz").await.is_err(), "the old certificate is still served");
    // And so is whom clients are believed.
    let clients = Authority::create("clients")?;
    let client = Endpoint::secure(&url, &next.der(), Some(&clients.client("c", Some("system:masters"))?))?;
    let former = Endpoint::secure(&url, &next.der(), Some(&rig.authority.client("c", Some("system:masters"))?))?;
    assert_eq!((client.get("/configz").await?.0, former.get("/configz").await?.0), (401, 200));
    std::fs::write(rig.path("ca.crt"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")?;
    wait::until("the broken authority to be noticed", PATIENCE, async || {
        ensure!(rig.log()?.contains("A file of CA certificates is broken"), "it is not");
        Ok(())
    })
    .await?;
    assert_eq!(former.get("/configz").await?.0, 200);
    std::fs::write(rig.path("ca.crt"), clients.pem())?;
    answers(&client, "/configz", 200).await?;
    // On a connection that was there before, too.
    assert_eq!(former.get("/configz").await?.0, 401);
    Ok(())
}

pub async fn without_files_the_certificate_is_for_localhost(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let folder = tempfile::tempdir()?;
    // Made in the folder at the first start, and found there by the second.
    let mut certificates = Vec::new();
    for _ in 0..2 {
        let mut command = std::process::Command::new(e2e::process::binary()?);
        let port = e2e::ports::free()?;
        command.arg("--kubeconfig").arg(plane.service_account_kubeconfig()).arg("--cert-dir").arg(folder.path());
        command.args(["--leader-elect=false", "--bind-address=127.0.0.1"]).arg(format!("--secure-port={port}"));
        let child = e2e::child::Child::spawn("self-signed", &command, folder.path().join("log"))?;
        let certificate =
            wait::until("the certificate", PATIENCE, async || Ok(std::fs::read(folder.path().join("kube-controller-manager.crt"))?));
        let certificate = certificate.await?;
        let der = pem(&certificate)?;
        for host in ["127.0.0.1", "localhost"] {
            let endpoint = Endpoint::secure(&format!("https://{host}:{port}"), &der, None)?;
            answers(&endpoint, "/healthz", 200).await?;
            // Without a CA and without reviews nobody is anybody.
            assert_eq!(endpoint.get("/metrics").await?.0, 403);
        }
        certificates.push(certificate);
        drop(child);
    }
    assert!(certificates[0] == certificates[1], "the second start has made another certificate");
    Ok(())
}

pub async fn who_asks_for_a_name_gets_its_certificate(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let (other, folder) = (Authority::create("other")?, tempfile::tempdir()?);
    let identity = other.server()?;
    identity.write(folder.path(), "other")?;
    let files = format!("{0}/other.crt,{0}/other.key", folder.path().display());
    // Whom the certificate is for: its names are localhost and 127.0.0.1, and no client asks for an address by name.
    for (names, by_name, by_address) in [("", true, false), (":localhost", true, false), (":*.example,127.0.0.1", false, true)] {
        let rig = Rig::start_unseen(&plane, &[format!("--tls-sni-cert-key={files}{names}")])?;
        let port = rig.server.endpoint().url().rsplit(':').next().unwrap_or_default().to_owned();
        for (host, others) in [("localhost", by_name || by_address), ("127.0.0.1", by_address)] {
            let authority = if others { &other } else { &rig.authority };
            let endpoint = Endpoint::secure(&format!("https://{host}:{port}"), &authority.der(), None)?;
            answers(&endpoint, "/healthz", 200).await?;
        }
    }
    Ok(())
}

fn pem(certificate: &[u8]) -> Result<Vec<u8>> {
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    Ok(CertificateDer::from_pem_slice(certificate)?.to_vec())
}
