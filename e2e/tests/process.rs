//! Running our program: a stand-in shows how it was started and how it ends, since what is tested here is the running.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::process::Launch;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The stand-in's arguments; unset in the test itself.
const ARGUMENTS: &str = "E2E_PROCESS_ARGUMENTS";

/// Not a test of its own: the stand-in. It answers any path with one metric, and ends with code 7 on SIGTERM.
#[tokio::test]
async fn stand_in() -> Result<()> {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return Ok(()) };
    println!("arguments: {arguments}");
    let port = arguments.split(' ').find_map(|argument| argument.strip_prefix("--secure-port=")).context("no port")?;
    let file = |flag: &str| arguments.split(' ').skip_while(|argument| *argument != flag).nth(1).context("no certificate");
    let chain = CertificateDer::pem_file_iter(file("--tls-cert-file")?)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(file("--tls-private-key-file")?)?;
    let tls = TlsAcceptor::from(Arc::new(ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?));
    let mut terminate = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(("127.0.0.1", port.parse::<u16>()?)).await?;
    loop {
        tokio::select! {
            _ = terminate.recv() => std::process::exit(7),
            accepted = listener.accept() => {
                let Ok(mut stream) = tls.accept(accepted?.0).await else { continue };
                let _ = stream.read(&mut [0; 4096]).await?;
                let body = "# TYPE up gauge\nup{a=\"b\"} 1.5\n";
                let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(answer.as_bytes()).await?;
                stream.shutdown().await?;
            }
        }
    }
}

/// A program that turns into [`stand_in`].
fn launch(folder: &Path) -> Result<Launch> {
    use std::os::unix::fs::PermissionsExt as _;
    let script = folder.join("program");
    let this = std::env::current_exe()?;
    std::fs::write(&script, format!("#!/bin/sh\n{ARGUMENTS}=\"$*\" exec '{}' stand_in --exact --nocapture\n", this.display()))?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok(Launch::new(folder.join("kubeconfig"), folder.join("log")).binary(script))
}

#[tokio::test]
async fn starts_answers_and_ends_in_order() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = launch(folder.path())?.controllers(["replicaset-controller"]).flag("--concurrent-replicaset-syncs=2").start().await?;
    assert_eq!(server.endpoint().metric(r#"up{a="b"}"#).await?, Some(1.5));
    assert_eq!(server.endpoint().metric("down").await?, None);
    assert_eq!(server.terminate().await?.code(), Some(7));
    let log = server.printed()?;
    assert!(log.contains("--controllers=replicaset-controller") && log.contains("--concurrent-replicaset-syncs=2"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_frozen_process_is_silent_and_can_be_killed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = launch(folder.path())?.start().await?;
    server.process_mut().freeze()?;
    let answer = tokio::time::timeout(Duration::from_secs(1), server.endpoint().get("/healthz")).await;
    assert!(answer.is_err(), "{answer:?}");
    server.process_mut().thaw()?;
    server.endpoint().text("/healthz").await?;
    assert_eq!(server.kill9()?.signal(), Some(9));
    Ok(())
}

#[tokio::test]
async fn a_program_that_ends_early_fails_the_start() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let error = Launch::new(folder.path().join("kubeconfig"), folder.path().join("log")).binary("/bin/ls").start().await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("has ended") && text.contains("ls:"), "{text}");
    Ok(())
}
