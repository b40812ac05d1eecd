//! From kube-controller-manager to the chart, and back.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::node::{CONTROLLERS, Cluster, REPOSITORY};
use e2e::wait;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;

use crate::rig::{Life, NAMESPACE, RELEASE, World, chart, lives, our_pod, our_pods, step};
use crate::workloads::{ALL, IMAGE, NEXT_IMAGE, SHOP, apply, apply_all, roll, rolled_out, scale, web};
use crate::{scrape, static_pod};

const DNS: (&str, &str) = ALL[0];
const WEB: (&str, &str) = ALL[1];
const DB: (&str, &str) = ALL[2];

/// Longer than Helm takes here for anything on a loaded machine.
const HELM: &str = "--timeout=4m";

pub(crate) async fn the_chart_takes_over_and_gives_back(world: Rc<World>) -> Result<()> {
    let cluster = &mut *world.0.lock().await;
    step("kube-controller-manager makes workloads", made_by_upstream(cluster)).await?;
    step("the chart takes over", takes_over(cluster)).await?;
    step("Deployments and a StatefulSet roll and scale", rolls_and_scales(cluster)).await?;
    step("helm test", async { helm(cluster, "test", &[]).await }).await?;
    step("Prometheus scrapes it", scrape::scraped(cluster)).await?;
    step("helm upgrade", upgrades(cluster)).await?;
    step("helm uninstall", uninstalls(cluster)).await?;
    step("a static pod takes over", static_pod_takes_over(cluster)).await?;
    step("kube-controller-manager takes back", taken_back(cluster)).await
}

async fn made_by_upstream(cluster: &Cluster) -> Result<()> {
    apply_all(cluster).await?;
    for workload in ALL {
        rolled_out(cluster, workload).await?;
    }
    Ok(())
}

async fn takes_over(cluster: &mut Cluster) -> Result<()> {
    let before = Before::look(cluster).await?;
    cluster.restart_controller_manager(&CONTROLLERS).await?;
    scrape::define_service_monitors(cluster).await?;
    helm(cluster, "install", &[]).await?;
    let pod = our_pod(cluster).await?;
    let spec = pod.spec.as_ref().context("a pod without a spec")?;
    ensure!(spec.service_account_name.as_deref() == Some(RELEASE), "the pod's account is {:?}", spec.service_account_name);
    works(cluster, "first").await?;
    let leases: Api<Lease> = Api::namespaced(cluster.plane().admin().clone(), NAMESPACE);
    let holder = leases.get("workloads-controller-manager").await?.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    // With the host's network, the pod's host name is the node's.
    ensure!(holder.starts_with(e2e::node::NODE), "the lease is held by {holder}");
    before.is_untouched(cluster).await
}

async fn rolls_and_scales(cluster: &Cluster) -> Result<()> {
    for workload in [DNS, WEB, DB] {
        step(&format!("  roll {}", workload.1), roll(cluster, workload, NEXT_IMAGE)).await?;
    }
    scale(cluster, WEB, 5).await?;
    scale(cluster, DB, 3).await?;
    scale(cluster, WEB, 2).await?;
    // A volume remembers the pods of both images.
    let starts = cluster.plane().kubectl(&["exec", "--namespace", SHOP, "db-0", "--", "cat", "/data/index.html"]).await?;
    ensure!(starts == "db-0\ndb-0\n", "the volume of db-0 holds {starts:?}");
    Ok(())
}

async fn upgrades(cluster: &Cluster) -> Result<()> {
    let before = Before::look(cluster).await?;
    let old = our_pod(cluster).await?;
    helm(cluster, "upgrade", &["--set=logging.verbosity=2,rbac.mode=explicit"]).await?;
    let new = our_pod(cluster).await?;
    ensure!(old.metadata.uid != new.metadata.uid, "the pod is still the old one");
    let args = new.spec.and_then(|spec| spec.containers.into_iter().next()?.args).unwrap_or_default();
    ensure!(args.iter().any(|arg| arg == "--v=2"), "the new pod's arguments are {args:?}");
    works(cluster, "second").await?;
    before.is_untouched(cluster).await
}

async fn uninstalls(cluster: &Cluster) -> Result<()> {
    let before = Before::look(cluster).await?;
    helm(cluster, "uninstall", &[]).await?;
    wait::until("the end of our pod", Duration::from_secs(60), async || {
        let pods = our_pods(cluster).await?;
        ensure!(pods.is_empty(), "there is {:?}", pods.keys());
        Ok(())
    })
    .await?;
    before.is_untouched(cluster).await
}

async fn static_pod_takes_over(cluster: &Cluster) -> Result<()> {
    let before = Before::look(cluster).await?;
    static_pod::start(cluster)?;
    static_pod::ready(cluster).await?;
    works(cluster, "third").await?;
    static_pod::end(cluster).await?;
    before.is_untouched(cluster).await
}

async fn taken_back(cluster: &mut Cluster) -> Result<()> {
    let before = Before::look(cluster).await?;
    cluster.restart_controller_manager(&[]).await?;
    works(cluster, "fourth").await?;
    before.is_untouched(cluster).await?;
    roll(cluster, WEB, IMAGE).await
}

/// Helm with the release, and with the chart and its values where the command takes them.
async fn helm(cluster: &Cluster, command: &str, more: &[&str]) -> Result<()> {
    let chart = chart().display().to_string();
    let repository = format!("--set=image.repository={REPOSITORY}");
    let mut arguments = vec![command, RELEASE];
    if ["install", "upgrade"].contains(&command) {
        arguments.extend([chart.as_str(), &repository, "--set=serviceMonitor.enabled=true,serviceMonitor.interval=1s", "--wait"]);
    }
    arguments.extend(["--namespace", NAMESPACE, HELM]);
    arguments.extend(more);
    cluster.helm(&arguments).await.map(drop)
}

/// Makes a Deployment and waits until it runs: whoever is in charge has come as far as that.
async fn works(cluster: &Cluster, name: &str) -> Result<()> {
    apply(cluster, &web(name, 1)).await?;
    rolled_out(cluster, (SHOP, &format!("deployment/{name}"))).await
}

/// The workloads' pods before somebody else takes charge.
struct Before {
    shop: BTreeMap<String, Life>,
    dns: BTreeMap<String, Life>,
}

impl Before {
    async fn look(cluster: &Cluster) -> Result<Self> {
        let mut dns = lives(cluster, NAMESPACE).await?;
        dns.retain(|name, _| name.starts_with("dns-"));
        Ok(Self { shop: lives(cluster, SHOP).await?, dns })
    }

    /// Each of the pods is still there, and nothing in it has been started again.
    async fn is_untouched(&self, cluster: &Cluster) -> Result<()> {
        let now = Self::look(cluster).await?;
        ensure!(now.dns == self.dns, "pods of dns changed from {:#?} to {:#?}", self.dns, now.dns);
        for (name, life) in &self.shop {
            ensure!(now.shop.get(name) == Some(life), "pod {name} changed from {life:#?} to {:#?}", now.shop.get(name));
        }
        Ok(())
    }
}
