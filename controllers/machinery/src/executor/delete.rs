//! Deletes that can be repeated: their preconditions name one object, so a second DELETE after a lost answer cannot hit another.

use model::ResourceVersion;
use model::plan::{ApiError, Delete, ObjectRef, Outcome};

use super::{Errand, Executor, WRITE_TRIES, outcome, request};
use crate::client::{CallError, Class};

// === impl Executor ===

impl Executor {
    pub(super) async fn delete(&self, errand: Errand<'_>, delete: &Delete) -> Outcome {
        let mut lost: Option<ApiError> = None;
        for delay in WRITE_TRIES {
            self.pause(delay).await;
            match self.call(request::delete(delete), Class::Write).await {
                Ok(reply) => return gone(delete, request::metadata(&reply.body).version()),
                Err(CallError::Lost(error)) => lost = Some(error),
                Err(error) if lost.is_none() => return outcome(error),
                Err(CallError::Refused(error)) if error.is_not_found() => return gone(delete, ResourceVersion::default()),
                Err(CallError::Refused(error)) if error.is_conflict() => return self.recognise_deleted(errand, delete, error).await,
                Err(CallError::Refused(_) | CallError::NotSent(_)) => {}
            }
        }
        self.leave_delete_open(errand, delete, lost.unwrap_or_default())
    }

    /// A repeat found another version: the mark that our own first try left, or somebody's change.
    async fn recognise_deleted(&self, errand: Errand<'_>, delete: &Delete, conflict: ApiError) -> Outcome {
        match self.find_deleted(&delete.target).await {
            Ok(Some(version)) => gone(delete, version),
            Ok(None) => Outcome::Failed(conflict),
            Err(error) => self.leave_delete_open(errand, delete, error),
        }
    }

    /// Whether an object is gone or going, and at which version; `None` if it is there as if nothing had happened.
    pub(super) async fn find_deleted(&self, target: &ObjectRef) -> Result<Option<ResourceVersion>, ApiError> {
        let found = self.find(target.resource, &target.key.namespace, &target.key.name).await?;
        Ok(match found.filter(|meta| meta.is_of(target.uid)) {
            None => Some(ResourceVersion::default()),
            Some(meta) if meta.deletion_timestamp.is_some() => Some(meta.version()),
            Some(_) => None,
        })
    }

    fn leave_delete_open(&self, errand: Errand<'_>, delete: &Delete, error: ApiError) -> Outcome {
        let ObjectRef { key, uid, .. } = errand.subject;
        self.expectations.deletion_unknown(key, *uid, delete.target.uid, &delete.target.key.name, self.clock.now());
        Outcome::Unknown(error)
    }
}

fn gone(delete: &Delete, resource_version: ResourceVersion) -> Outcome {
    Outcome::Done { name: delete.target.key.name.clone(), resource_version }
}
