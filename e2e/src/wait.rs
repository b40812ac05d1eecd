//! Waiting for a condition, with a deadline and a good last word.

use std::fmt;
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use tokio::time::{Instant, sleep, timeout_at};

/// How often a condition is looked at.
const EVERY: Duration = Duration::from_millis(50);

/// Asks `check` until it returns a value, and returns that.
///
/// An error of `check` means "not yet" and is its description of what it saw (`ensure!(ready == 3, "{ready} of 3 ready")`); the last
/// one is in the error at the deadline. [`give_up`] ends the wait at once.
pub async fn until<T>(what: &str, within: Duration, mut check: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + within;
    let mut last: Option<Error> = None;
    loop {
        // The check itself may hang, on a server that accepts and never answers.
        match timeout_at(deadline, check()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) if error.is::<GivenUp>() => return Err(error.context(format!("waiting for {what}"))),
            Ok(Err(error)) => last = Some(error),
            Err(_) if last.is_none() => last = Some(anyhow!("the first look at it never ended")),
            Err(_) => {}
        }
        if Instant::now() + EVERY >= deadline {
            let seen = last.unwrap_or_else(|| anyhow!("nothing"));
            return Err(anyhow!("waited {within:?} for {what}; last seen: {seen:#}"));
        }
        sleep(EVERY).await;
    }
}

/// An error for [`until`]'s check that no further look can cure.
pub fn give_up(reason: impl fmt::Display) -> Error {
    Error::new(GivenUp(format!("{reason:#}")))
}

#[derive(Debug)]
struct GivenUp(String);

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GivenUp {}

/// Reads an object until `check` returns a value for it. An object that is not there is "not yet".
pub async fn object<K, T>(api: &kube::Api<K>, name: &str, what: &str, within: Duration, mut check: impl FnMut(&K) -> Result<T>) -> Result<T>
where
    K: Clone + serde::de::DeserializeOwned + fmt::Debug,
{
    until(what, within, async || check(&api.get(name).await?)).await
}

/// Lists until `check` returns a value for what the list holds.
pub async fn list<K, T>(
    api: &kube::Api<K>,
    params: &kube::api::ListParams,
    what: &str,
    within: Duration,
    mut check: impl FnMut(&[K]) -> Result<T>,
) -> Result<T>
where
    K: Clone + serde::de::DeserializeOwned + fmt::Debug,
{
    until(what, within, async || check(&api.list(params).await?.items)).await
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[tokio::test]
    async fn the_error_says_what_was_last_seen() {
        let mut looks = 0;
        let error = until("ten looks", Duration::from_millis(200), async || {
            looks += 1;
            ensure!(looks == 10, "look {looks} of 10");
            Ok(())
        })
        .await
        .unwrap_err();
        assert_eq!(error.to_string(), format!("waited 200ms for ten looks; last seen: look {looks} of 10"));
    }

    #[tokio::test]
    async fn a_look_that_hangs_ends_at_the_deadline() {
        let hang = async || std::future::pending::<Result<()>>().await;
        let error = until("nothing", Duration::from_millis(100), hang).await.unwrap_err();
        assert!(error.to_string().contains("never ended"), "{error}");
    }

    #[tokio::test]
    async fn giving_up_ends_the_wait() {
        let check = async || Err::<(), _>(give_up("the server has ended"));
        let error = until("a server", Duration::from_secs(1000), check).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "waiting for a server: the server has ended");
    }
}
