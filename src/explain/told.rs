//! An explanation as it is sent and printed.

use machinery::explain::{Explanation, Record, Verdict};
use machinery::queue::KeyPlace;
use model::plan::{Action, ObjectRef, Question, Rule, Step, Wait};
use model::{ObjectKey, Time};
use serde::{Deserialize, Serialize};

/// What this process does with what it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stance {
    /// It carries it out.
    Works,
    /// Another replica carries it out.
    StandsBy,
    /// It only tells of it (`--mode=observe`).
    Observes,
}

/// What there is to say about one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The version that the cache has.
    pub(crate) resource_version: String,
    /// When this was said, RFC 3339.
    pub(crate) time: String,
    /// `settled`, `acts`, `waits`, `failed`; `standby` where another replica works.
    pub(crate) verdict: String,
    /// Whether this process only observes: then it waits for others where it would act.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) observes: bool,
    /// Since when it has been so, if that is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) since: Option<String>,
    /// What is waited for.
    pub(crate) waits: Vec<ToldWait>,
    /// What a sync would do now.
    pub(crate) next_steps: Vec<String>,
    /// Whether a sync would write the status.
    pub(crate) writes_status: bool,
    pub(crate) queue: ToldQueue,
    /// The children that would go first if there were to be fewer.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) next_victims: Vec<ToldVictim>,
    /// What the last syncs came to, oldest first.
    pub(crate) history: Vec<ToldRecord>,
}

/// A wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToldWait {
    pub(crate) rule: String,
    pub(crate) meaning: String,
    pub(crate) ends: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) on: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) figures: Vec<ToldFigure>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) detail: Option<String>,
}

/// What was counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToldFigure {
    pub(crate) name: String,
    pub(crate) value: i64,
}

/// Where the object's key is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToldQueue {
    /// `idle`, `queued`, `processing` or `parked`.
    pub(crate) place: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) since: Option<String>,
    /// When it is looked at again though nothing may happen.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) next_at: Option<String>,
    /// Failures in a row.
    pub(crate) failures: u32,
}

/// A pod that would go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToldVictim {
    pub(crate) name: String,
    pub(crate) because: String,
}

/// What syncs came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToldRecord {
    pub(crate) verdict: String,
    pub(crate) since: String,
    pub(crate) last: String,
    pub(crate) syncs: u32,
    pub(crate) waits: Vec<ToldWait>,
    /// What was done: a rule, and how often.
    pub(crate) steps: Vec<ToldFigure>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) error: Option<String>,
}

/// An object whose last sync left something open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToldSummary {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) verdict: String,
    pub(crate) since: String,
    /// What it waits for.
    pub(crate) rules: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) error: Option<String>,
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToldList {
    pub(crate) items: Vec<ToldSummary>,
}

// === impl Told ===

impl Told {
    /// The explanation in words.
    pub(crate) fn of(explanation: &Explanation, stance: Stance) -> Self {
        let Explanation { subject, preview, records, whereabouts, .. } = explanation;
        let last = records.last();
        let waits = waits(explanation, stance);
        let verdict = match last {
            _ if stance == Stance::StandsBy => "standby",
            _ if explanation.behind.is_some() => "waits",
            Some(record) if record.verdict == Verdict::Failed => "failed",
            _ if stance == Stance::Works && (!preview.steps.is_empty() || preview.question.is_some()) => "acts",
            _ if !waits.is_empty() => "waits",
            _ => "settled",
        };
        let place = match whereabouts.place {
            KeyPlace::Idle => ("idle", None),
            KeyPlace::Queued(since) => ("queued", Some(since)),
            KeyPlace::Processing(since) => ("processing", Some(since)),
            KeyPlace::Parked(since) => ("parked", Some(since)),
        };
        let is_so = last.filter(|record| record.verdict.as_str() == verdict);
        let since = is_so.and_then(|_| since_when(records));
        let question = preview.question.iter().map(asked);
        // From a cache that is behind, what was done already would be decided once more.
        let next_steps = if explanation.behind.is_none() { question.chain(preview.steps.iter().map(done)).collect() } else { Vec::new() };
        Self {
            kind: subject.resource.kind.to_owned(),
            namespace: subject.key.namespace.to_string(),
            name: subject.key.name.to_string(),
            uid: subject.uid.to_string(),
            resource_version: subject.resource_version.to_string(),
            time: written(explanation.clock.0),
            verdict: verdict.to_owned(),
            observes: stance == Stance::Observes,
            since: since.map(written),
            waits,
            next_steps,
            writes_status: preview.writes_status && explanation.behind.is_none(),
            queue: ToldQueue {
                place: place.0.to_owned(),
                since: place.1.map(|since| written(explanation.wall(since))),
                next_at: whereabouts.timer.map(|at| written(explanation.wall(at))),
                failures: whereabouts.failures,
            },
            next_victims: explanation
                .next_victims
                .iter()
                .map(|(name, because)| ToldVictim { name: name.clone(), because: because.clone() })
                .collect(),
            history: records.iter().map(ToldRecord::of).collect(),
        }
    }
}

/// Since when the verdict of the last record has been the same, as far back as there are records.
fn since_when(records: &[Record]) -> Option<Time> {
    let last = records.last()?;
    records.iter().rev().take_while(|record| record.verdict == last.verdict).last().map(|record| record.since)
}

/// Everything that is waited for: what the machinery waits for first, since nothing else is decided until then.
fn waits(explanation: &Explanation, stance: Stance) -> Vec<ToldWait> {
    let since = |wait: &Wait| {
        let held = explanation.records.last().into_iter().flat_map(|record| &record.waits);
        held.into_iter().find(|(_, held)| held.is_same(wait)).map(|(since, _)| *since)
    };
    let mut waits = Vec::new();
    let preview = &explanation.preview;
    if stance == Stance::Observes && (!preview.steps.is_empty() || preview.writes_status) {
        let steps = i32::try_from(preview.steps.len()).unwrap_or(i32::MAX);
        let wait = Wait::new(Rule::LeftToOthers).counting(&[("steps", steps), ("statuses", i32::from(preview.writes_status))]);
        waits.push(ToldWait::of(&wait, since(&wait)));
    }
    if let Some(behind) = &explanation.behind {
        let version = behind.version.is_known().then(|| format!("until it shows version {}", behind.version));
        let wait =
            Wait::on(Rule::CachesBehind, behind.resource.plural).saying(version.unwrap_or_else(|| "until it has listed anew".to_owned()));
        let parked = match explanation.whereabouts.place {
            KeyPlace::Parked(since) => Some(explanation.wall(since)),
            _ => None,
        };
        waits.push(ToldWait::of(&wait, parked));
    }
    if let Some(pending) = &explanation.pending {
        let begun = explanation.wall(pending.since);
        for write in &pending.unknown {
            let wait = Wait::on(Rule::AnswerLost, &write.name);
            waits.push(ToldWait::of(&wait, Some(explanation.wall(write.since))));
        }
        let open = [("creations", pending.creations.max(0)), ("deletions", pending.deletions as i64)];
        let mut wait = Wait::new(Rule::WritesNotSeen);
        wait.figures.extend(open);
        waits.push(ToldWait::of(&wait, Some(begun)));
    }
    if let Some(record) = explanation.records.last().filter(|record| record.verdict == Verdict::Failed) {
        let retry = explanation.whereabouts.timer.map(|at| explanation.wall(at));
        let failures = i32::try_from(explanation.whereabouts.failures).unwrap_or(i32::MAX);
        let wait = Wait::new(Rule::SyncFailed).counting(&[("failures", failures)]).until(retry);
        waits.push(ToldWait::of(&wait.saying(record.error.clone().unwrap_or_default()), since_when(&explanation.records)));
    }
    // The count of what has not been seen is given with its numbers above; a cache that is behind says nothing that holds.
    let is_said = |wait: &&Wait| wait.rule == Rule::WritesNotSeen && explanation.pending.is_some();
    let own = explanation.preview.waits.iter().filter(|wait| explanation.behind.is_none() && !is_said(wait));
    waits.extend(own.map(|wait| ToldWait::of(wait, since(wait))));
    waits
}

// === impl ToldWait ===

impl ToldWait {
    fn of(wait: &Wait, since: Option<Time>) -> Self {
        Self {
            rule: wait.rule.id().to_owned(),
            meaning: wait.rule.meaning().to_owned(),
            ends: wait.rule.ends().unwrap_or_default().to_owned(),
            on: wait.on.as_deref().map(str::to_owned),
            figures: wait.figures.iter().map(|(name, value)| ToldFigure { name: (*name).to_owned(), value: *value }).collect(),
            since: since.map(written),
            until: wait.until.map(written),
            detail: wait.detail.as_deref().filter(|detail| !detail.is_empty()).map(str::to_owned),
        }
    }
}

// === impl ToldRecord ===

impl ToldRecord {
    fn of(record: &Record) -> Self {
        let figure = |(rule, count): &(Rule, u32)| ToldFigure { name: rule.id().to_owned(), value: i64::from(*count) };
        Self {
            verdict: record.verdict.as_str().to_owned(),
            since: written(record.since),
            last: written(record.last),
            syncs: record.syncs,
            waits: record.waits.iter().map(|(since, wait)| ToldWait::of(wait, Some(*since))).collect(),
            steps: record.steps.iter().map(figure).collect(),
            error: record.error.as_deref().map(str::to_owned),
        }
    }
}

/// One line of the list of what is open.
pub(crate) fn summary(kind: &str, key: &ObjectKey, record: &Record) -> ToldSummary {
    ToldSummary {
        kind: kind.to_owned(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        verdict: record.verdict.as_str().to_owned(),
        since: written(record.since),
        rules: record.waits.iter().map(|(_, wait)| wait.rule.id().to_owned()).collect(),
        error: record.error.as_deref().map(str::to_owned),
    }
}

fn done(step: &Step) -> String {
    let named = |target: &ObjectRef| format!("{} {}", target.resource.kind, target.key.name);
    let (verb, what) = match &step.action {
        Action::Create(create) => ("create", format!("{} {}", create.resource.kind, create.body.name.as_str())),
        Action::Delete(delete) => ("delete", named(&delete.target)),
        Action::Own(own) => (if own.change == model::plan::Ownership::Adopt { "adopt" } else { "release" }, named(&own.target)),
        Action::Patch(patch) => ("change", named(&patch.target)),
        Action::Edit(edit) => ("change", named(&edit.target)),
        Action::Reown(reown) => ("change the owners of", named(&reown.target)),
    };
    format!("{verb} {what} ({})", step.reason.id())
}

fn asked(question: &Question) -> String {
    match question {
        Question::MayAdopt(owner) => {
            format!("ask whether {} {} still is what it was, to adopt for it", owner.resource.kind, owner.key.name)
        }
        Question::Live { resource, key } => format!("ask for {} {}", resource.kind, key.name),
    }
}

/// RFC 3339, in whole seconds.
fn written(time: Time) -> String {
    time.timestamp().map_or_else(String::new, |at| at.to_string())
}
