//! The command `explain`, as a user runs it.

use anyhow::{Result, ensure};
use e2e::child::Child;
use e2e::wait;
use serde_json::{Value, json};

use super::rig::{Shared, finished, object};
use crate::support::PATIENCE;

pub(crate) async fn the_command_asks_with_a_client_certificate(cluster: Shared) -> Result<()> {
    let space = cluster.space("asked").await?;
    let namespace = space.namespace.as_str();
    space.make("deployments", &object("Deployment", "web", 2, &json!({"paused": true}))).await?;
    cluster.waits_for(&space, "deployments/web", &["paused"]).await?;
    let page = cluster.ask(&["deploy/web", "-n", namespace]).await?;
    assert!(page.starts_with(&format!("Deployment {namespace}/web   waits for ")), "{page}");
    let paused = "\n    The Deployment is paused: what is not rolled out yet is not going to be.\n    new 0, old 0\n    \
                  Ends when: `spec.paused` is set to false (kubectl rollout resume).\n";
    assert!(page.contains("\n  paused   for ") && page.contains(paused), "{page}");
    // As two words, and in JSON: what the page itself says.
    let text = cluster.ask(&["deployment", "web", "--namespace", namespace, "-o", "json"]).await?;
    let (mut printed, mut told): (Value, _) = (serde_json::from_str(&text)?, cluster.told(&space, "deployments/web").await?);
    for told in [&mut printed, &mut told] {
        told["time"] = Value::Null;
    }
    assert_eq!(printed, told);
    // Everything that waits, this among it.
    let list = cluster.ask(&[]).await?;
    let line = list.lines().find(|line| line.contains(&format!("{namespace}/web")));
    assert!(line.is_some_and(|line| line.starts_with("Deployment ") && line.ends_with("  paused")), "{list}");
    let list: Value = serde_json::from_str(&cluster.ask(&["-o", "json"]).await?)?;
    let item = list["items"].as_array().into_iter().flatten().find(|item| item["namespace"] == namespace);
    assert_eq!(item.map(|item| &item["rules"]), Some(&json!(["paused"])), "{list}");
    Ok(())
}

pub(crate) async fn the_command_goes_on_when_told_to(cluster: Shared) -> Result<()> {
    let space = cluster.space("watched").await?;
    space.make("deployments", &object("Deployment", "web", 1, &json!({"paused": true}))).await?;
    cluster.waits_for(&space, "deployments/web", &["paused"]).await?;
    let folder = tempfile::tempdir()?;
    let command = cluster.explain("watcher", Some("system:masters"), &["deploy/web", "-n", &space.namespace, "-w"])?;
    let mut watching = Child::spawn("explain", &command, folder.path().join("printed"))?;
    let printed = |wanted: &'static str| {
        let log = watching.log().to_owned();
        wait::until(wanted, PATIENCE, async move || {
            let printed = std::fs::read_to_string(&log)?;
            ensure!(printed.contains(wanted), "{printed}");
            Ok(())
        })
    };
    printed("web   waits").await?;
    space.change("deployments/web", &json!({"spec": {"paused": false}})).await?;
    printed("web   settled").await?;
    watching.ensure_running()?;
    watching.kill9()?;
    Ok(())
}

pub(crate) async fn what_is_asked_wrongly_is_said(cluster: Shared) -> Result<()> {
    let masters = Some("system:masters");
    for (user, group, args, why) in [
        ("asker-1", masters, &["pod/web"][..], "\"pod\": only deployments (deploy), replicasets (rs) and statefulsets (sts)"),
        ("asker-2", masters, &["web"], "\"web\": write TYPE/NAME, such as deploy/web"),
        ("asker-3", masters, &["deploy/nope", "-n", "nowhere"], "404 Not Found: deployments \"nope\" not found in namespace \"nowhere\""),
        (
            "jane",
            None,
            &["deploy/web", "-n", "shop"],
            "403 Forbidden: forbidden: User \"jane\" cannot get path \"/explain/deployments/shop/web\"",
        ),
        ("asker-4", masters, &["--kubeconfig", "/nowhere"], "--kubeconfig: "),
        ("asker-5", masters, &["--context", "other"], "--context"),
    ] {
        let output = finished(cluster.explain(user, group, args)?).await?;
        let said = String::from_utf8(output.stderr)?;
        assert!(!output.status.success() && output.stdout.is_empty(), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
    }
    Ok(())
}
