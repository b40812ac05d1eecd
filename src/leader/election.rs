//! Plays the protocol against an API: sends what [`Protocol`] asks for, keeps the fence, and says what has become of it.

use std::sync::Arc;
use std::time::Duration;

use machinery::clock::Clock;
use machinery::fence::{BootClock, Fence};
use model::plan::ApiError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::lease::Lease;
use super::protocol::{Answer, Loss, Protocol, Step};
use super::standing::Standing;

/// The way to one lease.
pub(super) trait LeaseApi {
    async fn get(&self) -> Result<Lease, ApiError>;
    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError>;
    async fn update(&self, lease: &Lease) -> Result<Lease, ApiError>;
}

/// A candidate at work.
pub(super) struct Election<A> {
    pub(super) protocol: Protocol,
    pub(super) api: A,
    pub(super) clock: BootClock,
    pub(super) wall: Clock,
    pub(super) fence: Fence,
    pub(super) standing: Arc<Standing>,
    /// What the watch has shown last.
    pub(super) watched: watch::Receiver<Option<Lease>>,
    pub(super) release_on_exit: bool,
    /// What was last logged of failures; the same over and over is one line.
    pub(super) complaint: Option<(u16, String)>,
}

/// How an election ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// We were told to stop, and hold nothing that could be given up.
    Resigned,
    /// We led, and do not any more.
    Lost(Loss),
}

/// A release is tried so often before the lease is left to expire.
const RELEASE_TRIES: u32 = 5;
/// Between two tries.
const RELEASE_PAUSE: Duration = Duration::from_millis(200);

// === impl Election ===

impl<A: LeaseApi> Election<A> {
    /// Until we are told to stop, or have led and do not any more.
    pub(super) async fn run(mut self, resign: CancellationToken) -> Ended {
        info!(lease = self.lease_name(), identity = self.protocol.rules().me.identity, "Attempting to acquire the lease");
        loop {
            let now = self.clock.now();
            let step = self.protocol.step(now, self.wall.wall());
            let is_write = matches!(step, Step::Create(_) | Step::Update(_));
            match step {
                Step::Wait(until) => {
                    if self.pause(until.saturating_sub(now), &resign).await.is_none() {
                        return self.resign(false).await;
                    }
                }
                Step::Lose(loss) => {
                    self.fence.close();
                    self.standing.lost();
                    match &loss {
                        Loss::Late => error!(lease = self.lease_name(), "Lost the lease: it could not be renewed in time"),
                        Loss::Taken(holder) => error!(lease = self.lease_name(), holder, "Lost the lease: another process holds it"),
                    }
                    return Ended::Lost(loss);
                }
                request => {
                    let Some(answer) = resign.run_until_cancelled(self.send(&request, now)).await else {
                        return self.resign(is_write).await;
                    };
                    self.learn(&request, now, answer);
                }
            }
        }
    }

    /// `None` if we are to resign.
    async fn pause(&mut self, delay: Duration, resign: &CancellationToken) -> Option<()> {
        tokio::select! {
            biased;
            () = resign.cancelled() => return None,
            changed = self.watched.changed() => {
                if changed.is_err() {
                    // Without the watch the time has to be waited for.
                    return resign.run_until_cancelled(tokio::time::sleep(delay)).await;
                }
                let seen = self.watched.borrow_and_update().clone();
                if let Some(lease) = seen {
                    self.protocol.seen(lease, self.clock.now());
                }
            }
            () = tokio::time::sleep(delay) => {}
        }
        Some(())
    }

    async fn send(&self, request: &Step, now: Duration) -> Result<Lease, ApiError> {
        if self.protocol.is_on_slow_path() {
            self.standing.slow_path();
        }
        let answer = async {
            match request {
                Step::Create(lease) => self.api.create(lease).await,
                Step::Update(lease) => self.api.update(lease).await,
                _ => self.api.get().await,
            }
        };
        // A leader has no use for an answer that comes too late, and must not wait for it.
        let Some(deadline) = self.protocol.deadline() else { return answer.await };
        let late =
            |_| ApiError { reason: "Late".to_owned(), message: "no answer before the renew deadline".to_owned(), ..ApiError::default() };
        tokio::time::timeout(deadline.saturating_sub(now), answer).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
    }

    fn learn(&mut self, request: &Step, begun: Duration, answer: Result<Lease, ApiError>) {
        let (led, holder) = (self.protocol.renewed().is_some(), self.protocol.holder().map(ToOwned::to_owned));
        let answer = match answer {
            Ok(lease) => {
                self.complaint = None;
                Answer::Lease(lease)
            }
            Err(error) => {
                let is_get = *request == Step::Get;
                if !(is_get && error.is_not_found()) {
                    self.complain(&error);
                }
                match error.code {
                    404 if is_get => Answer::Missing,
                    409 => Answer::Conflict,
                    _ => Answer::Failed,
                }
            }
        };
        self.protocol.answer(begun, self.clock.now(), answer);
        if let Some(renewed) = self.protocol.renewed() {
            self.fence.extend(renewed, self.protocol.rules().renew_deadline);
            self.standing.renewed(renewed);
            if !led && let Some(lease) = self.protocol.lease() {
                info!(lease = self.lease_name(), "Acquired the lease");
                self.standing.leading(lease);
            }
            return;
        }
        if let Some(now) = self.protocol.holder().filter(|now| !now.is_empty() && holder.as_deref() != Some(*now)) {
            info!(lease = self.lease_name(), holder = now, "Standing by: another process holds the lease");
        }
        if self.protocol.is_resting() {
            self.standing.standing_by();
        }
    }

    fn complain(&mut self, error: &ApiError) {
        let complaint = (error.code, error.reason.clone());
        if self.complaint.as_ref() == Some(&complaint) {
            debug!(lease = self.lease_name(), %error, "The lease cannot be read or written yet");
            return;
        }
        match error.code {
            401 | 403 => error!(
                lease = self.lease_name(), %error,
                "The lease cannot be read or written; leader election needs the rights to get, create and update it"
            ),
            409 => info!(lease = self.lease_name(), %error, "Somebody else has written the lease"),
            _ => warn!(lease = self.lease_name(), %error, "The lease cannot be read or written, trying again"),
        }
        self.complaint = Some(complaint);
    }

    /// Whoever works under the lease must have ended. `open`: a write is under way whose outcome is not known.
    async fn resign(self, open: bool) -> Ended {
        self.fence.close();
        let may_hold = open || self.protocol.renewed().is_some();
        if may_hold && self.release_on_exit {
            let limit = self.protocol.rules().renew_deadline;
            if tokio::time::timeout(limit, self.release()).await.is_err() {
                warn!(lease = self.lease_name(), "The lease could not be given up in time and is left to expire");
            }
        }
        self.standing.lost();
        Ended::Resigned
    }

    /// Upstream `leaderelection.go` `release`.
    async fn release(&self) {
        let mut known = self.protocol.lease().cloned();
        for _ in 0..RELEASE_TRIES {
            let lease = match known.take() {
                Some(lease) => Ok(lease),
                None => self.api.get().await,
            };
            let written = match lease {
                Ok(lease) if lease.holder() != self.protocol.rules().me.identity => return,
                Ok(lease) => self.api.update(&lease.released(self.wall.wall())).await,
                Err(error) => Err(error),
            };
            match written {
                Ok(_) => {
                    info!(lease = self.lease_name(), "Released the lease");
                    return;
                }
                Err(error) if error.is_not_found() => return,
                // A renewal that was under way.
                Err(error) if error.code == 409 => debug!(%error, "Somebody else has written the lease"),
                Err(error) => {
                    warn!(lease = self.lease_name(), %error, "The lease cannot be given up, trying again");
                    tokio::time::sleep(RELEASE_PAUSE).await;
                }
            }
        }
        warn!(lease = self.lease_name(), "The lease could not be given up and is left to expire");
    }

    fn lease_name(&self) -> String {
        let rules = self.protocol.rules();
        format!("{}/{}", rules.namespace, rules.name)
    }
}
