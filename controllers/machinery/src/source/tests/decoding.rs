//! Objects that cannot be read, and the protobuf form.

use super::*;

fn failing(names: &[(&str, u32)]) -> JsonThings {
    JsonThings(names.iter().map(|(name, times)| ((*name).to_owned(), *times)).collect())
}

fn undecodable(history: &History) -> String {
    let line = history.metrics.lines().find(|line| line.starts_with("informer_undecodable_objects_total"));
    line.unwrap().rsplit(' ').next().unwrap().to_owned()
}

/// Refuses what is no object.
struct Strict;
impl Decode for Strict {
    type Object = Thing;
    const FORMAT: Format = Format::Json;
    fn decode(&mut self, raw: &[u8]) -> Result<Thing, DecodeError> {
        if raw.starts_with(b"\"") {
            Err(DecodeError::Identity { field: "name", value: String::new() })
        } else {
            JsonThings::default().decode(raw)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn decode_error_in_a_list_restarts_it_instead_of_losing_the_object() {
    let list = || watch(vec![added("a@1"), added("b@2"), added("c@3"), end(5), pause(2)]);
    let history = run_with(failing(&[("b", 1)]), vec![list(), list()], None).await;
    assert_eq!(history.requests, ["stream consistent", "stream consistent", "watch 5"]);
    assert_eq!(
        history.events,
        ["restarted", "listed a@1", "listed c@3", "restarted", "listed a@1", "listed b@2", "listed c@3", "synced 5"],
        "never synced without it"
    );
    assert_eq!(undecodable(&history), "0");
}

#[tokio::test(start_paused = true)]
async fn object_that_fails_twice_is_left_out_and_stops_nobody_else() {
    let list = || watch(vec![added("a@1"), added("b@2"), added("c@3"), added("d@4"), end(5), pause(2)]);
    let history = run_with(failing(&[("b", 9), ("c", 9)]), vec![list(), list()], None).await;
    assert_eq!(history.requests, ["stream consistent", "stream consistent", "watch 5"], "one restart for both");
    assert_eq!(history.events[3..], ["restarted", "listed a@1", "listed d@4", "synced 5"]);
    assert_eq!(undecodable(&history), "2");
}

#[tokio::test(start_paused = true)]
async fn decode_error_in_a_page_restarts_the_list() {
    let history = run_with(
        failing(&[("a", 1)]),
        vec![refused(422, "Invalid"), page(5, "more", &["a@1"]), page(5, "", &["b@2"]), page(5, "more", &["a@1"]), page(5, "", &["b@2"])],
        None,
    )
    .await;
    assert_eq!(
        history.requests[1..],
        ["page 500 consistent", "page 500 after more", "page 500 consistent", "page 500 after more", "watch 5"]
    );
    assert_eq!(history.events, ["restarted", "listed b@2", "restarted", "listed a@1", "listed b@2", "synced 5"]);
}

#[tokio::test(start_paused = true)]
async fn decode_error_in_a_watch_forces_a_relist() {
    let history = run_with(
        failing(&[("b", 1)]),
        vec![
            synced(5, vec![added("a@6"), added("b@7"), added("c@8")]),
            watch(vec![added("a@6"), added("b@7"), added("c@8"), end(8), pause(2)]),
        ],
        None,
    )
    .await;
    assert_eq!(history.requests, ["stream consistent", "stream >=6", "watch 8"]);
    assert_eq!(history.events[2..], ["applied a@6", "restarted", "listed a@6", "listed b@7", "listed c@8", "synced 8"]);
}

#[tokio::test(start_paused = true)]
async fn object_known_to_be_undecodable_forces_no_more_relists() {
    let history = run_with(
        failing(&[("b", 9)]),
        vec![synced(5, vec![added("b@6")]), watch(vec![added("b@6"), end(6), modified("b@7"), added("c@8"), deleted("b@9"), pause(2)])],
        None,
    )
    .await;
    assert_eq!(history.requests, ["stream consistent", "stream >=5", "watch 8"]);
    assert_eq!(history.events[2..], ["restarted", "synced 6", "applied c@8"]);
    assert_eq!(undecodable(&history), "1", "counted and reported once");
}

#[tokio::test(start_paused = true)]
async fn bad_objects_that_keep_changing_do_not_keep_the_list_from_ending() {
    // No name to know them by, and other bytes each time.
    let nameless = |value: u32| line("ADDED", &format!("\"{value}\""));
    let list = |value| watch(vec![nameless(value), nameless(value + 1), added("a@1"), end(5), pause(2)]);
    let history = run_with(Strict, vec![list(1), list(3), list(5), list(7)], None).await;
    assert_eq!(history.requests[..4], ["stream consistent"; 4]);
    assert_eq!(history.requests[4], "watch 5");
    assert_eq!(history.events[6..], ["restarted", "listed a@1", "synced 5"]);
    assert_eq!(undecodable(&history), "2");
}

#[tokio::test(start_paused = true)]
async fn protobuf_list_and_watch_in_eight_kilobyte_pieces() {
    let mut stream = Vec::new();
    for number in 0..500 {
        stream.extend(frame("ADDED", &format!("pod-{number}-{}", "x".repeat(100)), &number.to_string(), None));
    }
    stream.extend(frame("BOOKMARK", "", "1000", Some("k8s.io/initial-events-end")));
    stream.extend(frame("MODIFIED", "a", "1001", None));
    stream.extend(frame("DELETED", "a", "1002", None));
    stream.extend(frame("BOOKMARK", "", "1003", None));
    let mut pieces: Vec<_> = stream.chunks(8192).map(|chunk| Piece::Bytes(chunk.to_vec())).collect();
    assert!(pieces.len() > 5);
    pieces.push(pause(2));
    let history = run_with(ProtobufThings, vec![watch(pieces)], None).await;
    assert_eq!(history.requests, ["stream consistent", "watch 1003"]);
    assert_eq!(history.events.len(), 1 + 500 + 4);
    assert_eq!(history.events[501..], ["synced 1000", "applied a@1001", "deleted a@1002", "bookmark 1003"]);
}

#[tokio::test(start_paused = true)]
async fn protobuf_410_in_a_frame_is_understood() {
    let synced = frame("BOOKMARK", "", "5", Some("k8s.io/initial-events-end"));
    let history = run_with(
        ProtobufThings,
        vec![watch(vec![Piece::Bytes(synced), pause(2)]), watch(vec![Piece::Bytes(error_frame(410, "Expired"))])],
        None,
    )
    .await;
    assert_eq!(history.requests, ["stream consistent", "watch 5", "stream >=5"]);
    let error = history.status.last_error.unwrap();
    assert_eq!((error.code, &*error.reason, &*error.message), (410, "Expired", "too old"));
}

#[tokio::test(start_paused = true)]
async fn protobuf_frame_of_hostile_length_ends_the_watch_only() {
    let synced = frame("BOOKMARK", "", "5", Some("k8s.io/initial-events-end"));
    let history = run_with(
        ProtobufThings,
        vec![watch(vec![Piece::Bytes(synced), pause(2), Piece::Bytes(vec![0xff; 64])]), watch(vec![Piece::Hang])],
        None,
    )
    .await;
    assert_eq!(history.requests[..2], ["stream consistent", "watch 5"]);
    assert_eq!(history.status.lists, 1);
}
