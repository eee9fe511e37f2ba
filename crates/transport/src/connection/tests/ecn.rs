//! ECN: marks set, counted, validated.

use super::pair::{Pair, Setup};
use crate::path::EcnState;
use crate::{Duration, Ecn};

fn state(pair: &mut Pair) -> EcnState {
    let now = pair.now;
    pair.client.get().path_report(now).ecn
}

#[test]
fn marks_survive_a_clean_path() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload(100_000, Duration::from_secs(10));
    pair.run(Duration::from_millis(100));
    assert_eq!(state(&mut pair), EcnState::Capable);
    pair.upload(100_000, Duration::from_secs(10));
    assert!(
        pair.client
            .batches
            .iter()
            .rev()
            .take(3)
            .all(|b| b.ecn == Ecn::Ect0)
    );
    assert_eq!(pair.client.told().congestion_experienced, 0);
}

#[test]
fn marks_are_believed_anew_on_each_path() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload(100_000, Duration::from_secs(10));
    pair.run(Duration::from_millis(100));
    assert_eq!(state(&mut pair), EcnState::Capable);
    pair.client.address = "10.0.0.9:2000".parse().unwrap();
    let now = pair.now;
    assert!(
        pair.client
            .get()
            .migrate(now, Some("10.0.0.9".parse().unwrap()))
    );
    assert_eq!(state(&mut pair), EcnState::Testing);
    pair.upload(100_000, Duration::from_secs(10));
    pair.run(Duration::from_millis(100));
    assert_eq!(state(&mut pair), EcnState::Capable);
}

#[test]
fn congestion_experienced_reaches_the_controller() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload(50_000, Duration::from_secs(10));
    pair.run(Duration::from_millis(100));
    pair.up.faults.ecn = Some(Ecn::Ce);
    pair.upload(50_000, Duration::from_secs(10));
    pair.run(Duration::from_millis(100));
    assert_eq!(state(&mut pair), EcnState::Capable);
    assert!(pair.client.told().congestion_experienced > 0);
    assert!(pair.client.get().stats().congestion_experienced > 0);
}

#[test]
fn bleached_and_rewritten_marks_are_given_up() {
    for ecn in [Ecn::NotEct, Ecn::Ect1] {
        let mut pair = Pair::new();
        pair.up.faults.ecn = Some(ecn);
        pair.connect();
        pair.upload(100_000, Duration::from_secs(10));
        pair.run(Duration::from_millis(100));
        pair.upload(100_000, Duration::from_secs(10));
        assert!(matches!(state(&mut pair), EcnState::Failed(_)));
        assert!(
            pair.client
                .batches
                .iter()
                .rev()
                .take(3)
                .all(|b| b.ecn == Ecn::NotEct)
        );
        assert_eq!(pair.client.told().congestion_experienced, 0);
    }
}

#[test]
fn it_can_be_switched_off() {
    let mut setup = Setup::default();
    setup.client.ecn = false;
    let mut pair = Pair::connected(setup);
    pair.upload(50_000, Duration::from_secs(10));
    assert!(pair.client.batches.iter().all(|b| b.ecn == Ecn::NotEct));
}
