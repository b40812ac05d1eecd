//! How a watch goes on.

use super::*;

#[tokio::test(start_paused = true)]
async fn clean_end_goes_on_at_the_same_version_at_once() {
    let history = run(vec![synced(5, vec![added("a@7"), pause(320)]), watch(vec![bookmark(9), pause(2)])]).await;
    assert_eq!(history.requests, ["stream consistent", "watch 7", "watch 9"]);
    assert!((320.0..320.1).contains(&history.wait_before(1)));
    assert_eq!(history.status.last_error, None);
    assert_eq!(history.status.lists, 1);
}

#[tokio::test(start_paused = true)]
async fn broken_connection_goes_on_at_the_same_version() {
    let history = run(vec![synced(5, vec![added("a@7"), pause(20), Piece::Broken]), refused(0, "NoAnswer"), refused(0, "NoAnswer")]).await;
    assert_eq!(history.requests, ["stream consistent", "watch 7", "watch 7", "watch 7"], "never a relist");
    assert!((20.0..20.1).contains(&history.wait_before(1)));
    assert!(history.wait_before(2) >= 0.8);
    assert!(history.wait_before(3) >= 1.6);
}

#[tokio::test(start_paused = true)]
async fn ctl_25_an_unavailable_server_is_waited_for_without_relisting() {
    let mut answers = vec![synced(5, vec![pause(20)])];
    answers.extend([503, 500, 429, 502, 503, 500, 401, 403, 503].map(|code| refused(code, "Trouble")));
    let history = run(answers).await;
    assert_eq!(history.requests[1..], ["watch 5"; 10]);
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_as_soon_as_it_began_is_backed_off() {
    let history = run(vec![synced(5, vec![pause(20)]), watch(vec![]), watch(vec![])]).await;
    assert_eq!(history.requests[1..], ["watch 5"; 3]);
    assert!(history.wait_before(2) >= 0.8);
    assert!(history.wait_before(3) >= 1.6);
}

#[tokio::test(start_paused = true)]
async fn half_open_watch_is_cut_five_seconds_after_it_should_have_ended() {
    let history = run(vec![synced(5, vec![Piece::Hang])]).await;
    assert_eq!(history.requests, ["stream consistent", "watch 5"]);
    assert!((305.0..605.0).contains(&history.wait_before(1)), "{}", history.wait_before(1));
}

#[tokio::test(start_paused = true)]
async fn watch_timeouts_are_spread() {
    let answers = (0..8).map(|round| if round == 0 { synced(5, vec![Piece::Hang]) } else { watch(vec![Piece::Hang]) }).collect();
    let history = run(answers).await;
    let waits: std::collections::HashSet<_> = (1..9).map(|request| history.wait_before(request) as u64).collect();
    assert!(waits.len() > 4, "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn expired_in_a_frame_after_http_200_relists() {
    let history = run(vec![synced(5, vec![pause(2)]), watch(vec![expired()]), synced(9, vec![pause(2)])]).await;
    assert_eq!(history.requests, ["stream consistent", "watch 5", "stream >=5", "watch 9"]);
    assert_eq!(history.events, ["restarted", "synced 5", "restarted", "synced 9"]);
    assert_eq!(history.status.last_error, None);
}

#[tokio::test(start_paused = true)]
async fn expired_as_http_status_relists() {
    let history = run(vec![synced(5, vec![pause(2)]), refused(410, "Expired"), synced(9, vec![pause(2)])]).await;
    assert_eq!(history.requests, ["stream consistent", "watch 5", "stream >=5", "watch 9"]);
}

#[tokio::test(start_paused = true)]
async fn other_errors_in_a_frame_go_on_at_the_same_version() {
    let history = run(vec![
        synced(5, vec![pause(2)]),
        watch(vec![error_event(500, "InternalError", "etcd")]),
        watch(vec![error_event(429, "TooManyRequests", "storage is initializing")]),
        watch(vec![added("a@6"), pause(2)]),
    ])
    .await;
    assert_eq!(history.requests, ["stream consistent", "watch 5", "watch 5", "watch 5", "watch 6"]);
    assert!(history.wait_before(2) >= 0.8);
    assert_eq!(history.status.last_error, None, "an event is recovery");
}

#[tokio::test(start_paused = true)]
async fn error_that_comes_at_the_same_version_for_ever_ends_in_a_consistent_list() {
    let mut answers = vec![synced(5, vec![pause(2)])];
    answers.extend((0..5).map(|_| watch(vec![error_event(500, "InternalError", "unable to decode an event")])));
    let history = run(answers).await;
    assert_eq!(history.requests[1..6], ["watch 5"; 5]);
    assert_eq!(history.requests[6], "stream consistent");
}

#[tokio::test(start_paused = true)]
async fn progress_between_errors_keeps_the_watch() {
    let mut answers = vec![synced(5, vec![pause(2)])];
    for version in 6..16 {
        answers.push(watch(vec![bookmark(version), error_event(500, "InternalError", "etcd")]));
    }
    let history = run(answers).await;
    assert!(history.requests[1..].iter().all(|request| request.starts_with("watch ")), "{:?}", history.requests);
    assert_eq!(history.requests[11], "watch 15");
}

#[tokio::test(start_paused = true)]
async fn garbage_in_a_watch_goes_on_at_the_same_version() {
    let history = run(vec![
        synced(5, vec![added("a@6"), Piece::Bytes(b"{\"type\":\"ADDED\",\"obj\n".to_vec())]),
        watch(vec![line("NEWS", &object("b@7"))]),
        watch(vec![Piece::Bytes(b"<html>\n".to_vec())]),
    ])
    .await;
    assert_eq!(history.requests, ["stream consistent", "watch 6", "watch 6", "watch 6"]);
}

#[tokio::test(start_paused = true)]
async fn half_a_line_at_the_end_is_dropped_and_comes_again() {
    let history = run(vec![
        synced(5, vec![Piece::Bytes(br#"{"type":"ADDED","object":{"metadata":{"name":"a","reso"#.to_vec()), pause(2)]),
        watch(vec![added("a@6"), pause(2)]),
    ])
    .await;
    assert_eq!(history.requests, ["stream consistent", "watch 5", "watch 6"]);
    assert_eq!(history.events, ["restarted", "synced 5", "applied a@6"]);
}

#[tokio::test(start_paused = true)]
async fn old_version_never_takes_the_watch_back() {
    let history = run(vec![synced(5, vec![added("a@9"), modified("b@3"), bookmark(4), modified("c@x"), pause(2)])]).await;
    assert_eq!(history.requests, ["stream consistent", "watch 9"]);
    assert_eq!(history.events[4], "bookmark 9");
}

#[tokio::test(start_paused = true)]
async fn back_off_starts_over_after_two_minutes_of_health() {
    let mut answers = vec![synced(5, vec![pause(2)])];
    answers.extend((0..6).map(|_| refused(503, "ServiceUnavailable")));
    answers.push(watch(vec![bookmark(6), pause(121)]));
    answers.push(refused(503, "ServiceUnavailable"));
    let history = run(answers).await;
    assert!(history.wait_before(7) >= 25.6, "{}", history.wait_before(7));
    assert!(history.wait_before(9) < 1.6, "{}", history.wait_before(9));
}

#[tokio::test(start_paused = true)]
async fn storage_that_was_set_back_is_listed_before_a_silent_watch_begins() {
    // A real server accepts a watch at a version to come, and says nothing. Whatever the probe is told before its answer is no answer.
    let delays: [fn() -> Vec<_>; 2] =
        [Vec::new, || vec![Err(error(403, "Forbidden")), Ok(0), Err(error(0, "NoAnswer")), Err(error(503, "Busy"))]];
    for delay in delays {
        let history = run_over(
            JsonThings::default(),
            vec![synced(900, vec![pause(20), Piece::Broken]), watch(vec![added("a@17"), end(20), Piece::Hang])],
            delay().into_iter().chain([Ok(20)]).collect(),
            None,
        )
        .await;
        assert_eq!(history.requests, ["stream consistent", "stream consistent", "watch 20"]);
        assert_eq!(history.events, ["restarted", "synced 900", "restarted", "listed a@17", "synced 20"]);
    }
}

#[tokio::test(start_paused = true)]
async fn probe_that_is_refused_is_waited_out_before_the_watch_goes_on() {
    let refused = Err(error(403, "Forbidden"));
    let history = run_over(JsonThings::default(), vec![synced(5, vec![pause(20)])], vec![refused.clone(), refused, Ok(5)], None).await;
    assert_eq!(history.requests, ["stream consistent", "watch 5"]);
    assert!((22.4..25.0).contains(&history.wait_before(1)), "{}", history.wait_before(1));
}

#[tokio::test(start_paused = true)]
async fn probe_whose_one_object_is_too_large_leaves_it_to_the_watch() {
    let history = run_over(JsonThings::default(), vec![synced(5, vec![pause(20)])], vec![Err(error(0, "AnswerTooLarge"))], None).await;
    assert_eq!(history.requests, ["stream consistent", "watch 5"]);
    assert!(history.wait_before(1) < 21.0);
}

#[tokio::test(start_paused = true)]
async fn open_watch_is_health_even_while_nothing_happens() {
    let history = run(vec![synced(5, vec![pause(20)]), refused(0, "NoAnswer"), watch(vec![Piece::Hang])]).await;
    assert_eq!(history.requests[1..], ["watch 5"; 3]);
    assert_eq!((history.status.last_error, history.status.failing_since), (None, None));
}

#[tokio::test(start_paused = true)]
async fn relist_on_demand_is_a_consistent_list() {
    let history = run_with(
        JsonThings::default(),
        vec![synced(5, vec![pause(2)]), watch(vec![Piece::Hang]), watch(vec![added("a@3"), end(4), pause(2)])],
        Some("watch 5"),
    )
    .await;
    assert_eq!(history.requests, ["stream consistent", "watch 5", "stream consistent", "watch 4"]);
    assert!(history.wait_before(2) < 0.1);
    assert_eq!(history.events, ["restarted", "synced 5", "restarted", "listed a@3", "synced 4"], "it may show that storage was set back");
    assert_eq!(history.status.lists, 2);
}

#[tokio::test(start_paused = true)]
async fn relist_asked_for_during_a_list_follows_it() {
    let history = run_with(
        JsonThings::default(),
        vec![watch(vec![pause(2), end(5), Piece::Hang]), synced(6, vec![pause(2)])],
        Some("stream consistent"),
    )
    .await;
    assert_eq!(history.requests, ["stream consistent", "stream consistent", "watch 6"]);
}

#[tokio::test(start_paused = true)]
async fn handle_tells_when_the_source_has_synced() {
    let registry = Registry::new();
    let metrics = SourceMetrics::register(&registry).unwrap();
    let log = Arc::new(Log::default());
    let script = Script {
        answers: vec![watch(vec![pause(7), end(5), Piece::Hang])].into(),
        log: Arc::clone(&log),
        format: Format::Json,
        storage: [Ok(1)].into(),
        relist: None,
        catch_up: None,
    };
    let source = Source::new(SourceConfig::new(&PODS, 1), script, JsonThings::default(), &metrics);
    let mut handle = source.handle();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(source.run(Recorder(log), shutdown.clone()));
    let started = Instant::now();
    assert!(!handle.status().synced);
    assert!(handle.synced().await);
    assert_eq!(started.elapsed(), Duration::from_secs(7));
    tokio::task::yield_now().await;
    assert_eq!(handle.status().phase, Phase::Watching);
    shutdown.cancel();
    task.await.unwrap();
}
