//! Upstream's command line client, as a user runs it.

use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use e2e::ControlPlane;
use serde_json::Value;

use super::Space;

/// What a run of kubectl left behind.
#[derive(Debug)]
pub struct Printed {
    /// It exited with 0.
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

/// Whoever has a control plane can run kubectl.
#[allow(async_fn_in_trait, reason = "one thread runs all scenarios")]
pub trait Kubectl {
    /// Whom kubectl talks to.
    fn plane(&self) -> &ControlPlane;

    /// Runs kubectl in a namespace; it must succeed. Returns what it printed.
    async fn kubectl(&self, space: &Space, args: &[&str]) -> Result<String> {
        let printed = self.try_kubectl(space, args, None).await?;
        ensure!(printed.success, "kubectl {} failed: {}{}", args.join(" "), printed.stdout, printed.stderr);
        Ok(printed.stdout)
    }

    /// `kubectl apply -f -` with this object.
    async fn apply(&self, space: &Space, object: &Value) -> Result<String> {
        let printed = self.try_kubectl(space, &["apply", "-f", "-"], Some(object.to_string())).await?;
        ensure!(printed.success, "kubectl apply failed: {}", printed.stderr);
        Ok(printed.stdout)
    }

    /// Runs kubectl in a namespace, well or not, with this on its standard input.
    async fn try_kubectl(&self, space: &Space, args: &[&str], input: Option<String>) -> Result<Printed> {
        let mut command = self.plane().kubectl_command().await?;
        command.arg("--namespace").arg(&space.namespace).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = move || -> Result<_> {
            let mut child = command.spawn().context("start kubectl")?;
            // Taken, and so closed when it is written.
            let mut stdin = child.stdin.take().context("no standard input")?;
            // One that ends before it has read everything says why by itself.
            let _ = stdin.write_all(input.unwrap_or_default().as_bytes());
            drop(stdin);
            child.wait_with_output().context("run kubectl")
        };
        let output = tokio::task::spawn_blocking(run).await??;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).context("what kubectl printed");
        Ok(Printed { success: output.status.success(), stdout: text(output.stdout)?, stderr: text(output.stderr)? })
    }
}
