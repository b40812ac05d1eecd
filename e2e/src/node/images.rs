//! Images for a node, made from files of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::sandbox::Sandbox;
use super::succeeded;
use crate::process;

/// The image that holds the namespaces of a pod.
pub(super) const PAUSE: &str = "localhost/pause:1";

/// An image for the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// busybox with all its applets, under this repository and tag, and what it runs if a container does not say.
    Busybox(String, &'static str),
    /// One program with the libraries that it is linked with.
    Program(String, PathBuf),
    /// busybox with upstream's test program of that name, which runs.
    Agnhost(String, PathBuf),
    /// An archive of images, as `docker save` writes it or of an OCI layout.
    Archive(PathBuf),
}

/// The repository of the image of `workloads-controller-manager`; its tag is the program's release.
pub const REPOSITORY: &str = "localhost/workloads-controller-manager";

/// The image of `workloads-controller-manager`: the archive that the environment's `WCM_IMAGE` names, as `make image` makes it, else one of
/// [`process::binary`].
pub fn ours() -> Result<Image> {
    let Some(archive) = std::env::var_os("WCM_IMAGE").map(PathBuf::from) else {
        return Ok(Image::Program(format!("{REPOSITORY}:{}", env!("CARGO_PKG_VERSION")), process::binary()?));
    };
    ensure!(archive.is_file(), "WCM_IMAGE names {}, which is no file", archive.display());
    Ok(Image::Archive(archive))
}

/// Packs the images, and the one that every pod needs; returns the archives to import.
pub(super) async fn archive(sandbox: &Sandbox, images: &[Image]) -> Result<Vec<PathBuf>> {
    let file = sandbox.folder().join("tmp/images.tar");
    let mut command = Command::new(super::sandbox::source_folder().join("images.sh"));
    command.arg(&file).arg(format!("{PAUSE}=busybox:sleep infinity"));
    let mut archives = vec![file];
    for image in images {
        match image {
            Image::Busybox(name, run) => drop(command.arg(format!("{name}=busybox:{run}"))),
            Image::Program(name, file) => drop(command.arg(format!("{name}=program:{}", text(file)?))),
            Image::Agnhost(name, file) => drop(command.arg(format!("{name}=agnhost:{}", text(file)?))),
            Image::Archive(file) => archives.push(file.clone()),
        }
    }
    succeeded("images.sh", command).await?;
    Ok(archives)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is no text", path.display()))
}
