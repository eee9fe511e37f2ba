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
fn written(room: usize, write: impl FnOnce(&mut Writer<'_>) -> ShimUse) -> (Option<u8>, ShimUse) {
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
    let (now, path) = (parts.now, &mut parts.paths.path);
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
        let expected = [1, 2, 3, 4, 5, 6].map(|n| n % every.max(1) == 0);
        assert_eq!(bear, expected, "{every}");
    }
}

#[test]
fn a_request_is_written_where_a_packet_fits_behind_it() {
    let request = |room: usize, min_rtt| {
        let mut parts = both();
        let (now, path) = (parts.now, &mut parts.paths.path);
        let mut at = 0;
        let written = written(room, |w| {
            let shim = path.write_request(now, &Limits::NONE, min_rtt, 5, w);
            at = w.written().get(6).copied().unwrap_or(0);
            shim
        });
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
    dropping.lose_shims();
    assert!(!may_ask(&mut dropping));
}

#[test]
fn questions_are_written_if_the_law_asks() {
    let mut parts = both();
    let (now, log) = (parts.now, Arc::clone(&parts.log));
    let path = &mut parts.paths.path;
    let mut narrow = Limits::NONE;
    narrow.peer = 10;
    let question = (Some(KIND), ShimUse::Question(LEN));
    let nothing = (None, ShimUse::Nothing);
    let mut ask = |limits: &Limits, room| {
        let mut ask = |w: &mut Writer<'_>| path.write_question(now, 1, limits, w);
        written(room, |w| ask(w).unwrap_or_default())
    };
    assert_eq!(ask(&narrow, 1200), nothing);
    assert_eq!(ask(&Limits::NONE, 1200), question);
    assert_eq!(ask(&Limits::NONE, LEN - 1), nothing);
    let (rate, rtt) = (777, None);
    let known = KnownPath { rate, rtt };
    let mut ahead = |w: &mut Writer<'_>| path.write_question_ahead(now, 1, &known, w);
    assert_eq!(written(1200, |w| ahead(w).unwrap_or_default()), question);
    assert_eq!(log.lock().unwrap().known_rate, Some(777));
}

#[test]
fn a_configured_rate_counts_before_one_that_was_seen() {
    let known = |configured: Option<u64>| {
        paths_of(Side::Client, None, |config| config.known_rate = configured)
    };
    let (rate, rtt) = (5, Some(RTT));
    let seen = Some(KnownPath { rate, rtt });
    let mut paths = known(None);
    assert_eq!(paths.known(), None);
    paths.set_known(seen);
    assert_eq!(paths.known(), seen);
    let mut paths = known(Some(9));
    paths.set_known(seen);
    let configured = KnownPath { rate: 9, rtt: None };
    assert_eq!(paths.known(), Some(configured));
}
