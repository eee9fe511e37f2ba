//! Which packets have a shim, and its contents.

use pathmark_cc::{KnownPath, Limits};

use super::*;
use crate::connection::paths::strip;

const RTT: Duration = Duration::from_millis(100);
/// Size of the tests' shim, and the minimum that must fit behind it.
const LEN: usize = 12;
const REST: usize = 48;

/// Both sides read the kinds 0 and `KIND`, the one that asks.
fn both() -> Parts {
    let mut parts = signalling(Side::Server, 3, true, signals(&[0, KIND]));
    parts.paths.path.feedback.negotiate(&[0, KIND]);
    parts
}

/// Returns the kind of the shim that `write` fills, and its use.
fn written(write: impl FnOnce(&mut Writer<'_>) -> ShimUse, room: usize) -> (Option<u8>, ShimUse) {
    let mut buffer = vec![0; room];
    let mut w = Writer::new(&mut buffer);
    let shim = write(&mut w);
    let mut datagram = w.written().to_vec();
    datagram.push(0x40);
    match strip(&mut datagram) {
        (ShimPrefix::Shim { kind, .. }, rest) => {
            assert_eq!((rest, shim.len()), (&mut [0x40][..], LEN));
            (Some(kind), shim)
        }
        (ShimPrefix::Plain, _) => (None, shim),
        (ShimPrefix::Bad, _) => panic!("its check fails"),
    }
}

#[test]
fn packets_bear_a_shim_as_often_as_the_law_wants() {
    let mut plain = server();
    assert!(!plain.paths.path.wants_shim(plain.now, None, RTT));
    let mut parts = both();
    let now = parts.now;
    let path = &mut parts.paths.path;
    assert!(path.wants_shim(now, None, RTT));
    // One of two probes has no shim, in case the path drops shims.
    assert!(path.wants_shim(now, Some(0), RTT) && !path.wants_shim(now, Some(1), RTT));
    for every in [0, 1, 3] {
        parts.log.lock().unwrap().signal_every = every;
        let path = &mut parts.paths.path;
        let bear = (0..6).map(|_| {
            let wants = path.wants_shim(now, None, RTT);
            path.route.cadence.on_sent(now, wants);
            wants
        });
        let bear: Vec<bool> = bear.collect();
        match every {
            0 | 1 => assert_eq!(bear, [true; 6]),
            _ => assert_eq!(bear, [false, false, true, false, false, true]),
        }
    }
}

#[test]
fn a_request_is_written_where_a_packet_fits_behind_it() {
    let request = |room: usize, min_rtt| {
        let mut parts = both();
        let now = parts.now;
        let path = &mut parts.paths.path;
        let mut at = 0;
        let written = written(
            |w| {
                let shim = path.write_request(now, &Limits::NONE, min_rtt, 5, w);
                at = w.written().get(6).copied().unwrap_or(0);
                shim
            },
            room,
        );
        (written, at)
    };
    let shim = (Some(0), ShimUse::Request(LEN));
    assert_eq!(request(LEN + REST, None), (shim, 0));
    assert_eq!(request(1200, Some(Duration::from_millis(25))), (shim, 25));
    assert_eq!(request(LEN + REST - 1, None), ((None, ShimUse::Nothing), 0));
}

/// A question requires a path that carries shims, and a peer that is there.
#[test]
fn a_law_asks_where_routers_can_answer() {
    let may_ask = |parts: &mut Parts| {
        let now = parts.now;
        parts.paths.path.may_ask(now)
    };
    let asking = || {
        let parts = both();
        parts.log.lock().unwrap().asks = true;
        parts
    };
    assert!(may_ask(&mut asking()));
    assert!(!may_ask(&mut both()), "the law has no question");
    let mut unheard = asking();
    unheard.paths.path.feedback.negotiate(&[0]);
    assert!(!may_ask(&mut unheard));
    let mut forged = asking();
    assert_eq!(forged.packet(AWAY, 101), Move::OtherPath);
    assert!(!may_ask(&mut forged));
    let mut dropping = asking();
    let now = dropping.now;
    let plain = &mut dropping.paths.path.route.plain;
    for number in [0, 2, 4] {
        plain.on_sent(number, true);
        plain.on_sent(number + 1, false);
        plain.on_acked(number + 1, false);
        plain.on_lost(now, number, true);
        plain.settle(now);
    }
    assert!(!may_ask(&mut dropping));
}

#[test]
fn questions_are_written_if_the_law_asks() {
    let mut parts = both();
    let now = parts.now;
    let log = std::sync::Arc::clone(&parts.log);
    let path = &mut parts.paths.path;
    let narrow = Limits {
        peer: 10,
        ..Limits::NONE
    };
    let question = (Some(KIND), ShimUse::Question(LEN));
    let nothing = (None, ShimUse::Nothing);
    let mut ask = |limits: &Limits, room| {
        let mut ask = |w: &mut Writer<'_>| path.write_question(now, 1, limits, w);
        written(|w| ask(w).unwrap_or_default(), room)
    };
    assert_eq!(ask(&narrow, 1200), nothing);
    assert_eq!(ask(&Limits::NONE, 1200), question);
    assert_eq!(ask(&Limits::NONE, LEN - 1), nothing);
    let known = KnownPath {
        rate: 777,
        rtt: None,
    };
    let mut ahead = |w: &mut Writer<'_>| path.write_question_ahead(now, 1, &known, w);
    assert_eq!(written(|w| ahead(w).unwrap_or_default(), 1200), question);
    assert_eq!(log.lock().unwrap().known_rate, Some(777));
}

#[test]
fn a_configured_rate_counts_before_one_that_was_seen() {
    let known = |configured: Option<u64>| {
        paths_of(Side::Client, None, |config| config.known_rate = configured)
    };
    let seen = Some(KnownPath {
        rate: 5,
        rtt: Some(RTT),
    });
    let mut paths = known(None);
    assert_eq!(paths.known(), None);
    paths.set_known(seen);
    assert_eq!(paths.known(), seen);
    let mut paths = known(Some(9));
    paths.set_known(seen);
    let configured = KnownPath { rate: 9, rtt: None };
    assert_eq!(paths.known(), Some(configured));
}

/// A second connection may ask for the rate granted to the first one.
#[test]
fn a_question_ahead_shows() {
    let mut parts = server();
    parts.paths.path.route.on_asked_ahead();
    assert!(parts.paths.poll_shown().is_some_and(|shown| shown.asked));
}
