//! The text that upstream writes for an amount that it has read.

use super::{NANO, Quantity, Suffix, digits};

/// Powers of ten with a letter of their own, see [`super::Suffix`].
const DECIMAL: [(i64, &str); 10] =
    [(-9, "n"), (-6, "u"), (-3, "m"), (0, ""), (3, "k"), (6, "M"), (9, "G"), (12, "T"), (15, "P"), (18, "E")];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The smallest power of ten that is left of an amount of a resource.
const MILLI: i64 = -3;

/// What happens to an amount between being read and being written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rounding {
    /// Nothing.
    None,
    /// It is rounded up to whole thousandths (upstream `pkg/apis/core/v1/defaults.go` `SetDefaults_ResourceList`).
    ToMillis,
}

/// The text upstream writes for an amount after it has read this one (upstream `k8s.io/apimachinery/pkg/api/resource/quantity.go`
/// `ParseQuantity`, `RoundUp`, `MarshalJSON`); `None` where it reports an error.
pub(crate) fn respell(text: &str, rounding: Rounding) -> Option<String> {
    let text = text.trim();
    let mut amount = Quantity::parse(text)?;
    if is_kept(text, rounding)? {
        return Some(text.to_owned());
    }
    if rounding == Rounding::ToMillis {
        amount.round_up(MILLI);
        amount.trim();
    }
    Some(amount.canonical(has_exponent(text), is_binary(text)))
}

/// Whether upstream remembers the text with the amount: where it takes it to be canonical at first sight (`ParseQuantity`, the quick way).
fn is_kept(text: &str, rounding: Rounding) -> Option<bool> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, rest) = digits(unsigned);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let shifted = [whole, fraction].concat();
    Some(match Suffix::parse(suffix)? {
        Suffix::Decimal(exponent) => {
            let scale = i64::from(exponent.wrapping_sub(i32::try_from(fraction.len()).ok()?));
            let is_rounded = rounding == Rounding::ToMillis && scale < MILLI;
            let is_canonical = scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0');
            shifted.len() <= 18 && scale >= NANO && is_canonical && !is_rounded
        }
        Suffix::Binary(exponent) => {
            let digits = 15 - i64::from(exponent) * 3 / 10 - 1;
            let is_canonical = shifted.parse::<u64>().is_ok_and(|value| value & 7 != 0);
            fraction.is_empty() && whole.len() as i64 <= digits && is_canonical
        }
    })
}

fn is_binary(text: &str) -> bool {
    text.ends_with('i')
}

fn has_exponent(text: &str) -> bool {
    !text.ends_with('E') && text.contains(['e', 'E'])
}

impl Quantity {
    /// Upstream `CanonicalizeBytes`.
    fn canonical(&self, has_exponent: bool, is_binary: bool) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let sign = if self.negative { "-" } else { "" };
        if let Some(whole) = self.whole().filter(|whole| is_binary && *whole >= 1024) {
            let times = (1..BINARY.len()).take_while(|times| whole % (1 << (10 * times)) == 0).last().unwrap_or_default();
            return format!("{sign}{}{}", whole >> (10 * times), BINARY.get(times).unwrap_or(&""));
        }
        let zeros = self.scale.rem_euclid(3);
        let exponent = self.scale - zeros;
        // Where there is no letter, upstream leaves the exponent out.
        let letter = DECIMAL.iter().find(|(power, _)| *power == exponent).map_or("", |(_, letter)| letter);
        let suffix = match exponent {
            0 => String::new(),
            _ if has_exponent => format!("e{exponent}"),
            _ => letter.to_owned(),
        };
        let digits = String::from_utf8_lossy(&self.digits);
        format!("{sign}{digits}{}{suffix}", "0".repeat(zeros as usize))
    }

    /// The amount without its sign, if that is a whole number. With a binary suffix it is never more than 64 bits.
    fn whole(&self) -> Option<u64> {
        let factor = 10u64.checked_pow(u32::try_from(self.scale).ok()?)?;
        std::str::from_utf8(&self.digits).ok()?.parse::<u64>().ok()?.checked_mul(factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_upstream_writes_them() {
        for (text, written) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("1", "1"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1Gi", "1Gi"),
            ("1024Mi", "1Gi"),
            ("1000Mi", "1000Mi"),
            ("1.5Gi", "1536Mi"),
            ("-2048Ki", "-2Mi"),
            ("512Ki", "512Ki"),
            ("8Ki", "8Ki"),
            ("0.5Ki", "512"),
            ("1.1Ki", "1126400m"),
            ("8Ei", "9223372036854775807"),
            ("4Ei", "4Ei"),
            ("1e3", "1e3"),
            ("1000e3", "1e6"),
            ("1E", "1E"),
            ("0.001n", "1n"),
            // What upstream takes for canonical is kept.
            ("+5", "+5"),
            ("007", "007"),
            ("1.500", "1.500"),
            // There is no letter for this.
            ("1000E", "1"),
            (" 5 ", "5"),
        ] {
            assert_eq!(respell(text, Rounding::None).as_deref(), Some(written), "{text}");
        }
        assert_eq!(respell("1 Gi", Rounding::None), None);
    }

    #[test]
    fn amounts_of_resources_are_rounded() {
        for (text, written) in [("1n", "1m"), ("1500u", "2m"), ("1500m", "1500m"), ("-1u", "-1m"), ("0.0001Ki", "103m"), ("1.500", "1.500")]
        {
            assert_eq!(respell(text, Rounding::ToMillis).as_deref(), Some(written), "{text}");
        }
    }
}
