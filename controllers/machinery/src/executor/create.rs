//! Creates that can be repeated: the name is ours, drawn or given, so a second POST after a lost answer cannot make a second child.

use std::sync::Arc;

use model::ResourceVersion;
use model::plan::{ApiError, Create, NewName, ObjectRef, Outcome};
use model::template::{SUFFIX_ALPHABET, SUFFIX_LENGTH, generated_name};

use super::{Errand, Executor, WRITE_TRIES, outcome, request};
use crate::client::{CallError, Class};

/// Names drawn before a create gives up. Five of 27 characters collide about 30 times in 5,000 at 90,000 siblings; ten in a row never.
const DRAWS: usize = 10;

/// What became of a create under one name.
enum Attempt {
    Settled(Outcome),
    /// The name belongs to somebody else.
    Taken(ApiError),
}

// === impl Executor ===

impl Executor {
    pub(super) async fn create(&self, errand: Errand<'_>, create: &Create) -> Outcome {
        let prefix = match &create.body.name {
            NewName::Generated(prefix) => prefix,
            NewName::Given(name) => {
                return match self.create_named(errand, create, name).await {
                    Attempt::Settled(outcome) => outcome,
                    Attempt::Taken(error) => Outcome::Failed(error),
                };
            }
        };
        let mut taken = ApiError::default();
        for _ in 0..DRAWS {
            let name = self.draw_name(prefix);
            match self.create_named(errand, create, &name).await {
                Attempt::Settled(outcome) => return without_name(outcome, &name, prefix),
                Attempt::Taken(error) => taken = error,
            }
        }
        Outcome::Failed(taken)
    }

    async fn create_named(&self, errand: Errand<'_>, create: &Create, name: &Arc<str>) -> Attempt {
        let mut lost: Option<ApiError> = None;
        for delay in WRITE_TRIES {
            self.pause(delay).await;
            match self.call(request::create(create, name), Class::Write).await {
                Ok(reply) => return Attempt::Settled(done(name, &reply.body)),
                Err(CallError::Refused(error)) if error.is_already_exists() => match lost {
                    // A first try made nothing: the name is another's.
                    None => return Attempt::Taken(error),
                    Some(_) => return self.recognise(errand, create, name, error).await,
                },
                Err(CallError::Lost(error)) => lost = Some(error),
                Err(error) if lost.is_none() => return Attempt::Settled(outcome(error)),
                // It says nothing about the first try: a quota may be full because of that one.
                Err(CallError::Refused(_) | CallError::NotSent(_)) => {}
            }
        }
        Attempt::Settled(self.leave_open(errand, name, lost.unwrap_or_default()))
    }

    /// A repeat found the name taken: by our own first try, or by somebody else before it.
    async fn recognise(&self, errand: Errand<'_>, create: &Create, name: &Arc<str>, conflict: ApiError) -> Attempt {
        match self.find(create.resource, &create.namespace, name).await {
            Ok(Some(meta)) if create.owner.as_ref().is_none_or(|owner| meta.is_controlled_by(owner.uid)) => {
                Attempt::Settled(Outcome::Done { name: Arc::clone(name), resource_version: meta.version() })
            }
            Ok(Some(_)) => Attempt::Taken(conflict),
            // It was there a moment ago and is gone: made and deleted again, which the watch is going to show.
            Ok(None) => Attempt::Settled(Outcome::Done { name: Arc::clone(name), resource_version: ResourceVersion::default() }),
            Err(ApiError { message, .. }) => Attempt::Settled(self.leave_open(errand, name, ApiError { message, ..conflict })),
        }
    }

    /// Nobody knows: the expectation stays raised until the child is seen or shown to be absent. The watch may have been faster than us.
    fn leave_open(&self, errand: Errand<'_>, name: &Arc<str>, error: ApiError) -> Outcome {
        let ObjectRef { key, uid, .. } = errand.subject;
        self.expectations.creation_unknown(key, *uid, name, self.clock.now());
        if !(errand.is_cached)(name) {
            return Outcome::Unknown(error);
        }
        self.expectations.creation_found(key, *uid, name);
        Outcome::Done { name: Arc::clone(name), resource_version: ResourceVersion::default() }
    }

    fn draw_name(&self, prefix: &str) -> Arc<str> {
        let mut random = self.random.lock();
        let suffix: [u8; SUFFIX_LENGTH] = std::array::from_fn(|_| {
            let at = random.usize(..SUFFIX_ALPHABET.len());
            SUFFIX_ALPHABET.get(at).copied().unwrap_or(b'z')
        });
        Arc::from(generated_name(prefix, suffix))
    }
}

/// A refusal's text with the prefix in place of the name, so that the refusals of many tries are one and the same event and condition.
pub(super) fn without_name(outcome: Outcome, name: &str, prefix: &str) -> Outcome {
    match outcome {
        Outcome::Failed(error) => Outcome::Failed(ApiError { message: error.message.replace(name, prefix), ..error }),
        other => other,
    }
}

fn done(name: &Arc<str>, body: &[u8]) -> Outcome {
    Outcome::Done { name: Arc::clone(name), resource_version: request::metadata(body).version() }
}
