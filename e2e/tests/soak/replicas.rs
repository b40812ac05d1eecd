//! Two processes of ours, each behind a proxy of its own from start to end, and started again when they end.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::Server;
use e2e::controlplane::{ControlPlane, User};
use e2e::proxy::{Match, Proxy};
use e2e::soak::fencing::Life;
use e2e::soak::schedule::Who;
use rustix::process::Signal;

use crate::faults;

/// How long the lease lasts, how long it is tried to renew it, and how often, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times(u64, u64, u64);

/// Hands change soon.
pub(crate) const SHORT: Times = Times(8, 6, 1);

/// A machine must be very busy for a leader to lose the lease.
pub(crate) const LONG: Times = Times(45, 40, 2);

impl Times {
    pub(crate) fn lease(self) -> Duration {
        Duration::from_secs(self.0)
    }
}

/// A process that was told to end, or has lost the lease, ends within this, on any machine.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// One process. Fields are dropped in this order: the program ends before its server.
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) proxy: Proxy,
    /// Which API server its new connections go to.
    upstream: usize,
    frozen: bool,
    told: Option<(Told, Instant)>,
    cuts: Vec<Instant>,
    times: Times,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Die,
    Stop,
}

/// Both, and those that there were.
pub(crate) struct Replicas {
    slots: [Option<Replica>; 2],
    past: Vec<Life>,
    /// They answer requests that are under way.
    past_proxies: Vec<Proxy>,
    seed: u64,
    starts: u32,
    faults: Faults,
    times: Times,
    /// How many have ended, and for what reason.
    pub(crate) ends: Ends,
}

/// Which faults are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Faults {
    None,
    All,
    /// All but those of the lease.
    LeaseSpared,
}

#[derive(Debug, Default)]
pub(crate) struct Ends {
    killed: u32,
    stopped: u32,
    lost_the_lease: u32,
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { killed, stopped, lost_the_lease } = self;
        write!(f, "{killed} killed, {stopped} stopped, {lost_the_lease} ended since they had lost the lease")
    }
}

impl Replicas {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            slots: [None, None],
            past: Vec::new(),
            past_proxies: Vec::new(),
            seed,
            starts: 0,
            faults: Faults::None,
            times: LONG,
            ends: Ends::default(),
        }
    }

    /// Starts who does not run. Fails if one has ended that had no reason to.
    pub(crate) async fn keep_up(&mut self, plane: &ControlPlane) -> Result<()> {
        for n in 0..self.slots.len() {
            self.bury(n)?;
            if self.slots[n].is_none() {
                self.starts += 1;
                let seed = self.seed.wrapping_add(u64::from(self.starts));
                let replica = Replica::start(plane, self.starts, seed, self.faults, self.times).await?;
                self.slots[n] = Some(replica);
            }
        }
        Ok(())
    }

    /// Looks after one that may have ended.
    fn bury(&mut self, n: usize) -> Result<()> {
        let Some(replica) = &mut self.slots[n] else { return Ok(()) };
        let Some(status) = replica.server.process_mut().exited()? else {
            let overdue = replica.told.is_some_and(|(_, since)| since.elapsed() > ENDS_WITHIN) && !replica.frozen;
            ensure!(
                !overdue,
                "{} has been told to end {ENDS_WITHIN:?} ago, and runs; see {}",
                replica.name,
                replica.server.log().display()
            );
            return Ok(());
        };
        let log = replica.server.printed()?;
        ensure!(!log.contains("panicked"), "the log of {} speaks of a panic: {}", replica.name, replica.server.log().display());
        match (replica.told, status.code()) {
            (Some((Told::Die, _)), _) => self.ends.killed += 1,
            (Some((Told::Stop, _)), Some(0)) => self.ends.stopped += 1,
            (_, Some(1)) if log.contains("Lost the lease") => self.ends.lost_the_lease += 1,
            _ => bail!(
                "{} ended by itself, with {status}; the end of {}:\n{}",
                replica.name,
                replica.server.log().display(),
                replica.server.process().log_tail(20)
            ),
        }
        let replica = self.slots[n].take().context("it was there")?;
        println!("  {} ended: {status}", replica.name);
        self.past.push(replica.life());
        self.past_proxies.push(replica.proxy);
        Ok(())
    }

    /// Those that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Replica> {
        self.slots.iter().flatten()
    }

    /// Who was the last to write the lease, if it runs and nothing has been done to it; or the other one.
    pub(crate) fn find(&mut self, who: Who) -> Option<&mut Replica> {
        let renewed = |slot: &Option<Replica>| slot.as_ref().and_then(Replica::renewed);
        let leads = usize::from(renewed(&self.slots[0]) < renewed(&self.slots[1]));
        let n = if who == Who::Leader { leads } else { 1 - leads };
        self.slots[n].as_mut().filter(|replica| replica.told.is_none() && !replica.frozen)
    }

    /// A process by its name, if it still runs.
    pub(crate) fn by_name(&mut self, name: &str) -> Option<&mut Replica> {
        self.slots.iter_mut().flatten().find(|replica| replica.name == name)
    }

    /// Puts faults in force, or takes all of them away, connections that are stuck and frozen processes included.
    pub(crate) fn set_faults(&mut self, faults: Faults) -> Result<()> {
        self.faults = faults;
        for replica in self.slots.iter_mut().flatten() {
            replica.proxy.clear();
            if faults == Faults::None {
                replica.proxy.heal();
                replica.thaw()?;
            } else {
                faults::add(&replica.proxy, faults == Faults::All);
            }
        }
        Ok(())
    }

    /// Everything that each process has sent, those that are gone included.
    pub(crate) fn lives(&self) -> Vec<Life> {
        self.past.iter().cloned().chain(self.running().map(Replica::life)).collect()
    }

    /// Has both started again with other times of the lease, unless they have them.
    pub(crate) async fn set_times(&mut self, times: Times) -> Result<()> {
        if self.times != times {
            self.times = times;
            self.stop().await?;
        }
        Ok(())
    }

    /// Ends both in order. The proxies stay, so that what they have seen can be asked for.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        for n in 0..self.slots.len() {
            if let Some(replica) = &mut self.slots[n] {
                replica.told = Some((Told::Stop, Instant::now()));
                replica.server.terminate().await?;
                self.bury(n)?;
            }
        }
        Ok(())
    }
}

impl Replica {
    async fn start(plane: &ControlPlane, number: u32, seed: u64, faults: Faults, times: Times) -> Result<Self> {
        // In turns, so that a restart of the second API server mostly strikes one of two.
        let upstream = usize::from(number.is_multiple_of(2));
        let proxy = Proxy::start_seeded(plane.kubeconfig_of(upstream, User::ServiceAccount)?, seed).await?;
        if faults != Faults::None {
            faults::add(&proxy, faults == Faults::All);
        }
        let launch = plane.launch().kubeconfig(proxy.kubeconfig()).rate(1000, 1000).leader_elect();
        let Times(lease, deadline, period) = times;
        let launch =
            launch.flag(format!("--leader-elect-lease-duration={lease}s")).flag(format!("--leader-elect-renew-deadline={deadline}s"));
        let server = launch.flag(format!("--leader-elect-retry-period={period}s")).spawn()?;
        let name = format!("process {number}");
        println!("  {name} started: pid {}, {}", server.pid(), server.log().display());
        Ok(Self { name, server, proxy, upstream, frozen: false, told: None, cuts: Vec::new(), times })
    }

    pub(crate) fn kill(&mut self) -> Result<()> {
        self.told = Some((Told::Die, Instant::now()));
        self.server.process_mut().signal(Signal::KILL)
    }

    pub(crate) fn stop(&mut self) -> Result<()> {
        self.told = Some((Told::Stop, Instant::now()));
        self.server.process_mut().signal(Signal::TERM)
    }

    pub(crate) fn freeze(&mut self) -> Result<()> {
        if self.server.process_mut().exited()?.is_none() {
            self.frozen = true;
            self.server.process_mut().freeze()?;
        }
        Ok(())
    }

    pub(crate) fn thaw(&mut self) -> Result<()> {
        self.frozen = false;
        self.server.process_mut().thaw()
    }

    /// Sends new connections to an API server, and closes those there are.
    pub(crate) async fn move_to(&mut self, plane: &ControlPlane, upstream: usize) -> Result<()> {
        self.upstream = upstream;
        self.proxy.redirect(plane.kubeconfig_of(upstream, User::ServiceAccount)?).await?;
        self.disconnect();
        Ok(())
    }

    pub(crate) fn disconnect(&mut self) {
        self.cuts.push(Instant::now());
        self.proxy.close_connections();
    }

    /// Its connections fall silent; new ones do not.
    pub(crate) fn fall_silent(&mut self) {
        self.cuts.push(Instant::now());
        self.proxy.freeze_connections();
    }

    pub(crate) fn part(&mut self) {
        self.cuts.push(Instant::now());
        self.proxy.partition();
    }

    /// The API server that its connections do not go to.
    pub(crate) fn other_upstream(&self) -> usize {
        1 - self.upstream
    }

    pub(crate) fn upstream(&self) -> usize {
        self.upstream
    }

    /// When it last wrote the lease.
    pub(crate) fn renewed(&self) -> Option<Instant> {
        let leases = self.proxy.requests_of(&Match::writes("leases"));
        leases.iter().rev().find(|request| matches!(request.server_status, Some(200..300))).map(|request| request.at)
    }

    /// How many writes it has sent, the lease apart.
    pub(crate) fn writes(&self) -> usize {
        let all = Match { methods: Match::writes("").methods, ..Match::any() };
        self.proxy.seen(&all) - self.proxy.seen(&Match::writes("leases"))
    }

    fn life(&self) -> Life {
        Life { name: self.name.clone(), requests: self.proxy.requests(), cuts: self.cuts.clone(), lease: self.times.lease() }
    }
}
