//! How a list comes about.

use super::*;

#[tokio::test(start_paused = true)]
async fn streaming_list_ends_at_its_bookmark_and_goes_on_as_the_watch() {
    let history = run(vec![watch(vec![added("a@1"), added("b@2"), end(5), modified("a@6"), deleted("b@7"), bookmark(9), pause(10)])]).await;
    assert_eq!(history.requests, ["stream consistent", "watch 9"], "the first list is a consistent read");
    assert_eq!(history.events, ["restarted", "listed a@1", "listed b@2", "synced 5", "applied a@6", "deleted b@7", "bookmark 9"]);
    assert!(history.status.synced);
    assert_eq!((history.status.lists, history.status.watches), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn changes_before_the_end_of_a_streaming_list_belong_to_it() {
    let history = run(vec![watch(vec![added("a@1"), added("b@2"), modified("a@3"), deleted("b@4"), end(5), pause(10)])]).await;
    assert_eq!(history.events, ["restarted", "listed a@1", "listed b@2", "listed a@3", "deleted b@4", "synced 5"]);
}

#[tokio::test(start_paused = true)]
async fn ordinary_bookmark_does_not_end_a_streaming_list() {
    let history = run(vec![watch(vec![added("a@1"), bookmark(3), added("b@2"), end(5), pause(10)])]).await;
    assert_eq!(history.events, ["restarted", "listed a@1", "listed b@2", "synced 5"]);
}

#[tokio::test(start_paused = true)]
async fn server_without_streaming_lists_gets_pages_from_then_on() {
    let history = run(vec![
        refused(422, "Invalid"),
        page(5, "more", &["a@1", "b@2"]),
        page(5, "", &["c@3"]),
        watch(vec![expired()]),
        page(8, "", &["a@1"]),
    ])
    .await;
    assert_eq!(history.requests, ["stream consistent", "page 500 consistent", "page 500 after more", "watch 5", "page 500 >=5", "watch 8"]);
    assert!(history.wait_before(1) < 0.001, "no back-off: the server is well");
    assert_eq!(history.events, ["restarted", "listed a@1", "listed b@2", "listed c@3", "synced 5", "restarted", "listed a@1", "synced 8"]);
}

#[tokio::test(start_paused = true)]
async fn missing_end_of_the_initial_events_begins_the_list_again() {
    let history = run(vec![watch(vec![added("a@1"), pause(3)]), watch(vec![added("a@1"), end(5), pause(10)])]).await;
    assert_eq!(history.requests, ["stream consistent", "stream consistent", "watch 5"]);
    assert_eq!(history.events, ["restarted", "listed a@1", "restarted", "listed a@1", "synced 5"]);
    assert!((3.8..4.6).contains(&history.wait_before(1)));
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_that_never_end_give_way_to_one_list_by_pages() {
    // What a server does that ignores sendInitialEvents: an ordinary watch, whose list has no end.
    let silent = || watch(vec![added("a@1"), Piece::Hang]);
    let history = run(vec![silent(), silent(), silent(), page(5, "", &["a@1"]), watch(vec![expired()])]).await;
    assert_eq!(
        history.requests,
        ["stream consistent", "stream consistent", "stream consistent", "page 500 consistent", "watch 5", "stream >=5"],
        "the next list tries the stream again"
    );
    assert!((60.8..62.0).contains(&history.wait_before(1)));
}

#[tokio::test(start_paused = true)]
async fn continue_token_that_expires_restarts_the_list() {
    let history = run(vec![
        refused(422, "Invalid"),
        page(5, "more", &["a@1"]),
        Answer::Page(Err(error(410, "Expired"))),
        page(7, "", &["a@1", "b@6"]),
    ])
    .await;
    assert_eq!(history.requests, ["stream consistent", "page 500 consistent", "page 500 after more", "page 500 consistent", "watch 7"]);
    assert_eq!(history.events, ["restarted", "listed a@1", "restarted", "listed a@1", "listed b@6", "synced 7"]);
}

#[tokio::test(start_paused = true)]
async fn page_that_got_no_answer_is_asked_for_again() {
    let history =
        run(vec![refused(422, "Invalid"), page(5, "more", &["a@1"]), Answer::Page(Err(error(0, "NoAnswer"))), page(5, "", &["b@2"])]).await;
    assert_eq!(history.requests[2..], ["page 500 after more", "page 500 after more", "watch 5"]);
    assert_eq!(history.events, ["restarted", "listed a@1", "listed b@2", "synced 5"]);
}

#[tokio::test(start_paused = true)]
async fn page_too_large_to_read_is_halved() {
    let history = run(vec![
        refused(422, "Invalid"),
        Answer::Page(Err(error(0, "AnswerTooLarge"))),
        page(5, "more", &["a@1"]),
        Answer::Page(Err(error(0, "AnswerTooLarge"))),
        page(5, "", &["b@2"]),
    ])
    .await;
    assert_eq!(
        history.requests[1..],
        ["page 500 consistent", "page 250 consistent", "page 250 after more", "page 125 after more", "watch 5"]
    );
    assert_eq!(history.events, ["restarted", "listed a@1", "listed b@2", "synced 5"]);
}

#[tokio::test(start_paused = true)]
async fn relist_after_410_asks_for_nothing_older_than_the_last_seen_version() {
    let history = run(vec![
        synced(5, vec![added("a@8"), expired()]),
        // That server is behind: as an HTTP status, then in a frame.
        Answer::Watch(Err(too_large())),
        watch(vec![error_event(504, "Timeout", "Too large resource version: 8, current: 7")]),
        synced(9, vec![pause(10)]),
    ])
    .await;
    assert_eq!(history.requests, ["stream consistent", "stream >=8", "stream >=8", "stream >=8", "watch 9"]);
    assert!(history.wait_before(1) >= 0.8);
    assert!(history.wait_before(2) >= 1.6);
    assert!(history.wait_before(3) >= 3.2);
}

#[tokio::test(start_paused = true)]
async fn version_that_no_server_ever_reaches_ends_in_a_consistent_list() {
    // etcd was restored from a backup.
    let mut answers = vec![synced(900, vec![expired()])];
    answers.extend((0..5).map(|_| Answer::Watch(Err(too_large()))));
    answers.push(watch(vec![added("a@17"), end(20), pause(10)]));
    let history = run(answers).await;
    assert_eq!(history.requests[1..6], ["stream >=900"; 5]);
    assert_eq!(history.requests[6..], ["stream consistent", "watch 20"]);
    assert_eq!(history.events, ["restarted", "synced 900", "restarted", "listed a@17", "synced 20"]);
}

#[tokio::test(start_paused = true)]
async fn page_older_than_asked_for_is_not_taken() {
    let history =
        run(vec![refused(422, "Invalid"), page(9, "", &["a@1"]), watch(vec![expired()]), page(7, "", &[]), page(9, "", &["a@1"])]).await;
    assert_eq!(history.requests[3..], ["page 500 >=9", "page 500 >=9", "watch 9"]);
    assert_eq!(history.events, ["restarted", "listed a@1", "synced 9", "restarted", "listed a@1", "synced 9"]);
}

#[tokio::test(start_paused = true)]
async fn refusals_are_waited_out_whatever_they_are() {
    let history = run(vec![
        refused(401, "Unauthorized"),
        refused(403, "Forbidden"),
        refused(404, "NotFound"),
        refused(406, "NotAcceptable"),
        refused(0, "NoAnswer"),
        Answer::Watch(Err(ApiError { retry_after: Some(Duration::from_secs(55)), ..error(429, "TooManyRequests") })),
    ])
    .await;
    assert_eq!(history.requests, ["stream consistent"; 7]);
    assert!(history.events.is_empty(), "nothing is restarted before there is an answer");
    assert!(history.wait_before(6) >= 55.0, "Retry-After is heeded");
    let error = history.status.last_error.unwrap();
    assert_eq!((error.code, history.status.synced, history.status.phase), (429, false, Phase::Listing));
    assert_eq!(history.status.lists, 7);
    assert!(history.status.failing_since.is_some());
    assert!(history.metrics.contains(r#"reflector_lists_total{group="",resource="pods"} 7"#), "{}", history.metrics);
    assert!(history.metrics.contains(r#"reflector_watches_total{group="",resource="pods"} 0"#));
}

#[tokio::test(start_paused = true)]
async fn list_without_a_version_or_that_is_no_list_is_not_taken() {
    let history = run(vec![
        refused(400, "BadRequest"),
        Answer::Page(Ok(r#"{"metadata":{},"items":[]}"#.to_owned())),
        Answer::Page(Ok("<html>".to_owned())),
        page(5, "", &[]),
    ])
    .await;
    assert_eq!(history.requests[1..], ["page 500 consistent", "page 500 consistent", "page 500 consistent", "watch 5"]);
    assert_eq!(history.events, ["restarted", "synced 5"]);
}

#[tokio::test(start_paused = true)]
async fn same_seed_same_waits() {
    let script = || (0..6).map(|_| refused(503, "ServiceUnavailable")).collect();
    assert_eq!(run(script()).await.times, run(script()).await.times);
}
