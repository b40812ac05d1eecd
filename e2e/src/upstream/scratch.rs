//! The scratch module in which upstream's tests are built.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::Package;
use super::patches::{self, MAIN_FILE, MAIN_IMPORT};
use crate::controlplane::{Binaries, source_folder};

const EXTERNAL: &str = include_str!("external.go");

/// A folder in the cache, beside the programs of the same release and pins, locked until it is dropped.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Opens the folder and gives it the pins of `binaries`' release. Waits while another process has it.
    pub(super) fn open(binaries: &Binaries) -> Result<Self> {
        let release = binaries.release()?;
        let name = binaries.folder().file_name().context("no name")?;
        let cache = binaries.folder().ancestors().nth(2).context("the programs are not in a cache folder")?;
        let folder = cache.join("upstream").join(name);
        fs::create_dir_all(&folder)?;
        let lock = File::create(folder.join(".lock"))?;
        lock.lock().context("lock the scratch folder")?;
        let this = Self { folder, _lock: lock };
        let versions = source_folder().join("versions");
        let pins = [
            (versions.join(format!("{release}.mod")), "go.mod"),
            (versions.join(format!("{release}.sum")), "go.sum"),
            // Keeps etcd's server among the requirements: without it, other versions could be selected, and everything built anew.
            (source_folder().join("tools.go"), "tools.go"),
        ];
        let stamp = pins.iter().map(|(from, _)| fs::read_to_string(from)).collect::<Result<String, _>>()?;
        if this.is_new("pins", &stamp) {
            for (from, to) in &pins {
                fs::copy(from, this.folder.join(to))?;
            }
            this.stamp("pins", &stamp)?;
        }
        Ok(this)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Builds the test program of `package`, unless the one there is of the same sources.
    pub(super) fn build(&self, package: &Package) -> Result<PathBuf> {
        let files = patched(package, &self.upstream()?.join("test/integration").join(package.name))?;
        let program = self.folder.join(format!("{}.test", package.name));
        let stamp = files.iter().flat_map(|(name, text)| [name, "\n", text]).collect::<String>();
        if program.is_file() && !self.is_new(package.name, &stamp) {
            return Ok(program);
        }
        let folder = self.folder.join(package.name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        for (name, text) in &files {
            fs::write(folder.join(name), text)?;
        }
        eprintln!("building upstream's tests of {}", package.name);
        self.go(&["mod", "tidy"])?;
        let target = format!("./{}", package.name);
        self.go(&["test", "-c", "-o", &program.to_string_lossy(), &target])?;
        self.stamp(package.name, &stamp)?;
        Ok(program)
    }

    /// The folder of `k8s.io/kubernetes` in the module cache.
    fn upstream(&self) -> Result<PathBuf> {
        let answer = self.go(&["mod", "download", "-json", "k8s.io/kubernetes"])?;
        let answer: serde_json::Value = serde_json::from_str(&answer)?;
        Ok(PathBuf::from(answer.get("Dir").and_then(|dir| dir.as_str()).context("go names no folder for k8s.io/kubernetes")?))
    }

    fn go(&self, args: &[&str]) -> Result<String> {
        let mut go = Command::new("go");
        go.args(args).current_dir(&self.folder).stdin(Stdio::null());
        // As build.sh has it: other settings would build everything a second time.
        go.env("GOFLAGS", "-mod=mod").env("CGO_ENABLED", "0");
        let output = go.output().context("run go: it is needed to build upstream's tests")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "go {} failed ({}):\n{}", args.join(" "), output.status, errors.trim_end());
        String::from_utf8(output.stdout).context("what go printed")
    }

    fn is_new(&self, what: &str, stamp: &str) -> bool {
        fs::read_to_string(self.folder.join(format!(".{what}.stamp"))).ok().as_deref() != Some(stamp)
    }

    fn stamp(&self, what: &str, stamp: &str) -> Result<()> {
        fs::write(self.folder.join(format!(".{what}.stamp")), stamp).context("write a stamp")
    }
}

/// The sources of a package with our changes.
fn patched(package: &Package, upstream: &Path) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(upstream).with_context(|| format!("read {}", upstream.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "go") {
            let name = path.file_name().context("no name")?.to_string_lossy().into_owned();
            files.push((name, fs::read_to_string(&path)?));
        }
    }
    files.sort();
    let (mut main, mut others): (Vec<_>, Vec<_>) = files.into_iter().partition(|(name, _)| name == MAIN_FILE);
    patches::apply(&[MAIN_IMPORT], &mut main)?;
    others.append(&mut main);
    patches::apply(package.patches, &mut others).with_context(|| format!("package {}", package.name))?;
    let external = EXTERNAL.replacen("package external", &format!("package {}", package.name), 1);
    ensure!(external != EXTERNAL, "external.go has lost its package clause");
    others.push(("external.go".to_owned(), external));
    Ok(others)
}
