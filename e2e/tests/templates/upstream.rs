//! The program in controlplane/templates, which is made of upstream's own types and comparison.

use std::io::{Seek as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use e2e::controlplane::source_folder;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// What upstream makes of a patch and a template; see controlplane/templates/revisions.go.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Revision {
    pub(crate) served: Box<RawValue>,
    pub(crate) data: String,
    pub(crate) hashes: [String; 2],
    pub(crate) name: String,
    pub(crate) is_same: bool,
    pub(crate) restored: Box<RawValue>,
}

pub(crate) struct Upstream {
    program: PathBuf,
}

impl Upstream {
    /// Builds the program, for the default release: the table is of no other.
    pub(crate) fn build() -> Result<Self> {
        let mut script = Command::new(source_folder().join("templates.sh"));
        let program = run(script.env_remove("K8S_VERSION"))?;
        Ok(Self { program: PathBuf::from(program.trim_end()) })
    }

    /// The table of fields, as Rust.
    pub(crate) fn schema(&self) -> Result<String> {
        run(Command::new(&self.program).arg("schema"))
    }

    /// For each pair of templates whether upstream holds them to be equal. All must be readable for it.
    pub(crate) fn compare(&self, pairs: &[[String; 2]]) -> Result<Vec<bool>> {
        self.ask("compare", pairs)
    }

    /// For each pair of a patch, being the data of a set's last revision, and the set's template what upstream makes of them.
    pub(crate) fn revisions(&self, pairs: &[[String; 2]]) -> Result<Vec<Revision>> {
        self.ask("revisions", pairs)
    }

    fn ask<T: DeserializeOwned>(&self, question: &str, pairs: &[[String; 2]]) -> Result<Vec<T>> {
        let mut input = tempfile::tempfile()?;
        for [a, b] in pairs {
            ensure!(!a.contains('\n') && !b.contains('\n'), "a pair has to be one line");
            writeln!(input, "[{a},{b}]")?;
        }
        input.rewind()?;
        let answers = run(Command::new(&self.program).arg(question).stdin(input))?;
        let answers: Vec<T> = answers.lines().map(|line| serde_json::from_str(line).context("an answer")).collect::<Result<_>>()?;
        ensure!(answers.len() == pairs.len(), "{} answers to {} questions", answers.len(), pairs.len());
        Ok(answers)
    }
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("run {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed ({}); see its messages above", output.status);
    String::from_utf8(output.stdout).context("what it printed")
}
