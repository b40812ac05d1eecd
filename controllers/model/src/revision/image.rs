//! How an image's name says when to pull it.

/// Where images without a domain come from.
const DEFAULT_DOMAIN: &str = "docker.io";
/// What it was once called.
const LEGACY_DOMAIN: &str = "index.docker.io";
const MAX_PATH: usize = 255;
const MAX_TAG: usize = 128;

/// The `imagePullPolicy` by default: a name without a tag, or with the tag `latest`, may stand for another image tomorrow (upstream
/// `pkg/apis/core/v1/defaults.go` `SetDefaults_Container`).
pub(super) fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) == Some(true) { "Always" } else { "IfNotPresent" }
}

/// `None` for what is no name of an image (upstream `pkg/util/parsers/parsers.go` `ParseImageName`, which is
/// `github.com/distribution/reference` `ParseNormalizedNamed`).
fn is_latest(image: &str) -> Option<bool> {
    if image.len() == 64 && image.bytes().all(is_lower_hex) {
        return None;
    }
    let (domain, rest) = split_domain(image);
    let remote = rest.split(':').next().unwrap_or_default();
    if remote.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let (rest, digest) = rest.split_once('@').map_or((&*rest, None), |(rest, digest)| (rest, Some(digest)));
    let (path, tag) = rest.split_once(':').map_or((rest, None), |(path, tag)| (path, Some(tag)));
    // A domain that is none may still be the first part of a path.
    let whole = if is_domain(&domain) { path.to_owned() } else { format!("{domain}/{path}") };
    if !whole.split('/').all(is_path_component) || whole.len() > MAX_PATH {
        return None;
    }
    if !tag.is_none_or(is_tag) || !digest.is_none_or(is_digest) {
        return None;
    }
    Some(tag.map_or(digest.is_none(), |tag| tag == "latest"))
}

/// `splitDockerDomain`.
fn split_domain(image: &str) -> (String, String) {
    let (domain, rest) = match image.split_once('/') {
        Some((LEGACY_DOMAIN, rest)) => (DEFAULT_DOMAIN, rest),
        Some((domain, rest))
            if domain == "localhost" || domain.contains(['.', ':']) || domain.bytes().any(|byte| byte.is_ascii_uppercase()) =>
        {
            (domain, rest)
        }
        _ => (DEFAULT_DOMAIN, image),
    };
    let library = if domain == DEFAULT_DOMAIN && !rest.contains('/') { "library/" } else { "" };
    (domain.to_owned(), format!("{library}{rest}"))
}

/// `domainAndPort`.
fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rfind(':').filter(|_| !domain.ends_with(']')) {
        Some(at) => domain.split_at(at),
        None => (domain, ":0"),
    };
    let is_port = port.len() > 1 && port.bytes().skip(1).all(|byte| byte.is_ascii_digit());
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').unwrap_or_default();
        return is_port && !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
    }
    let is_component = |component: &str| {
        let is_inner = component.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        !component.is_empty() && is_inner && !component.starts_with('-') && !component.ends_with('-')
    };
    is_port && host.split('.').all(is_component)
}

/// `pathComponent`: letters and digits, between them a point, one or two underscores, or any number of hyphens.
fn is_path_component(component: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let is_separator = |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|byte| byte == b'-');
    let is_framed = component.starts_with(is_letter) && component.ends_with(is_letter);
    is_framed && component.split(is_letter).all(is_separator)
}

/// `tag`.
fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_inner = tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'));
    (1..=MAX_TAG).contains(&tag.len()) && is_inner && tag.bytes().next().is_some_and(is_word)
}

/// `github.com/opencontainers/go-digest` `Digest.Validate`, with the algorithms that upstream links.
fn is_digest(digest: &str) -> bool {
    let length = match digest.split_once(':') {
        Some(("sha256", _)) => 64,
        Some(("sha384", _)) => 96,
        Some(("sha512", _)) => 128,
        _ => return false,
    };
    digest.split_once(':').is_some_and(|(_, hex)| hex.len() == length && hex.bytes().all(is_lower_hex))
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_change_is_pulled_always() {
        let hex = "0f".repeat(32);
        for image in ["a", "a:latest", "a/b", "r.example:5000/a", "localhost/a", "[::1]:5000/a", "R/a", "a__b--c.d/e", "index.docker.io/a"]
        {
            assert_eq!(is_latest(image), Some(true), "{image}");
        }
        assert_eq!(is_latest(&format!("a:latest@sha256:{hex}")), Some(true));
        for image in ["a:1", "a:Latest", "r.example:5000/a:1", &format!("a@sha256:{hex}"), &format!("r.example/a:1@sha256:{hex}")] {
            assert_eq!(is_latest(image), Some(false), "{image}");
        }
    }

    #[test]
    fn what_is_no_name_is_not_pulled() {
        let hex = "0f".repeat(32);
        for image in [
            "",
            "A",
            "a/B",
            "a:",
            "a:-",
            "a@",
            "a@sha256:0",
            "a/",
            "/a",
            "a//b",
            "a_",
            "a___b",
            "a..b",
            "é",
            "a b",
            "r.example:x/a",
            "-r.x/a",
            &hex,
            &format!("a@md5:{hex}"),
            &format!("a@sha256:{}", hex.to_uppercase()),
            &"a".repeat(256),
            &format!("a:{}", "a".repeat(129)),
        ] {
            assert_eq!((is_latest(image), pull_policy(image)), (None, "IfNotPresent"), "{image}");
        }
    }
}
