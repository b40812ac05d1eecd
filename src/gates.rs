//! Feature gates, by upstream's names.

use std::collections::BTreeMap;

/// A gate that this program's controllers read.
struct Gate {
    name: &'static str,
    /// Whether it is on when nobody says otherwise, as of Kubernetes 1.37.
    default: bool,
}

/// Upstream's gates (`pkg/features/kube_features.go`) that concern what runs here.
const GATES: &[Gate] = &[
    Gate { name: "DeploymentReplicaSetTerminatingReplicas", default: true },
    Gate { name: "PodDeletionCost", default: true },
    // Read by the StatefulSet controller; known from the start, so that one command line serves every release of this program.
    Gate { name: "MaxUnavailableStatefulSet", default: true },
    Gate { name: "StatefulSetRecreateStrategy", default: false },
    Gate { name: "StatefulSetSemanticRevisionComparison", default: true },
    Gate { name: "StaleControllerConsistencyReplicaSet", default: true },
    Gate { name: "StaleControllerConsistencyStatefulSet", default: true },
];

/// The gates in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeatureGates(BTreeMap<&'static str, bool>);

// === impl FeatureGates ===

impl FeatureGates {
    /// Whether a gate is on.
    pub(crate) fn enabled(&self, name: &str) -> bool {
        let default = || GATES.iter().any(|gate| gate.name == name && gate.default);
        self.0.get(name).copied().unwrap_or_else(default)
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
    fn gates_have_upstreams_defaults_and_can_be_set() {
        let gates: FeatureGates = "PodDeletionCost=false, StatefulSetRecreateStrategy=T".parse().unwrap();
        assert!(!gates.enabled("PodDeletionCost"));
        assert!(gates.enabled("StatefulSetRecreateStrategy"));
        assert!(gates.enabled("DeploymentReplicaSetTerminatingReplicas"));
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
