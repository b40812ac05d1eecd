//! Our normal form of templates, and our revisions of them, are right where they are upstream's own.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test outside of test functions")]

mod revisions;
mod spelling;
mod systematic;
mod upstream;
mod value;

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use model::normal_form::{normal_form, pod_template};
use serde_json::value::RawValue;

use spelling::spell_template;
use upstream::Upstream;
use value::Value;

/// What upstream's parser makes of these is not always what its documentation says.
const QUANTITIES: &str = "0 1 -1 +1 007 1. .5 0.5 500m 500000u 1Gi 1024Mi 1073741824 1G 1000M 1E 1E3 1e3 1k 1.5Gi 1610612736 0.1n 1n -0.1n -1n \
    0.9999999999 1.0000000001 1000000001n 0.0000000001Ki 103n 8Ei 16Ei 9223372036854775807 9223372036854775808 -8Ei \
    -9223372036854775807 7.9999999999999999999Ei 0.5Ei 512Pi 1e4294967297 10 + - . Ti k e5 0Ei 0e-10 1e-10 1e-9 1e400 10e399 \
    99999999999999999999999999999999999999999999 999999999999999999E 1e-400 0.000 -0 00 1e-3 1e0 1e+0 0.001 1m";

/// What random templates seldom have.
const AWKWARD: &[[&str; 2]] = &[
    ["{}", r#"{"metadata":null,"spec":{}}"#],
    ["{}", r#"{"metadata":{"labels":{"pod-template-hash":"1"}}}"#],
    [r#"{"metadata":{"labels":{"pod-template-hash":"1"}}}"#, r#"{"metadata":{"labels":{"pod-template-hash":"2"}}}"#],
    [r#"{"metadata":{"labels":{"a":"b"}}}"#, r#"{"metadata":{"labels":{"pod-template-hash":null,"a":"b"}}}"#],
    ["{}", r#"{"metadata":{"annotations":{"pod-template-hash":"1"}}}"#],
    ["{}", r#"{"spec":{"nodeSelector":{"pod-template-hash":"1"}}}"#],
    [
        r#"{"spec":{"volumes":[{"ephemeral":{"volumeClaimTemplate":{"metadata":{"labels":{}}}}}]}}"#,
        r#"{"spec":{"volumes":[{"ephemeral":{"volumeClaimTemplate":{"metadata":{"labels":{"pod-template-hash":"1"}}}}}]}}"#,
    ],
    [r#"{"spec":{"nodeName":"b"}}"#, r#"{"spec":{"nodeName":"a","nodeName":"b"}}"#],
    ["{}", r#"{"spec":{"nodeName":"a","nodeName":""}}"#],
    [r#"{"spec":{"nodeName":"\u003c\ud83d\ude00"}}"#, r#"{"spec":{"nodeName":"<😀"}}"#],
    [r#"{"spec":{"volumes":[null]}}"#, r#"{"spec":{"volumes":[{"name":""}]}}"#],
    [r#"{"spec":{"volumes":[{}]}}"#, r#"{"spec":{"volumes":[{"emptyDir":{}}]}}"#],
    [r#"{"spec":{"volumes":[{"name":"a"},{"name":"b"}]}}"#, r#"{"spec":{"volumes":[{"name":"b"},{"name":"a"}]}}"#],
    [
        r#"{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"}}"#,
        r#"{"metadata":{"creationTimestamp":"2026-01-01T00:00:00.000000001Z"}}"#,
    ],
];

fn verdict([a, b]: &[String; 2]) -> Result<bool> {
    let form = |json: &String| normal_form(&RawValue::from_string(json.clone()).ok()?);
    Ok(form(a).with_context(|| a.clone())? == form(b).with_context(|| b.clone())?)
}

/// Asks both, and returns how many pairs are equal.
fn agree(upstream: &Upstream, pairs: &[[String; 2]]) -> Result<usize> {
    let mut disputed = Vec::new();
    let theirs = upstream.compare(pairs)?;
    for (n, (pair, theirs)) in pairs.iter().zip(&theirs).enumerate() {
        if verdict(pair)? != *theirs {
            disputed.push(format!("pair {n} is {}equal to upstream:\n{}\n{}", if *theirs { "" } else { "not " }, pair[0], pair[1]));
        }
    }
    ensure!(
        disputed.is_empty(),
        "{} of {}, the first ones:\n{}",
        disputed.len(),
        pairs.len(),
        disputed[..disputed.len().min(5)].join("\n")
    );
    Ok(theirs.iter().filter(|equal| **equal).count())
}

#[test]
fn the_table_is_that_of_upstreams_types() -> Result<()> {
    let (here, upstream) = (include_str!("../../../controllers/model/src/normal_form/schema.rs"), Upstream::build()?.schema()?);
    let differs = here.lines().zip(upstream.lines()).find(|(a, b)| a != b);
    ensure!(
        here == upstream,
        "the types of the default release have changed, first here: {differs:?}; see what that means, then write the table anew with \
        $(e2e/controlplane/templates.sh) schema >controllers/model/src/normal_form/schema.rs"
    );
    Ok(())
}

#[test]
fn each_field_is_compared_as_upstream_compares_it() -> Result<()> {
    let pairs = systematic::pairs();
    let equal = agree(&Upstream::build()?, &pairs)?;
    println!("{} pairs, {equal} of them equal", pairs.len());
    Ok(())
}

#[test]
fn quantities_are_compared_as_upstream_compares_them() -> Result<()> {
    let limit = |text: &str| format!(r#"{{"spec":{{"containers":[{{"resources":{{"limits":{{"x":"{text}"}}}}}}]}}}}"#);
    let pairs: Vec<_> = QUANTITIES.split(' ').flat_map(|a| QUANTITIES.split(' ').map(move |b| [limit(a), limit(b)])).collect();
    let equal = agree(&Upstream::build()?, &pairs)?;
    println!("{} pairs, {equal} of them equal", pairs.len());
    Ok(())
}

#[test]
fn awkward_templates_are_compared_as_upstream_compares_them() -> Result<()> {
    let pairs: Vec<_> = AWKWARD.iter().map(|pair| pair.map(str::to_owned)).collect();
    let equal = agree(&Upstream::build()?, &pairs)?;
    ensure!(equal == 8, "{equal} are equal");
    Ok(())
}

/// Half of the pairs are two spellings of one value; in the others one value has changed a little. Pair n is made with `SEED` + n.
#[test]
fn random_templates_are_compared_as_upstream_compares_them() -> Result<()> {
    let (seed, count) = (number("SEED", fastrand::u64(..u64::MAX >> 1))?, number("PAIRS", 5000)?);
    let pairs: Vec<_> = (seed..seed + count).map(|seed| pair(&mut Rng::with_seed(seed))).collect();
    let equal = agree(&Upstream::build()?, &pairs).with_context(|| format!("SEED={seed} PAIRS={count}"))?;
    let bytes: usize = pairs.iter().flatten().map(String::len).sum();
    println!("SEED={seed}: {count} pairs, {equal} of them equal, {} bytes for a template", bytes / pairs.len().max(1) / 2);
    Ok(())
}

/// A number from the environment.
fn number(name: &str, default: u64) -> Result<u64> {
    std::env::var(name).map_or(Ok(default), |text| text.parse()).with_context(|| name.to_owned())
}

fn pair(rng: &mut Rng) -> [String; 2] {
    let a = Value::template(rng.usize(..400), rng);
    let mut b = a.clone();
    if rng.bool() {
        b.change(pod_template(), rng);
    } else {
        b.label(rng);
    }
    [spell_template(&a, rng), spell_template(&b, rng)]
}
