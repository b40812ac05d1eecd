//! What `deploy/README.md` and `deploy/kind` tell users to do, as far as it can be checked here.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::controlplane::{Binaries, Program};
use e2e::process;

use crate::helm::{NAMESPACE, RELEASES, chart, documents, helm};
use crate::rig::Shared;

const CONTROLLERS: [&str; 3] = ["deployment-controller", "replicaset-controller", "statefulset-controller"];

/// A fenced block: its language, and its lines.
struct Block {
    language: String,
    text: String,
}

pub(crate) async fn blocks_of_yaml_can_be_read(_: Shared) -> Result<()> {
    let mut read = 0;
    for block in blocks()?.iter().filter(|block| block.language == "yaml") {
        documents(&block.text).with_context(|| block.text.clone())?;
        read += 1;
    }
    ensure!(read >= 5, "{read} blocks: are there no more?");
    let cluster = documents(&std::fs::read_to_string(kind_config())?)?;
    let patches = cluster[0]["kubeadmConfigPatches"].as_array().context("no patches")?;
    for patch in patches {
        documents(patch.as_str().context("a text")?)?;
    }
    Ok(())
}

pub(crate) async fn lists_of_controllers_take_all_three_away(_: Shared) -> Result<()> {
    let lists = lists()?;
    ensure!(lists.len() >= 7, "{lists:?}");
    for list in lists {
        let away: Vec<_> = list.split(',').filter_map(|name| name.strip_prefix('-')).collect();
        let missing = CONTROLLERS.iter().find(|name| !away.contains(name));
        ensure!(missing.is_none(), "{list} leaves {missing:?}");
    }
    Ok(())
}

/// A list with a name that it does not know ends it before anything else is looked at.
pub(crate) async fn kube_controller_manager_takes_those_lists(_: Shared) -> Result<()> {
    let binaries = tokio::task::spawn_blocking(|| Binaries::build(None, &[Program::ControllerManager])).await??;
    let program = binaries.path(Program::ControllerManager)?;
    let complains = |list: &str| -> Result<bool> {
        let flags = [format!("--controllers={list}"), "--kubeconfig=/there/is/none".to_owned(), "--secure-port=0".to_owned()];
        let output = Command::new(&program).args(flags).output()?;
        ensure!(!output.status.success(), "it runs without a kubeconfig");
        Ok(String::from_utf8_lossy(&output.stderr).contains("is not in the list of known controllers"))
    };
    ensure!(complains("*,-no-such-controller")?, "a name that it does not know should be told of");
    for list in lists()? {
        ensure!(!complains(&list)?, "{list}");
    }
    Ok(())
}

pub(crate) async fn commands_have_the_flags_that_they_are_shown_with(_: Shared) -> Result<()> {
    let mut seen = 0;
    for line in commands()? {
        let words: Vec<_> = line.split_whitespace().take_while(|word| *word != "|").collect();
        let Some((&"workloads-controller-manager", arguments)) = words.split_first() else { continue };
        let output = Command::new(process::binary()?).args(arguments).arg("--help").output()?;
        ensure!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        seen += 1;
    }
    ensure!(seen >= 4, "{seen} commands: are there no more?");
    Ok(())
}

pub(crate) async fn values_are_those_of_the_chart(_: Shared) -> Result<()> {
    let mut seen = 0;
    for line in commands()? {
        let words = words(&line)?;
        let [program, verb, ..] = &words[..] else { continue };
        if program != "helm" || !matches!(verb.as_str(), "install" | "upgrade") {
            continue;
        }
        let folder = chart().display().to_string();
        let mut arguments = vec!["template", "workloads", &folder, "--namespace", NAMESPACE, "--kube-version", RELEASES[3]];
        let pairs = words.windows(2).filter(|pair| matches!(pair[0].as_str(), "--set" | "--set-json"));
        arguments.extend(pairs.flatten().map(String::as_str));
        let printed = helm(&arguments)?;
        ensure!(printed.success, "{line}: {}", printed.stderr);
        seen += 1;
    }
    ensure!(seen >= 5, "{seen} commands: are there no more?");
    Ok(())
}

fn kind_config() -> PathBuf {
    chart().join("../kind/cluster.yaml")
}

fn blocks() -> Result<Vec<Block>> {
    let text = std::fs::read_to_string(chart().join("../README.md"))?;
    let (mut blocks, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
    for line in text.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => open = Some(Block { language: language.to_owned(), text: String::new() }),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    ensure!(open.is_none(), "a block that does not end");
    Ok(blocks)
}

/// The lines of the blocks for a shell.
fn commands() -> Result<Vec<String>> {
    let all = blocks()?;
    let shell = all.iter().filter(|block| block.language == "sh");
    Ok(shell.flat_map(|block| block.text.lines().map(|line| line.trim().to_owned())).filter(|line| !line.is_empty()).collect())
}

/// Every list that has one of the three in it, wherever it is written.
fn lists() -> Result<Vec<String>> {
    let mut lists = Vec::new();
    let kind = std::fs::read_to_string(kind_config())?;
    let texts: Vec<_> = blocks()?.into_iter().map(|block| block.text).chain([kind]).collect();
    for word in texts.iter().flat_map(|text| text.split(|c: char| c.is_whitespace() || "'\"`=".contains(c))) {
        if CONTROLLERS.iter().any(|name| word.contains(&format!("-{name}"))) {
            lists.push(word.to_owned());
        }
    }
    Ok(lists)
}

/// A command's words; single quotes hold one together.
fn words(line: &str) -> Result<Vec<String>> {
    let (mut words, mut quoted) = (Vec::new(), false);
    for (n, part) in line.split('\'').enumerate() {
        quoted = n % 2 == 1;
        if quoted {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    if quoted {
        bail!("a quote that does not end: {line}");
    }
    Ok(words)
}
