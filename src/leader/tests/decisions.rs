//! What follows from what was observed.

use super::*;
use crate::leader::protocol::{Answer, Loss, Protocol, Step};

struct Player(Protocol);

impl Player {
    fn new() -> Self {
        Self(Protocol::new(rules("me"), 7, Duration::ZERO))
    }

    fn step(&mut self, at: f64) -> Step {
        self.0.step(seconds(at), NOW)
    }

    fn answer(&mut self, at: f64, answer: Answer) {
        self.0.answer(seconds(at), seconds(at), answer);
    }

    /// One that has led since 0.
    fn leading() -> Self {
        let mut player = Self::new();
        assert_eq!(player.step(0.0), Step::Get);
        player.answer(0.0, Answer::Missing);
        let Step::Create(created) = player.step(0.0) else { panic!("no create") };
        player.answer(0.0, Answer::Lease(created));
        assert!(player.0.renewed().is_some());
        player
    }

    /// One that has seen somebody else's lease at 0.
    fn standing_by() -> Self {
        let mut player = Self::new();
        assert_eq!(player.step(0.0), Step::Get);
        player.answer(0.0, Answer::Lease(lease(5, "other", "a")));
        player
    }

    fn waits_until(&mut self, at: f64) -> f64 {
        match self.step(at) {
            Step::Wait(until) => until.as_secs_f64(),
            step => panic!("{step:?} at {at}"),
        }
    }

    /// Looks for the lease as often as it likes until that time, and always sees the same. When it wanted to take it, if it did.
    fn sees(&mut self, seen: &Answer, mut at: f64, until: f64) -> Option<f64> {
        while at < until {
            match self.step(at) {
                Step::Wait(next) => at = next.as_secs_f64(),
                Step::Get => self.answer(at, seen.clone()),
                Step::Create(_) | Step::Update(_) => return Some(at),
                Step::Lose(loss) => panic!("{loss:?}"),
            }
        }
        None
    }
}

#[test]
fn a_lease_that_does_not_exist_is_created_and_then_renewed_every_retry_period() {
    let mut player = Player::leading();
    assert!((player.waits_until(0.0) - 2.0).abs() < 1e-9);
    let Step::Update(renewal) = player.step(2.0) else { panic!("no renewal") };
    assert_eq!(renewal.holder(), "me");
    player.answer(2.0, Answer::Lease(renewal));
    assert_eq!(player.0.renewed(), Some(seconds(2.0)));
    assert!((player.waits_until(2.1) - 4.0).abs() < 1e-9, "from when the renewal began");
}

#[test]
fn a_held_lease_is_taken_when_it_has_not_changed_for_its_duration() {
    let mut player = Player::standing_by();
    let at = player.sees(&Answer::Lease(lease(5, "other", "a")), 0.0, 60.0).unwrap();
    assert!((15.0..15.2).contains(&at), "{at}: as soon as it expires, a little spread out");
}

#[test]
fn a_standby_looks_again_after_one_to_two_point_two_periods() {
    for seed in 0..50 {
        let mut protocol = Protocol::new(rules("me"), seed, Duration::ZERO);
        assert_eq!(protocol.step(Duration::ZERO, NOW), Step::Get);
        protocol.answer(Duration::ZERO, Duration::ZERO, Answer::Lease(lease(5, "other", "a")));
        let Step::Wait(until) = protocol.step(Duration::ZERO, NOW) else { panic!("no wait") };
        assert!((2.0..4.4).contains(&until.as_secs_f64()), "{until:?}");
    }
}

#[test]
fn what_the_other_machine_calls_time_does_not_matter() {
    // Renewed in the future or the past of our clock: only that it changes counts.
    for (first, then) in [("2126-01-01T00:00:00.000000Z", "1970-01-01T00:00:00.000000Z"), ("", "nonsense")] {
        let mut player = Player::new();
        player.step(0.0);
        player.answer(0.0, Answer::Lease(lease(5, "other", first)));
        assert_eq!(player.sees(&Answer::Lease(lease(5, "other", first)), 0.0, 14.0), None);
        assert_eq!(player.sees(&Answer::Lease(lease(6, "other", then)), 14.0, 28.0), None, "it has changed");
        assert!(player.sees(&Answer::Lease(lease(6, "other", then)), 28.0, 40.0).is_some());
    }
}

#[test]
fn labels_do_not_prolong_a_lease_and_the_newest_version_is_written_over() {
    let mut player = Player::standing_by();
    let Some(at) = player.sees(&Answer::Lease(lease(9, "other", "a")), 0.0, 60.0) else { panic!("never taken") };
    assert!(at < 15.2, "{at}");
    let Step::Update(taken) = player.step(at) else { panic!("no update") };
    assert_eq!(taken.version(), model::ResourceVersion(9));
}

#[test]
fn a_lease_without_a_holder_or_a_spec_is_free() {
    for spec in
        [json!({"holderIdentity": "", "leaseDurationSeconds": 1}), json!({}), Value::Null, json!("garbage"), json!({"holderIdentity": 7})]
    {
        let mut player = Player::new();
        player.step(0.0);
        player.answer(0.0, Answer::Lease(with_spec(5, &spec)));
        assert!(matches!(player.step(0.0), Step::Update(_)), "{spec}");
    }
}

#[test]
fn a_holder_without_a_duration_is_given_ours() {
    let mut player = Player::new();
    let seen = Answer::Lease(with_spec(5, &json!({"holderIdentity": "other"})));
    player.step(0.0);
    player.answer(0.0, seen.clone());
    assert!((15.0..15.2).contains(&player.sees(&seen, 0.0, 60.0).unwrap()));
}

#[test]
fn a_shorter_or_longer_duration_of_the_other_one_counts() {
    for duration in [4, 60] {
        let seen = Answer::Lease(with_spec(5, &json!({"holderIdentity": "other", "leaseDurationSeconds": duration})));
        let mut player = Player::new();
        player.step(0.0);
        player.answer(0.0, seen.clone());
        let at = player.sees(&seen, 0.0, 100.0).unwrap();
        assert!((0.0..0.2).contains(&(at - f64::from(duration))), "{at}");
    }
}

#[test]
fn a_lease_that_was_deleted_is_its_holders_until_it_would_have_expired() {
    let mut player = Player::standing_by();
    let at = player.sees(&Answer::Missing, 0.0, 60.0).unwrap();
    assert!((15.0..15.2).contains(&at), "{at}");
    assert!(matches!(player.step(at), Step::Create(_)));
    // The leader writes it anew at once.
    let mut player = Player::leading();
    assert!(matches!(player.step(2.0), Step::Update(_)));
    player.answer(2.0, Answer::Failed);
    assert_eq!(player.step(2.0), Step::Get);
    player.answer(2.0, Answer::Missing);
    assert!(matches!(player.step(2.0), Step::Create(_)));
}

#[test]
fn a_renewal_that_fails_is_tried_from_a_read_at_once_and_then_every_period_until_the_deadline() {
    let mut player = Player::leading();
    for (at, due) in [(2.0, 4.0), (4.0, 6.0), (6.0, 8.0), (8.0, 10.0)] {
        let step = player.step(at);
        if at < 3.0 {
            assert!(matches!(step, Step::Update(_)), "{step:?}: first without reading");
            assert!(!player.0.is_on_slow_path());
            player.answer(at, Answer::Failed);
        }
        assert_eq!(player.step(at), Step::Get);
        player.answer(at, Answer::Failed);
        assert!((player.waits_until(at) - due).abs() < 1e-9);
    }
    assert_eq!(player.step(9.99), Step::Wait(seconds(10.0)));
    assert_eq!(player.step(10.0), Step::Lose(Loss::Late));
}

#[test]
fn a_success_that_comes_too_late_is_none() {
    let mut player = Player::leading();
    let Step::Update(renewal) = player.step(2.0) else { panic!("no renewal") };
    // Suspended between the request and its answer.
    player.0.answer(seconds(2.0), seconds(500.0), Answer::Lease(renewal));
    assert_eq!(player.step(500.0), Step::Lose(Loss::Late));
}

#[test]
fn an_answer_that_was_lost_is_found_by_the_next_read() {
    // The leader's renewal.
    let mut player = Player::leading();
    let Step::Update(renewal) = player.step(2.0) else { panic!("no renewal") };
    player.answer(2.0, Answer::Failed);
    assert_eq!(player.step(7.0), Step::Get);
    player.answer(7.0, Answer::Lease(renewal));
    assert!(matches!(player.step(7.0), Step::Update(_)));
    assert!(player.0.is_on_slow_path());
    assert_eq!(player.0.renewed(), Some(Duration::ZERO), "what was not answered renews nothing");
    // The standby's takeover.
    let mut player = Player::standing_by();
    let Some(at) = player.sees(&Answer::Lease(lease(5, "other", "a")), 0.0, 60.0) else { panic!("never taken") };
    let Step::Update(taken) = player.step(at) else { panic!("no update") };
    player.answer(at, Answer::Failed);
    assert_eq!(player.0.renewed(), None);
    let next = player.waits_until(at);
    assert_eq!(player.step(next), Step::Get);
    player.answer(next, Answer::Lease(taken.clone()));
    assert_eq!(player.step(next), Step::Update(taken.held_by(&rules("me").me, NOW)), "without another transition");
}

#[test]
fn who_is_beaten_to_it_waits_for_the_winner() {
    let mut player = Player::standing_by();
    let Some(at) = player.sees(&Answer::Lease(lease(5, "other", "a")), 0.0, 60.0) else { panic!("never taken") };
    player.answer(at, Answer::Conflict);
    let seen = Answer::Lease(lease(6, "third", "b"));
    let taken = player.sees(&seen, at, 100.0).unwrap();
    assert!(taken > at + 15.0, "{taken}");
}

#[test]
fn a_leader_that_sees_another_one_stops_at_once() {
    let mut player = Player::leading();
    assert!(matches!(player.step(2.0), Step::Update(_)));
    player.answer(2.0, Answer::Conflict);
    assert_eq!(player.step(2.0), Step::Get);
    player.answer(2.0, Answer::Lease(lease(9, "other", "x")));
    assert_eq!(player.step(2.0), Step::Lose(Loss::Taken("other".to_owned())));
    // Beaten to the creation of a lease that was deleted.
    let mut player = Player::leading();
    player.step(2.0);
    player.answer(2.0, Answer::Failed);
    player.step(2.0);
    player.answer(2.0, Answer::Missing);
    player.step(2.0);
    player.answer(2.0, Answer::Conflict);
    assert!((player.waits_until(2.0) - 2.2).abs() < 1e-9, "it has to know soon");
}

#[test]
fn a_watch_shows_a_renewal_when_it_happens_and_a_release_is_taken_at_once() {
    let mut player = Player::standing_by();
    player.0.seen(lease(6, "other", "b"), seconds(1.0));
    let at = player.sees(&Answer::Lease(lease(6, "other", "b")), 1.0, 60.0).unwrap();
    assert!((16.0..16.2).contains(&at), "{at}: counted from the renewal, not from the next look");
    let mut player = Player::standing_by();
    player.0.seen(lease(6, "", "b"), seconds(1.0));
    assert_eq!(player.step(1.0), Step::Get);
    player.answer(1.0, Answer::Lease(lease(6, "", "b")));
    assert!(matches!(player.step(1.0), Step::Update(_)));
}

#[test]
fn a_watch_that_is_late_changes_nothing() {
    let mut player = Player::standing_by();
    for old in [lease(5, "", "b"), lease(4, "third", "c")] {
        player.0.seen(old, seconds(3.0));
    }
    let at = player.sees(&Answer::Lease(lease(5, "other", "a")), 3.0, 60.0).unwrap();
    assert!((15.0..15.2).contains(&at), "{at}");
    // A leader asks for itself.
    let mut player = Player::leading();
    player.0.seen(lease(99, "other", "z"), seconds(1.0));
    assert!(matches!(player.step(2.0), Step::Update(_)));
}
