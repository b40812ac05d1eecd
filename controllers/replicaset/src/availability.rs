//! When the next pod becomes available if nothing else happens.

use std::sync::Arc;
use std::time::Duration;

use model::{Pod, Time};

/// The shortest wait until a ready pod has been ready for `min_ready_seconds` (upstream `pkg/controller/controller_utils.go`
/// `findMinNextPodAvailabilitySimpleCheck`); a ready time in the future counts as well, so that clock skew does not hide a pod.
pub(crate) fn next_availability_check(pods: &[Arc<Pod>], min_ready_seconds: i32, now: Time) -> Option<Duration> {
    pods.iter()
        .filter(|pod| pod.ready)
        .filter_map(|pod| {
            let due = pod.ready_changed?.time().plus_seconds(min_ready_seconds.into());
            u64::try_from(due.nanos_since(now)).ok().filter(|nanos| *nanos > 0)
        })
        .min()
        .map(Duration::from_nanos)
}
