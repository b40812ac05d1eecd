//! maxSurge and maxUnavailable in pods.

use model::IntOrPercent;
use model::deployment::{DeploymentSpec, Strategy};
use model::int_or_percent::Round;

/// Both, resolved against `spec.replicas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Fenceposts {
    /// How many pods there may be beyond `spec.replicas`.
    pub(crate) max_surge: i32,
    /// How many of `spec.replicas` may be unavailable.
    pub(crate) max_unavailable: i32,
}

// === impl Fenceposts ===

impl Fenceposts {
    /// Upstream `MaxSurge` and `MaxUnavailable`: nothing unless rolling, and what upstream makes of a value that no API server lets through.
    pub(crate) fn of(spec: &DeploymentSpec) -> Self {
        let Strategy::RollingUpdate { max_surge, max_unavailable } = &spec.strategy else { return Self::default() };
        let (Some(surge), Some(unavailable)) = (max_surge.of(spec.replicas, Round::Up), max_unavailable.of(spec.replicas, Round::Down))
        else {
            return Self::default();
        };
        // Upstream `ResolveFenceposts`: rounding must not leave a rollout without a way to go on.
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        let max_unavailable = if spec.replicas == 0 { 0 } else { unavailable.min(spec.replicas) };
        Self { max_surge: surge, max_unavailable }
    }
}

/// How many pods a new ReplicaSet may bring at most (upstream `NewRSNewReplicas`, which does not resolve the two together).
pub(crate) fn surge(max_surge: &IntOrPercent, replicas: i32) -> Result<i32, String> {
    max_surge.of(replicas, Round::Up).ok_or_else(|| format!("spec.strategy.rollingUpdate.maxSurge: invalid value {max_surge:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surge_rounds_up_and_unavailable_down() {
        for (surge, unavailable, replicas, expected) in [
            (IntOrPercent::Percent(25), IntOrPercent::Percent(25), 10, (3, 2)),
            (IntOrPercent::Percent(25), IntOrPercent::Percent(25), 1, (1, 0)),
            (IntOrPercent::Percent(0), IntOrPercent::Percent(1), 2, (0, 1)),
            (IntOrPercent::Percent(1), IntOrPercent::Percent(25), 2, (1, 0)),
            (IntOrPercent::Int(0), IntOrPercent::Int(0), 5, (0, 1)),
            (IntOrPercent::Int(3), IntOrPercent::Int(20), 10, (3, 10)),
            (IntOrPercent::Int(3), IntOrPercent::Int(2), 0, (3, 0)),
            (IntOrPercent::Invalid("x".into()), IntOrPercent::Int(2), 5, (0, 0)),
        ] {
            let strategy = Strategy::RollingUpdate { max_surge: surge, max_unavailable: unavailable };
            let posts = resolve(strategy, replicas);
            assert_eq!((posts.max_surge, posts.max_unavailable), expected, "{posts:?} of {replicas}");
        }
        assert_eq!(resolve(Strategy::Recreate, 5), Fenceposts::default());
    }

    fn resolve(strategy: Strategy, replicas: i32) -> Fenceposts {
        let web = br#"{"metadata":{"name":"a","namespace":"b","uid":"6d9f8a3e-0000-4000-8000-00000000002a"}}"#;
        let mut deployment = model::Decode::decode(&mut model::DeploymentDecoder::new(), web).unwrap();
        (deployment.spec.strategy, deployment.spec.replicas) = (strategy, replicas);
        Fenceposts::of(&deployment.spec)
    }
}
