//! Durations as Go writes them.

use std::time::Duration;

/// Go's `time.ParseDuration` for durations that are not negative: `1h30m`, `1.5s`, `0`.
pub(crate) fn go_duration(text: &str) -> Result<Duration, String> {
    const UNITS: &[(&str, f64)] = &[("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
    let wrong = || format!("{text:?} is not a duration such as 30s, 5m or 1h30m");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let (unit, factor) = UNITS.iter().find(|(unit, _)| tail.starts_with(unit)).ok_or_else(wrong)?;
        seconds += number.parse::<f64>().map_err(|_| wrong())? * factor;
        rest = tail.get(unit.len()..).unwrap_or_default();
    }
    if text.is_empty() {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// Go's `time.Duration.String`: `1h30m0s`, `1.5s`, `250ms`, `0s`.
pub(crate) fn format_go_duration(duration: Duration) -> String {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    let decimal = |whole: u64, fraction: u32, digits: usize| {
        let text = format!("{whole}.{fraction:0digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if seconds == 0 {
        return match nanos {
            0 => "0s".to_owned(),
            1..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => decimal(u64::from(nanos / 1_000), nanos % 1_000, 3) + "µs",
            _ => decimal(u64::from(nanos / 1_000_000), nanos % 1_000_000, 6) + "ms",
        };
    }
    let rest = decimal(seconds % 60, nanos, 9);
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{rest}s"),
        (0, minutes) => format!("{minutes}m{rest}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_gos() {
        for (text, want) in [("12h", 43200.0), ("1h30m", 5400.0), ("1.5s", 1.5), ("250ms", 0.25), ("0", 0.0), ("2m0s", 120.0)] {
            assert_eq!(go_duration(text).unwrap(), Duration::from_secs_f64(want), "{text}");
        }
        for text in ["", "5", "h", "-5s", "5 s", "1.2.3s", "5x"] {
            assert!(go_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_written_as_gos() {
        for (text, written) in [
            ("12h", "12h0m0s"),
            ("90m", "1h30m0s"),
            ("10s", "10s"),
            ("100s", "1m40s"),
            ("1.5s", "1.5s"),
            ("250ms", "250ms"),
            ("1500us", "1.5ms"),
            ("20us", "20µs"),
            ("7ns", "7ns"),
            ("0", "0s"),
        ] {
            assert_eq!(format_go_duration(go_duration(text).unwrap()), written, "{text}");
        }
    }
}
