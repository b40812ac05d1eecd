//! Leader migration: which controllers run under a second lease, for which another program competes with this one, so that they can move
//! between the two without a moment in which both or none runs them (upstream controller-manager `pkg/leadermigration`).

use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use crate::options::ControllerName;

/// Upstream `LeaderMigrationConfiguration`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MigrationConfig {
    api_version: String,
    kind: String,
    /// The second lease's name.
    #[serde(default)]
    leader_name: String,
    /// Not in v1 any more.
    resource_lock: Option<String>,
    #[serde(default)]
    controller_leaders: Vec<ControllerLeader>,
}

/// Upstream `ControllerLeaderConfiguration`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ControllerLeader {
    /// The controller.
    #[serde(default)]
    name: String,
    /// The program that runs it, or `*`: whichever holds the lease.
    #[serde(default)]
    component: String,
}

/// Where a controller runs (upstream `FilterResult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Under the lease that it would have without any migration.
    MainLease,
    /// Under the second one.
    MigrationLease,
    /// In another program.
    Elsewhere,
}

/// What the files call this program.
const COMPONENT: &str = "workloads-controller-manager";
const GROUP: &str = "controllermanager.config.k8s.io";
/// Those whose files say what kind of lock there is.
const EARLIER_VERSIONS: &[&str] = &["v1alpha1", "v1beta1"];

// === impl MigrationConfig ===

impl MigrationConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it, by flag, file and field.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let file = || format!("--leader-migration-config: {}", path.display());
        let text = std::fs::read_to_string(path).with_context(file)?;
        Self::parse(&text).map_err(anyhow::Error::msg).with_context(file)
    }

    /// Upstream `ReadLeaderMigrationConfiguration` and `ValidateLeaderMigrationConfiguration`.
    fn parse(text: &str) -> Result<Self, String> {
        let config: Self = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let Self { api_version, kind, leader_name, resource_lock, controller_leaders } = &config;
        let version = api_version.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/'));
        let earlier = version.is_some_and(|version| EARLIER_VERSIONS.contains(&version));
        if !earlier && version != Some("v1") {
            return Err(format!("apiVersion: {api_version:?} is not {GROUP}/v1"));
        }
        if kind != "LeaderMigrationConfiguration" {
            return Err(format!("kind: {kind:?} is not LeaderMigrationConfiguration"));
        }
        if leader_name.is_empty() {
            return Err("leaderName: Required value".to_owned());
        }
        if resource_lock.is_some() && !earlier {
            return Err("resourceLock: unknown field in v1".to_owned());
        }
        if let Some(lock) = resource_lock.as_ref().filter(|lock| *lock != "leases") {
            return Err(format!("resourceLock: {lock:?} is not leases"));
        }
        for (index, ControllerLeader { name, component }) in controller_leaders.iter().enumerate() {
            let field = |field: &str| format!("controllerLeaders[{index}].{field}");
            if component.is_empty() {
                return Err(format!("{}: Required value", field("component")));
            }
            if name.is_empty() {
                return Err(format!("{}: Required value", field("name")));
            }
            // The other program would run it under its own lease, and this one under this.
            if let Some(meant) = ControllerName::all().find(|controller| controller.alias() == name) {
                return Err(format!(
                    "{}: {name:?} matches no controller in kube-controller-manager; write {}",
                    field("name"),
                    meant.as_str()
                ));
            }
        }
        Ok(config)
    }

    /// The second lease's name.
    pub(crate) fn lease(&self) -> &str {
        &self.leader_name
    }

    /// Where a controller runs (upstream `NewLeaderMigrator`): the last entry that names it counts.
    pub(crate) fn place(&self, controller: ControllerName) -> Place {
        match self.controller_leaders.iter().rev().find(|leader| leader.name == controller.as_str()) {
            None => Place::MainLease,
            Some(leader) if leader.component == "*" || leader.component == COMPONENT => Place::MigrationLease,
            Some(_) => Place::Elsewhere,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ControllerName::{Deployment, ReplicaSet, StatefulSet};

    const HEAD: &str = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n";

    #[test]
    fn each_controller_has_its_place() {
        let text = "leaderName: workloads-migration
controllerLeaders:
- {name: deployment-controller, component: kube-controller-manager}
- {name: deployment-controller, component: '*'}
- name: replicaset-controller
  component: kube-controller-manager
- name: job-controller
  component: '*'
";
        let config = MigrationConfig::parse(&format!("{HEAD}{text}")).unwrap();
        assert_eq!(config.lease(), "workloads-migration");
        let places = [Deployment, ReplicaSet, StatefulSet].map(|controller| config.place(controller));
        assert_eq!(places, [Place::MigrationLease, Place::Elsewhere, Place::MainLease]);
        let named = text.replace("'*'", COMPONENT);
        assert_eq!(MigrationConfig::parse(&format!("{HEAD}{named}")).unwrap().place(Deployment), Place::MigrationLease);
    }

    #[test]
    fn earlier_versions_and_json_are_read() {
        let json = r#"{"apiVersion": "controllermanager.config.k8s.io/v1alpha1", "kind": "LeaderMigrationConfiguration",
            "leaderName": "m", "resourceLock": "leases", "controllerLeaders": [{"name": "statefulset-controller", "component": "*"}]}"#;
        assert_eq!(MigrationConfig::parse(json).unwrap().place(StatefulSet), Place::MigrationLease);
        MigrationConfig::parse(&json.replace("v1alpha1", "v1beta1")).unwrap();
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, names) in [
            (String::new(), "end of input"),
            ("{}".to_owned(), "apiVersion"),
            ("apiVersion: v1\nkind: LeaderMigrationConfiguration\nleaderName: m\n".to_owned(), "apiVersion: \"v1\""),
            (HEAD.replace("LeaderMigrationConfiguration", "ConfigMap") + "leaderName: m\n", "kind: \"ConfigMap\""),
            (HEAD.to_owned(), "leaderName: Required"),
            (format!("{HEAD}leaderName: m\nresourceLock: leases\n"), "resourceLock"),
            (HEAD.replace("/v1", "/v1beta1") + "leaderName: m\nresourceLock: endpoints\n", "resourceLock: \"endpoints\""),
            (format!("{HEAD}leaderName: m\nleaders: []\n"), "leaders"),
            (format!("{HEAD}leaderName: m\nleaderName: n\n"), "leaderName"),
            (format!("{HEAD}leaderName: m\ncontrollerLeaders: [{{name: a}}]\n"), "controllerLeaders[0].component: Required"),
            (format!("{HEAD}leaderName: m\ncontrollerLeaders: [{{component: '*'}}]\n"), "controllerLeaders[0].name: Required"),
            (format!("{HEAD}leaderName: m\ncontrollerLeaders: [{{name: deployment, component: '*'}}]\n"), "write deployment-controller"),
        ] {
            let error = MigrationConfig::parse(&text).unwrap_err();
            assert!(error.contains(names), "{text} should name {names}: {error}");
        }
    }
}
