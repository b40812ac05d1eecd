//! `workloads-controller-manager verify`: whether the controllers work, seen from outside. `helm test` runs it as a bare pod.

mod subject;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use http::{Method, Request};
use kube::Client;
use kube::config::KubeConfigOptions;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use self::subject::{Pods, Stage, state, wanted};
use crate::kubeconfig::kubeconfig;
use crate::options::{ControllerName, go_duration};

/// Makes an object of each kind whose controllers are to be verified, waits until their pods run, changes their templates, waits until that
/// is rolled out, and deletes them.
#[derive(Args, Clone, Debug)]
pub(crate) struct VerifyOptions {
    /// Where. Default: the kubeconfig's namespace.
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// Whose work is looked at.
    #[arg(long, value_name = "LIST", default_value = "deployment-controller,replicaset-controller,statefulset-controller", value_delimiter = ',', value_parser = controller)]
    controllers: Vec<ControllerName>,

    /// What the objects are called; something random is added.
    #[arg(long, value_name = "NAME", default_value = "workloads-verify")]
    name: String,

    /// What their pods run. It must go on until it is told to end.
    #[arg(long, value_name = "IMAGE", default_value = "registry.k8s.io/pause:3.10.1")]
    image: String,

    /// When the image is pulled.
    #[arg(long, value_name = "POLICY", default_value = "IfNotPresent", value_parser = ["Always", "IfNotPresent", "Never"])]
    image_pull_policy: String,

    /// A Secret to pull the image with; may be repeated.
    #[arg(long, value_name = "NAME")]
    image_pull_secret: Vec<String>,

    /// The image's arguments.
    #[arg(last = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,

    /// How long all of it may take; a Go duration.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = go_duration)]
    timeout: Duration,

    /// Kubeconfig of who makes them. Default: KUBECONFIG, then ~/.kube/config, then the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// How often the objects are looked at.
const PERIOD: Duration = Duration::from_millis(500);
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The objects, and whoever makes them.
struct Verification {
    client: Client,
    options: VerifyOptions,
    namespace: String,
    name: String,
    deadline: Instant,
}

/// Makes them, watches them, deletes them.
///
/// # Errors
/// When something cannot be made, does not come up in time, or is the work of another controller.
pub(crate) async fn run(options: VerifyOptions) -> anyhow::Result<()> {
    let mut config = match &options.kubeconfig {
        Some(path) => kubeconfig("--kubeconfig", path, &KubeConfigOptions::default()).await?,
        None => kube::Config::infer().await.context("no --kubeconfig, no ~/.kube/config, and this is no pod with a service account")?,
    };
    config.default_retry = false;
    let namespace = options.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let suffix: String = std::iter::repeat_with(fastrand::lowercase).take(5).collect();
    let verification = Verification {
        client: Client::try_from(config).context("a client of the API server")?,
        namespace,
        name: format!("{}-{suffix}", options.name),
        deadline: Instant::now() + options.timeout,
        options,
    };
    let result = tokio::select! {
        result = verification.stages() => result,
        stopped = stopped() => stopped.and_then(|()| bail!("stopped by a signal")),
    };
    let cleaned = verification.clean_up().await;
    result?;
    cleaned?;
    println!("The controllers work.");
    Ok(())
}

/// Waits, and does nothing else: what pods run that are only there to be counted.
///
/// # Errors
/// When signals cannot be listened to.
pub(crate) async fn pause() -> anyhow::Result<()> {
    stopped().await
}

async fn stopped() -> anyhow::Result<()> {
    let listen = |kind| signal(kind).context("listening for signals");
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

// === impl Verification ===

impl Verification {
    async fn stages(&self) -> anyhow::Result<()> {
        let pods = Pods {
            image: &self.options.image,
            pull_policy: &self.options.image_pull_policy,
            pull_secrets: &self.options.image_pull_secret,
            arguments: &self.options.arguments,
        };
        for controller in self.controllers() {
            self.send(Method::POST, &self.collection(controller), &wanted(controller, &self.name, &pods))
                .await
                .with_context(|| self.creating(controller))?;
            println!("{}: created", self.object(controller));
        }
        self.reach(Stage::Made).await?;
        for controller in self.controllers() {
            let change = json!({"spec": {"template": {"metadata": {"annotations": {"verified": "again"}}}}});
            let path = self.path(controller);
            self.send(Method::PATCH, &path, &change).await.with_context(|| format!("patching {}", self.object(controller)))?;
        }
        self.reach(Stage::Changed).await
    }

    /// Each once, whatever was asked for.
    fn controllers(&self) -> impl Iterator<Item = ControllerName> {
        ControllerName::all().filter(|controller| self.options.controllers.contains(controller))
    }

    /// Waits until all are where they are to be.
    async fn reach(&self, stage: Stage) -> anyhow::Result<()> {
        let mut told = vec![None; self.controllers().count()];
        loop {
            let mut done = true;
            for (controller, told) in self.controllers().zip(&mut told) {
                let seen = match self.send(Method::GET, &self.path(controller), &Value::Null).await {
                    Ok(object) => state(controller, stage, &object)?,
                    // The server may be away for a moment; the deadline ends it.
                    Err(error) => subject::State { done: false, text: format!("{error:#}") },
                };
                done &= seen.done;
                if told.as_ref() != Some(&seen.text) {
                    println!("{}: {}", self.object(controller), seen.text);
                    *told = Some(seen.text);
                }
            }
            if done {
                return Ok(());
            }
            if Instant::now() >= self.deadline {
                bail!("--timeout: not {stage} after {:?}; {}", self.options.timeout, self.why(&told).await);
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// What is known of those that are late.
    async fn why(&self, told: &[Option<String>]) -> String {
        let mut lines: Vec<_> = self
            .controllers()
            .zip(told)
            .filter_map(|(controller, told)| Some(format!("{}: {}", controller.resource().kind, told.as_deref()?)))
            .collect();
        let path = format!("/api/v1/namespaces/{}/pods?labelSelector={}%3D{}", self.namespace, subject::LABEL, self.name);
        match self.send(Method::GET, &path, &Value::Null).await {
            Ok(pods) => lines.push(subject::of_pods(&pods)),
            Err(error) => lines.push(format!("pods: {error:#}")),
        }
        lines.join("; ")
    }

    async fn clean_up(&self) -> anyhow::Result<()> {
        for controller in self.controllers() {
            let path = format!("{}?propagationPolicy=Background", self.path(controller));
            match self.send(Method::DELETE, &path, &json!({})).await {
                Err(error) if !is_not_found(&error) => return Err(error.context(format!("deleting {}", self.object(controller)))),
                _ => {}
            }
        }
        Ok(())
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header(http::header::CONTENT_TYPE, kind).body(body)?;
        Ok(tokio::time::timeout(PATIENCE, self.client.request(request)).await.context("no answer in time")??)
    }

    fn collection(&self, controller: ControllerName) -> String {
        controller.resource().path(Some(&self.namespace))
    }

    fn path(&self, controller: ControllerName) -> String {
        format!("{}/{}", self.collection(controller), self.name)
    }

    /// In words.
    fn object(&self, controller: ControllerName) -> String {
        format!("{} {}", controller.resource().kind, self.name)
    }

    fn creating(&self, controller: ControllerName) -> String {
        format!("creating {} in {}", self.object(controller), self.namespace)
    }
}

/// A controller's name, or its older alias.
fn controller(name: &str) -> Result<ControllerName, String> {
    let known = ControllerName::all().find(|controller| controller.is_named(name));
    known.ok_or_else(|| {
        let names: Vec<_> = ControllerName::all().map(ControllerName::as_str).collect();
        format!("no such controller; there are {}", names.join(", "))
    })
}

fn is_not_found(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 404)
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Made => "up",
            Self::Changed => "rolled out",
        })
    }
}
