//! Who is asking.

use std::collections::BTreeMap;

use serde::Serialize;

/// Upstream `user.Anonymous`.
const ANONYMOUS: &str = "system:anonymous";
/// Upstream `user.AllUnauthenticated`.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Upstream `user.AllAuthenticated`.
const AUTHENTICATED: &str = "system:authenticated";
/// Upstream `user.SystemPrivilegedGroup`: may do everything.
const MASTERS: &str = "system:masters";

/// A user as reviews have it (upstream `user.DefaultInfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct User {
    /// Its name.
    #[serde(rename = "user")]
    pub(crate) name: String,
    /// Its UID, if there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
    /// Its groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) groups: Vec<String>,
    /// Whatever else is known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

// === impl User ===

impl User {
    /// Nobody in particular.
    pub(crate) fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// Whether this is nobody in particular (upstream `isAnonymousUser`).
    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS || self.is_in(UNAUTHENTICATED)
    }

    /// Whether nobody needs to be asked what it may do.
    pub(crate) fn is_master(&self) -> bool {
        self.is_in(MASTERS)
    }

    /// With the group of all who are somebody (upstream `pkg/authentication/group/authenticated_group_adder.go`).
    pub(crate) fn authenticated(mut self) -> Self {
        if !self.is_anonymous() && !self.is_in(AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|other| other == group)
    }
}
