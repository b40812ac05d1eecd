//! kube-controller-manager's command line, as far as it says what is run.

use super::{LeaseName, ManagerLease};

/// What a kube-controller-manager was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManagerFlags {
    /// `--controllers`, all of them together.
    pub(crate) controllers: Vec<String>,
    /// `--leader-elect`.
    pub(crate) leader_elect: bool,
    /// `--leader-elect-resource-namespace` and `--leader-elect-resource-name`.
    pub(crate) lease: LeaseName,
    /// `--enable-leader-migration`.
    pub(crate) leader_migration: bool,
}

impl Default for ManagerFlags {
    fn default() -> Self {
        Self { controllers: vec!["*".to_owned()], leader_elect: true, lease: ManagerLease::default_name(), leader_migration: false }
    }
}

impl ManagerFlags {
    /// Reads a command line. What is not a flag of interest is passed over.
    pub(crate) fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut flags = Self::default();
        let mut controllers: Vec<String> = Vec::new();
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            let Some(flag) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else { continue };
            let (name, mut value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            let name = name.replace('_', "-");
            let is_switch = matches!(&*name, "leader-elect" | "enable-leader-migration");
            let is_value = matches!(&*name, "controllers" | "leader-elect-resource-namespace" | "leader-elect-resource-name");
            if is_value && value.is_none() {
                value = arguments.next();
            }
            let value = value.unwrap_or(if is_switch { "true" } else { "" });
            match &*name {
                "controllers" => controllers.extend(value.split(',').map(|item| item.trim().to_owned())),
                // Go's strconv.ParseBool.
                "leader-elect" => flags.leader_elect = matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
                "enable-leader-migration" => flags.leader_migration = matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
                "leader-elect-resource-namespace" => value.clone_into(&mut flags.lease.0),
                "leader-elect-resource-name" => value.clone_into(&mut flags.lease.1),
                _ => {}
            }
        }
        if !controllers.is_empty() {
            flags.controllers = controllers;
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_upstreams_parser_does() {
        let parse = |line: &str| ManagerFlags::parse(line.split(' '));
        assert_eq!(parse("kube-controller-manager --v=2"), ManagerFlags::default());
        let flags = parse(
            "kube-controller-manager --controllers=*,-deployment --leader-elect=false --bind-address 0.0.0.0 --controllers \
             -replicaset-controller --leader_elect_resource_name=other --enable-leader-migration",
        );
        assert_eq!(flags.controllers, ["*", "-deployment", "-replicaset-controller"]);
        assert_eq!((flags.leader_elect, flags.leader_migration), (false, true));
        assert_eq!(flags.lease, ("kube-system".to_owned(), "other".to_owned()));
    }
}
