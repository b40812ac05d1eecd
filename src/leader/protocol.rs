//! client-go's protocol (`tools/leaderelection/leaderelection.go`), without IO: what has been observed, and what follows.
//!
//! Times are time since boot, handed in. The times that a lease has in it are another machine's and are never compared with ours: a
//! lease has expired when its record has not changed for its duration since *we* saw it first.

use std::time::Duration;

use model::{ResourceVersion, Time};

use super::lease::{Holder, Lease};

/// How the protocol is to be played.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) me: Holder,
    pub(super) renew_deadline: Duration,
    pub(super) retry_period: Duration,
}

/// One candidate's side.
#[derive(Debug)]
pub(super) struct Protocol {
    rules: Rules,
    random: fastrand::Rng,
    /// As the server told it last; `None` where that is not known, or there is none.
    lease: Option<Lease>,
    observed: Option<Observed>,
    /// When the request was begun that last made or kept us leader.
    renewed: Option<Duration>,
    stage: Stage,
}

/// A record, and since when it has been that.
#[derive(Clone, Debug)]
struct Observed {
    lease: Lease,
    at: Duration,
}

/// What the next step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The next try is due then.
    Due(Duration),
    Read,
    Create,
    /// `fast`: from what we wrote last, without reading it again.
    Update {
        fast: bool,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Nothing before that time.
    Wait(Duration),
    Get,
    Create(Lease),
    Update(Lease),
    /// We do not lead any more.
    Lose(Loss),
}

/// Why we do not lead any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// No renewal has succeeded for the renew deadline.
    Late,
    /// Somebody else holds the lease.
    Taken(String),
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// The lease as it is now.
    Lease(Lease),
    /// There is none.
    Missing,
    /// Somebody else has written it meanwhile.
    Conflict,
    /// Anything else; a write may have had its effect.
    Failed,
}

/// How much longer than the retry period a standby may wait (upstream `JitterFactor`).
const JITTER_FACTOR: f64 = 1.2;
/// How long after it has expired a lease is tried for, so that not all standbys do so at once.
const TAKEOVER_JITTER: Duration = Duration::from_millis(100);

// === impl Protocol ===

impl Protocol {
    pub(super) fn new(rules: Rules, seed: u64, now: Duration) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { rules, random, lease: None, observed: None, renewed: None, stage: Stage::Due(now) }
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The lease as it was told last.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// When the request was begun that last made or kept us leader.
    pub(super) fn renewed(&self) -> Option<Duration> {
        self.renewed
    }

    /// Who was last seen to hold the lease.
    pub(super) fn holder(&self) -> Option<&str> {
        self.observed.as_ref().map(|observed| observed.lease.holder())
    }

    /// Whether the next request is a leader's that could not renew in one go (upstream `slowpathExercised`).
    pub(super) fn is_on_slow_path(&self) -> bool {
        self.renewed.is_some() && self.stage == Stage::Update { fast: false }
    }

    /// Whether nothing is to be done before some time has passed.
    pub(super) fn is_resting(&self) -> bool {
        matches!(self.stage, Stage::Due(_))
    }

    /// Until when a leader must have renewed.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.renewed.map(|renewed| renewed + self.rules.renew_deadline)
    }

    /// What is to be done now.
    pub(super) fn step(&mut self, now: Duration, wall: Time) -> Step {
        if self.deadline().is_some_and(|deadline| now >= deadline) {
            return Step::Lose(Loss::Late);
        }
        if let (Some(_), Some(lease)) = (self.renewed, &self.lease)
            && self.is_anothers(lease)
        {
            return Step::Lose(Loss::Taken(lease.holder().to_owned()));
        }
        if let Stage::Due(due) = self.stage {
            if now < due {
                return Step::Wait(self.deadline().map_or(due, |deadline| due.min(deadline)));
            }
            self.stage = if self.renewed.is_some() && self.lease.is_some() { Stage::Update { fast: true } } else { Stage::Read };
        }
        let Rules { namespace, name, me, .. } = &self.rules;
        match (self.stage, &self.lease) {
            (Stage::Create, _) => Step::Create(Lease::new(namespace, name, me, wall)),
            (Stage::Update { .. }, Some(lease)) => Step::Update(lease.held_by(me, wall)),
            _ => {
                self.stage = Stage::Read;
                Step::Get
            }
        }
    }

    /// What came of the request that [`Self::step`] asked for, and that was begun at `begun`.
    pub(super) fn answer(&mut self, begun: Duration, now: Duration, answer: Answer) {
        match (self.stage, answer) {
            (Stage::Read, Answer::Lease(lease)) => {
                self.observe(lease, now);
                self.judge(now);
            }
            (Stage::Read, Answer::Missing) => {
                self.lease = None;
                // Whoever held the lease that is gone may not know yet, and writes it anew with its next renewal. Upstream takes it at once.
                let is_free = self.renewed.is_some() || self.expires().is_none_or(|expires| now >= expires);
                if is_free { self.stage = Stage::Create } else { self.rest(now) }
            }
            (Stage::Create | Stage::Update { .. }, Answer::Lease(lease)) => {
                self.observe(lease, now);
                self.renewed = Some(begun);
                self.stage = Stage::Due(begun + self.rules.retry_period);
            }
            (Stage::Update { fast: true }, _) => {
                self.lease = None;
                self.stage = Stage::Read;
            }
            (_, answer) => {
                // It may have had its effect: nothing that was known is good for another write.
                self.lease = None;
                self.rest(now);
                // A leader finds out soon who it was.
                if self.renewed.is_some() && answer == Answer::Conflict {
                    self.stage = Stage::Due(now + self.rules.retry_period / 10);
                }
            }
        }
    }

    /// The watch has shown the lease. It is late at times, so nothing but a standby's observation follows from it.
    pub(super) fn seen(&mut self, lease: Lease, now: Duration) {
        let known = self.observed.as_ref().map_or(ResourceVersion::default(), |observed| observed.lease.version());
        if self.renewed.is_some() || !matches!(self.stage, Stage::Due(_)) || lease.version() <= known {
            return;
        }
        let is_free = lease.holder().is_empty();
        self.observe(lease, now);
        if is_free { self.stage = Stage::Due(now) } else { self.rest(now) }
    }

    fn judge(&mut self, now: Duration) {
        let is_anothers = self.lease.as_ref().is_some_and(|lease| self.is_anothers(lease));
        if is_anothers && self.renewed.is_none() && self.expires().is_some_and(|expires| now < expires) {
            self.rest(now);
        } else {
            self.stage = Stage::Update { fast: false };
        }
    }

    fn observe(&mut self, lease: Lease, now: Duration) {
        match &mut self.observed {
            Some(observed) if observed.lease.is_same_record(&lease) => observed.lease = lease.clone(),
            observed => *observed = Some(Observed { lease: lease.clone(), at: now }),
        }
        self.lease = Some(lease);
    }

    /// Until when somebody else may believe to hold the lease.
    fn expires(&self) -> Option<Duration> {
        let observed = self.observed.as_ref().filter(|observed| self.is_anothers(&observed.lease))?;
        // Without a duration it is not known for how long it is meant; ours is as good as any.
        Some(observed.at + observed.lease.duration().unwrap_or(self.rules.me.duration))
    }

    fn is_anothers(&self, lease: &Lease) -> bool {
        !lease.holder().is_empty() && lease.holder() != self.rules.me.identity
    }

    /// The next try comes later: a leader's after the retry period, a standby's up to 2.2 times later, but as soon as the lease expires.
    fn rest(&mut self, now: Duration) {
        let period = self.rules.retry_period;
        if self.renewed.is_some() {
            self.stage = Stage::Due(now + period);
            return;
        }
        let due = now + period.mul_f64(1.0 + JITTER_FACTOR * self.random.f64());
        let takeover = TAKEOVER_JITTER.mul_f64(self.random.f64());
        let expires = self.expires().filter(|expires| *expires > now).map(|expires| expires + takeover);
        self.stage = Stage::Due(expires.map_or(due, |expires| due.min(expires)));
    }
}
