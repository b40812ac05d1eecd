//! Strikes as the schedule says, keeps the processes up, and takes back what was meant to last for a while only.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::differential::snapshot::{Kind, is_active, name, text};
use e2e::proxy::{Ending, Handle, Match};
use e2e::soak::schedule::{Blow, Round, Who};
use e2e::wait;
use http::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::player::Player;
use crate::replicas::{Replica, SHORT};
use crate::world::World;

/// How often it is looked after the processes.
const TICK: Duration = Duration::from_millis(250);

/// How long an API server may take to end in order.
const GRACE: Duration = Duration::from_secs(10);

/// The API server that may end.
const MORTAL: usize = 1;

const LEASE_PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/workloads-controller-manager";

/// What ends by itself.
enum Relief {
    Thaw(String),
    Heal(String),
    Flow(Handle),
    StartNode(String),
}

/// A round's blows, and what is to be taken back.
pub(crate) struct Blows<'a> {
    world: &'a mut World,
    players: &'a [Rc<Player>],
    reliefs: Vec<(Instant, Relief)>,
}

impl<'a> Blows<'a> {
    pub(crate) fn new(world: &'a mut World, players: &'a [Rc<Player>]) -> Self {
        Self { world, players, reliefs: Vec::new() }
    }

    /// From the round's beginning to its end, and to the last relief.
    pub(crate) async fn strike(mut self, round: &Round, began: Instant) -> Result<()> {
        let mut blows = round.blows.iter().peekable();
        let end = began + round.length;
        while Instant::now() < end {
            if let Some((at, blow)) = blows.next_if(|(at, _)| began + *at <= Instant::now()) {
                println!("  {:>6.1?} of {:.0?}: {blow:?}", at, round.length);
                self.land(blow).await?;
            }
            self.relieve(Instant::now()).await?;
            self.world.replicas.keep_up(&self.world.side.plane).await?;
            sleep_until(end.min(Instant::now() + TICK)).await;
        }
        let last = self.reliefs.iter().map(|(at, _)| *at).max().unwrap_or(end);
        self.relieve(last).await
    }

    async fn land(&mut self, blow: &Blow) -> Result<()> {
        let now = Instant::now();
        match *blow {
            Blow::DeleteLease => self.world.ask(Method::DELETE, LEASE_PATH, &Value::Null).await,
            Blow::SeizeLease => self.seize_lease().await,
            Blow::RestartServer(kill) => self.restart_server(kill).await,
            Blow::StopNode(n, length) => self.stop_node(n, now + length).await,
            Blow::FailPods(count) => self.fail_pods(count).await,
            Blow::Kill(who)
            | Blow::Stop(who)
            | Blow::Suspend(who, _)
            | Blow::Part(who, _)
            | Blow::HalfOpen(who)
            | Blow::Disconnect(who)
            | Blow::EndWatches(who, _)
            | Blow::Stall(who, ..)
            | Blow::Move(who) => self.land_on(who, blow, now).await,
        }
    }

    async fn land_on(&mut self, who: Who, blow: &Blow, now: Instant) -> Result<()> {
        // One that is just being started again, or is frozen, is left alone.
        let Some(replica) = self.world.replicas.find(who) else { return Ok(()) };
        let name = replica.name.clone();
        match *blow {
            Blow::Kill(_) => replica.kill()?,
            Blow::Stop(_) => replica.stop()?,
            Blow::Suspend(_, length) => {
                replica.freeze()?;
                self.reliefs.push((now + length, Relief::Thaw(name)));
            }
            Blow::Part(_, length) => {
                replica.part();
                self.reliefs.push((now + length, Relief::Heal(name)));
            }
            Blow::HalfOpen(_) => replica.fall_silent(),
            Blow::Disconnect(_) => replica.disconnect(),
            Blow::EndWatches(_, reset) => {
                let ending = if reset { Ending::Reset } else { Ending::Close };
                replica.proxy.cut(Match { watch: Some(true), ..Match::any() }, ending);
            }
            Blow::Stall(_, resource, length) => {
                let held = replica.proxy.stall(Match::watches(resource));
                self.reliefs.push((now + length, Relief::Flow(held)));
            }
            Blow::Move(_) => {
                let to = replica.other_upstream();
                replica.move_to(&self.world.side.plane, to).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes back what has lasted until then.
    async fn relieve(&mut self, until: Instant) -> Result<()> {
        let (due, rest) = std::mem::take(&mut self.reliefs).into_iter().partition(|(at, _)| *at <= until);
        self.reliefs = rest;
        let due: Vec<_> = due;
        for (_, relief) in due {
            match relief {
                Relief::Thaw(name) => self.world.replicas.by_name(&name).map_or(Ok(()), Replica::thaw)?,
                Relief::Heal(name) => drop(self.world.replicas.by_name(&name).map(|replica| replica.proxy.heal())),
                Relief::Flow(held) => held.release(),
                Relief::StartNode(node) => self.world.fleet.start_node(&node).await?,
            }
        }
        Ok(())
    }

    /// By force, which no candidate of ours would use: whoever leads finds out when it renews.
    async fn seize_lease(&self) -> Result<()> {
        let now = k8s_openapi::jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let spec = json!({
            "holderIdentity": "an intruder", "leaseDurationSeconds": SHORT.lease().as_secs(), "acquireTime": now, "renewTime": now,
        });
        self.world.ask(Method::PATCH, LEASE_PATH, &json!({"spec": spec})).await
    }

    async fn restart_server(&mut self, kill: bool) -> Result<()> {
        let plane = &mut self.world.side.plane;
        if !kill {
            let process = plane.api_server_process(MORTAL)?;
            process.signal(Signal::TERM)?;
            // It waits for answers to be taken; those on connections that have fallen silent never are.
            let _ = wait::until("the API server's end", GRACE, async || process.exited()?.context("it runs")).await;
        }
        plane.kill9_api_server(MORTAL)?;
        plane.start_api_server(MORTAL).await
    }

    /// As upstream's node lifecycle controller says of the pods of a node that is silent.
    async fn stop_node(&mut self, n: u32, until: Instant) -> Result<()> {
        let Some(node) = self.world.fleet.node_names().get(n as usize).map(ToString::to_string) else { return Ok(()) };
        self.world.fleet.stop_node(&node)?;
        let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]}});
        self.patch_pods(|pod| text(pod, "/spec/nodeName") == node, usize::MAX, &unready).await?;
        self.reliefs.push((until, Relief::StartNode(node)));
        Ok(())
    }

    async fn fail_pods(&self, count: u32) -> Result<()> {
        self.patch_pods(is_active, count as usize, &json!({"status": {"phase": "Failed", "reason": "Evicted"}})).await
    }

    /// Patches the status of so many pods of each namespace.
    async fn patch_pods(&self, which: impl Fn(&Value) -> bool, count: usize, change: &Value) -> Result<()> {
        for player in self.players {
            let space = player.view.space();
            for pod in space.snapshot.of(Kind::Pod).filter(|pod| which(pod)).take(count) {
                let path = format!("/api/v1/namespaces/{}/pods/{}/status", player.namespace, name(pod));
                self.world.ask(Method::PATCH, &path, change).await?;
            }
        }
        Ok(())
    }
}
