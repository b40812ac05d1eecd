//! A one-node cluster for a user, with our controllers installed by the Helm chart: `make cluster`, `make cluster-down`.
//!
//! A process in the background owns it, and lends the API server a port of this machine's loopback.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Parser, Subcommand};
use e2e::child::Child;
use e2e::node::{self, CONTROLLERS, Cluster, Image, sandbox};
use e2e::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::interval;

/// How long the start may take on a loaded machine, and how long the end.
const START: Duration = Duration::from_mins(8);
const END: Duration = Duration::from_mins(1);

/// A one-node cluster on this machine, with our controllers installed by the Helm chart.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Starts the cluster and says how to use it.
    Up,
    /// Ends it and removes all of it.
    Down,
    /// Owns it, in the background.
    #[command(hide = true)]
    Serve,
    /// Is its first program.
    #[command(hide = true)]
    Inside,
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match Options::parse().action {
        Action::Up => up().await,
        Action::Down => down().await,
        Action::Serve => serve().await,
        Action::Inside => inside().await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Where the cluster is, from both sides.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn find() -> Result<Self> {
        Ok(Self { folder: sandbox::cache()?.join("cluster") })
    }

    /// The sandbox's.
    fn node(&self) -> PathBuf {
        self.folder.join("node")
    }

    /// The process in the background.
    fn pid(&self) -> PathBuf {
        self.folder.join("pid")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// For users outside.
    fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// The API server, for those who cannot reach its network.
    fn socket(&self) -> PathBuf {
        self.node().join("api.sock")
    }

    /// Written once all is ready: the kubeconfig for users inside.
    fn ready(&self) -> PathBuf {
        self.node().join("ready")
    }

    /// The process that owns a cluster here, if there is one.
    fn owner(&self) -> Option<Pid> {
        let pid: i32 = fs::read_to_string(self.pid()).ok()?.trim().parse().ok()?;
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        command.split('\0').any(|word| word == "serve").then(|| Pid::from_raw(pid)).flatten()
    }
}

async fn up() -> Result<()> {
    let place = Place::find()?;
    ensure!(place.owner().is_none(), "there is a cluster already: export KUBECONFIG={}", place.kubeconfig().display());
    if let Some(reason) = sandbox::refusal()? {
        bail!("{reason}");
    }
    node::build().await?;
    clear(&place)?;
    fs::create_dir_all(&place.folder)?;
    let log = fs::File::create(place.log())?;
    // A session of its own, so that neither Ctrl-C nor the end of the terminal ends it.
    let mut background = Command::new("setsid");
    background.arg(std::env::current_exe()?).arg("serve").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut background = background.spawn().context("start the process in the background")?;
    fs::write(place.pid(), background.id().to_string())?;
    let started = wait::until("the cluster", START, async || {
        if let Some(status) = background.try_wait()? {
            return Err(wait::give_up(format!(
                "it has ended ({status}); {} says:\n{}",
                place.log().display(),
                fs::read_to_string(place.log())?
            )));
        }
        ensure!(place.kubeconfig().is_file(), "it is starting; see {}", place.log().display());
        Ok(())
    });
    let started = tokio::select! {
        started = started => started,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    if let Err(error) = started {
        stop(&place).await?;
        return Err(error);
    }
    println!("A cluster of one node, with our controllers in charge of Deployments, ReplicaSets and StatefulSets:");
    println!();
    println!("  export KUBECONFIG={}", place.kubeconfig().display());
    println!("  {} get pods --all-namespaces", kubectl().await?.display());
    println!();
    println!(
        "There are the images localhost/busybox:1 and :2 and no others, a storage class, and no DNS. `make cluster-down` removes all of it."
    );
    Ok(())
}

async fn down() -> Result<()> {
    let place = Place::find()?;
    stop(&place).await?;
    clear(&place)
}

async fn stop(place: &Place) -> Result<()> {
    let Some(owner) = place.owner() else { return Ok(()) };
    kill_process(owner, Signal::TERM).context("end the cluster")?;
    wait::until("the end of the cluster", END, async || {
        ensure!(place.owner().is_none(), "it is still there");
        Ok(())
    })
    .await
}

fn clear(place: &Place) -> Result<()> {
    match fs::remove_dir_all(&place.folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", place.folder.display()))
        }
        _ => Ok(()),
    }
}

/// Whose programs are on nobody's `PATH`.
async fn kubectl() -> Result<PathBuf> {
    Ok(node::build().await?.join("kubectl"))
}

/// Runs the sandbox, and a door to it, until somebody says to stop.
async fn serve() -> Result<()> {
    let place = Place::find()?;
    let command = sandbox::command(&place.node(), &std::env::current_exe()?, ["inside".into()]);
    let mut cluster = Child::spawn("the cluster", &command, place.log())?;
    let mut stopped = signal(SignalKind::terminate())?;
    let door = TcpListener::bind("127.0.0.1:0").await?;
    let ready = wait::until("the cluster", START, async || {
        cluster.ensure_running().map_err(wait::give_up)?;
        Ok(fs::read_to_string(place.ready())?)
    });
    tokio::select! {
        kubeconfig = ready => write_kubeconfig(&place, &kubeconfig?, door.local_addr()?.port())?,
        _ = stopped.recv() => return cluster.terminate(END).await.map(drop),
    }
    tokio::spawn(forward(door, place.socket()));
    let mut look = interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = look.tick() => cluster.ensure_running()?,
            _ = stopped.recv() => break,
        }
    }
    cluster.terminate(END).await.map(drop)
}

/// The administrator's, with the address of the door.
fn write_kubeconfig(place: &Place, inside: &str, port: u16) -> Result<()> {
    let mut kubeconfig: Value = serde_json::from_str(inside)?;
    let server = kubeconfig.pointer_mut("/clusters/0/cluster/server").context("a kubeconfig without a server")?;
    *server = Value::from(format!("https://127.0.0.1:{port}"));
    let file = place.kubeconfig();
    let unfinished = file.with_extension("new");
    fs::write(&unfinished, format!("{kubeconfig:#}\n"))?;
    fs::rename(unfinished, file).context("the kubeconfig")
}

async fn forward(door: TcpListener, socket: PathBuf) {
    // Of a connection that is gone before it is accepted there is nothing to say.
    while let Ok((mut from, _)) = door.accept().await {
        let socket = socket.clone();
        tokio::spawn(async move {
            if let Ok(mut to) = UnixStream::connect(socket).await {
                // Either side may hang up as it likes.
                let _ = copy_bidirectional(&mut from, &mut to).await;
            }
        });
    }
}

/// Starts the cluster, installs the chart, and lets the other side in.
async fn inside() -> Result<()> {
    let place = Place::find()?;
    let images = ["1", "2"].map(|tag| Image::Busybox(format!("localhost/busybox:{tag}"), "sh"));
    let images: Vec<_> = images.into_iter().chain([node::ours()?]).collect();
    let cluster = Cluster::start(&images, &CONTROLLERS, &[]).await?;
    cluster.install().await?;
    let listener = UnixListener::bind(place.socket())?;
    let url = cluster.plane().api_server_endpoint(0)?.url();
    let address = url.strip_prefix("https://").context("the API server's address")?.to_owned();
    let unfinished = place.ready().with_extension("new");
    fs::copy(cluster.plane().admin_kubeconfig(), &unfinished)?;
    fs::rename(unfinished, place.ready())?;
    loop {
        let (mut from, _) = listener.accept().await?;
        let address = address.clone();
        tokio::spawn(async move {
            if let Ok(mut to) = TcpStream::connect(address).await {
                let _ = copy_bidirectional(&mut from, &mut to).await;
            }
        });
    }
}
