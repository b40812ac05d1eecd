//! Feature gates, by upstream's names. Their defaults follow the server's version: on an older server this program behaves as the
//! kube-controller-manager of that release would. `--emulated-version` says another one.

use std::collections::BTreeMap;
use std::fmt;

use crate::options::{foreign, go_bool};

/// A Kubernetes release: minor and patch of 1.x.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    minor: u32,
    patch: u32,
}

/// A gate that this program reads.
struct Gate {
    name: &'static str,
    /// What it is from which release on; ascending. Before the first it does not exist, and is off.
    specs: &'static [Spec],
}

/// Upstream `FeatureSpec`.
struct Spec {
    since: Release,
    stage: Stage,
    /// Whether it is on when nobody says otherwise.
    on: bool,
}

/// How far a feature is, when it can still be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    PreAlpha,
    Alpha,
    Beta,
}

/// One entry of `--feature-gates`: `[component:]Name=bool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GateSetting {
    /// Whether the component was written down.
    prefixed: bool,
    name: String,
    on: bool,
}

/// The gates as the command line sets them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeatureGates(BTreeMap<&'static str, bool>);

const fn since(minor: u32, patch: u32) -> Release {
    Release { minor, patch }
}

const fn alpha(since: Release, on: bool) -> Spec {
    Spec { since, stage: Stage::Alpha, on }
}

const fn beta(since: Release, on: bool) -> Spec {
    Spec { since, stage: Stage::Beta, on }
}

const FIRST: Release = since(0, 0);
const ALWAYS: &[Spec] = &[beta(FIRST, true)];

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";
/// Guards options of logging that may go again (upstream component-base `logs/api/v1/kube_features.go`).
pub(crate) const LOGGING_ALPHA_OPTIONS: &str = "LoggingAlphaOptions";
/// Guards options of logging that are nearly done.
pub(crate) const LOGGING_BETA_OPTIONS: &str = "LoggingBetaOptions";

/// Upstream's gates (`pkg/features/kube_features.go`) that concern what runs here.
const GATES: &[Gate] = &[
    Gate { name: ALL_ALPHA, specs: &[alpha(FIRST, false)] },
    Gate { name: ALL_BETA, specs: &[beta(FIRST, false)] },
    Gate { name: "DeploymentReplicaSetTerminatingReplicas", specs: &[alpha(since(33, 0), false), beta(since(35, 0), true)] },
    Gate { name: LOGGING_ALPHA_OPTIONS, specs: &[alpha(FIRST, false)] },
    Gate { name: LOGGING_BETA_OPTIONS, specs: ALWAYS },
    Gate { name: "PodDeletionCost", specs: ALWAYS },
    Gate {
        name: "MaxUnavailableStatefulSet",
        specs: &[alpha(since(24, 0), false), beta(since(35, 0), true), beta(since(35, 4), false), beta(since(37, 0), true)],
    },
    Gate { name: "StatefulSetRecreateStrategy", specs: &[alpha(since(37, 0), false)] },
    Gate { name: "StatefulSetSemanticRevisionComparison", specs: ALWAYS },
    // Upstream has these from 1.36 on. They only put a sync off, which no object shows, so they are on for every server.
    Gate { name: "StaleControllerConsistencyReplicaSet", specs: ALWAYS },
    Gate { name: "StaleControllerConsistencyStatefulSet", specs: ALWAYS },
];

// === impl Release ===

impl Release {
    /// What this program is checked against: the default for a server that does not say.
    pub(crate) const BASELINE: Self = since(37, 2);
    /// The oldest that can be emulated, as upstream of the baseline.
    const OLDEST: u32 = 34;

    /// Reads `v1.36.3`, with whatever a distribution appends.
    pub(crate) fn parse(git_version: &str) -> Option<Self> {
        let mut parts = git_version.strip_prefix("v1.")?.split(|c: char| !c.is_ascii_digit());
        let minor = parts.next()?.parse().ok()?;
        Some(Self { minor, patch: parts.next().and_then(|patch| patch.parse().ok()).unwrap_or(0) })
    }

    /// `--emulated-version`: what upstream's newest patch of a minor release has become (component-base `compatibility/registry.go`
    /// `toVersionMap`, `version.go` `Validate`).
    ///
    /// # Errors
    /// A sentence about the part that is wrong.
    pub(crate) fn emulated(text: &str) -> Result<Self, String> {
        let (component, version) = text.split_once('=').unwrap_or((KUBE, text));
        if component.trim() != KUBE {
            return Err(format!("component not registered: {}", component.trim()));
        }
        let version = version.trim();
        let wrong = || format!("{version:?} is no version such as 1.36");
        let mut parts = version.strip_prefix('v').unwrap_or(version).split('.');
        let mut number = || parts.next().map(str::parse::<u32>);
        let (Some(Ok(major)), Some(Ok(minor)), patch) = (number(), number(), number()) else { return Err(wrong()) };
        if parts.next().is_some() || patch.as_ref().is_some_and(Result::is_err) {
            return Err(wrong());
        }
        if patch.is_some_and(|patch| patch != Ok(0)) {
            return Err(format!("patch version not allowed, got: {KUBE}={version}"));
        }
        let newest = Self::BASELINE.minor;
        if major != 1 || !(Self::OLDEST..=newest).contains(&minor) {
            return Err(format!("emulation version {version} is not between [1.{}, 1.{newest}]", Self::OLDEST));
        }
        Ok(Self { minor, patch: u32::MAX })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)
    }
}

// === impl Gate ===

impl Gate {
    fn named(name: &str) -> Option<&'static Self> {
        GATES.iter().find(|gate| gate.name == name)
    }

    /// Stage and default with a release.
    fn spec(&self, release: Release) -> (Stage, bool) {
        let spec = self.specs.iter().rev().find(|spec| spec.since <= release);
        spec.map_or((Stage::PreAlpha, false), |spec| (spec.stage, spec.on))
    }
}

// === impl Stage ===

impl Stage {
    fn as_str(self) -> &'static str {
        match self {
            Self::PreAlpha => "PRE-ALPHA",
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
        }
    }
}

// === impl GateSetting ===

/// The component that is meant if none is named (component-base `compatibility/registry.go` `DefaultKubeComponent`).
const KUBE: &str = "kube";

impl std::str::FromStr for GateSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (component, rest) = text.split_once(':').map_or((None, text), |(component, rest)| (Some(component.trim()), rest));
        if let Some(component) = component.filter(|component| *component != KUBE) {
            return Err(format!("component not registered: {component}"));
        }
        let Some((name, value)) = rest.split_once('=') else {
            return Err(format!("missing bool value for feature gate {rest:?}: write {rest}=true or {rest}=false"));
        };
        let on = go_bool(value.trim()).map_err(|_| format!("invalid value {value:?} of feature gate {name}: write true or false"))?;
        Ok(Self { prefixed: component.is_some(), name: name.trim().to_owned(), on })
    }
}

// === impl FeatureGates ===

impl FeatureGates {
    /// Takes what the command line says, the last of several about the same gate. An unknown gate is an error, as it is upstream; with
    /// `ignore_foreign` those that other parts of kube-controller-manager read are handed back instead.
    ///
    /// # Errors
    /// A sentence that names the flag and the gate.
    pub(crate) fn new(settings: &[GateSetting], ignore_foreign: bool, emulated: Option<Release>) -> Result<(Self, Vec<String>), String> {
        let flag = "--feature-gates";
        if settings.iter().any(|one| settings.iter().any(|other| one.prefixed != other.prefixed)) {
            return Err(format!("{flag}: set feature gates with the prefix {KUBE}: or without it, do not mix"));
        }
        let (mut gates, mut foreign) = (BTreeMap::new(), Vec::new());
        for GateSetting { name, on, .. } in settings {
            let Some(gate) = Gate::named(name) else {
                if ignore_foreign && foreign::is_gate(name) {
                    foreign.push(name.clone());
                    continue;
                }
                let known: Vec<_> = GATES.iter().map(|gate| gate.name).collect();
                let hint = if foreign::is_gate(name) { foreign::HINT } else { "" };
                return Err(format!("{flag}: unrecognized feature gate {name:?}; known here: {}{hint}", known.join(", ")));
            };
            if let Some(emulated) = emulated.filter(|emulated| gate.spec(*emulated).0 == Stage::PreAlpha) {
                return Err(format!("{flag}: cannot set feature gate {name} to {on}, feature is PreAlpha at emulated version {emulated}"));
            }
            gates.insert(gate.name, *on);
        }
        Ok((Self(gates), foreign))
    }

    /// Every gate: its name, its stage, and whether it is on with that release.
    pub(crate) fn all(&self, release: Release) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        GATES.iter().map(move |gate| (gate.name, gate.spec(release).0.as_str(), self.enabled(gate.name, release)))
    }

    /// Whether a gate is on with that release: what is said of it, else what is said of all of its stage, else its default (upstream
    /// `featuregate/feature_gate.go` `setUnsetAlphaGates`).
    pub(crate) fn enabled(&self, name: &str, release: Release) -> bool {
        let said = |name| self.0.get(name).copied();
        let Some(gate) = Gate::named(name) else { return false };
        let (stage, default) = gate.spec(release);
        let of_stage = match stage {
            _ if [ALL_ALPHA, ALL_BETA].contains(&name) => None,
            Stage::PreAlpha => None,
            Stage::Alpha => said(ALL_ALPHA),
            Stage::Beta => said(ALL_BETA),
        };
        said(name).or(of_stage).unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Vec<GateSetting>, String> {
        text.split(',').filter(|part| !part.is_empty()).map(str::parse).collect()
    }

    fn gates(text: &str) -> Result<FeatureGates, String> {
        FeatureGates::new(&settings(text)?, false, None).map(|(gates, _)| gates)
    }

    #[test]
    fn what_is_set_wins_over_the_default() {
        let gates = gates("PodDeletionCost=false,StatefulSetRecreateStrategy=F,StatefulSetRecreateStrategy=T").unwrap();
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
            ("v1.37.2", "LoggingAlphaOptions", false),
            ("v1.37.2", "LoggingBetaOptions", true),
        ] {
            assert_eq!(gates.enabled(gate, Release::parse(version).unwrap()), on, "{gate} on {version}");
        }
        assert_eq!(Release::parse("v2.0.0"), None);
        assert_eq!(Release::parse("nonsense"), None);
    }

    #[test]
    fn an_emulated_version_brings_the_defaults_of_its_last_patch() {
        for (text, gate, on) in [
            ("1.34", "DeploymentReplicaSetTerminatingReplicas", false),
            ("kube=1.35", "MaxUnavailableStatefulSet", false),
            ("v1.35.0", "DeploymentReplicaSetTerminatingReplicas", true),
            ("1.37", "MaxUnavailableStatefulSet", true),
        ] {
            assert_eq!(FeatureGates::default().enabled(gate, Release::emulated(text).unwrap()), on, "{gate} in {text}");
        }
        for (text, says) in [
            ("1.33", "between [1.34, 1.37]"),
            ("1.38", "between [1.34, 1.37]"),
            ("2.0", "between [1.34, 1.37]"),
            ("1.36.1", "patch version not allowed"),
            ("1", "no version"),
            ("1.36.0.0", "no version"),
            ("1.x", "no version"),
            ("wardle=1.2", "component not registered: wardle"),
        ] {
            let error = Release::emulated(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        let recreate = settings("StatefulSetRecreateStrategy=true").unwrap();
        let error = FeatureGates::new(&recreate, false, Release::emulated("1.36").ok()).unwrap_err();
        assert!(error.contains("feature is PreAlpha at emulated version 1.36"), "{error}");
        FeatureGates::new(&recreate, false, Release::emulated("1.37").ok()).unwrap();
    }

    #[test]
    fn all_of_a_stage_are_switched_but_those_that_are_named() {
        let both = gates("AllAlpha=true,AllBeta=false,PodDeletionCost=true").unwrap();
        for (gate, on) in [
            ("StatefulSetRecreateStrategy", true),
            ("LoggingAlphaOptions", true),
            ("MaxUnavailableStatefulSet", false),
            ("PodDeletionCost", true),
            ("AllBeta", false),
        ] {
            assert_eq!(both.enabled(gate, Release::BASELINE), on, "{gate}");
        }
        // A gate that is beta now was alpha then, or was not there at all.
        let alpha = gates("AllAlpha=true").unwrap();
        assert!(alpha.enabled("MaxUnavailableStatefulSet", since(34, 4)));
        assert!(!alpha.enabled("StatefulSetRecreateStrategy", since(36, 3)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, names) in [
            ("NoSuchGate=true", "NoSuchGate"),
            ("PodDeletionCost", "PodDeletionCost=true"),
            ("PodDeletionCost=on", "\"on\""),
            ("wardle:PodDeletionCost=true", "component not registered: wardle"),
            ("kube:PodDeletionCost=true,AllAlpha=true", "do not mix"),
            ("JobManagedBy=true", "--ignore-foreign-flags"),
        ] {
            let error = gates(text).unwrap_err();
            assert!(error.contains(names), "{error} should name {names}");
        }
        gates("kube:PodDeletionCost=true").unwrap();
    }

    #[test]
    fn gates_of_others_are_handed_back() {
        let (gates, foreign) = FeatureGates::new(&settings("JobManagedBy=true,PodDeletionCost=false").unwrap(), true, None).unwrap();
        assert_eq!(foreign, ["JobManagedBy"]);
        assert!(!gates.enabled("PodDeletionCost", Release::BASELINE));
        FeatureGates::new(&settings("NoSuchGate=true").unwrap(), true, None).unwrap_err();
    }
}
