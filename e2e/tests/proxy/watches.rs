//! Faults of watches.

use std::time::Duration;

use anyhow::Result;
use e2e::proxy::{Ending, EventMatch, Fault, Match, Moment, Point, Proxy, Recording, Refusal, Rule, WatchFault, When};

use super::upstream::{Client, PATIENCE, Upstream, Watch, hangs, json_event, protobuf_event, timed, until};

const WATCH: &str = "/api/v1/pods?watch=true";
const LIST: &str = "/api/v1/pods?watch=true&sendInitialEvents=true";
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// How a point is made of events.
type At = fn(EventMatch) -> Point;

struct Rig {
    upstream: Upstream,
    proxy: Proxy,
    client: Client,
}

impl Rig {
    async fn start() -> Result<Self> {
        let upstream = Upstream::start().await?;
        let proxy = upstream.proxy().await?;
        let client = Client::new(&proxy, true);
        Ok(Self { upstream, proxy, client })
    }

    async fn watch(&self) -> Result<Watch> {
        self.client.watch(WATCH, JSON).await
    }

    fn on_watch(&self, fault: WatchFault, when: When) -> e2e::proxy::Handle {
        self.proxy.add(Rule::new(Match::watches("pods"), Fault::Watch(fault)).when(when))
    }
}

#[tokio::test]
async fn events_pass_as_they_come() -> Result<()> {
    let rig = Rig::start().await?;
    let (mut json, mut protobuf) = (rig.watch().await?, rig.client.watch(WATCH, PROTOBUF).await?);
    for name in ["one", "two"] {
        rig.upstream.say("ADDED", name);
        json.reads(name).await?;
        protobuf.reads(name).await?;
    }
    rig.upstream.hang_up();
    assert!(json.ends().await? && protobuf.ends().await?);
    assert_eq!(json.bytes, [json_event("ADDED", "one"), json_event("ADDED", "two")].concat());
    assert_eq!(protobuf.bytes, [protobuf_event("ADDED", "one"), protobuf_event("ADDED", "two")].concat());
    until("the log to have their end", || rig.proxy.in_flight(&Match::any()) == 0).await
}

#[tokio::test]
async fn a_stalled_watch_delivers_or_loses_what_was_held() -> Result<()> {
    let rig = Rig::start().await?;
    let mut watch = rig.watch().await?;
    rig.upstream.say("ADDED", "before");
    watch.reads("before").await?;
    for (lost, held, after) in [(false, "late", "next"), (true, "lost", "last")] {
        let stall = rig.proxy.stall(Match::watches("pods"));
        rig.upstream.say("ADDED", held);
        stall.holds(1, PATIENCE).await?;
        assert!(hangs(watch.reads(held)).await);
        if lost {
            stall.discard();
        } else {
            stall.release();
        }
        until("nothing to be held", || stall.held() == 0).await?;
        rig.upstream.say("ADDED", after);
        watch.reads(after).await?;
    }
    assert!(watch.text.contains("late") && !watch.text.contains("lost"), "{}", watch.text);
    // The server's end is held back too, which is a connection that is only half open.
    let stall = rig.proxy.stall(Match::watches("pods"));
    rig.upstream.hang_up();
    stall.holds(1, PATIENCE).await?;
    assert!(hangs(watch.ends()).await);
    stall.release();
    assert!(watch.ends().await?);
    Ok(())
}

#[tokio::test]
async fn a_stall_is_of_one_resource() -> Result<()> {
    let rig = Rig::start().await?;
    let stall = rig.proxy.stall(Match::watches("replicasets"));
    let mut pods = rig.watch().await?;
    let mut sets = rig.client.watch("/apis/apps/v1/replicasets?watch=true", JSON).await?;
    rig.upstream.say("ADDED", "both");
    pods.reads("both").await?;
    stall.holds(1, PATIENCE).await?;
    assert!(hangs(sets.reads("both")).await);
    rig.proxy.clear();
    sets.reads("both").await
}

#[tokio::test]
async fn a_lag_keeps_the_order() -> Result<()> {
    let rig = Rig::start().await?;
    let mut watch = rig.watch().await?;
    let lag = Duration::from_millis(300);
    let rule = rig.on_watch(WatchFault::Lag(lag), When::ALWAYS);
    let (read, took) = timed(async {
        // Seen by the watch's task before the event only if it has looked at the rules.
        rig.upstream.say("ADDED", "one");
        rig.upstream.say("ADDED", "two");
        watch.reads("two").await
    })
    .await;
    read?;
    assert!(took >= lag, "{took:?}");
    assert!(watch.text.find("one") < watch.text.find("two"));
    rule.release();
    rig.upstream.say("ADDED", "three");
    watch.reads("three").await
}

#[tokio::test]
async fn cuts_now_or_at_an_event_in_either_form() -> Result<()> {
    let rig = Rig::start().await?;
    for ending in [Ending::Close, Ending::Reset] {
        let mut watch = rig.watch().await?;
        rig.proxy.cut(Match::watches("pods"), ending);
        assert_eq!(watch.ends().await?, ending == Ending::Close);
        rig.proxy.clear();
    }
    for accept in [JSON, PROTOBUF] {
        let whole = if accept == JSON { json_event("DELETED", "x") } else { protobuf_event("DELETED", "x") };
        let first = if accept == JSON { json_event("ADDED", "x") } else { protobuf_event("ADDED", "x") };
        for (point, rest) in [(Point::Before as At, 0), (Point::Inside as At, whole.len() / 2), (Point::After as At, whole.len())] {
            let mut watch = rig.client.watch(WATCH, accept).await?;
            let point = point(EventMatch::of("DELETED").name("x"));
            let rule = rig.on_watch(WatchFault::Cut(Ending::Close, point), When::first(1));
            for (event_type, name) in [("ADDED", "x"), ("DELETED", "x"), ("ADDED", "z")] {
                rig.upstream.say(event_type, name);
            }
            assert!(watch.ends().await?);
            assert_eq!(watch.bytes, [&first, &whole[..rest]].concat(), "{accept}");
            rule.release();
            rig.upstream.hang_up();
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_cut_can_be_silent() -> Result<()> {
    let rig = Rig::start().await?;
    let mut watch = rig.watch().await?;
    rig.on_watch(WatchFault::Cut(Ending::Silence, Point::Now), When::ALWAYS);
    rig.upstream.say("ADDED", "x");
    rig.upstream.hang_up();
    assert!(hangs(watch.ends()).await);
    drop(watch);
    until("the client's leaving to be noticed", || rig.proxy.in_flight(&Match::any()) == 0).await
}

#[tokio::test]
async fn one_event_is_swallowed() -> Result<()> {
    let rig = Rig::start().await?;
    for accept in [JSON, PROTOBUF] {
        let mut watch = rig.client.watch(WATCH, accept).await?;
        let rule = rig.on_watch(WatchFault::Swallow(EventMatch::of("DELETED")), When::first(1));
        for name in ["gone", "kept"] {
            rig.upstream.say("DELETED", name);
        }
        watch.reads("kept").await?;
        assert!(!watch.text.contains("gone"));
        assert_eq!((rule.matched(), rule.taken()), (2, 1));
        rule.release();
        rig.upstream.hang_up();
    }
    Ok(())
}

#[tokio::test]
async fn a_watch_can_begin_with_an_error() -> Result<()> {
    let rig = Rig::start().await?;
    rig.proxy.add(Rule::new(Match::rewatches("pods"), Fault::ErrorEvent(Refusal::expired())).when(When::first(2)));
    let mut list = rig.client.watch(LIST, JSON).await?;
    for accept in [JSON, PROTOBUF] {
        let mut watch = rig.client.watch(WATCH, accept).await?;
        assert!(watch.ends().await?);
        assert!(watch.text.contains("ERROR") && watch.text.contains("Expired"), "{}", watch.text);
    }
    rig.upstream.say("ADDED", "x");
    list.reads("x").await?;
    assert_eq!(rig.upstream.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_streaming_list_is_recorded_and_replayed() -> Result<()> {
    let rig = Rig::start().await?;
    let recording = Recording::new();
    let record = rig.proxy.add(Rule::new(Match::lists("pods"), Fault::Record(recording.clone())));
    let mut watch = rig.client.watch(LIST, JSON).await?;
    rig.upstream.say("ADDED", "old");
    rig.upstream.say("BOOKMARK", "");
    rig.upstream.say("ADDED", "new");
    watch.reads("new").await?;
    assert_eq!(recording.len(), 1);
    record.release();
    let replay = rig.proxy.add(Rule::new(Match::lists("pods"), Fault::Replay(Moment::Before, recording)));
    let mut watch = rig.client.watch(LIST, JSON).await?;
    watch.reads("initial-events-end").await?;
    assert!(watch.text.contains("old") && !watch.text.contains("new"));
    assert!(hangs(watch.ends()).await);
    replay.release();
    assert!(watch.ends().await?);
    assert_eq!(rig.upstream.hits(), 1);
    Ok(())
}
