//! How a source proves that it has missed nothing.

use super::*;

const FEW: usize = 3;
const MANY: usize = 100_000;

/// Asked after that request; the storage is at version 9.
async fn run_asked_after(request: &str, objects: usize, answers: Vec<Answer>) -> History {
    run_asked(JsonThings::default(), answers, vec![Ok(9)], None, Some((request, objects))).await
}

#[tokio::test(start_paused = true)]
async fn few_objects_are_listed_again_at_once() {
    let history = run_asked_after(
        "watch 5",
        FEW,
        vec![synced(5, vec![pause(2)]), watch(vec![Piece::Hang]), watch(vec![added("a@7"), end(9), pause(2)])],
    )
    .await;
    assert_eq!(history.requests, ["stream consistent", "watch 5", "stream consistent", "watch 9"]);
    assert!(history.wait_before(2) < 0.1);
    assert_eq!(history.events, ["restarted", "synced 5", "restarted", "listed a@7", "synced 9", "caught up"]);
}

#[tokio::test(start_paused = true)]
async fn of_many_objects_a_bookmark_of_a_short_watch_is_waited_for() {
    let history = run_asked_after(
        "watch 5",
        MANY,
        vec![synced(5, vec![pause(2)]), watch(vec![Piece::Hang]), watch(vec![added("a@7"), pause(1), bookmark(9), pause(2)])],
    )
    .await;
    assert_eq!(history.requests, ["stream consistent", "watch 5", "watch 5 for 3 s", "watch 9"], "and no list");
    assert!(history.wait_before(2) < 0.1);
    assert_eq!(history.events, ["restarted", "synced 5", "applied a@7", "bookmark 9", "caught up"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_beyond_the_storages_version_is_proof_enough() {
    let history = run_asked_after(
        "watch 5",
        MANY,
        vec![synced(5, vec![pause(2)]), watch(vec![Piece::Hang]), watch(vec![added("a@9"), pause(2), added("b@10"), pause(2)])],
    )
    .await;
    assert_eq!(history.events, ["restarted", "synced 5", "applied a@9", "caught up", "applied b@10"]);
}

#[tokio::test(start_paused = true)]
async fn who_has_seen_everything_needs_neither() {
    let history =
        run_asked_after("watch 9", MANY, vec![synced(9, vec![pause(2)]), watch(vec![Piece::Hang]), watch(vec![pause(400)])]).await;
    assert_eq!(history.requests, ["stream consistent", "watch 9", "watch 9", "watch 9"]);
    assert_eq!(history.events, ["restarted", "synced 9", "caught up"]);
    assert!(history.wait_before(2) < 0.1);
}

#[tokio::test(start_paused = true)]
async fn without_a_bookmark_everything_is_listed_after_five_seconds() {
    for silent in [Piece::Hang, pause(3)] {
        let again = matches!(silent, Piece::Pause(_));
        let mut answers = vec![synced(5, vec![pause(2)]), watch(vec![Piece::Hang]), watch(vec![added("a@7"), silent])];
        if again {
            answers.push(watch(vec![Piece::Hang]));
        }
        answers.push(synced(12, vec![pause(2)]));
        let history = run_asked_after("watch 5", MANY, answers).await;
        let list = history.requests.len() - 2;
        assert_eq!(history.requests[list], "stream consistent", "{:?}", history.requests);
        let waited = history.times[list].abs_diff(history.times[2]).as_secs_f64();
        assert!((4.9..5.1).contains(&waited), "{waited}");
        assert_eq!(history.events[3..], ["restarted", "synced 12", "caught up"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_begins_after_the_question_answers_it() {
    let history = run_asked_after("stream consistent", MANY, vec![synced(5, vec![pause(2)]), watch(vec![pause(2)])]).await;
    // Asked when the first request was made, which is when the list began: that does not count.
    assert_eq!(history.requests, ["stream consistent", "watch 5 for 3 s", "watch 5 for 3 s"]);
    let registry = Registry::new();
    let metrics = SourceMetrics::register(&registry).unwrap();
    let log = Arc::new(Log::default());
    let answers = vec![watch(vec![end(5), pause(400)])].into();
    let script = Script { answers, log: Arc::clone(&log), format: Format::Json, storage: [Ok(9)].into(), relist: None, catch_up: None };
    let source = Source::new(SourceConfig::new(&PODS, 1), script, JsonThings::default(), &metrics);
    let caught_up = source.handle().catch_up(MANY);
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(source.run(Recorder(Arc::clone(&log)), shutdown.clone()));
    assert!(tokio::time::timeout(Duration::from_secs(1), caught_up).await.unwrap());
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(log.requests.lock().len(), 1, "the watch stays open");
    shutdown.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn storage_that_was_set_back_is_listed() {
    let history =
        run_asked_after("stream consistent", MANY, vec![synced(900, vec![Piece::Hang]), watch(vec![added("a@3"), end(9), pause(2)])]).await;
    assert_eq!(history.requests[1], "stream consistent");
    assert_eq!(history.events[2..], ["restarted", "listed a@3", "synced 9", "caught up"]);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_ends_has_not_caught_up() {
    let registry = Registry::new();
    let metrics = SourceMetrics::register(&registry).unwrap();
    let script = Script {
        answers: VecDeque::new(),
        log: Arc::default(),
        format: Format::Json,
        storage: [Ok(9)].into(),
        relist: None,
        catch_up: None,
    };
    let source = Source::new(SourceConfig::new(&PODS, 1), script, JsonThings::default(), &metrics);
    let caught_up = source.handle().catch_up(FEW);
    drop(source);
    assert!(!caught_up.await);
}
