//! Random values of upstream's types, and small changes to them.

use std::collections::BTreeMap;

use fastrand::Rng;
use model::fingerprint::POD_TEMPLATE_HASH;
use model::normal_form::{Fields, Kind};

/// A value as Go holds it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Boolean(bool),
    /// A number times a power of ten.
    Quantity(i64, i32),
    /// Seconds and nanoseconds since the epoch.
    Time(i64, u32),
    /// In JSON.
    Raw(String),
    /// The fields that are set.
    Struct(BTreeMap<&'static str, Value>),
    Pointer(Option<Box<Value>>),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

/// Text that means something elsewhere, or is awkward to spell.
const TEXTS: &[&str] = &[
    "",
    "a",
    "b",
    "1Gi",
    "1024Mi",
    "0",
    "80",
    "null",
    "{}",
    "é<&>",
    "😀\"\\\n\t",
    "\u{7f}\u{2028}",
    "2026-01-01T00:00:00Z",
    POD_TEMPLATE_HASH,
];
const RAW: &[&str] = &["{}", "{ }", r#"{"f:a":{},"f:b":{}}"#, r#"{"f:b":{},"f:a":{}}"#, r#""\u0061""#, r#""a""#, "[]", "0"];
/// Seconds of the first of January of the year 1: Go's zero time.
const ZERO_TIME: i64 = -62_135_596_800;

impl Value {
    pub(crate) fn zero(kind: Kind) -> Self {
        match kind {
            Kind::Text => Self::Text(String::new()),
            Kind::Integer | Kind::IntOrString => Self::Integer(0),
            Kind::Boolean => Self::Boolean(false),
            Kind::Quantity => Self::Quantity(0, 0),
            Kind::Time => Self::Time(ZERO_TIME, 0),
            Kind::Raw => Self::Raw("null".to_owned()),
            Kind::Struct(_) => Self::Struct(BTreeMap::new()),
            Kind::Pointer(_) => Self::Pointer(None),
            Kind::List(_) => Self::List(Vec::new()),
            Kind::Map(_) => Self::Map(BTreeMap::new()),
        }
    }

    pub(crate) fn is_zero(&self, kind: Kind) -> bool {
        match (self, kind) {
            (Self::Quantity(number, _), _) => *number == 0,
            (Self::Struct(members), Kind::Struct(fields)) => {
                fields.iter().all(|(name, kind)| members.get(name).is_none_or(|value| value.is_zero(kind)))
            }
            _ => *self == Self::zero(kind),
        }
    }

    /// A pod template of about so many values.
    pub(crate) fn template(size: usize, rng: &mut Rng) -> Self {
        let Kind::Struct(fields) = model::normal_form::pod_template() else { unreachable!("a template is a struct") };
        let mut budget = size;
        Self::Struct(fields.iter().map(|(name, kind)| (name, Self::random(kind, &mut budget, rng))).collect())
    }

    fn random(kind: Kind, budget: &mut usize, rng: &mut Rng) -> Self {
        if *budget == 0 {
            return Self::zero(kind);
        }
        *budget -= 1;
        match kind {
            Kind::Text => Self::Text(text(rng)),
            Kind::IntOrString if rng.bool() => Self::Text(text(rng)),
            Kind::Integer | Kind::IntOrString => Self::Integer(rng.i64(-2..=2)),
            Kind::Boolean => Self::Boolean(rng.bool()),
            Kind::Quantity => {
                let limit = 2 << rng.u32(..40);
                Self::Quantity(rng.i64(-2..=limit), rng.i32(-9..=6))
            }
            Kind::Time => Self::Time(rng.i64(0..4_000_000_000), if rng.bool() { 0 } else { rng.u32(0..1_000_000_000) }),
            Kind::Raw => Self::Raw(raw(rng)),
            Kind::Struct(fields) => {
                let mut members = BTreeMap::new();
                for _ in 0..rng.usize(0..=12) {
                    let (name, kind) = field(fields, rng);
                    members.insert(name, Self::random(kind, budget, rng));
                }
                Self::Struct(members)
            }
            Kind::Pointer(to) => Self::Pointer((rng.u8(..4) > 0).then(|| Box::new(Self::random(*to, budget, rng)))),
            Kind::List(of) => Self::List((0..rng.usize(..4)).map(|_| Self::random(*of, budget, rng)).collect()),
            Kind::Map(of) => Self::Map((0..rng.usize(..4)).map(|_| (text(rng), Self::random(*of, budget, rng))).collect()),
        }
    }

    /// Changes something in this value or below, most often so that upstream sees it.
    pub(crate) fn change(&mut self, kind: Kind, rng: &mut Rng) {
        if rng.u8(..6) > 0 {
            let child: Option<(&mut Self, Kind)> = match (&mut *self, kind) {
                (Self::Struct(members), Kind::Struct(fields)) => {
                    let child = rng.choice(members.iter_mut());
                    child.and_then(|(name, value)| fields.iter().find(|(field, _)| field == name).map(|(_, kind)| (value, kind)))
                }
                (Self::Pointer(Some(value)), Kind::Pointer(to)) => Some((value, *to)),
                (Self::List(items), Kind::List(of)) => rng.choice(items).map(|value| (value, *of)),
                (Self::Map(members), Kind::Map(of)) => rng.choice(members.values_mut()).map(|value| (value, *of)),
                _ => None,
            };
            if let Some((child, kind)) = child {
                return child.change(kind, rng);
            }
        }
        self.change_here(kind, rng);
    }

    /// Gives a template another hash label, or none.
    pub(crate) fn label(&mut self, rng: &mut Rng) {
        let Self::Struct(template) = self else { return };
        let Self::Struct(metadata) = template.entry("metadata").or_insert_with(|| Self::Struct(BTreeMap::new())) else { return };
        let Self::Map(labels) = metadata.entry("labels").or_insert_with(|| Self::Map(BTreeMap::new())) else { return };
        match rng.u8(..3) {
            0 => drop(labels.remove(POD_TEMPLATE_HASH)),
            1 => drop(labels.insert(POD_TEMPLATE_HASH.to_owned(), Self::Text(text(rng)))),
            _ => {}
        }
    }

    fn change_here(&mut self, kind: Kind, rng: &mut Rng) {
        match (self, kind) {
            (this, Kind::IntOrString) => {
                *this = match this {
                    Self::Integer(number) => Self::Text(number.to_string()),
                    Self::Text(text) => Self::Integer(text.parse().unwrap_or(0)),
                    _ => Self::zero(kind),
                }
            }
            (Self::Text(here), _) => *here = text(rng),
            (Self::Integer(number), _) => *number = if rng.bool() { 0 } else { *number + 1 },
            (Self::Boolean(here), _) => *here = !*here,
            (Self::Quantity(number, power), _) => match rng.u8(..4) {
                0 => *number += 1,
                1 => *number = -*number,
                2 => *power = if *power < 9 { *power + 1 } else { -9 },
                _ => *number = 0,
            },
            (Self::Time(seconds, nanos), _) => match rng.u8(..3) {
                0 => *seconds += 1,
                1 => *nanos = (*nanos + 1) % 1_000_000_000,
                _ => (*seconds, *nanos) = (ZERO_TIME, 0),
            },
            (Self::Raw(json), _) => *json = raw(rng),
            (Self::Struct(members), Kind::Struct(fields)) => {
                let (name, kind) = field(fields, rng);
                if members.remove(name).is_none() {
                    members.insert(name, Self::random(kind, &mut 5, rng));
                }
            }
            (Self::Pointer(value), Kind::Pointer(to)) => {
                *value = if value.is_some() { None } else { Some(Box::new(Self::zero(*to))) };
            }
            (Self::List(items), Kind::List(of)) => match rng.u8(..3) {
                0 if items.len() > 1 => items.swap(0, 1),
                1 if !items.is_empty() => drop(items.pop()),
                _ => items.push(Self::zero(*of)),
            },
            (Self::Map(members), Kind::Map(of)) => {
                let name = text(rng);
                if members.remove(&name).is_none() {
                    members.insert(name, Self::zero(*of));
                }
            }
            (this, _) => *this = Self::zero(kind),
        }
    }
}

fn text(rng: &mut Rng) -> String {
    rng.choice(TEXTS).copied().unwrap_or_default().to_owned()
}

fn raw(rng: &mut Rng) -> String {
    rng.choice(RAW).copied().unwrap_or("{}").to_owned()
}

fn field(fields: &'static Fields, rng: &mut Rng) -> (&'static str, Kind) {
    rng.choice(fields.iter().collect::<Vec<_>>()).unwrap_or(("", Kind::Text))
}
