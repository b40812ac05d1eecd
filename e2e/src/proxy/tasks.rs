//! The proxy's tasks: all of them end with it.

use hyper::rt::Executor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Spawns tasks that end when they are told to.
#[derive(Debug, Clone, Default)]
pub(super) struct Tasks {
    ending: CancellationToken,
    tracker: TaskTracker,
}

// === impl Tasks ===

impl Tasks {
    pub(super) fn spawn<F: Future<Output: Send> + Send + 'static>(&self, work: F) {
        let ending = self.ending.clone();
        self.tracker.spawn(async move { ending.run_until_cancelled_owned(work).await.map(drop) });
    }

    pub(super) fn end(&self) {
        self.ending.cancel();
        self.tracker.close();
    }

    /// Waits until all have ended.
    pub(super) async fn ended(&self) {
        self.tracker.wait().await;
    }
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, work: F) {
        self.spawn(work);
    }
}
