//! Bytes, hashes and names of revisions, and whether the last one still stands for a template: all as upstream has them.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use model::normal_form::pod_template;
use model::revision::{data, hash, is_same, name};
use serde_json::value::RawValue;

use super::spelling::spell_template;
use super::upstream::{Revision, Upstream};
use super::value::Value;
use super::{QUANTITIES, number, systematic};

const IMAGES: &str = "a a:1 a:latest a:Latest A a/B a/b:1 B/a index.docker.io/a docker.io/a docker.io/a/b index.docker.io/a:latest localhost \
    localhost/a localhost:5000/a r.example/a r.example:5000/a:1 r.example:5000/a:latest r.example:x/a r.example:/a -r.x/a r-.x/a r_r.x/a \
    [::1]/a [::1]:5000/a [::g]/a []/a [::1]x/a [::1]:/a ::1/a a: a:- a:. a:_ a:1.2_3-4 a@ a@sha256:0 a/ /a a//b a_b a__b a___b a-b a---b \
    a.b a..b a_ _a a._b a/b/c/d:latest é a:é é.x/a a:b:c a/b:c/d a:1@ a@b@c R.x/a a/R.x x.Y/a x/y.Z a.b:80/c:latest";
const DIGESTS: &[(&str, usize)] =
    &[("sha256", 64), ("sha256", 63), ("sha384", 96), ("sha512", 128), ("md5", 32), ("SHA256", 64), ("sha256+b64", 64)];

/// What API servers do not write.
const ODD_PATCHES: &[&str] = &[
    "{}",
    "null",
    r#"{"spec":{}}"#,
    r#"{"spec":{"replicas":3}}"#,
    r#"{"metadata":{"labels":{"a":"b"}}}"#,
    r#"{"spec":null}"#,
    r#"{"spec":{"template":null}}"#,
    r#"{"spec":{"template":{"$patch":"delete"}}}"#,
    r#"{"spec":{"template":{"$patch":"replace"}}}"#,
    r#"{"spec":{"template":{"$patch":"merge"}}}"#,
    r#"{"spec":{"template":{"$patch":"replace","spec":{"nodeName":1}}}}"#,
    r#"{"spec":{"template":[]}}"#,
    r#"{"spec":[]}"#,
    r#"{"$patch":"replace"}"#,
    r#"{"$patch":"delete"}"#,
    "[]",
    "1",
];

/// The data that replace the template with this one.
fn patch(template: &str) -> String {
    let rest = template.trim_start_matches('{').trim_start();
    let comma = if rest.starts_with('}') { "" } else { "," };
    format!(r#"{{"spec":{{"template":{{"$patch":"replace"{comma}{rest}}}}}"#)
}

/// What we make of it otherwise than upstream.
fn difference([last, template]: &[String; 2], theirs: &Revision) -> Result<Option<String>> {
    let ours = data(&theirs.served).context("no data")?;
    let hashes = [None, Some(1)].map(|count| hash(ours.get(), count));
    let last = RawValue::from_string(last.clone())?;
    let is_same = is_same(&last, &theirs.served);
    let (what, ours, theirs) = if ours.get() != theirs.data {
        ("data", ours.get().to_owned(), theirs.data.clone())
    } else if hashes != theirs.hashes {
        ("hashes", format!("{hashes:?}"), format!("{:?}", theirs.hashes))
    } else if name("db", &hashes[0]) != theirs.name {
        ("names", name("db", &hashes[0]), theirs.name.clone())
    } else if is_same != theirs.is_same {
        ("verdicts", is_same.to_string(), format!("{} because of {}", theirs.is_same, theirs.restored))
    } else {
        return Ok(None);
    };
    Ok(Some(format!("{what}, of\n{last}\nand\n{template}\nours:\n{ours}\ntheirs:\n{theirs}\n")))
}

/// Asks both, and returns for how many pairs the last revision stands for the template.
fn agree(upstream: &Upstream, pairs: &[[String; 2]]) -> Result<usize> {
    let theirs = upstream.revisions(pairs)?;
    let mut disputed = Vec::new();
    for (n, (pair, theirs)) in pairs.iter().zip(&theirs).enumerate() {
        let found = difference(pair, theirs).with_context(|| format!("pair {n}: {pair:?}"))?;
        disputed.extend(found.map(|found| format!("pair {n} differs in {found}")));
    }
    let (count, total) = (disputed.len(), pairs.len());
    ensure!(disputed.is_empty(), "{count} of {total}, the first ones:\n{}", disputed[..count.min(5)].join("\n"));
    Ok(theirs.iter().filter(|theirs| theirs.is_same).count())
}

/// The first template of each pair as data, the second as an API server serves it, defaults filled in.
fn served(upstream: &Upstream, pairs: &[[String; 2]]) -> Result<Vec<[String; 2]>> {
    let patches: Vec<_> = pairs.iter().map(|[_, template]| [patch(template), "{}".to_owned()]).collect();
    let restored = upstream.revisions(&patches)?;
    let served = |([last, _], theirs): (&[String; 2], Revision)| {
        ensure!(theirs.restored.get() != "null", "upstream cannot restore {}", theirs.data);
        Ok([patch(last), theirs.restored.get().to_owned()])
    };
    pairs.iter().zip(restored).map(served).collect()
}

fn agree_on(what: &str, pairs: &[[String; 2]]) -> Result<()> {
    let upstream = Upstream::build()?;
    let same = agree(&upstream, &served(&upstream, pairs)?).context(what.to_owned())?;
    println!("{what}: {} pairs, {same} of them the same", pairs.len());
    Ok(())
}

#[test]
fn each_field_is_revised_as_upstream_revises_it() -> Result<()> {
    let pairs = systematic::pairs();
    let alike = pairs.iter().map(|[a, _]| [a.clone(), a.clone()]);
    agree_on("each field", &pairs.iter().cloned().chain(alike).collect::<Vec<_>>())
}

#[test]
fn amounts_are_revised_as_upstream_revises_them() -> Result<()> {
    let limit = |text: &str| format!(r#"{{"spec":{{"containers":[{{"resources":{{"limits":{{"x":"{text}"}}}}}}]}}}}"#);
    let size = |text: &str| format!(r#"{{"spec":{{"volumes":[{{"emptyDir":{{"sizeLimit":"{text}"}}}}]}}}}"#);
    let texts =
        || QUANTITIES.split(' ').chain(["007", "1.500", "1000E", "8Ki", "1001Ki", "1.234567", "1u", "1500u", "-1500u", "1e18", "1e21"]);
    let pairs: Vec<_> = texts().flat_map(|a| texts().flat_map(move |b| [[limit(a), limit(b)], [size(a), size(b)]])).collect();
    agree_on("amounts", &pairs)
}

#[test]
fn images_are_pulled_as_upstream_pulls_them() -> Result<()> {
    let digests = DIGESTS.iter().flat_map(|(algorithm, length)| {
        let hex = "0f".repeat(*length).chars().take(*length).collect::<String>();
        ["a", "a:latest", "a:1", "r.x/a"].map(|name| format!("{name}@{algorithm}:{hex}"))
    });
    let long = ["a".repeat(247), "a".repeat(248), format!("r.x/{}", "a".repeat(255)), format!("r.x/{}", "a".repeat(256)), "0f".repeat(32)];
    let tags = [128, 129].map(|length| format!("a:{}", "1".repeat(length)));
    let images = IMAGES.split_ascii_whitespace().map(str::to_owned).chain([String::new()]).chain(digests).chain(long).chain(tags);
    let pairs: Vec<_> = images
        .map(|image| {
            let template = format!(
                r#"{{"spec":{{"containers":[{{"image":"{image}"}}],"ephemeralContainers":[{{"image":"{image}"}}],"volumes":[{{"image":{{"reference":"{image}"}}}}]}}}}"#
            );
            [template.clone(), template]
        })
        .collect();
    agree_on("images", &pairs)
}

/// Every character that could need an escape, and numbers at the edges.
#[test]
fn awkward_texts_and_numbers_are_written_as_upstream_writes_them() -> Result<()> {
    let mut pairs = Vec::new();
    let letters = (0..0x800).chain(0x2000..0x2100).chain([0xd7ff, 0xe000, 0xfffd, 0xfffe, 0xffff, 0x10000, 0x1f600, 0x0010_ffff]);
    for letter in letters.filter_map(char::from_u32) {
        let mut escaped = String::new();
        letter.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(escaped, "\\u{unit:04x}"))?;
        pairs.push(format!(r#"{{"metadata":{{"annotations":{{"{escaped}b":"a{escaped}"," ":"","~":"{escaped}{escaped}"}}}}}}"#));
    }
    for odd in [
        r"\ud800",
        r"\udc00",
        r"\udc00\ud800",
        r"\ud800x",
        r"\ud800\u0041",
        r"\ud800\ud800\udc00",
        r"\ud800\n",
        r"\/",
        r"\ud83d\ude00\ude00",
    ] {
        pairs.push(format!(r#"{{"metadata":{{"annotations":{{"a":"{odd}"}}}}}}"#));
    }
    for number in
        [0, -1, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1, i64::MAX, i64::MIN, 123_456_789_012_345_678, 10i64.pow(18), 999_999_999_999_999_999]
    {
        pairs.push(format!(r#"{{"spec":{{"securityContext":{{"runAsUser":{number}}}}}}}"#));
    }
    let pairs: Vec<_> = pairs.into_iter().map(|template| [template.clone(), template]).collect();
    agree_on("texts and numbers", &pairs)
}

#[test]
fn odd_patches_are_applied_as_upstream_applies_them() -> Result<()> {
    let template = r#"{"spec":{"containers":[{"name":"c"}]}}"#;
    let upstream = Upstream::build()?;
    let [_, template] = served(&upstream, &[[template.to_owned(), template.to_owned()]])?.remove(0);
    let pairs: Vec<_> = ODD_PATCHES.iter().map(|patch| [(*patch).to_owned(), template.clone()]).collect();
    ensure!(agree(&upstream, &pairs)? == 5, "other patches than the first five leave the template as it is");
    Ok(())
}

/// Half of the pairs are two spellings of one template, the second of them with defaults filled in; in the others one value has changed a
/// little, or nothing is filled in. Pair n is made with `SEED` + n.
#[test]
fn random_templates_are_revised_as_upstream_revises_them() -> Result<()> {
    let (seed, count) = (number("SEED", fastrand::u64(..u64::MAX >> 1))?, number("PAIRS", 5000)?);
    let replay = || format!("SEED={seed} PAIRS={count}");
    let upstream = Upstream::build()?;
    let pairs: Vec<_> = (seed..seed + count).map(|seed| pair(&mut Rng::with_seed(seed))).collect();
    let mut asked = served(&upstream, &pairs).with_context(replay)?;
    for ((seed, [_, asked]), [_, spelled]) in (seed..).zip(&mut asked).zip(&pairs) {
        if seed % 8 == 0 {
            asked.clone_from(spelled);
        }
    }
    let same = agree(&upstream, &asked).with_context(replay)?;
    println!("SEED={seed}: {count} pairs, {same} of them the same");
    Ok(())
}

fn pair(rng: &mut Rng) -> [String; 2] {
    let a = Value::template(rng.usize(..400), rng);
    let mut b = a.clone();
    if rng.bool() {
        b.change(pod_template(), rng);
    }
    [spell_template(&a, rng), spell_template(&b, rng)]
}
