//! Which scripts there are.

use anyhow::{Result, bail};

use super::script::Script;
use super::{deployments, statefulsets};

/// Scripts about one kind of object.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// What the environment's `KIND` calls it; namespaces begin with it.
    pub kind: &'static str,
    /// The test's name.
    pub test: &'static str,
    /// The script of a seed.
    pub script: fn(u64) -> Script,
}

/// All of them.
pub const FAMILIES: [Family; 2] = [
    Family { kind: "deployment", test: "deployments_fare_alike", script: deployments::script },
    Family { kind: "statefulset", test: "statefulsets_fare_alike", script: statefulsets::script },
];

/// Those that the environment's `KIND` names; without it, all.
///
/// # Errors
/// When it names none.
pub fn from_environment() -> Result<Vec<Family>> {
    let Ok(kind) = std::env::var("KIND") else { return Ok(FAMILIES.to_vec()) };
    match FAMILIES.into_iter().find(|family| family.kind == kind) {
        Some(family) => Ok(vec![family]),
        None => bail!("KIND={kind}: it is one of {:?}", FAMILIES.map(|family| family.kind)),
    }
}
