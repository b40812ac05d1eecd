//! Pod templates in the one form that all equal ones share.
//!
//! Upstream compares templates as Go values (`pkg/controller/deployment/util` `EqualIgnoreHash`, which is
//! `apiequality.Semantic.DeepEqual` without the label `pod-template-hash`). Here they stay JSON, so what the types decide is looked up in
//! a table, `schema.rs`, which is printed from upstream's types: where `{}` is no different from nothing, where "1Gi" is an amount and
//! where it is text. Each value is read as Go's decoder reads it and written in one spelling; what equals its type's zero value is left
//! out of structs.
//!
//! A field that is not in the table is newer than it. It is kept as it is: any difference but the order of keys, white space and
//! escapes counts. So does a value that upstream could not read.

mod kind;
// Its lines are as the program breaks them that prints it.
#[rustfmt::skip]
mod schema;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use serde_json::value::RawValue;

use crate::cursor::{Cursor, MAX_DEPTH};
use crate::fingerprint::POD_TEMPLATE_HASH;
use crate::quantity::Quantity;
pub use kind::{Fields, Kind};

/// Where the label is that the comparison leaves out.
const LEFT_OUT: &[&str] = &["metadata", "labels", POD_TEMPLATE_HASH];

/// What a pod template is read as.
pub fn pod_template() -> Kind {
    Kind::Struct(&schema::POD_TEMPLATE_SPEC)
}

/// The form, in bytes that are equal for two templates if and only if upstream holds the templates to be equal. `None` for what is no
/// object, is nested too deeply, or has a string that is no Unicode.
///
/// The bytes mean something only within this process.
pub fn normal_form(template: &RawValue) -> Option<Vec<u8>> {
    let json = Cursor::new(template.get());
    (json.peek() == Some(b'{')).then_some(())?;
    let out = Vec::with_capacity(template.get().len() * 2);
    let mut writer = Writer { json, out, depth: 0, members: Vec::new(), scratch: Vec::new() };
    writer.value(Some(pod_template()), LEFT_OUT)?;
    Some(writer.out)
}

/// Reads JSON and appends its form. Every value starts with a byte that says how to read on, so that none can be taken for another.
struct Writer<'a> {
    json: Cursor<'a>,
    out: Vec<u8>,
    depth: usize,
    /// Of all objects that are being written, the inner ones' last.
    members: Vec<Member<'a>>,
    /// Room for putting an object's members in order.
    scratch: Vec<u8>,
}

/// A member that was written.
struct Member<'a> {
    name: Cow<'a, str>,
    /// Where in its object: nowhere, if it makes no difference.
    at: Range<usize>,
}

/// What the members of an object are.
#[derive(Clone, Copy)]
enum Members {
    Struct(&'static Fields),
    Map(Kind),
    Unknown,
}

/// Whether a value is the zero value of its type.
type IsZero = bool;

impl<'a> Writer<'a> {
    /// Writes the next value, of no known kind if the table does not have its field. `left_out` is the path, from here, of a map entry to
    /// leave out.
    fn value(&mut self, kind: Option<Kind>, left_out: &[&str]) -> Option<IsZero> {
        match (kind, self.json.peek()?) {
            (Some(kind), b'n') => {
                self.json.scalar()?;
                self.null(kind);
                Some(true)
            }
            (Some(Kind::Pointer(to)), _) => self.value(Some(*to), left_out).map(|_| false),
            (Some(Kind::Struct(fields)), b'{') => self.object(Members::Struct(fields), left_out),
            (Some(Kind::Map(of)), b'{') => self.object(Members::Map(*of), left_out),
            (Some(Kind::List(of)), b'[') => self.list(Some(*of)),
            (Some(Kind::Raw), _) => {
                let text = self.json.value()?;
                self.text(b'r', text)?;
                Some(false)
            }
            (Some(Kind::Quantity), b'"' | b'-' | b'0'..=b'9') => self.quantity(),
            (Some(Kind::Time), b'"') => self.time(),
            (kind, b'"') => {
                let text = self.json.string()?;
                self.text(b's', &text)?;
                Some(matches!(kind, Some(Kind::Text)) && text.is_empty())
            }
            (None, b'n') | (_, b't' | b'f' | b'-' | b'0'..=b'9') => self.scalar(kind),
            (_, b'{') => self.object(Members::Unknown, left_out).map(|_| false),
            (_, b'[') => self.list(None).map(|_| false),
            _ => None,
        }
    }

    /// What Go's decoder makes of null: the zero value.
    fn null(&mut self, kind: Kind) {
        self.out.extend_from_slice(match kind {
            Kind::Pointer(_) => b"=null;",
            Kind::Integer | Kind::IntOrString => b"=0;",
            Kind::Boolean => b"=false;",
            Kind::Struct(_) | Kind::Map(_) => b"{}",
            Kind::List(_) => b"[]",
            Kind::Text => b"s\0\0\0\0",
            Kind::Raw => b"r\0\0\0\0",
            Kind::Quantity => b"qe0;",
            Kind::Time => b"t;",
        });
    }

    fn scalar(&mut self, kind: Option<Kind>) -> Option<IsZero> {
        let text = self.json.scalar()?;
        let is_zero = match kind {
            Some(Kind::Integer | Kind::IntOrString) => matches!(text, "0" | "-0"),
            Some(Kind::Boolean) => text == "false",
            _ => false,
        };
        match kind.filter(|_| is_zero) {
            Some(kind) => self.null(kind),
            None => self.literal(text),
        }
        Some(is_zero)
    }

    fn literal(&mut self, text: &str) {
        self.out.push(b'=');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b';');
    }

    fn text(&mut self, tag: u8, text: &str) -> Option<()> {
        self.out.push(tag);
        self.out.extend_from_slice(&u32::try_from(text.len()).ok()?.to_be_bytes());
        self.out.extend_from_slice(text.as_bytes());
        Some(())
    }

    fn quantity(&mut self) -> Option<IsZero> {
        let is_text = self.json.peek() == Some(b'"');
        let text = if is_text { self.json.string()? } else { Cow::Borrowed(self.json.scalar()?) };
        let Some(quantity) = Quantity::parse(&text) else {
            if is_text {
                self.text(b's', &text)?;
            } else {
                self.literal(&text);
            }
            return Some(false);
        };
        self.out.extend_from_slice(if quantity.negative { b"q-" } else { b"q" });
        self.out.extend_from_slice(&quantity.digits);
        self.out.push(b'e');
        self.out.extend_from_slice(quantity.scale.to_string().as_bytes());
        self.out.push(b';');
        Some(quantity.is_zero())
    }

    fn time(&mut self) -> Option<IsZero> {
        /// Seconds to the first of January of the year 1, which is Go's zero time.
        const ZERO: i64 = -62_135_596_800;
        let text = self.json.string()?;
        let Ok(at) = text.parse::<jiff::Timestamp>() else {
            return self.text(b's', &text).map(|()| false);
        };
        let is_zero = at.as_second() == ZERO && at.subsec_nanosecond() == 0;
        if is_zero {
            self.null(Kind::Time);
        } else {
            self.out.push(b't');
            self.out.extend_from_slice(at.as_nanosecond().to_string().as_bytes());
            self.out.push(b';');
        }
        Some(is_zero)
    }

    fn list(&mut self, kind: Option<Kind>) -> Option<IsZero> {
        self.descend()?;
        self.json.eat(b'[');
        self.out.push(b'[');
        let mut is_empty = true;
        while self.json.has_next(b']') {
            self.value(kind, &[])?;
            is_empty = false;
        }
        self.out.push(b']');
        self.depth -= 1;
        Some(is_empty)
    }

    fn object(&mut self, kind: Members, left_out: &[&str]) -> Option<IsZero> {
        self.descend()?;
        self.json.eat(b'{');
        self.out.push(b'{');
        let (start, first) = (self.out.len(), self.members.len());
        while self.json.has_next(b'}') {
            let member = self.member(kind, left_out, start)?;
            self.members.push(member);
        }
        self.depth -= 1;
        self.arrange(start, first)?;
        let is_empty = self.out.len() == start;
        self.out.push(b'}');
        Some(is_empty)
    }

    /// Writes a member of an object that begins at `start`.
    fn member(&mut self, kind: Members, left_out: &[&str], start: usize) -> Option<Member<'a>> {
        let name = self.json.string()?;
        self.json.eat(b':');
        let at = self.out.len();
        self.text(b's', &name)?;
        let (is_left_out, left_out) = match left_out {
            [last] => (*last == name, &[][..]),
            [first, rest @ ..] if *first == name => (false, rest),
            _ => (false, &[][..]),
        };
        let (kind, keeps_zeros) = match kind {
            Members::Struct(fields) => (fields.get(&name), false),
            Members::Map(of) => (Some(of), true),
            Members::Unknown => (None, true),
        };
        let is_zero = self.value(kind, left_out)?;
        if is_left_out || is_zero && !keeps_zeros {
            self.out.truncate(at);
        }
        Some(Member { name, at: at - start..self.out.len() - start })
    }

    /// Brings the members written since `start`, from the `first`, into order.
    fn arrange(&mut self, start: usize, first: usize) -> Option<()> {
        let members = self.members.get_mut(first..)?;
        if !members.is_sorted_by(|one, next| one.name < next.name) {
            members.sort_by(|one, other| one.name.cmp(&other.name));
            self.scratch.clear();
            self.scratch.extend_from_slice(self.out.get(start..)?);
            self.out.truncate(start);
            let mut members = members.iter().peekable();
            while let Some(member) = members.next() {
                // Of several with one name the last is read.
                if members.peek().is_none_or(|next| next.name != member.name) {
                    self.out.extend_from_slice(self.scratch.get(member.at.clone())?);
                }
            }
        }
        self.members.truncate(first);
        Some(())
    }

    fn descend(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= MAX_DEPTH).then_some(())
    }
}
