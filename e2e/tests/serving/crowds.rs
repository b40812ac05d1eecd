//! Clients that are slow, huge, many, or speak something else: they cost bounded memory, and delay neither health nor work.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::access::Identity;
use e2e::{ControlPlane, wait};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::rig::{Rig, Shared, answers, reviews};
use crate::support::{PATIENCE, Space};

/// What any of these may add to the program's memory.
const GROWTH: u64 = 48 << 20;

impl Rig {
    fn address(&self) -> &str {
        self.server.endpoint().url().trim_start_matches("https://")
    }

    async fn tcp(&self) -> Result<TcpStream> {
        TcpStream::connect(self.address()).await.context("connecting")
    }

    async fn tls(&self, protocol: &[u8]) -> Result<TlsStream<TcpStream>> {
        self.tls_as(protocol, None).await
    }

    async fn tls_as(&self, protocol: &[u8], identity: Option<&Identity>) -> Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().into())?;
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())?;
                builder.with_client_auth_cert(vec![certificate], PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?)?
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost")?;
        TlsConnector::from(Arc::new(config)).connect(name, self.tcp().await?).await.context("TLS")
    }

    /// The most memory that was ever resident.
    fn peak(&self) -> Result<u64> {
        Ok(self.server.usage()?.peak)
    }

    fn descriptors(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.server.pid()))?.count())
    }

    /// Health is told at once, to somebody new.
    async fn healthy(&self) -> Result<()> {
        let told = tokio::time::timeout(Duration::from_secs(3), async { self.nobody()?.text("/healthz").await }).await;
        assert_eq!(told.context("no answer about health")??, "ok");
        Ok(())
    }
}

pub async fn plain_http_is_told_so(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let rig = Rig::start(&plane, &[]).await?;
    for request in ["GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"] {
        let mut stream = rig.tcp().await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        assert_eq!(answer, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
    }
    // What is neither is only cut off.
    let mut stream = rig.tcp().await?;
    stream.write_all(b"\0\0\0\0\0\0\0\0\0\0").await?;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(!rest.starts_with(b"HTTP"), "{rest:?}");
    rig.healthy().await
}

/// Scales a set up and waits for its pods.
async fn works(plane: &ControlPlane, name: &str) -> Result<()> {
    let space = Space::new(plane, name).await?;
    space.create_set("web", 20).await?;
    wait::until("the pods", PATIENCE, async || {
        let pods = space.all_pods().await?.len();
        ensure!(pods == 20, "{pods} pods");
        Ok(())
    })
    .await?;
    space.delete_all("replicasets", "").await
}

pub async fn thousands_of_connections_delay_nobody(plane: Shared) -> Result<()> {
    const WAVES: usize = 6;
    let plane = plane.0.lock().await;
    let rig = Rig::start(&plane, &[]).await?;
    answers(&rig.master()?, "/readyz", 200).await?;
    let (before, open) = (rig.peak()?, rig.descriptors()?);
    let mut silent = Vec::new();
    let mut slow = Vec::new();
    for wave in 0..WAVES {
        silent.clear();
        slow.clear();
        for n in 0..320 {
            let mut stream = rig.tcp().await?;
            match n % 3 {
                // Nothing, half a handshake, a record that never ends.
                0 => {}
                1 => stream.write_all(&[0x16, 3, 1]).await?,
                _ => stream.write_all(&[0x16, 3, 1, 0x40, 0, 1, 2, 3]).await?,
            }
            silent.push(stream);
        }
        // These have come further.
        for n in 0..40 {
            let mut stream = rig.tls(if n % 2 == 0 { b"http/1.1" } else { b"h2" }).await?;
            stream.write_all(if n % 2 == 0 { b"GET /healthz HTTP/1.1\r\nx: " } else { b"PRI * HTTP/2.0\r\n" }).await?;
            slow.push(stream);
        }
        rig.healthy().await?;
        ensure!(rig.descriptors()? < open + 300, "{} descriptors", rig.descriptors()?);
        if wave == WAVES / 2 {
            works(&plane, "crowd").await?;
        }
    }
    let grown = rig.peak()?.saturating_sub(before);
    ensure!(grown < GROWTH, "{} MiB more", grown >> 20);
    drop((silent, slow));
    wait::until("the connections to be gone", PATIENCE, async || {
        let now = rig.descriptors()?;
        ensure!(now < open + 10, "{now} descriptors, {open} before");
        Ok(())
    })
    .await
}

pub async fn floods_of_tokens_and_bodies_that_never_come_delay_nobody(plane: Shared) -> Result<()> {
    // More than there are places.
    const CLIENTS: usize = 300;
    let plane = plane.0.lock().await;
    let rig = Rig::start(&plane, &reviews(&plane)).await?;
    answers(&rig.master()?, "/readyz", 200).await?;
    let before = rig.peak()?;
    let padding = "x".repeat(28 << 10);
    let token = |n: usize| format!("GET /healthz HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {n}{padding}\r\n\r\n");
    let body = |_: usize| "PUT /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n".to_owned();
    for request in [&token as &dyn Fn(usize) -> String, &body] {
        let mut clients = Vec::new();
        for n in 0..CLIENTS {
            let mut stream = rig.tls(b"http/1.1").await?;
            stream.write_all(request(n).as_bytes()).await?;
            clients.push(stream);
        }
        rig.healthy().await?;
    }
    // Whose tokens are known is found out again as soon as it is over.
    let kubeconfig: Value = serde_json::from_slice(&std::fs::read(plane.admin_kubeconfig())?)?;
    let known = kubeconfig["users"][0]["user"]["token"].as_str().context("no token")?;
    rig.token(known)?.text("/metrics").await?;
    let grown = rig.peak()?.saturating_sub(before);
    ensure!(grown < GROWTH, "{} MiB more", grown >> 20);
    Ok(())
}

pub async fn what_is_too_large_is_cut_off(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let rig = Rig::start(&plane, &["--authorization-always-allow-paths=*".to_owned()]).await?;
    let before = rig.peak()?;
    let chunk = vec![b'a'; 1 << 20];
    for start in [
        // A header without an end, headers without an end, a body that is not wanted, and one that is.
        "GET /healthz HTTP/1.1\r\nhost: x\r\nx: ",
        "PUT /debug/flags/v HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n",
        "POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n",
    ] {
        let mut stream = rig.tls(b"http/1.1").await?;
        stream.write_all(start.as_bytes()).await?;
        // The server stops to read long before the end.
        let sending = async {
            for _ in 0..100 {
                stream.write_all(&chunk).await?;
            }
            anyhow::Ok(())
        };
        let sent = tokio::time::timeout(Duration::from_secs(3), sending).await;
        assert!(!matches!(sent, Ok(Ok(()))), "100 MiB were taken after {start:?}");
        rig.healthy().await?;
    }
    let grown = rig.peak()?.saturating_sub(before);
    ensure!(grown < GROWTH, "{} MiB more", grown >> 20);
    Ok(())
}

/// HTTP/2 frames of a GET of `/metrics` that is taken back at once.
fn taken_back(stream: u32) -> Vec<u8> {
    // :method GET, :scheme https, :path and :authority spelled out.
    let mut headers = vec![0x82, 0x87, 0x04, 8];
    headers.extend(b"/metrics");
    headers.extend([0x01, 9]);
    headers.extend(b"localhost");
    let id = stream.to_be_bytes();
    let mut frames = vec![0, 0, headers.len() as u8, 1, 5];
    frames.extend(id);
    frames.extend(headers);
    frames.extend([0, 0, 4, 3, 0]);
    frames.extend(id);
    frames.extend([0, 0, 0, 8]);
    frames
}

pub async fn streams_that_are_reset_at_once_cost_nothing(plane: Shared) -> Result<()> {
    const STREAMS: u32 = 30_000;
    let plane = plane.0.lock().await;
    let rig = Rig::start(&plane, &[]).await?;
    let before = rig.peak()?;
    let master = rig.authority.client("master", Some("system:masters"))?;
    // Nobody in particular has to leave after a request; who is known is held to limits.
    for identity in [None, Some(&master)] {
        let (mut answers, mut requests) = tokio::io::split(rig.tls_as(b"h2", identity).await?);
        let reading = tokio::spawn(async move { tokio::io::copy(&mut answers, &mut tokio::io::sink()).await });
        requests.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
        let mut sent = 0;
        let sending = async {
            while sent < STREAMS && requests.write_all(&taken_back(2 * sent + 1)).await.is_ok() {
                sent += 1;
                if sent % 1000 == 0 {
                    rig.healthy().await?;
                }
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, sending).await.context("the connection neither ends nor goes on")??;
        ensure!(sent < STREAMS, "the connection is still there after {sent} streams");
        reading.abort();
        rig.healthy().await?;
    }
    let grown = rig.peak()?.saturating_sub(before);
    ensure!(grown < GROWTH, "{} MiB more", grown >> 20);
    Ok(())
}

/// The limit that a server tells in its first frame, SETTINGS.
async fn told_limit(rig: &Rig) -> Result<Option<u32>> {
    let mut stream = rig.tls(b"h2").await?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    ensure!(head[3] == 4, "the first frame is of the type {}", head[3]);
    let mut settings = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
    stream.read_exact(&mut settings).await?;
    // SETTINGS_MAX_CONCURRENT_STREAMS
    let limit = settings.chunks_exact(6).find(|setting| setting[..2] == [0, 3]);
    Ok(limit.map(|setting| u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]])))
}

pub async fn streams_are_limited_as_the_flag_says_and_ports_are_shared(plane: Shared) -> Result<()> {
    let plane = plane.0.lock().await;
    let rig = Rig::start(&plane, &["--permit-port-sharing".to_owned()]).await?;
    assert_eq!(told_limit(&rig).await?, Some(32));
    let port = rig.server.endpoint().url().rsplit(':').next().unwrap_or_default().to_owned();
    // Who does not share finds the port taken.
    let mut alone = Rig::start_unseen(&plane, &[format!("--secure-port={port}")])?;
    let ended = wait::until("the end", PATIENCE, async || alone.server.process_mut().exited()?.context("it runs")).await?;
    assert_eq!(ended.code(), Some(1), "{}", alone.log()?);
    let shares = [format!("--secure-port={port}"), "--permit-port-sharing".to_owned(), "--http2-max-streams-per-connection=7".to_owned()];
    let other = Rig::start_unseen(&plane, &shares)?;
    wait::until("both to serve", PATIENCE, async || {
        ensure!(other.log()?.contains("Serving securely"), "{}", other.log()?);
        Ok(())
    })
    .await?;
    drop(rig);
    // The listener that is left has every connection. It has a certificate of its own authority.
    let left = Rig { server: other.server, authority: other.authority, folder: other.folder };
    let url = format!("https://127.0.0.1:{port}");
    let nobody = e2e::endpoint::Endpoint::secure(&url, &left.authority.der(), None)?;
    wait::until("the one that is left to answer", PATIENCE, async || nobody.text("/healthz").await.map(drop)).await
}
