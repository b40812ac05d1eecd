//! What a pod's name says of its place in a StatefulSet.

/// The name of the set that a pod is named after, and its ordinal there (upstream `pkg/controller/statefulset` `getParentNameAndOrdinal`,
/// `(.*)-([0-9]+)$`). A name of another form has the empty parent; an ordinal too large for 32 bits is none.
pub fn parent_and_ordinal(name: &str) -> (&str, Option<i32>) {
    match name.rsplit_once('-') {
        Some((parent, digits)) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => (parent, digits.parse().ok()),
        _ => ("", None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hyphen_counts() {
        for (name, expected) in [
            ("web-0", ("web", Some(0))),
            ("web-1-12", ("web-1", Some(12))),
            ("web-01", ("web", Some(1))),
            ("web-2147483647", ("web", Some(i32::MAX))),
            ("web-2147483648", ("web", None)),
            ("web-", ("", None)),
            ("web-1a", ("", None)),
            ("web", ("", None)),
            ("-3", ("", Some(3))),
        ] {
            assert_eq!(parent_and_ordinal(name), expected, "{name}");
        }
    }
}
