//! An explanation for people.

use std::fmt::{self, Write as _};

use model::Timestamp;

use super::told::{Told, ToldFigure, ToldList, ToldRecord, ToldSummary, ToldWait};

/// Prints one explanation.
pub(crate) struct Page<'a>(pub(crate) &'a Told);

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.0;
        write!(f, "{} {}/{}   {}", told.kind, told.namespace, told.name, told.verdict)?;
        if let Some(since) = &told.since {
            write!(f, " for {}", between(since, &told.time))?;
        }
        writeln!(f)?;
        if told.verdict == "standby" {
            writeln!(f, "  Another replica leads. This is what this one would do and wait for.")?;
        }
        if told.observes {
            writeln!(f, "  This process observes: it does nothing, and tells what it would do and wait for.")?;
        }
        told.waits.iter().try_for_each(|wait| self.wait(f, wait))?;
        if !told.next_steps.is_empty() {
            writeln!(f, "\nA sync would now:")?;
            steps(f, &told.next_steps)?;
        }
        self.queue(f)?;
        if !told.next_victims.is_empty() {
            writeln!(f, "\nOf fewer pods, these would go first:")?;
            for victim in &told.next_victims {
                writeln!(f, "  {}   {}", victim.name, victim.because)?;
            }
        }
        if !told.history.is_empty() {
            writeln!(f, "\nWhat its syncs came to:")?;
            told.history.iter().try_for_each(|record| history(f, record))?;
        }
        Ok(())
    }
}

/// Prints what is open.
pub(crate) struct List<'a>(pub(crate) &'a ToldList);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.items.is_empty() {
            return writeln!(f, "Nothing waits.");
        }
        let object = |item: &ToldSummary| format!("{} {}/{}", item.kind, item.namespace, item.name);
        let width = self.0.items.iter().map(|item| object(item).len()).max().unwrap_or(0);
        for item in &self.0.items {
            let why = item.error.clone().unwrap_or_else(|| item.rules.join(", "));
            writeln!(f, "{:<width$}  {:<7} since {}  {why}", object(item), item.verdict, item.since)?;
        }
        Ok(())
    }
}

/// More lines of one sort than this help nobody.
const SHOWN: usize = 10;

// === impl Page ===

impl Page<'_> {
    fn wait(&self, f: &mut fmt::Formatter<'_>, wait: &ToldWait) -> fmt::Result {
        write!(f, "\n  {}", wait.rule)?;
        if let Some(on) = &wait.on {
            write!(f, "   on {on}")?;
        }
        if let Some(since) = &wait.since {
            write!(f, "   for {}", between(since, &self.0.time))?;
        }
        writeln!(f, "\n    {}", wait.meaning)?;
        if !wait.figures.is_empty() {
            writeln!(f, "    {}", figures(&wait.figures))?;
        }
        if let Some(detail) = &wait.detail {
            writeln!(f, "    {detail}")?;
        }
        write!(f, "    Ends when: {}", wait.ends)?;
        match &wait.until {
            Some(until) => writeln!(f, " At {until}, in {}.", between(&self.0.time, until)),
            None => writeln!(f),
        }
    }

    fn queue(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = &self.0.queue;
        write!(f, "\nIts key is {}", queue.place)?;
        if let Some(since) = &queue.since {
            write!(f, " for {}", between(since, &self.0.time))?;
        }
        if let Some(next) = &queue.next_at {
            write!(f, ", and looked at again in {} at the latest", between(&self.0.time, next))?;
        }
        if queue.failures > 0 {
            write!(f, ", after {} failures in a row", queue.failures)?;
        }
        writeln!(f, ".")
    }
}

/// Pods that have no name yet are created by equal steps.
fn steps(f: &mut fmt::Formatter<'_>, steps: &[String]) -> fmt::Result {
    let mut shown = 0;
    for equal in steps.chunk_by(|one, other| one == other).take(SHOWN) {
        let times = if equal.len() > 1 { format!(", {} times", equal.len()) } else { String::new() };
        writeln!(f, "  {}{times}", equal.first().map_or("", String::as_str))?;
        shown += equal.len();
    }
    if shown < steps.len() { writeln!(f, "  and {} more", steps.len() - shown) } else { Ok(()) }
}

fn history(f: &mut fmt::Formatter<'_>, record: &ToldRecord) -> fmt::Result {
    let mut line = format!("  {}  {:<8}", record.since, record.verdict);
    let waits: Vec<_> = record.waits.iter().map(|wait| wait.rule.as_str()).collect();
    if !waits.is_empty() {
        write!(line, " {}", waits.join(", "))?;
    }
    if !record.steps.is_empty() {
        write!(line, " did {}", figures(&record.steps))?;
    }
    if let Some(error) = &record.error {
        write!(line, " {error}")?;
    }
    let lasted = between(&record.since, &record.last);
    writeln!(f, "{line}   ({} {} in {lasted})", record.syncs, if record.syncs == 1 { "sync" } else { "syncs" })
}

fn figures(figures: &[ToldFigure]) -> String {
    figures.iter().map(|figure| format!("{} {}", figure.name, figure.value)).collect::<Vec<_>>().join(", ")
}

/// `2h3m`, `4m10s`, `12s`: from one time to another, as kubectl prints ages.
fn between(from: &str, to: &str) -> String {
    let (Some(from), Some(to)) = (Timestamp::parse(from), Timestamp::parse(to)) else { return "?".to_owned() };
    let seconds = (to.seconds() - from.seconds()).max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{}s", seconds % 60),
        (0, _, _) => format!("{hours}h{minutes}m"),
        _ => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_parts() {
        let from = "2026-01-01T00:00:00Z";
        for (to, expected) in [
            ("2026-01-01T00:00:59Z", "59s"),
            ("2026-01-01T00:02:03Z", "2m3s"),
            ("2026-01-01T05:02:03Z", "5h2m"),
            ("2026-01-03T05:02:03Z", "2d5h"),
            ("2025-12-31T23:59:59Z", "0s"),
            ("", "?"),
        ] {
            assert_eq!(between(from, to), expected);
        }
    }
}
