//! The changes to upstream's tests, as data.

use anyhow::{Result, bail, ensure};

/// One change of one kind of line, wherever it stands. Lines are compared without their indentation, which the new lines get.
#[derive(Debug)]
pub(super) struct Patch {
    /// What the change is for.
    why: &'static str,
    /// Which lines.
    find: Find,
    /// What is done to them.
    change: Change,
    /// How many there are, over all files of the package. A release that has another number needs a look.
    count: Count,
}

#[derive(Debug)]
enum Find {
    Line(&'static str),
    Start(&'static str),
}

#[derive(Debug)]
enum Change {
    Replace(&'static [&'static str]),
    Append(&'static [&'static str]),
}

#[derive(Debug, Clone, Copy)]
enum Count {
    Exactly(usize),
    Some,
    /// In some releases there are none.
    Any,
}

impl Find {
    fn matches(&self, line: &str) -> bool {
        match self {
            Self::Line(text) => line.trim() == *text,
            Self::Start(text) => line.trim_start().starts_with(text),
        }
    }
}

/// Tests switch gates, some of them in the middle: the process learns of it by a restart.
const GATES: &str = "featuregatetesting.SetFeatureGateDuringTest(";

const fn gates(count: Count) -> Patch {
    Patch { why: "tell the process of a switched gate", find: Find::Start(GATES), change: Change::Append(&["restartExternal()"]), count }
}

const fn config(count: usize) -> Patch {
    let find = Find::Line("config := restclient.CopyConfig(server.ClientConfig)");
    Patch { why: "keep the server's address", find, change: Change::Append(&["externalConfig = config"]), count: Count::Exactly(count) }
}

const fn controller(run: &'static str, instead: &'static [&'static str]) -> Patch {
    let why = "run the process instead of the controller";
    Patch { why, find: Find::Line(run), change: Change::Replace(instead), count: Count::Exactly(1) }
}

/// etcd is ours, and upstream's check for leaked goroutines knows only the names that packages have in its own tree.
const MAIN: Patch = Patch {
    why: "leave etcd to the caller",
    find: Find::Line("framework.EtcdMain(m.Run)"),
    change: Change::Replace(&["os.Exit(m.Run())"]),
    count: Count::Exactly(1),
};

/// Only in the file of [`MAIN`], whose import of the framework is its only one besides `testing`.
pub(super) const MAIN_IMPORT: Patch = Patch {
    why: "import what the new main needs",
    find: Find::Line("\"k8s.io/kubernetes/test/integration/framework\""),
    change: Change::Replace(&["\"os\""]),
    count: Count::Exactly(1),
};

/// The file of [`MAIN_IMPORT`].
pub(super) const MAIN_FILE: &str = "main_test.go";

pub(super) const REPLICASET: &[Patch] = &[MAIN, config(2), controller("go rm.Run(ctx, 5)", &["startExternal(ctx)"]), gates(Count::Some)];

pub(super) const DEPLOYMENT: &[Patch] = &[
    MAIN,
    config(2),
    // One process runs both.
    controller("go rm.Run(ctx, 5)", &["startExternal(ctx)"]),
    controller("go dc.Run(ctx, 5)", &[]),
    gates(Count::Some),
];

pub(super) const STATEFULSET: &[Patch] = &[
    MAIN,
    config(1),
    controller("go sc.Run(ctx, 5)", &["startExternal(ctx)"]),
    // This test has a server of its own, and no other use for its controller.
    controller("go ssc.Run(tCtx, 5)", &["externalConfig = config", "startExternal(tCtx)", "_ = ssc"]),
    gates(Count::Any),
];

/// Applies `patches` to `files` (name and text), and fails where one of them finds other than it should, or where a controller
/// would still run in the test.
pub(super) fn apply(patches: &[Patch], files: &mut [(String, String)]) -> Result<()> {
    for patch in patches {
        let mut found = 0;
        for (_, text) in &mut *files {
            found += patch.apply(text);
        }
        patch.check(found)?;
    }
    for (name, text) in files {
        let left = text.lines().find(|line| line.trim_start().starts_with("go ") && line.contains(".Run("));
        ensure!(left.is_none(), "{name} still starts a controller: {}", left.unwrap_or_default().trim());
    }
    Ok(())
}

impl Patch {
    /// Changes the text and says how often.
    fn apply(&self, text: &mut String) -> usize {
        let mut found = 0;
        let mut changed = String::with_capacity(text.len());
        for line in text.lines() {
            if !self.find.matches(line) {
                push(&mut changed, "", line);
                continue;
            }
            found += 1;
            let indent = line.get(..line.len() - line.trim_start().len()).unwrap_or_default();
            let new = match self.change {
                Change::Replace(new) => new,
                Change::Append(new) => {
                    push(&mut changed, "", line);
                    new
                }
            };
            for line in new {
                push(&mut changed, indent, line);
            }
        }
        *text = changed;
        found
    }

    fn check(&self, found: usize) -> Result<()> {
        let good = match self.count {
            Count::Exactly(count) => found == count,
            Count::Some => found > 0,
            Count::Any => true,
        };
        if !good {
            bail!("upstream has changed: to {}, {:?} was expected {:?} times and found {found} times", self.why, self.find, self.count);
        }
        Ok(())
    }
}

fn push(text: &mut String, indent: &str, line: &str) {
    text.push_str(indent);
    text.push_str(line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> Vec<(String, String)> {
        vec![("f.go".to_owned(), text.to_owned())]
    }

    #[test]
    fn new_lines_are_indented_like_the_old_one() {
        let mut files = files("a\n\tgo dc.Run(ctx, 5)\n\tfeaturegatetesting.SetFeatureGateDuringTest(t, x)\n");
        apply(&[controller("go dc.Run(ctx, 5)", &["startExternal(ctx)", "b"]), gates(Count::Some)], &mut files).unwrap();
        assert_eq!(files[0].1, "a\n\tstartExternal(ctx)\n\tb\n\tfeaturegatetesting.SetFeatureGateDuringTest(t, x)\n\trestartExternal()\n");
    }

    #[test]
    fn a_patch_that_finds_nothing_fails() {
        let error = apply(&[MAIN], &mut files("func TestMain\n")).unwrap_err().to_string();
        assert!(error.contains("leave etcd to the caller") && error.contains("found 0 times"), "{error}");
    }

    #[test]
    fn a_controller_that_still_runs_fails() {
        let error = apply(&[], &mut files("\tgo new.Run(ctx, 5)\n")).unwrap_err().to_string();
        assert_eq!(error, "f.go still starts a controller: go new.Run(ctx, 5)");
    }
}
