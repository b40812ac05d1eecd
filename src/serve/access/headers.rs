//! Who a trusted proxy says is asking (upstream apiserver `pkg/authentication/request/headerrequest/requestheader.go`).

use std::collections::BTreeMap;

use http::HeaderMap;

use super::authorities::Headers;
use super::user::User;

/// The user that the headers name; `None` if they name nobody.
pub(super) fn user(request: &HeaderMap, headers: &Headers) -> Option<User> {
    let name = first(request, &headers.username)?;
    let groups = headers.group.iter().flat_map(|header| request.get_all(header.as_str())).filter_map(text);
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for prefix in &headers.extra_prefix {
        let prefix = prefix.to_ascii_lowercase();
        for (header, value) in request {
            // Names of headers are lower case here already.
            if let (Some(key), Ok(value)) = (header.as_str().strip_prefix(prefix.as_str()), value.to_str()) {
                extra.entry(unescaped(key)).or_default().push(value.to_owned());
            }
        }
    }
    Some(User { name, uid: first(request, &headers.uid).unwrap_or_default(), groups: groups.collect(), extra })
}

/// The first of several headers that is there and says something.
fn first(request: &HeaderMap, names: &[String]) -> Option<String> {
    names.iter().find_map(|name| text(request.get(name.as_str())?))
}

fn text(value: &http::HeaderValue) -> Option<String> {
    value.to_str().ok().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Go's `url.PathUnescape`; what is malformed stays as it is.
fn unescaped(key: &str) -> String {
    fn decoded(key: &str) -> Option<String> {
        let mut bytes = Vec::with_capacity(key.len());
        let mut rest = key.as_bytes();
        while let Some((byte, tail)) = rest.split_first() {
            rest = tail;
            if *byte == b'%' {
                let (digits, tail) = rest.split_at_checked(2)?;
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                rest = tail;
            } else {
                bytes.push(*byte);
            }
        }
        String::from_utf8(bytes).ok()
    }
    decoded(key).unwrap_or_else(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> Option<User> {
        let mut request = HeaderMap::new();
        for (name, value) in pairs {
            request.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let headers = Headers {
            allowed_names: Vec::new(),
            username: list(&["X-First", "X-Remote-User"]),
            uid: list(&["X-Remote-Uid"]),
            group: list(&["X-Remote-Group"]),
            extra_prefix: list(&["X-Remote-Extra-"]),
        };
        user(&request, &headers)
    }

    #[test]
    fn a_proxys_headers_name_the_user() {
        assert_eq!(asked(&[("x-remote-group", "g")]), None);
        assert_eq!(asked(&[("x-remote-user", "")]), None);
        let user = asked(&[
            ("X-Remote-User", "jane"),
            ("X-First", ""),
            ("X-Remote-Group", "a"),
            ("X-Remote-Group", ""),
            ("X-Remote-Group", "b"),
            ("X-Remote-Uid", "7"),
            ("X-Remote-Extra-Acme.com%2Fproject", "one"),
            ("X-Remote-Extra-acme.com%2fproject", "two"),
            ("X-Remote-Extra-odd%2", "three"),
        ]);
        let user = user.unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "7"));
        assert_eq!(user.groups, ["a", "b"]);
        assert_eq!(user.extra.get("acme.com/project").unwrap(), &["one", "two"]);
        assert_eq!(user.extra.get("odd%2").unwrap(), &["three"]);
    }
}
