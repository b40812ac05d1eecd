//! Which scripts to run.

use std::ops::RangeInclusive;

use anyhow::{Context as _, Result, ensure};

/// What the test command runs.
const DEFAULT: RangeInclusive<u64> = 1..=30;

/// The seeds in the environment's `SEEDS`: `17`, or `5,9`, or `1..500` (both ends included), or several of these with commas between.
/// Without it the first 30.
pub fn from_environment() -> Result<Vec<u64>> {
    match std::env::var("SEEDS") {
        Ok(text) => parse(&text).with_context(|| format!("SEEDS={text}: expected seeds and ranges, as in 17 or 5,9 or 1..500")),
        Err(_) => Ok(DEFAULT.collect()),
    }
}

fn parse(text: &str) -> Result<Vec<u64>> {
    let mut seeds = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once("..").unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        ensure!(first <= last, "{part} is empty");
        seeds.extend(first..=last);
    }
    Ok(seeds)
}

fn number(text: &str) -> Result<u64> {
    text.trim().parse().with_context(|| format!("{text:?} is no seed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_ranges_and_lists_of_both() {
        assert_eq!(parse("17").unwrap(), [17]);
        assert_eq!(parse("5,9").unwrap(), [5, 9]);
        assert_eq!(parse("1..4").unwrap(), [1, 2, 3, 4]);
        assert_eq!(parse("8, 1..3").unwrap(), [8, 1, 2, 3]);
    }

    #[test]
    fn what_names_no_seed_is_refused() {
        for text in ["", "a", "1..", "9..1", "1-5", "-1"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
