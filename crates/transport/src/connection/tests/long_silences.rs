//! How long each side waits for a silent peer, whatever that peer reported.

use super::*;
use crate::wire::frame::ack;

/// Maximum wait for a peer with the default configuration: three idle timeouts of 30 s, plus the
/// elapsed part of one.
const PATIENCE: Duration = Duration::from_secs(91);

/// Delivers a packet of the client to the server, whatever the link does.
fn say(pair: &mut Pair, payload: &[u8]) {
    let (now, remote) = (pair.now, pair.client.address);
    let mut bytes = packet(pair.client.get(), now, SpaceId::Data, payload);
    let received = Received::plain(remote);
    pair.server.get().handle_datagram(now, received, &mut bytes);
}

/// Returns the number of the server's next packet.
fn next_number(pair: &mut Pair) -> u64 {
    let recovery = &pair.server.get().spaces.recovery;
    recovery.space(SpaceId::Data).sent().next_number()
}

/// The client acknowledges this packet.
fn acknowledge(pair: &mut Pair, number: u64) {
    let mut room = [0; 100];
    let mut w = Writer::new(&mut room);
    ack::encode(&mut w, [number..=number].into_iter(), 0, None, 100).unwrap();
    say(pair, w.written());
    pair.run(Duration::from_millis(100));
}

/// A pair whose client acknowledged one packet `seconds` late, but was there all the time.
fn stretched(seconds: u64) -> Pair {
    let mut pair = Pair::connected(Setup::default());
    pair.run(Duration::from_secs(1));
    pair.up.faults.loss = 1_000_000;
    let number = next_number(&mut pair);
    pair.server.get().ping();
    for _ in 0..seconds / 10 {
        pair.run(Duration::from_secs(10));
        say(&mut pair, &frames(&[Frame::Ping]));
    }
    acknowledge(&mut pair, number);
    pair
}

/// A peer that answers late once and then disappears isn't kept for much longer than the idle
/// timeout. A server that closes the connection doesn't linger for longer, either.
#[test]
fn a_late_answer_makes_no_connection_and_no_close_last() {
    for closes in [false, true] {
        let mut pair = stretched(600);
        assert_eq!(pair.server.error(), None, "it lived");
        pair.client.connection = None;
        let begun = pair.now;
        if closes {
            pair.server.get().close(begun, 0, Bytes::new());
        }
        let gone = |pair: &mut Pair| pair.server.get().is_drained();
        pair.run_until(Duration::from_secs(100_000), gone);
        let lasted = pair.now.saturating_since(begun);
        assert!(lasted <= PATIENCE, "{lasted:?}");
        let timed_out = pair.server.error() == Some(ConnectionError::TimedOut);
        assert_ne!(timed_out, closes);
    }
}

#[test]
fn silences_with_one_late_answer_each_do_not_grow() {
    let mut pair = stretched(60);
    let mut lasted = Vec::new();
    for _ in 0..6 {
        let idle = pair.server.get().spaces.pto() * 3;
        lasted.push(idle);
        let number = next_number(&mut pair);
        pair.server.get().ping();
        pair.run(idle * 9 / 10);
        acknowledge(&mut pair, number);
    }
    let error = pair.server.error();
    assert!(lasted.last() <= Some(&PATIENCE), "{lasted:?} {error:?}");
}

fn slow(seed: u64, idle: u64) -> Pair {
    let idle = Some(Duration::from_secs(idle));
    Pair::connected(Setup {
        seed,
        latency: Duration::from_millis(750),
        ..Setup::both(|config| config.max_idle_timeout = idle)
    })
}

/// A round trip of 1.5 s, with 30 % of the packets lost in each direction.
#[test]
fn a_slow_path_that_loses_much_is_no_silence() {
    for seed in 0..20 {
        let mut pair = slow(seed, 30);
        pair.up.faults.loss = 300_000;
        pair.down.faults.loss = 300_000;
        pair.upload(100_000, Duration::from_secs(600));
        assert_eq!((pair.client.error(), pair.server.error()), (None, None));
    }
}

/// RFC 9000 §10.1: the wait is at least three probe timeouts, however short the idle timeout is.
#[test]
fn a_slow_path_outlives_a_short_idle_timeout() {
    let mut pair = slow(1, 1);
    for _ in 0..20 {
        pair.run(Duration::from_secs(3));
        assert_eq!((pair.client.error(), pair.server.error()), (None, None));
        let client = pair.client.get();
        assert!(client.spaces.recovery.pto() > Duration::from_millis(1500));
        assert_eq!(client.spaces.pto(), client.spaces.recovery.pto());
        client.ping();
    }
}
