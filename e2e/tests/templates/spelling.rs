//! Many spellings of one value.

use std::fmt::Write as _;

use fastrand::Rng;
use k8s_openapi::jiff::Timestamp;
use model::normal_form::{Kind, pod_template};

use super::value::Value;

/// A random spelling in JSON, on one line, from which Go reads this template.
pub(crate) fn spell_template(value: &Value, rng: &mut Rng) -> String {
    not_null(value, pod_template(), rng)
}

fn spell(value: &Value, kind: Kind, rng: &mut Rng) -> String {
    if value.is_zero(kind) && rng.bool() {
        return "null".to_owned();
    }
    match (value, kind) {
        (Value::Text(text), _) => quote(text, rng),
        (Value::Integer(number), _) => number.to_string(),
        (Value::Boolean(value), _) => value.to_string(),
        (Value::Quantity(number, power), _) => quantity(*number, *power, rng),
        (Value::Time(seconds, nanos), _) => time(*seconds, *nanos, rng),
        (Value::Raw(json), _) => json.clone(),
        (Value::Struct(set), Kind::Struct(fields)) => {
            let mut members = Vec::new();
            for (name, kind) in fields.iter() {
                match set.get(name) {
                    Some(value) if !value.is_zero(kind) || rng.bool() => members.push(member(name, value, kind, rng)),
                    _ if rng.u8(..20) == 0 => members.push(member(name, &Value::zero(kind), kind, rng)),
                    _ => {}
                }
            }
            object(members, rng)
        }
        (Value::Pointer(None), _) => "null".to_owned(),
        (Value::Pointer(Some(value)), Kind::Pointer(to)) => not_null(value, *to, rng),
        (Value::List(items), Kind::List(of)) => {
            let items: Vec<_> = items.iter().map(|item| spell(item, *of, rng)).collect();
            format!("[{}{}{}]", space(rng), items.join(&format!("{},{}", space(rng), space(rng))), space(rng))
        }
        (Value::Map(members), Kind::Map(of)) => {
            let members = members.iter().map(|(name, value)| member(name, value, *of, rng)).collect();
            object(members, rng)
        }
        _ => unreachable!("{value:?} is no {kind:?}"),
    }
}

/// For what is pointed to: null would be the pointer's.
fn not_null(value: &Value, kind: Kind, rng: &mut Rng) -> String {
    loop {
        let text = spell(value, kind, rng);
        if text != "null" || matches!(kind, Kind::Raw) {
            return text;
        }
    }
}

fn member(name: &str, value: &Value, kind: Kind, rng: &mut Rng) -> String {
    format!("{}{}:{}{}", quote(name, rng), space(rng), space(rng), spell(value, kind, rng))
}

fn object(mut members: Vec<String>, rng: &mut Rng) -> String {
    rng.shuffle(&mut members);
    format!("{{{}{}{}}}", space(rng), members.join(&format!("{},", space(rng))), space(rng))
}

fn space(rng: &mut Rng) -> &'static str {
    ["", "", "", "", "", "", " ", "\t", "  "][rng.usize(..9)]
}

fn quote(text: &str, rng: &mut Rng) -> String {
    let mut quoted = "\"".to_owned();
    for letter in text.chars() {
        if rng.u8(..8) == 0 {
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| write!(quoted, "\\u{unit:04x}").unwrap_or_default());
        } else {
            let json = serde_json::Value::from(letter.to_string()).to_string();
            quoted += &json[1..json.len() - 1];
        }
    }
    quoted + "\""
}

/// Digits times a power of ten, with a point where that takes one.
fn decimal(digits: u64, power: i32, rng: &mut Rng) -> String {
    let (digits, places) = (digits.to_string(), power.unsigned_abs() as usize);
    if power >= 0 {
        let fraction = [".0", ".", ".000", "", "", "", "", ""][rng.usize(..8)];
        return format!("{digits}{}{fraction}", "0".repeat(places));
    }
    let digits = format!("{digits:0>places$}");
    let (whole, fraction) = digits.split_at(digits.len() - places);
    format!("{whole}.{fraction}{}", ["", "0"][rng.usize(..2)])
}

fn time(seconds: i64, nanos: u32, rng: &mut Rng) -> String {
    let offset = if rng.bool() { 0 } else { rng.i32(-12 * 60..=14 * 60) };
    let local = Timestamp::new(seconds + i64::from(offset) * 60, 0).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%S");
    let fraction = match nanos {
        0 => ["", "", ".0", ".000000"][rng.usize(..4)].to_owned(),
        _ => format!(".{nanos:09}"),
    };
    let zone = match offset {
        0 => ["Z", "+00:00", "-00:00"][rng.usize(..3)].to_owned(),
        _ => format!("{}{:02}:{:02}", if offset < 0 { '-' } else { '+' }, offset.abs() / 60, offset.abs() % 60),
    };
    format!("\"{local}{fraction}{zone}\"")
}

fn quantity(number: i64, power: i32, rng: &mut Rng) -> String {
    let mut texts = Vec::new();
    let sign = if number < 0 { "-" } else { ["", "+", "0"][rng.usize(..3)] };
    let digits = number.unsigned_abs();
    for (suffix, exponent) in [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12)] {
        texts.push(format!("{sign}{}{suffix}", decimal(digits, power - exponent, rng)));
    }
    let exponent = rng.i32(-12..=12);
    texts.push(format!("{sign}{}{}{exponent}", decimal(digits, power - exponent, rng), if rng.bool() { "e" } else { "E" }));
    if let Ok(power) = u32::try_from(power) {
        let whole = u128::from(digits) * 10u128.pow(power);
        for (n, suffix) in ["Ki", "Mi", "Gi", "Ti", "Pi"].into_iter().enumerate() {
            let factor = 1 << (10 * (n + 1));
            if whole % factor == 0 {
                texts.push(format!("{sign}{}{suffix}", whole / factor));
            } else if whole * 2 % factor == 0 {
                texts.push(format!("{sign}{}.50{suffix}", whole / factor));
            }
        }
    }
    // Whatever is below a nano is rounded away from zero.
    if power == -9 && digits > 0 {
        texts.push(format!("{sign}{}.{}n", digits - 1, rng.u32(1..=u32::MAX)));
    }
    let text = rng.choice(texts).unwrap_or_default();
    let is_number = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
    match rng.u8(..4) {
        0 if is_number => text,
        1 => format!("\" {text} \""),
        _ => format!("\"{text}\""),
    }
}
