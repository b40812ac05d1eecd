//! Faults of single requests, each class once, before a server that counts.

use std::pin::pin;
use std::time::Duration;

use anyhow::Result;
use e2e::proxy::{Ending, Fault, Loss, Match, Moment, Proxy, Recording, Refusal, Rule, When};
use http::Method;
use model::protobuf::Envelope;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use super::upstream::{Client, PATIENCE, Upstream, hangs, timed, until};

const PODS: &str = "/api/v1/namespaces/n/pods";

async fn started() -> Result<(Upstream, Proxy, Client)> {
    let upstream = Upstream::start().await?;
    let proxy = upstream.proxy().await?;
    let client = Client::new(&proxy, true);
    Ok((upstream, proxy, client))
}

fn creates() -> Match {
    Match::creates("pods")
}

#[tokio::test]
async fn without_rules_everything_passes_over_both_versions_of_http() -> Result<()> {
    let (upstream, proxy, client) = started().await?;
    assert_eq!(client.get(PODS).await?.hit()?, 1);
    assert_eq!(Client::new(&proxy, false).post(PODS).await?.hit()?, 2);
    assert_eq!(upstream.credentials(), ["Bearer secret"; 2]);
    let log = proxy.requests();
    let seen: Vec<_> =
        log.iter().map(|logged| (logged.method.as_str(), logged.path.as_str(), logged.status, logged.faults.len())).collect();
    assert_eq!(seen, [("GET", PODS, Some(200), 0), ("POST", PODS, Some(200), 0)]);
    assert_eq!((proxy.seen(&creates()), proxy.in_flight(&Match::any())), (1, 0));
    Ok(())
}

#[tokio::test]
async fn errors_before_and_after_the_effect() -> Result<()> {
    let (upstream, proxy, client) = started().await?;
    let refusals = [
        Refusal::conflict(),
        Refusal::already_exists(),
        Refusal::expired(),
        Refusal::too_many_requests(),
        Refusal::too_many_requests().retry_after(7),
        Refusal::internal(),
        Refusal::unavailable(),
        Refusal::timeout(),
    ];
    for refusal in refusals {
        for moment in [Moment::Before, Moment::After] {
            let hits = upstream.hits();
            let rule = proxy.add(Rule::new(creates(), Fault::Refuse(moment, refusal.clone())).when(When::first(1)));
            let answer = client.post(PODS).await?;
            let status: serde_json::Value = serde_json::from_slice(&answer.body)?;
            assert_eq!((answer.code, &status["reason"]), (refusal.code, &refusal.reason.clone().into()));
            let header = answer.headers.get("retry-after").map(|value| value.to_str().unwrap().parse().unwrap());
            assert_eq!(header, refusal.retry_after);
            assert_eq!(upstream.hits() - hits, u64::from(moment == Moment::After));
            rule.release();
        }
    }
    assert_eq!(proxy.requests()[1].server_status, Some(200), "carried out, whatever the client was told");
    assert_eq!(proxy.requests()[1].faults, ["refused After 409 Conflict"]);
    Ok(())
}

#[tokio::test]
async fn errors_come_in_the_form_the_client_accepts() -> Result<()> {
    let (_upstream, proxy, client) = started().await?;
    proxy.add(Rule::new(Match::of("pods"), Fault::Refuse(Moment::Before, Refusal::forbidden())));
    let answer = client.send(Method::GET, PODS, "application/vnd.kubernetes.protobuf").await?;
    assert_eq!(answer.headers["content-type"], "application/vnd.kubernetes.protobuf");
    assert_eq!(Envelope::open(&answer.body)?.kind, "Status");
    let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let answer = client.send(Method::GET, PODS, partial).await?;
    assert_eq!(answer.headers["content-type"], "application/json", "as the API server does");
    Ok(())
}

#[tokio::test]
async fn lost_answers() -> Result<()> {
    let (upstream, proxy, client) = started().await?;
    for (moment, effect) in [(Moment::Before, 0), (Moment::After, 1)] {
        for loss in [Loss::Stream, Loss::Connection, Loss::Silence] {
            let hits = upstream.hits();
            proxy.add(Rule::new(creates(), Fault::Lose(moment, loss)).when(When::first(1)));
            if loss == Loss::Silence {
                assert!(hangs(client.post(PODS)).await);
            } else {
                assert!(client.post(PODS).await.is_err(), "{moment:?} {loss:?}");
            }
            until("its effect", || upstream.hits() - hits == effect).await?;
            proxy.clear();
            client.get("/healthz").await?;
        }
    }
    assert_eq!(proxy.in_flight(&Match::any()), 0);
    Ok(())
}

#[tokio::test]
async fn who_gives_a_request_up_is_not_waited_for() -> Result<()> {
    let (upstream, proxy, client) = started().await?;
    // Longer than it takes to see the request, and the client's end.
    let delay = Duration::from_secs(2);
    proxy.add(Rule::new(creates(), Fault::Delay(delay)).when(When::first(1)));
    {
        let mut given_up = pin!(client.post(PODS));
        tokio::select! {
            _ = &mut given_up => panic!("it was answered at once"),
            seen = until("the request to come", || proxy.seen(&creates()) == 1) => seen?,
        }
    }
    assert_eq!(upstream.hits(), 0);
    until("the server to get it all the same", || upstream.hits() == 1).await?;
    until("its end", || proxy.requests().iter().all(|logged| logged.abandoned)).await?;

    client.post(PODS).await?;
    let log = proxy.requests();
    let [late, last] = &log[..] else { panic!("{log:?}") };
    assert!(late.forwarded >= Some(late.at + delay) && late.server_status == Some(200));
    assert!(last.forwarded > late.forwarded && !last.abandoned);
    Ok(())
}

#[tokio::test]
async fn late_requests_late_answers_and_half_answers() -> Result<()> {
    let (upstream, proxy, client) = started().await?;
    let delay = Duration::from_millis(300);
    let rule = proxy.add(Rule::new(creates(), Fault::Delay(delay)));
    let (answer, took) = timed(client.post(PODS)).await;
    assert!(answer?.hit()? == 1 && took >= delay);
    rule.release();
    proxy.add(Rule::new(creates(), Fault::Slow(delay)).when(When::first(1)));
    let (answer, took) = timed(client.post(PODS)).await;
    assert!(answer?.hit()? == 2 && took >= delay);

    proxy.add(Rule::new(creates(), Fault::Truncate(Ending::Close)).when(When::first(1)));
    let half = client.post(PODS).await?;
    assert_eq!((half.code, half.body.as_ref()), (200, &b"{\"hi"[..]));
    proxy.add(Rule::new(creates(), Fault::Truncate(Ending::Reset)).when(When::first(1)));
    assert!(client.post(PODS).await.is_err());
    assert_eq!(upstream.hits(), 4);
    Ok(())
}

#[tokio::test]
async fn held_requests_outlive_their_client() -> Result<()> {
    let (upstream, proxy, client) = started().await?;
    let hold = proxy.hold_requests(creates());
    for effect in [true, false] {
        let hits = upstream.hits();
        let client = Client::new(&proxy, true);
        let work = tokio::spawn(async move { tokio::join!(client.post(PODS), client.post(PODS), client.post(PODS)).0.map(drop) });
        let hold = if effect { hold.clone() } else { proxy.hold_requests(creates()) };
        hold.holds(3, PATIENCE).await?;
        assert_eq!((proxy.in_flight(&creates()), upstream.hits()), (3, hits));
        work.abort();
        if effect {
            hold.release();
        } else {
            hold.discard();
        }
        until("the end of the requests", || proxy.in_flight(&creates()) == 0).await?;
        assert_eq!(upstream.hits() - hits, if effect { 3 } else { 0 });
    }
    client.post(PODS).await?;
    Ok(())
}

#[tokio::test]
async fn old_answers_are_given_again() -> Result<()> {
    let (upstream, proxy, client) = started().await?;
    let recording = Recording::new();
    let rule = proxy.add(Rule::new(Match::lists("pods"), Fault::Record(recording.clone())));
    client.get(PODS).await?;
    rule.release();
    assert_eq!(client.get(PODS).await?.hit()?, 2);
    proxy.add(Rule::new(Match::lists("pods"), Fault::Replay(Moment::Before, recording.clone())));
    assert_eq!(client.get(PODS).await?.hit()?, 1);
    assert_eq!(upstream.hits(), 2);
    proxy.add(Rule::new(creates(), Fault::Replay(Moment::After, recording)));
    assert_eq!(client.post(PODS).await?.hit()?, 1, "carried out, with an old body");
    assert_eq!(upstream.hits(), 3);
    Ok(())
}

#[tokio::test]
async fn the_same_seed_makes_the_same_faults() -> Result<()> {
    let upstream = Upstream::start().await?;
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        let proxy = Proxy::start_seeded(&upstream.kubeconfig()?, seed).await?;
        let client = Client::new(&proxy, true);
        let refuse = |refusal| Fault::Refuse(Moment::Before, refusal);
        proxy.add(Rule::new(creates(), refuse(Refusal::internal())).when(When::chance(0.3)));
        proxy.add(Rule::new(creates(), refuse(Refusal::timeout())).when(When::chance(0.3).at_most(5)));
        for _ in 0..60 {
            client.post(PODS).await?;
        }
        runs.push(proxy.requests().iter().map(|logged| logged.status).collect::<Vec<_>>());
        proxy.stop().await;
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    let count = |code| runs[0].iter().filter(|status| **status == Some(code)).count();
    assert!((8..30).contains(&count(500)) && (1..=5).contains(&count(504)), "{} and {}", count(500), count(504));
    Ok(())
}

#[tokio::test]
async fn nth_and_matchers_by_name_namespace_and_user_agent() -> Result<()> {
    let (_upstream, proxy, client) = started().await?;
    let refuse = || Fault::Refuse(Moment::Before, Refusal::internal());
    proxy.add(Rule::new(Match::creates("pods").namespace("n"), refuse()).when(When::nth(2)));
    proxy.add(Rule::new(Match::of("pods").name("p").subresource("status").method(Method::GET), refuse()));
    proxy.add(Rule::new(Match::any().user_agent("someone"), refuse()));
    let mut codes = Vec::new();
    for path in ["/api/v1/namespaces/other/pods", PODS, PODS, PODS] {
        codes.push(client.post(path).await?.code);
    }
    codes.push(client.get("/api/v1/namespaces/n/pods/p/status").await?.code);
    codes.push(client.get("/api/v1/namespaces/n/pods/p").await?.code);
    assert_eq!(codes, [200, 200, 500, 200, 500, 200]);
    Ok(())
}

#[tokio::test]
async fn a_partition_is_silent_until_it_heals() -> Result<()> {
    let (_upstream, proxy, client) = started().await?;
    client.get(PODS).await?;
    proxy.partition();
    assert!(hangs(client.get(PODS)).await);
    assert!(hangs(Client::new(&proxy, true).get(PODS)).await, "new connections too");
    proxy.heal();
    Client::new(&proxy, true).get(PODS).await?;
    proxy.freeze_connections();
    assert!(hangs(client.get(PODS)).await || client.get(PODS).await.is_ok(), "an old connection is frozen or was closed");
    Client::new(&proxy, true).get(PODS).await?;
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_away_closes_connections() -> Result<()> {
    let (upstream, proxy, client) = started().await?;
    client.get(PODS).await?;
    let other = Upstream::start().await?;
    proxy.redirect(&other.kubeconfig()?).await?;
    assert_eq!(client.get(PODS).await?.hit()?, 2, "this connection stays with its server");
    proxy.close_connections();
    assert_eq!(Client::new(&proxy, true).get(PODS).await?.hit()?, 1);
    assert_eq!((upstream.hits(), other.hits()), (2, 1));
    // Nobody listens at the third one.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let third = other.kubeconfig()?;
    std::fs::write(&third, std::fs::read_to_string(&third)?.replace(&other.url(), &format!("http://{nobody}")))?;
    proxy.redirect(&third).await?;
    assert!(Client::new(&proxy, true).get(PODS).await.is_err());
    until("the log to have its end", || proxy.in_flight(&Match::any()) == 0).await
}

#[tokio::test]
async fn nothing_more_comes_of_clients_once_no_connection_is_left() -> Result<()> {
    let upstream = Upstream::start().await?;
    let proxy = upstream.proxy().await?;
    let address = proxy.url().trim_start_matches("http://").to_owned();
    let held = proxy.hold_requests(creates());
    let refused = proxy.add(Rule::new(Match::deletes("pods"), Fault::Refuse(Moment::Before, Refusal::internal())));
    let mut waiting = TcpStream::connect(&address).await?;
    waiting.write_all(format!("POST {PODS} HTTP/1.1\r\nhost: n\r\n\r\n").as_bytes()).await?;
    until("the create to be held", || held.held() == 1).await?;
    let mut dying = TcpStream::connect(&address).await?;
    until("both connections", || proxy.connections() == 2).await?;
    dying.write_all(format!("DELETE {PODS} HTTP/1.1\r\nhost: n\r\n\r\n").as_bytes()).await?;
    drop((waiting, dying));
    until("the connections to be closed", || proxy.connections() == 0).await?;
    // What was read has met the rules there were, and the rest is lost.
    refused.release();
    held.discard();
    until("the log to have its end", || proxy.in_flight(&Match::any()) == 0).await?;
    assert_eq!(upstream.hits(), 0);
    Ok(())
}

#[tokio::test]
async fn nothing_is_left_behind() -> Result<()> {
    let upstream = Upstream::start().await?;
    let proxy = upstream.proxy().await?;
    let client = Client::new(&proxy, true);
    let _watch = client.watch(&format!("{PODS}?watch=true"), "application/json").await?;
    proxy.hold_requests(creates());
    proxy.add(Rule::new(Match::deletes("pods"), Fault::Lose(Moment::Before, Loss::Silence)));
    let deleted = async { client.send(Method::DELETE, PODS, "*/*").await };
    assert!(hangs(async { tokio::join!(client.post(PODS), deleted) }).await);
    let address = proxy.url().trim_start_matches("http://").to_owned();
    tokio::time::timeout(PATIENCE, proxy.stop()).await?;
    drop(client);
    assert!(TcpStream::connect(&address).await.is_err(), "nobody listens");
    drop(upstream);
    until("all tasks to end", || Handle::current().metrics().num_alive_tasks() == 0).await
}

#[tokio::test]
async fn it_is_light() -> Result<()> {
    let (upstream, proxy, client) = started().await?;
    let client = std::rc::Rc::new(client);
    let local = tokio::task::LocalSet::new();
    let (done, took) = timed(local.run_until(async {
        let workers = (0..50).map(|_| {
            let client = std::rc::Rc::clone(&client);
            tokio::task::spawn_local(async move {
                for _ in 0..40 {
                    client.post(PODS).await?;
                }
                anyhow::Ok(())
            })
        });
        for worker in workers.collect::<Vec<_>>() {
            worker.await??;
        }
        anyhow::Ok(())
    }))
    .await;
    done?;
    assert_eq!((upstream.hits(), proxy.seen(&creates())), (2000, 2000));
    assert!(took < Duration::from_secs(4), "2000 requests took {took:?}");
    println!("2000 requests in {took:?}");
    Ok(())
}
