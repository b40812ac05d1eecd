//! When those who know cannot be asked.

use anyhow::{Result, ensure};
use e2e::wait;
use http::Request;

use super::rig::{Rig, Shared, answers, reviews};
use crate::support::PATIENCE;

pub async fn nobody_is_let_in_while_nobody_can_be_asked(plane: Shared) -> Result<()> {
    let mut plane = plane.0.lock().await;
    let mut flags = reviews(&plane);
    flags.push("--authorization-webhook-cache-authorized-ttl=1s".to_owned());
    flags.push("--authentication-token-webhook-cache-ttl=1s".to_owned());
    let rig = Rig::start(&plane, &flags).await?;
    answers(&rig.master()?, "/readyz", 200).await?;
    plane.kill9_api_server(0)?;
    let metrics = || Request::get("/metrics").body(Vec::new());
    // Whose token it is cannot be told; what somebody may do whose certificate says who it is, neither.
    let (token, jane) = (rig.token("some-token")?, rig.with(&rig.authority.client("jane", None)?)?);
    let ((unknown, _), (undecided, text)) = tokio::try_join!(token.send(metrics()?), jane.send(metrics()?))?;
    assert_eq!(unknown.status, 401);
    assert!(undecided.status == 500 && text.starts_with("Internal Server Error: \"/metrics\": "), "{} {text}", undecided.status);
    // What needs no asking goes on.
    assert_eq!(rig.nobody()?.text("/healthz").await?, "ok");
    assert_eq!(rig.nobody()?.text("/readyz").await?, "ok");
    assert_eq!(rig.master()?.get("/metrics").await?.0, 200);
    plane.start_api_server(0).await?;
    wait::until("a no instead of an error", PATIENCE, async || {
        let (head, _) = jane.send(metrics()?).await?;
        ensure!(head.status == 403, "{}", head.status);
        Ok(())
    })
    .await
}
