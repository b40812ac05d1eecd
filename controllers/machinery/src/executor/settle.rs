//! What became of writes whose answer was lost, found out once the server cannot be working on them any more.

use std::time::Duration;

use model::plan::{ApiError, ObjectRef, Resource};
use model::{ObjectKey, ResourceVersion};
use tokio::time::Instant;

use super::{Errand, Executor};
use crate::expectations::UnknownWrite;

/// The API server gives up a request after 60 s (`--request-timeout`); what it has not done a little later, it never will.
const SERVER_REQUEST_TIMEOUT: Duration = Duration::from_secs(65);
/// Between two looks at what is still open after that.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

// === impl Executor ===

impl Executor {
    /// Looks, live, for children whose create or delete had no answer. The first read that fails ends it: the rest would fail likewise,
    /// each after its deadline. Whether anything was found out, so that a view made before is out of date.
    pub async fn settle_unknown(&self, errand: Errand<'_>, resource: &'static Resource) -> bool {
        let ObjectRef { key, uid, .. } = errand.subject;
        let Some(pending) = self.expectations.pending(key, *uid) else { return false };
        let mut settled = false;
        for unknown in pending.unknown.iter().filter(|unknown| unknown.since + SERVER_REQUEST_TIMEOUT <= self.clock.now()) {
            if let Err(error) = self.settle(errand, resource, unknown).await {
                tracing::warn!(child = &*unknown.name, %error, "Cannot find out what became of a write");
                break;
            }
            settled = true;
        }
        settled
    }

    /// When a key whose writes are open is to be looked at again; nothing else may ever bring it back.
    pub fn settles_after(&self, key: &ObjectKey, now: Instant) -> Option<Duration> {
        let due = self.expectations.oldest_unknown(key)? + SERVER_REQUEST_TIMEOUT;
        Some(due.saturating_duration_since(now).max(LOOK_AGAIN))
    }

    async fn settle(&self, errand: Errand<'_>, resource: &'static Resource, unknown: &UnknownWrite) -> Result<(), ApiError> {
        let ObjectRef { key, uid, .. } = errand.subject;
        if let Some(child) = unknown.deleted {
            let name = ObjectKey { namespace: key.namespace.clone(), name: unknown.name.clone() };
            let target = ObjectRef { resource, key: name, uid: child, resource_version: ResourceVersion::default() };
            match self.find_deleted(&target).await? {
                Some(_) => self.expectations.deletion_found(key, *uid, child),
                None => self.expectations.deletion_observed(key, *uid, child),
            }
            return Ok(());
        }
        match self.find(resource, &key.namespace, &unknown.name).await? {
            Some(meta) if meta.is_controlled_by(*uid) => {
                if (errand.is_cached)(&unknown.name) {
                    self.expectations.creation_found(key, *uid, &unknown.name);
                }
            }
            _ => self.expectations.creation_absent(key, *uid, &unknown.name),
        }
        Ok(())
    }
}
