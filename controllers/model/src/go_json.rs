//! JSON as Go's `encoding/json` reads it into an `interface{}` and writes it again: keys in the order of their bytes, no white space,
//! numbers by way of a float64, and Go's choice of escapes.
//!
//! The bytes of a ControllerRevision are made this way, and its name follows from the bytes.

use std::collections::BTreeMap;
use std::fmt;

use crate::cursor::{Cursor, MAX_DEPTH};

/// The members of an object. Go orders them by their bytes, as `String` does.
pub(crate) type Members = BTreeMap<String, Value>;

/// What an `interface{}` holds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    /// Finite: Go cannot read another, nor write it.
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Object(Members),
}

// === impl Value ===

impl Value {
    /// Reads well-formed JSON (Go `encoding/json` `Unmarshal`): of several members with one name the last counts, what is no Unicode
    /// becomes U+FFFD. `None` if a number is too large for a float64, or the value is nested too deeply (in Go: more than 10,000 deep).
    pub(crate) fn read(json: &str) -> Option<Self> {
        read(&mut Cursor::new(json), 0)
    }

    /// Appends it as Go writes it (Go `encoding/json` `Marshal`).
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => write_number(*number, out),
            Self::Text(text) => write_text(text, out),
            Self::List(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (n, (name, value)) in members.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    write_text(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

fn read(json: &mut Cursor<'_>, depth: usize) -> Option<Value> {
    let first = json.peek()?;
    if matches!(first, b'{' | b'[') && depth == MAX_DEPTH {
        return None;
    }
    Some(match first {
        b'"' => Value::Text(unquote(json.string_token()?)?),
        b'{' => {
            json.eat(b'{');
            let mut members = Members::new();
            while json.has_next(b'}') {
                let name = unquote(json.string_token()?)?;
                json.eat(b':');
                members.insert(name, read(json, depth + 1)?);
            }
            Value::Object(members)
        }
        b'[' => {
            json.eat(b'[');
            let mut items = Vec::new();
            while json.has_next(b']') {
                items.push(read(json, depth + 1)?);
            }
            Value::List(items)
        }
        _ => match json.scalar()? {
            "null" => Value::Null,
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            number => Value::Number(number.parse().ok().filter(|number: &f64| number.is_finite())?),
        },
    })
}

/// Go `encoding/json` `unquoteBytes`.
fn unquote(token: &str) -> Option<String> {
    let mut rest = token.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::with_capacity(rest.len());
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let escape = after.chars().next()?;
        rest = after.get(1..)?;
        text.push(match escape {
            '"' | '\\' | '/' => escape,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let (letter, length) = code_point(after)?;
                rest = after.get(length..)?;
                letter
            }
            _ => return None,
        });
    }
    text.push_str(rest);
    Some(text)
}

/// The letter that `uXXXX` stands for, and how much of the text it takes: two surrogates together are one letter, a lone one is none.
fn code_point(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| u16::from_str_radix(text.get(at..at + 4)?, 16).ok();
    let first = unit(1)?;
    let second = if text.get(5..7) == Some("\\u") { unit(7) } else { None };
    let pair = second.map(|second| char::decode_utf16([first, second]).next());
    Some(match pair {
        Some(Some(Ok(letter))) if letter > '\u{ffff}' => (letter, 11),
        _ => (char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER), 5),
    })
}

/// Go `encoding/json` `floatEncoder`: as few digits as tell it from its neighbours, plain unless it is very small or very large.
fn write_number(number: f64, out: &mut String) {
    if number == 0.0 || (1e-6..1e21).contains(&number.abs()) {
        out.push_str(&number.to_string());
        return;
    }
    let text = format!("{number:e}");
    // Go signs the exponent.
    let signed = if text.contains("e-") { text } else { text.replace('e', "e+") };
    out.push_str(&signed);
}

/// Go `encoding/json` `appendString`, with HTML escaped.
fn write_text(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (at, letter) in text.char_indices() {
        let escape = match letter {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => "",
            _ => continue,
        };
        out.push_str(text.get(plain..at).unwrap_or_default());
        plain = at + letter.len_utf8();
        out.push_str(escape);
        if escape.is_empty() {
            out.extend(["\\u", &format!("{:04x}", u32::from(letter))]);
        }
    }
    out.push_str(text.get(plain..).unwrap_or_default());
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(json: &str) -> Option<String> {
        let mut out = String::new();
        Value::read(json)?.write(&mut out);
        Some(out)
    }

    #[test]
    fn keys_are_in_order_and_white_space_is_gone() {
        let json = "{ \"b\" : [ 3, {\"y\":null,\n\"x\":true} , [] ],\t\"a\":false, \"é\":{}, \"Z\":\"\", \"\":0 }";
        assert_eq!(again(json).unwrap(), r#"{"":0,"Z":"","a":false,"b":[3,{"x":true,"y":null},[]],"é":{}}"#);
        // By bytes, not by UTF-16.
        assert_eq!(again("{\"\u{10000}\":1,\"\u{ffff}\":2}").unwrap(), "{\"\u{ffff}\":2,\"\u{10000}\":1}");
        assert_eq!(again(r#"{"a":{"b":1},"a":{"c":2},"\u0061":3}"#).unwrap(), r#"{"a":3}"#);
    }

    #[test]
    fn strings_are_escaped_as_go_escapes_them() {
        for (json, written) in [
            (r#""\u003c\u003E&""#, r#""\u003c\u003e\u0026""#),
            ("\"\u{2028}\u{2029}\u{2027}\"", "\"\\u2028\\u2029\u{2027}\""),
            (r#""\b\f\n\r\t\u0000\u001F\u000b""#, r#""\b\f\n\r\t\u0000\u001f\u000b""#),
            (r#""\/\"\\""#, r#""/\"\\""#),
            (r#""\u007f é 😀 \ud83d\ude00 \uFFFD""#, "\"\u{7f} é 😀 😀 \u{fffd}\""),
            // What is no Unicode.
            (r#""\ud83d""#, "\"\u{fffd}\""),
            (r#""\ude00\ud83d""#, "\"\u{fffd}\u{fffd}\""),
            (r#""\ud83d\u0041\ud83dx""#, "\"\u{fffd}A\u{fffd}x\""),
            (r#""\ud83d\ud83d\ude00""#, "\"\u{fffd}😀\""),
            (r#""\ud83d\n""#, "\"\u{fffd}\\n\""),
        ] {
            assert_eq!(again(json).as_deref(), Some(written), "{json}");
        }
    }

    #[test]
    fn numbers_are_floats() {
        for (json, written) in [
            ("0", "0"),
            ("-0", "-0"),
            ("0.0", "0"),
            ("30", "30"),
            ("-1", "-1"),
            ("1.50", "1.5"),
            ("1e3", "1000"),
            ("1E+2", "100"),
            ("9007199254740992", "9007199254740992"),
            ("9007199254740993", "9007199254740992"),
            ("9223372036854775807", "9223372036854776000"),
            ("123456789012345678901", "123456789012345680000"),
            ("999999999999999999999", "1e+21"),
            ("1e21", "1e+21"),
            ("-1.25e100", "-1.25e+100"),
            ("0.000001", "0.000001"),
            ("0.0000009", "9e-7"),
            ("1.5e-10", "1.5e-10"),
            ("5e-324", "5e-324"),
            ("1e-400", "0"),
            ("0.1", "0.1"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ] {
            assert_eq!(again(json).as_deref(), Some(written), "{json}");
        }
        assert_eq!(again("[1e400]"), None);
    }

    #[test]
    fn what_is_nested_too_deeply_is_not_read() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(again(&nested(MAX_DEPTH)).is_some());
        assert_eq!(again(&nested(MAX_DEPTH + 1)), None);
        assert_eq!(again(&nested(1_000_000)), None);
    }
}
