//! `resource.Quantity`: many spellings, one amount.

mod canonical;

pub(crate) use canonical::{Rounding, respell};

/// An amount, exactly, as its digits times a power of ten. Equal amounts are equal here (upstream
/// `k8s.io/apimachinery/pkg/api/resource/quantity.go` `Quantity.Cmp`).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    /// Never of zero.
    pub(crate) negative: bool,
    /// In ASCII, without zeros at either end; none for zero.
    pub(crate) digits: Vec<u8>,
    /// The power of ten; 0 for zero.
    pub(crate) scale: i64,
}

/// The smallest power of ten that is told apart.
const NANO: i64 = -9;
/// 2^63-1, above which amounts with a binary suffix are cut.
const MAX: &[u8] = b"9223372036854775807";

enum Suffix {
    /// A power of ten.
    Decimal(i32),
    /// A power of two.
    Binary(u32),
}

impl Quantity {
    /// Reads what upstream reads (`ParseQuantity`), its oddities included; `None` where upstream reports an error.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // `UnmarshalJSON` trims.
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
        let suffix = Suffix::parse(suffix)?;
        if whole.is_empty() && fraction.is_empty() {
            // Upstream's quick way takes no digits for zero; its long way refuses them.
            let is_quick = match suffix {
                Suffix::Decimal(exponent) => i64::from(exponent) >= NANO,
                Suffix::Binary(exponent) => exponent <= 40,
            };
            return is_quick.then(|| Self { negative: false, digits: Vec::new(), scale: 0 });
        }
        let mut this = Self { negative: text.starts_with('-'), digits: [whole, fraction].concat().into_bytes(), scale: 0 };
        // Upstream's scales are 32 bits wide and wrap.
        let shift = i32::try_from(fraction.len()).ok()?;
        match suffix {
            Suffix::Decimal(exponent) => this.scale = i64::from(exponent.wrapping_sub(shift)),
            Suffix::Binary(exponent) => {
                this.multiply(1 << exponent);
                this.scale = -i64::from(shift);
            }
        }
        this.trim();
        this.round_up(NANO);
        if matches!(suffix, Suffix::Binary(_)) {
            this.cap();
        }
        this.trim();
        Some(this)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// By at most 2^60: no step leaves 64 bits.
    fn multiply(&mut self, factor: u64) {
        let mut carry = 0;
        for digit in self.digits.iter_mut().rev() {
            let product = u64::from(*digit - b'0') * factor + carry;
            *digit = b'0' + (product % 10) as u8;
            carry = product / 10;
        }
        if carry > 0 {
            self.digits.splice(0..0, carry.to_string().into_bytes());
        }
    }

    /// Away from zero, to a multiple of this power of ten: whoever asks for too little gets some.
    fn round_up(&mut self, scale: i64) {
        let Ok(dropped @ 1..) = usize::try_from(scale - self.scale) else { return };
        if self.is_zero() {
            return;
        }
        self.scale = scale;
        // The last digit is none, so what is dropped is not zero.
        self.digits.truncate(self.digits.len().saturating_sub(dropped));
        for digit in self.digits.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        self.digits.insert(0, b'1');
    }

    fn cap(&mut self) {
        let whole = self.digits.len() as i64 + self.scale;
        let limit = MAX.len() as i64;
        if whole > limit || whole == limit && self.digits.as_slice() > MAX {
            self.digits = MAX.to_vec();
            self.scale = 0;
        }
    }

    fn trim(&mut self) {
        let leading = self.digits.iter().take_while(|digit| **digit == b'0').count();
        self.digits.drain(..leading);
        while self.digits.pop_if(|digit| *digit == b'0').is_some() {
            self.scale += 1;
        }
        if self.is_zero() {
            *self = Self { negative: false, digits: Vec::new(), scale: 0 };
        }
    }
}

impl Suffix {
    /// Upstream `suffix.go` `suffixHandler.interpret`.
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(10),
            "Mi" => Self::Binary(20),
            "Gi" => Self::Binary(30),
            "Ti" => Self::Binary(40),
            "Pi" => Self::Binary(50),
            "Ei" => Self::Binary(60),
            // Upstream keeps the lower half of what it read.
            _ => Self::Decimal(text.strip_prefix(['e', 'E'])?.parse::<i64>().ok()? as i32),
        })
    }
}

/// The digits at the start, and what follows them.
fn digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let quantity = Quantity::parse(text)?;
        let sign = if quantity.negative { "-" } else { "" };
        Some(format!("{sign}{}e{}", String::from_utf8(quantity.digits).unwrap(), quantity.scale))
    }

    #[test]
    fn amounts_are_read_as_upstream_reads_them() {
        for (text, amount) in [
            ("0", "e0"),
            ("1", "1e0"),
            ("-1", "-1e0"),
            ("100", "1e2"),
            ("007", "7e0"),
            ("1.", "1e0"),
            (".5", "5e-1"),
            ("1.5Gi", "1610612736e0"),
            ("1Ki", "1024e0"),
            ("1E", "1e18"),
            ("1E3", "1e3"),
            ("1e-3", "1e-3"),
            ("1m", "1e-3"),
            ("1n", "1e-9"),
            // Too little is rounded away from zero.
            ("0.1n", "1e-9"),
            ("-0.1n", "-1e-9"),
            ("1.0000000001", "1000000001e-9"),
            ("0.9999999999", "1e0"),
            ("1e-1000000000", "1e-9"),
            ("0.0000000001Ki", "103e-9"),
            // Too much is cut, but only with a binary suffix.
            ("8Ei", "9223372036854775807e0"),
            ("-8Ei", "-9223372036854775807e0"),
            ("7.9999999999999999999Ei", "9223372036854775807e0"),
            ("9223372036854775808", "9223372036854775808e0"),
            ("1e1000000000", "1e1000000000"),
            ("99999999999999999999999999999999999999999999999999", "99999999999999999999999999999999999999999999999999e0"),
            // Exponents have 32 bits.
            ("1e4294967297", "1e1"),
            // No digits are zero, mostly.
            ("+", "e0"),
            (".", "e0"),
            ("Ti", "e0"),
            ("e5", "e0"),
        ] {
            assert_eq!(read(text).as_deref(), Some(amount), "{text}");
        }
    }

    #[test]
    fn what_upstream_refuses_is_refused() {
        for text in [
            "",
            " ",
            "Pi",
            "e-10",
            "1 Gi",
            "1gi",
            "1K",
            "1e",
            "1e+",
            "1.5.2",
            "--1",
            "1-5",
            "0x10",
            "1i",
            "1Gii",
            "1e99999999999999999999",
            "NaN",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
