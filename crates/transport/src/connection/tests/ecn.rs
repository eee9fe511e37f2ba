//! ECN marks: set, counted, and validated.

use super::*;
use crate::path::EcnFailure;

fn state(pair: &mut Pair) -> EcnState {
    pair.client.get().path_report(pair.now).ecn
}

/// Returns the marks of the client's last three batches.
fn last_marks(pair: &Pair) -> Vec<Ecn> {
    let batches = pair.client.batches.iter().rev();
    batches.take(3).map(|batch| batch.ecn).collect()
}

/// A transfer of the client, and some time for the last acknowledgements.
fn upload(pair: &mut Pair, bytes: usize) {
    pair.upload_and_run(bytes, 10, Duration::from_millis(100));
}

#[test]
fn marks_survive_a_clean_path_and_are_validated_again_on_another() {
    let mut pair = Pair::connected(Setup::default());
    upload(&mut pair, 100_000);
    assert_eq!(state(&mut pair), EcnState::Capable);
    pair.upload(100_000, Duration::from_secs(10));
    assert_eq!(last_marks(&pair), [Ecn::Ect0; 3]);
    assert_eq!(pair.client.log().congestion_experienced, 0);
    pair.migrate("10.0.0.9:2000");
    assert_eq!(state(&mut pair), EcnState::Testing);
    upload(&mut pair, 100_000);
    assert_eq!(state(&mut pair), EcnState::Capable);
}

#[test]
fn congestion_experienced_reaches_the_controller() {
    let mut pair = Pair::connected(Setup::default());
    upload(&mut pair, 50_000);
    pair.up.faults.ecn = Some(Ecn::Ce);
    upload(&mut pair, 50_000);
    assert_eq!(state(&mut pair), EcnState::Capable);
    assert!(pair.client.log().congestion_experienced > 0);
    assert!(pair.client.get().stats().congestion_experienced > 0);
}

#[test]
fn bleached_and_rewritten_marks_are_given_up() {
    // [9000 13.4.2.2 disable]
    for ecn in [Ecn::NotEct, Ecn::Ect1] {
        let mut pair = Pair::new();
        pair.up.faults.ecn = Some(ecn);
        pair.connect();
        upload(&mut pair, 100_000);
        pair.upload(100_000, Duration::from_secs(10));
        assert!(matches!(state(&mut pair), EcnState::Failed(_)));
        assert_eq!(last_marks(&pair), [Ecn::NotEct; 3]);
        assert_eq!(pair.client.log().congestion_experienced, 0);
    }
}

#[test]
fn it_can_be_switched_off() {
    let mut pair = Pair::connected(Setup::new(|setup| setup.client.ecn = false));
    pair.upload(50_000, Duration::from_secs(10));
    assert!(pair.client.batches.iter().all(|b| b.ecn == Ecn::NotEct));
}

/// A client with this law.
fn sender(law: &str, seed: u64) -> Setup {
    let law = Algorithm::parse(law).unwrap();
    let mut setup = Setup::new(|setup| setup.seed = seed);
    setup.client.controller = Arc::new(move |now: Instant, mtu| law.controller(now, mtu));
    setup
}

/// A scalable law has ECT(1), which paths clear as well.
#[test]
fn a_scalable_law_sends_ect1_until_the_path_fails_it() {
    for (fault, mark) in [(None, Ecn::Ect1), (Some(Ecn::NotEct), Ecn::NotEct)] {
        let mut pair = Pair::with(sender("prague", 1));
        pair.up.faults.ecn = fault;
        pair.connect();
        upload(&mut pair, 100_000);
        pair.upload(100_000, Duration::from_secs(10));
        assert_eq!(last_marks(&pair), [mark; 3]);
    }
}

/// Returns how long an upload of 3 MB takes from a client with this law over 50 Mbit/s and 20 ms,
/// and the final state of ECN. The path has `fault` after 1 MB.
fn uploaded(
    law: &str,
    ecn: bool,
    seed: u64,
    fault: impl Fn(&mut Pair, bool),
) -> (Duration, EcnState, Pair) {
    let mut setup = sender(law, seed);
    setup.client.ecn = ecn;
    let mut pair = Pair::connected(setup);
    pair.up.rate = Some(6_250_000);
    pair.up.queue = 125_000;
    pair.upload_and_run(1_000_000, 30, Duration::from_millis(100));
    fault(&mut pair, true);
    let took = pair.upload(20_000_000, Duration::from_secs(120));
    let state = state(&mut pair);
    (took, state, pair)
}

/// Uploads little in each of so many seconds.
fn upload_for(pair: &mut Pair, seconds: u32) {
    for _ in 0..seconds {
        pair.upload_and_run(1000, 5, Duration::from_secs(1));
    }
}

/// Marked packets get through at first but later don't. Three probe timeouts later, the transfer
/// continues without marks, as fast as without ECN.
#[test]
fn marks_that_are_dropped_later_are_given_up() {
    for (law, both_ways) in [("cubic", false), ("cubic", true), ("prague", false)] {
        let fault = |pair: &mut Pair, on| {
            pair.up.faults.eats_marks = on;
            pair.down.faults.eats_marks = on && both_ways;
        };
        let (plain, state, _) = uploaded(law, false, 1, fault);
        assert_eq!(state, EcnState::Off);
        let (took, state, mut pair) = uploaded(law, true, 1, fault);
        assert_eq!(state, EcnState::Failed(EcnFailure::Dropped));
        let most = plain + Duration::from_millis(1500);
        assert!(took <= most, "{took:?} instead of {plain:?}");
        // They are tried again after a while and get through.
        fault(&mut pair, false);
        upload_for(&mut pair, 40);
        assert_eq!(super::ecn::state(&mut pair), EcnState::Capable);
    }
}

/// CE on every marked packet doesn't indicate congestion. The same upload without ECN is the
/// reference.
#[test]
fn marks_that_all_become_ce_are_given_up() {
    for (law, marked_from) in [("cubic", 0), ("cubic", 1), ("prague", 0)] {
        let fault = |pair: &mut Pair, on| pair.up.faults.marks_all = on;
        let (plain, ..) = uploaded(law, false, 1 + marked_from, fault);
        let (took, state, mut pair) = uploaded(law, true, 1 + marked_from, fault);
        assert_eq!(state, EcnState::Failed(EcnFailure::AllCe));
        let most = plain + Duration::from_millis(1500);
        assert!(took <= most, "{took:?} instead of {plain:?}");
        assert!(pair.client.get().stats().congestion_experienced >= 7);
        // Trials that return with CE change nothing and cost nothing.
        let counted = pair.client.get().stats().congestion_experienced;
        upload_for(&mut pair, 100);
        let all_ce = EcnState::Failed(EcnFailure::AllCe);
        assert_eq!(super::ecn::state(&mut pair), all_ce);
        assert_eq!(pair.client.get().stats().congestion_experienced, counted);
        fault(&mut pair, false);
        upload_for(&mut pair, 130);
        assert_eq!(super::ecn::state(&mut pair), EcnState::Capable);
    }
}

/// A connection only sends a few packets, and the path drops those with marks. It doesn't wait for
/// ten packets.
#[test]
fn a_short_request_over_a_path_that_drops_marks() {
    let mut pair = Pair::at_rest(Setup::default());
    pair.up.faults.eats_marks = true;
    let took = pair.upload(2000, Duration::from_secs(5));
    assert!(took < Duration::from_millis(1500), "{took:?}");
    pair.upload(100_000, Duration::from_secs(5));
    assert_eq!(state(&mut pair), EcnState::Failed(EcnFailure::Dropped));
}
