//! Feature gates, by upstream's names. Their defaults follow the server's version: on an older server this program behaves as the
//! kube-controller-manager of that release would.

use std::collections::BTreeMap;

/// A Kubernetes release: minor and patch of 1.x.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    minor: u32,
    patch: u32,
}

/// A gate that this program's controllers read.
struct Gate {
    name: &'static str,
    /// Upstream's stage: `ALPHA` or `BETA`; none of these is past that.
    stage: &'static str,
    /// From which release on it is on or off when nobody says otherwise; ascending. Before the first it is off.
    defaults: &'static [(Release, bool)],
}

/// The gates as the command line sets them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeatureGates(BTreeMap<&'static str, bool>);

const fn since(minor: u32, patch: u32) -> Release {
    Release { minor, patch }
}

const ALWAYS: &[(Release, bool)] = &[(since(0, 0), true)];
const NEVER: &[(Release, bool)] = &[];

/// Upstream's gates (`pkg/features/kube_features.go`) that concern what runs here.
const GATES: &[Gate] = &[
    Gate { name: "DeploymentReplicaSetTerminatingReplicas", stage: "BETA", defaults: &[(since(35, 0), true)] },
    Gate { name: "PodDeletionCost", stage: "BETA", defaults: ALWAYS },
    // Read by the StatefulSet controller; known from the start, so that one command line serves every release of this program.
    Gate {
        name: "MaxUnavailableStatefulSet",
        stage: "BETA",
        defaults: &[(since(35, 0), true), (since(35, 4), false), (since(37, 0), true)],
    },
    Gate { name: "StatefulSetRecreateStrategy", stage: "ALPHA", defaults: NEVER },
    Gate { name: "StatefulSetSemanticRevisionComparison", stage: "BETA", defaults: ALWAYS },
    // Upstream has these from 1.36 on. They only put a sync off, which no object shows, so they are on for every server.
    Gate { name: "StaleControllerConsistencyReplicaSet", stage: "BETA", defaults: ALWAYS },
    Gate { name: "StaleControllerConsistencyStatefulSet", stage: "BETA", defaults: ALWAYS },
];

// === impl Release ===

impl Release {
    /// What this program is checked against: the default for a server that does not say.
    pub(crate) const BASELINE: Self = since(37, 2);

    /// Reads `v1.36.3`, with whatever a distribution appends.
    pub(crate) fn parse(git_version: &str) -> Option<Self> {
        let mut parts = git_version.strip_prefix("v1.")?.split(|c: char| !c.is_ascii_digit());
        let minor = parts.next()?.parse().ok()?;
        Some(Self { minor, patch: parts.next().and_then(|patch| patch.parse().ok()).unwrap_or(0) })
    }
}

// === impl FeatureGates ===

impl FeatureGates {
    /// Every gate: its name, its stage, and whether it is on for a server of that release.
    pub(crate) fn all(&self, release: Release) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        GATES.iter().map(move |gate| (gate.name, gate.stage, self.enabled(gate.name, release)))
    }

    /// Whether a gate is on for a server of that release.
    pub(crate) fn enabled(&self, name: &str, release: Release) -> bool {
        let gate = GATES.iter().find(|gate| gate.name == name);
        let defaults = gate.map_or(NEVER, |gate| gate.defaults);
        let default = defaults.iter().rev().find(|(since, _)| *since <= release).is_some_and(|(_, on)| *on);
        self.0.get(name).copied().unwrap_or(default)
    }
}

impl std::str::FromStr for FeatureGates {
    type Err = String;

    /// `A=true,B=false`; an unknown gate is an error, as it is upstream.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = BTreeMap::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(format!("missing bool value for feature gate {pair:?}: write {pair}=true or {pair}=false"));
            };
            let Some(gate) = GATES.iter().find(|gate| gate.name == name.trim()) else {
                let known: Vec<_> = GATES.iter().map(|gate| gate.name).collect();
                return Err(format!("unrecognized feature gate {name:?}; known here: {}", known.join(", ")));
            };
            // The spellings of Go's strconv.ParseBool.
            let on = match value.trim() {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
                "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
                _ => return Err(format!("invalid value {value:?} of feature gate {name}: write true or false")),
            };
            gates.insert(gate.name, on);
        }
        Ok(Self(gates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_wins_over_the_default() {
        let gates: FeatureGates = "PodDeletionCost=false, StatefulSetRecreateStrategy=T".parse().unwrap();
        assert!(!gates.enabled("PodDeletionCost", Release::BASELINE));
        assert!(gates.enabled("StatefulSetRecreateStrategy", Release::BASELINE));
    }

    #[test]
    fn defaults_are_those_of_the_servers_release() {
        let gates = FeatureGates::default();
        for (version, gate, on) in [
            ("v1.34.4", "DeploymentReplicaSetTerminatingReplicas", false),
            ("v1.35.0", "DeploymentReplicaSetTerminatingReplicas", true),
            ("v1.34.9", "MaxUnavailableStatefulSet", false),
            ("v1.35.3+k3s1", "MaxUnavailableStatefulSet", true),
            ("v1.35.4", "MaxUnavailableStatefulSet", false),
            ("v1.36.3-gke.100", "MaxUnavailableStatefulSet", false),
            ("v1.37.2", "MaxUnavailableStatefulSet", true),
            ("v1.38.0-alpha.1", "PodDeletionCost", true),
            ("v1.37.2", "StatefulSetRecreateStrategy", false),
        ] {
            assert_eq!(gates.enabled(gate, Release::parse(version).unwrap()), on, "{gate} on {version}");
        }
        assert_eq!(Release::parse("v2.0.0"), None);
        assert_eq!(Release::parse("nonsense"), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, names) in
            [("NoSuchGate=true", "NoSuchGate"), ("PodDeletionCost", "PodDeletionCost=true"), ("PodDeletionCost=on", "\"on\"")]
        {
            let error = text.parse::<FeatureGates>().unwrap_err();
            assert!(error.contains(names), "{error} should name {names}");
        }
    }
}
