//! Waiting with a look at each change, where [`wait::until`](e2e::wait::until) looks every 50 ms. With fifty scenarios at once those looks
//! would be most of what the API server does.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow};
use futures::{FutureExt as _, TryStreamExt as _};
use kube::api::{Api, ListParams, WatchParams};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::PATIENCE;

/// A check may look at more than the kind that is watched, and a watch may end.
const AT_LEAST: Duration = Duration::from_secs(1);

/// Asks `check` until it returns a value, and returns that: now, whenever an object of that kind in the namespace changes, and once a
/// second. An error of `check` means "not yet"; the last one is in the error at the deadline.
pub async fn until_changed<K, T>(api: &Api<K>, what: &str, mut check: impl AsyncFnMut() -> Result<T>) -> Result<T>
where
    K: Clone + DeserializeOwned + Debug + Send + 'static,
{
    let deadline = Instant::now() + PATIENCE;
    let mut last: Option<Error> = None;
    while Instant::now() < deadline {
        let start = api.list_metadata(&ListParams::default().limit(1)).await?;
        let version = start.metadata.resource_version.context("a list without a version")?;
        let mut events = std::pin::pin!(api.watch_metadata(&WatchParams::default(), &version).await?);
        loop {
            match timeout_at(deadline, check()).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => last = Some(error),
                Err(_) => break,
            }
            let next = timeout_at(deadline.min(Instant::now() + AT_LEAST), events.try_next()).await;
            // Those that have come meanwhile need no look of their own.
            while let Some(Ok(Some(_))) = events.try_next().now_or_never() {}
            if matches!(next, Ok(Ok(None) | Err(_))) || Instant::now() >= deadline {
                break;
            }
        }
    }
    let seen = last.unwrap_or_else(|| anyhow!("the first look at it never ended"));
    Err(anyhow!("waited {PATIENCE:?} for {what}; last seen: {seen:#}"))
}
