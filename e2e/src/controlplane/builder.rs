//! Starting a control plane.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::binaries::{Binaries, Program};
use super::components::{self, ApiServerOptions, ControllerManager};
use super::credentials::{Credentials, More};
use super::folder::Folder;
use super::{ApiServer, ControlPlane, access, audit};
use crate::child::Child;
use crate::ports;

/// A loaded two-core machine with four API servers still makes it; alone it takes four seconds.
pub(super) const START: Duration = Duration::from_mins(2);

/// What to start. The default is etcd and one API server.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    release: Option<String>,
    binaries: Option<PathBuf>,
    more_api_servers: usize,
    api_server: ApiServerOptions,
    controller_manager: Option<ControllerManager>,
    scheduler: bool,
    more: More,
    ungranted: bool,
}

impl Builder {
    /// A Kubernetes release among `controlplane/versions`; else the environment's `K8S_VERSION`, else the newest one pinned.
    #[must_use]
    pub fn release(mut self, release: &str) -> Self {
        self.release = Some(release.to_owned());
        self
    }

    /// Programs that are built already, instead of `build.sh`'s.
    #[must_use]
    pub fn binaries(mut self, folder: impl Into<PathBuf>) -> Self {
        self.binaries = Some(folder.into());
        self
    }

    /// This many API servers over the one etcd.
    #[must_use]
    pub fn api_servers(mut self, count: usize) -> Self {
        self.more_api_servers = count.saturating_sub(1);
        self
    }

    /// Switches a feature gate of the API servers.
    #[must_use]
    pub fn feature_gate(mut self, gate: &str, on: bool) -> Self {
        self.api_server.feature_gates.push((gate.to_owned(), on));
        self
    }

    /// One more argument of the API servers, `--flag=value`; a later one overrides an earlier one.
    #[must_use]
    pub fn api_server_flag(mut self, flag: impl Into<String>) -> Self {
        self.api_server.flags.push(flag.into());
        self
    }

    /// Switches on an admission plugin that is off by default.
    #[must_use]
    pub fn admission_plugin(mut self, plugin: &str) -> Self {
        self.api_server.admission.push(plugin.to_owned());
        self
    }

    /// Leaves the `ServiceAccount` admission plugin on, as real clusters have it. Pods then need their namespace's default account, which
    /// kube-controller-manager's `serviceaccount-controller` makes.
    #[must_use]
    pub fn service_account_admission(mut self) -> Self {
        self.api_server.service_account_admission = true;
        self
    }

    /// Logs requests, for [`ControlPlane::audit`].
    #[must_use]
    pub fn audit(mut self) -> Self {
        self.api_server.audit = true;
        self
    }

    /// Runs kube-controller-manager beside the API servers, usually [`ControllerManager::default`]: deletion needs it.
    #[must_use]
    pub fn controller_manager(mut self, controller_manager: ControllerManager) -> Self {
        self.controller_manager = Some(controller_manager);
        self
    }

    /// One more user, with a token; see [`ControlPlane::write_kubeconfig`].
    #[must_use]
    pub fn user(mut self, name: &str, group: &str) -> Self {
        self.more.users.push((name.to_owned(), group.to_owned()));
        self
    }

    /// One more address for the servers' certificate.
    #[must_use]
    pub fn address(mut self, address: IpAddr) -> Self {
        self.more.addresses.push(address);
        self
    }

    /// Makes neither the service account of `workloads-controller-manager` nor its rights: something else installs them.
    #[must_use]
    pub fn ungranted(mut self) -> Self {
        self.ungranted = true;
        self
    }

    /// Runs kube-scheduler.
    #[must_use]
    pub fn scheduler(mut self) -> Self {
        self.scheduler = true;
        self
    }

    /// Starts everything and waits until it is ready, the service account's rights included.
    pub async fn start(self) -> Result<ControlPlane> {
        let binaries = self.find_binaries().await?;
        let mut control_plane = self.spawn(binaries)?;
        control_plane.await_api_servers().await?;
        access::system_namespaces(control_plane.admin()).await?;
        if !self.ungranted {
            access::grant(control_plane.admin()).await?;
            for n in 0..control_plane.api_servers.len() {
                access::granted(&control_plane.service_account_of(n)?).await?;
            }
        }
        // Both at once: each takes a second.
        let (controller_manager, scheduler) = tokio::try_join!(
            async {
                match &self.controller_manager {
                    Some(options) => control_plane.run_controller_manager(options).await.map(Some),
                    None => Ok(None),
                }
            },
            async { if self.scheduler { control_plane.run_scheduler().await.map(Some) } else { Ok(None) } },
        )?;
        control_plane.controller_manager = controller_manager;
        control_plane.scheduler = scheduler;
        Ok(control_plane)
    }

    async fn find_binaries(&self) -> Result<Binaries> {
        if let Some(folder) = &self.binaries {
            ensure!(self.release.is_none(), "a folder of binaries is of one release already");
            return Ok(Binaries::at(folder));
        }
        let mut programs = vec![Program::Etcd, Program::ApiServer];
        programs.extend(self.controller_manager.as_ref().map(|_| Program::ControllerManager));
        programs.extend(self.scheduler.then_some(Program::Scheduler));
        let release = self.release.clone();
        tokio::task::spawn_blocking(move || Binaries::build(release.as_deref(), &programs)).await.context("build")?
    }

    /// etcd and the API servers, which wait for etcd by themselves.
    fn spawn(&self, binaries: Binaries) -> Result<ControlPlane> {
        let folder = Folder::create()?;
        let credentials = Credentials::create(&folder.join("credentials"), &self.more)?;
        let (etcd_port, peer_port) = (ports::free()?, ports::free()?);
        let etcd_command = components::etcd(&binaries, &folder.data(), etcd_port, peer_port)?;
        let etcd = Child::spawn("etcd", &etcd_command, folder.join("etcd.log"))?;
        let policy = folder.join("audit-policy.yaml");
        std::fs::write(&policy, audit::POLICY)?;
        let mut api_servers = Vec::new();
        for n in 0..=self.more_api_servers {
            let port = ports::free()?;
            let audit_log = folder.join(format!("audit-{n}.log"));
            let command = components::api_server(&self.api_server, &binaries, &credentials, (port, etcd_port), (&policy, &audit_log))?;
            api_servers.push(ApiServer::start(n, port, command, audit_log, &credentials, &folder)?);
        }
        let first = api_servers.first().context("no API server")?;
        let (admin, kubeconfigs) = (first.admin.clone(), first.kubeconfigs.clone());
        Ok(ControlPlane {
            controller_manager: None,
            scheduler: None,
            api_servers,
            etcd,
            etcd_command,
            admin,
            kubeconfigs,
            credentials,
            binaries,
            audited: self.api_server.audit,
            folder,
        })
    }
}
