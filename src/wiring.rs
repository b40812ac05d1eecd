//! Each controller with what it takes to run it: its queue, its guard, its way to write.

use std::sync::Arc;

use kube::config::AuthInfo;
use machinery::client::{ApiClient, Clients, service_account};
use machinery::events::{self, ApiWriter};
use machinery::executor::Executor;
use machinery::expectations::Expectations;
use machinery::explain::{Records, SyncMetrics};
use machinery::guard::{Guard, Guarded};
use machinery::queue::WorkQueue;
use machinery::sync::Controller;
use model::plan::{CONTROLLERREVISIONS, PERSISTENTVOLUMECLAIMS, PODS, REPLICASETS, Resource};
use model::{
    ControllerRevisionDecoder, DeploymentDecoder, ObjectKey, PersistentVolumeClaimDecoder, PodDecoder, ReplicaSetDecoder,
    StatefulSetDecoder,
};
use replicaset::Gates;

use crate::app::{App, random_seed};
use crate::caches::Cache;
use crate::deployment::DeploymentController;
use crate::metrics::{AvailabilityMetrics, deletion_age_ratio};
use crate::replicaset::ReplicaSetController;
use crate::statefulset::StatefulSetController;

// === impl App ===

impl App {
    pub(crate) fn deployment_controller(
        &mut self,
        deployments: &Cache<DeploymentDecoder>,
        sets: &Cache<ReplicaSetDecoder>,
        pods: &Cache<PodDecoder>,
    ) -> anyhow::Result<Arc<Controller<DeploymentController>>> {
        let terminating_replicas = self.enabled("DeploymentReplicaSetTerminatingReplicas");
        let queue = self.queue("deployment")?;
        let guard = self.guard("deployment", &queue, vec![deployments.guarded(), sets.guarded(), pods.guarded()])?;
        let reconciler = DeploymentController {
            deployments: deployments.store.clone(),
            sets: sets.store.clone(),
            pods: pods.store.clone(),
            guard: guard.clone(),
            queue: queue.clone(),
            clock: self.clock.clone(),
            gates: ::deployment::Gates { terminating_replicas },
        };
        reconciler.listen();
        // It does not count its writes: their names are given, so that none can be made twice.
        let executor = self.executor("deployment-controller", Arc::new(Expectations::default()))?;
        let (records, metrics) = self.journal("deployment", &[&REPLICASETS])?;
        Ok(Arc::new(Controller { reconciler, executor, guard: Some(guard), queue, clock: self.clock.clone(), records, metrics }))
    }

    pub(crate) fn replicaset_controller(
        &mut self,
        sets: &Cache<ReplicaSetDecoder>,
        pods: &Cache<PodDecoder>,
    ) -> anyhow::Result<Arc<Controller<ReplicaSetController>>> {
        let gates = Gates {
            pod_deletion_cost: self.enabled("PodDeletionCost"),
            terminating_replicas: self.enabled("DeploymentReplicaSetTerminatingReplicas"),
        };
        let queue = self.queue("replicaset")?;
        let guard = self.guard("replicaset", &queue, vec![pods.guarded(), sets.guarded()])?;
        let guard = Some(guard).filter(|_| self.enabled("StaleControllerConsistencyReplicaSet"));
        let expectations = Arc::new(Expectations::default());
        self.inspection.expectations("replicaset", Arc::clone(&expectations));
        let reconciler = ReplicaSetController {
            sets: sets.store.clone(),
            pods: pods.store.clone(),
            expectations: Arc::clone(&expectations),
            guard: guard.clone(),
            queue: queue.clone(),
            clock: self.clock.clone(),
            gates,
            deletion_age_ratio: deletion_age_ratio(&self.registry)?,
        };
        reconciler.listen();
        let executor = self.executor("replicaset-controller", expectations)?;
        let (records, metrics) = self.journal("replicaset", &[&PODS])?;
        Ok(Arc::new(Controller { reconciler, executor, guard, queue, clock: self.clock.clone(), records, metrics }))
    }

    pub(crate) fn statefulset_controller(
        &mut self,
        sets: &Cache<StatefulSetDecoder>,
        pods: &Cache<PodDecoder>,
        claims: &Cache<PersistentVolumeClaimDecoder>,
        revisions: &Cache<ControllerRevisionDecoder>,
    ) -> anyhow::Result<Arc<Controller<StatefulSetController>>> {
        let gates = ::statefulset::Gates {
            max_unavailable: self.enabled("MaxUnavailableStatefulSet"),
            recreate: self.enabled("StatefulSetRecreateStrategy"),
            semantic_comparison: self.enabled("StatefulSetSemanticRevisionComparison"),
        };
        let queue = self.queue("statefulset")?;
        let guarded = vec![sets.guarded(), pods.guarded(), claims.guarded(), revisions.guarded()];
        let guard = self.guard("statefulset", &queue, guarded)?;
        let guard = Some(guard).filter(|_| self.enabled("StaleControllerConsistencyStatefulSet"));
        let reconciler = StatefulSetController {
            sets: sets.store.clone(),
            pods: pods.store.clone(),
            claims: claims.store.clone(),
            revisions: revisions.store.clone(),
            known_same: Arc::default(),
            availability: AvailabilityMetrics::register(&self.registry)?,
            guard: guard.clone(),
            queue: queue.clone(),
            clock: self.clock.clone(),
            gates,
        };
        reconciler.listen();
        // It does not count its writes: their names are given, so that none can be made twice.
        let executor = self.executor("statefulset-controller", Arc::new(Expectations::default()))?;
        let (records, metrics) = self.journal("statefulset", &[&PODS, &PERSISTENTVOLUMECLAIMS, &CONTROLLERREVISIONS])?;
        Ok(Arc::new(Controller { reconciler, executor, guard, queue, clock: self.clock.clone(), records, metrics }))
    }

    fn enabled(&self, gate: &str) -> bool {
        self.options.gates.enabled(gate, self.release)
    }

    /// A controller's guard, at work.
    fn guard(&mut self, controller: &'static str, queue: &WorkQueue<ObjectKey>, guarded: Vec<Guarded>) -> anyhow::Result<Guard> {
        self.inspection.queue(controller, queue.clone());
        let guard = Guard::new(controller, queue.clone(), guarded, &self.registry)?;
        let running = guard.clone();
        self.spawn("guard", |ending| running.run(ending));
        Ok(guard)
    }

    /// What a controller's syncs come to, kept and counted.
    fn journal(&self, controller: &str, children: &[&Resource]) -> anyhow::Result<(Arc<Records>, SyncMetrics)> {
        let records = Arc::new(Records::default());
        let metrics = SyncMetrics::register(controller, &records, self.clock.clone(), &self.registry)?;
        for resource in children {
            metrics.writes(resource);
        }
        Ok((records, metrics))
    }

    /// One controller's way to write, with a rate limit of its own, and its way to tell about it.
    fn executor(&mut self, controller: &'static str, expectations: Arc<Expectations>) -> anyhow::Result<Executor> {
        let (writes, events) = self.writers(controller)?;
        let limited =
            |client: &ApiClient| client.limited_apart(self.options.connection.kube_api_qps, self.options.connection.kube_api_burst);
        let (client, events) = (limited(&writes), limited(&events));
        let fence = self.fence_of(controller);
        let teller = ApiWriter::new(events, fence.clone());
        let (recorder, sink) = events::recorder(controller, teller, self.clock.clone(), &self.registry)?;
        self.spawn("event sink", |ending| sink.run(ending));
        Ok(Executor::new(client, recorder, expectations, self.clock.clone(), random_seed(), fence, self.stopping.clone()))
    }

    /// What a controller writes through: in the name of its service account, which is called as it is, if that is asked for.
    fn writers(&mut self, controller: &'static str) -> anyhow::Result<(ApiClient, ApiClient)> {
        // Who observes writes nothing, not even a request for a token.
        if !self.options.connection.use_service_account_credentials || self.observes() {
            return Ok((self.clients.writes.clone(), self.clients.events.clone()));
        }
        let bare = if let Some(bare) = &self.bare {
            bare.clone()
        } else {
            let mut config = self.config.clone();
            config.auth_info = AuthInfo::default();
            self.bare.insert(Clients::new(&config, &self.client_options, &self.client_metrics)?).clone()
        };
        let asking = self.clients.writes.limited_apart(0.0, 1);
        let (identity, keeper) = service_account(asking, "kube-system", controller, self.clock.clone(), random_seed());
        self.spawn("tokens", |ending| keeper.run(ending));
        Ok((bare.writes.identified(identity.clone()), bare.events.identified(identity)))
    }
}
