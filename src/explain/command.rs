//! `workloads-controller-manager explain`: asks the running process.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use http::Request;
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::config::KubeConfigOptions;
use serde::de::DeserializeOwned;

use super::PATH;
use super::print::{List, Page};
use super::told::{Told, ToldList};
use crate::kubeconfig::{kubeconfig, trust};

/// Says why an object is as it is: what it waits for, since when, and what ends that. Without an object: everything that waits.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExplainOptions {
    /// The object, as deploy/web, or as two words: deploy web.
    #[arg(value_name = "TYPE/NAME", num_args = 0..=2)]
    object: Vec<String>,

    /// Its namespace. Default: the kubeconfig's.
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// text or json.
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    output: String,

    /// Goes on, and prints again whenever something has changed.
    #[arg(short = 'w', long)]
    watch: bool,

    /// Address of the running process.
    #[arg(long, value_name = "URL", default_value = "https://127.0.0.1:10257")]
    server: http::Uri,

    /// The certificate authority that has signed its certificate.
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,

    /// Takes any certificate. Only a client certificate is safe to be shown to a server that anybody may be; a token is not.
    #[arg(long)]
    insecure_skip_tls_verify: bool,

    /// Kubeconfig with the credentials to ask with. Default: KUBECONFIG, then ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The kubeconfig's context.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// How often a watch asks.
const PERIOD: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// No explanation is larger.
const LIMIT: usize = 16 << 20;

/// Asks, and prints the answer.
///
/// # Errors
/// When the object is not named well, the process cannot be asked, or it knows no such object.
pub(crate) async fn run(options: ExplainOptions) -> anyhow::Result<()> {
    let config = options.config().await?;
    let namespace = options.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let path = path(&options.object, &namespace)?;
    let client = kube::Client::try_from(config).context("--server")?;
    let mut printed = None;
    loop {
        let text = options.ask(&client, &path).await?;
        if printed.as_ref() != Some(&text.settled) {
            println!("{}", text.whole.trim_end());
            printed = Some(text.settled);
        }
        if !options.watch {
            return Ok(());
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// What is printed, and the part of it that time alone does not change.
struct Text {
    whole: String,
    settled: String,
}

// === impl ExplainOptions ===

impl ExplainOptions {
    async fn config(&self) -> anyhow::Result<kube::Config> {
        let choice = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let flag = if self.context.is_some() { "--kubeconfig, --context" } else { "--kubeconfig" };
                kubeconfig(flag, path, &choice).await?
            }
            None if self.context.is_some() => kube::Config::from_kubeconfig(&choice).await.context("--context")?,
            None => kube::Config::infer().await.context("no --kubeconfig, no ~/.kube/config, and this is no pod with a service account")?,
        };
        config.cluster_url = self.server.clone();
        config.tls_server_name = None;
        config.proxy_url = None;
        config.default_retry = false;
        let authority = self.certificate_authority.as_deref().map(|path| ("--certificate-authority", path));
        trust(&mut config, authority, self.insecure_skip_tls_verify)?;
        Ok(config)
    }

    async fn ask(&self, client: &kube::Client, path: &str) -> anyhow::Result<Text> {
        let body = get(client, path).await.with_context(|| format!("asking {}{path}", self.server.to_string().trim_end_matches('/')))?;
        if self.output == "json" {
            return Ok(Text { settled: body.clone(), whole: body });
        }
        if path == PATH {
            let text = List(&read::<ToldList>(&body)?).to_string();
            return Ok(Text { settled: text.clone(), whole: text });
        }
        let mut told = read::<Told>(&body)?;
        let whole = Page(&told).to_string();
        // Ages are counted from this time, so it must stand still where texts are compared.
        told.time = String::new();
        Ok(Text { whole, settled: Page(&told).to_string() })
    }
}

/// The text of a page, if the answer is a yes.
pub(crate) async fn get(client: &kube::Client, path: &str) -> anyhow::Result<String> {
    let request = Request::get(path).body(Body::empty())?;
    let answer = tokio::time::timeout(PATIENCE, client.send(request)).await.context("no answer in time")??;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LIMIT).collect();
    let body = tokio::time::timeout(PATIENCE, body).await.context("no whole answer in time")?;
    let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    ensure!(status.is_success(), "{}: {}", status, message(&text));
    Ok(text)
}

fn read<T: DeserializeOwned>(body: &str) -> anyhow::Result<T> {
    serde_json::from_str(body).context("the answer is of another release of this program: try -o json")
}

/// The message of a Status, or the text itself.
fn message(text: &str) -> String {
    let status = serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    status.get("message").and_then(serde_json::Value::as_str).unwrap_or(text).trim_end().to_owned()
}

/// Where the object is explained.
fn path(object: &[String], namespace: &str) -> anyhow::Result<String> {
    let (kind, name) = match object {
        [] => return Ok(PATH.to_owned()),
        [one] => one.split_once('/').with_context(|| format!("{one:?}: write TYPE/NAME, such as deploy/web"))?,
        [kind, name, ..] => (kind.as_str(), name.as_str()),
    };
    let plural = match kind.to_ascii_lowercase().trim_end_matches(".apps") {
        "deployment" | "deployments" | "deploy" => "deployments",
        "replicaset" | "replicasets" | "rs" => "replicasets",
        "statefulset" | "statefulsets" | "sts" => "statefulsets",
        _ => bail!("{kind:?}: only deployments (deploy), replicasets (rs) and statefulsets (sts) can be explained"),
    };
    let is_name = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b));
    ensure!(is_name(name), "{name:?} is not the name of an object");
    ensure!(is_name(namespace), "--namespace: {namespace:?} is not a name");
    Ok(format!("{PATH}{plural}/{namespace}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_for_kubectl() {
        for (object, expected) in [
            (&["deploy/web"][..], "/explain/deployments/ns/web"),
            (&["Deployment.apps/web"], "/explain/deployments/ns/web"),
            (&["rs", "web-5d"], "/explain/replicasets/ns/web-5d"),
            (&["statefulsets/db.main"], "/explain/statefulsets/ns/db.main"),
            (&[], "/explain/"),
        ] {
            let object: Vec<_> = object.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(path(&object, "ns").unwrap(), expected);
        }
    }

    #[test]
    fn what_is_wrong_with_a_name_is_said() {
        for (object, namespace, names) in [
            ("web", "ns", "TYPE/NAME"),
            ("pod/web", "ns", "\"pod\""),
            ("deploy/", "ns", "\"\""),
            ("deploy/we b", "ns", "we b"),
            ("rs/a", "N/s", "--namespace"),
        ] {
            let error = path(&[object.to_owned()], namespace).unwrap_err().to_string();
            assert!(error.contains(names), "{error}");
        }
    }
}
