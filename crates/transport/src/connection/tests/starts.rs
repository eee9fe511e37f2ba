//! Flows that begin on a connection with a small window.

use super::*;

const WINDOW: u64 = 12_000;
const ROUND: Duration = Duration::from_millis(100);
/// Bytes of each flow.
const FLOW: usize = 10_000;

fn pair() -> Pair {
    let mut pair = Pair::connected(Setup {
        latency: ROUND / 2,
        ..Setup::with_window(WINDOW)
    });
    pair.run(ROUND * 5);
    pair
}

/// Writes to new streams, each of which begins a flow if `flows` is true.
fn write(pair: &mut Pair, streams: usize, flows: bool) {
    for _ in 0..streams {
        let streams = pair.client.get().streams();
        let id = streams.open(Dir::Uni).unwrap();
        if flows {
            streams.start_flow(id).unwrap();
        }
        assert_eq!(streams.write(id, &[7; FLOW]), Ok(FLOW));
    }
}

/// Returns the number of round trips until the peer has received everything.
fn rounds(pair: &mut Pair) -> f64 {
    let start = pair.now;
    let acked = |pair: &mut Pair| pair.client.get().streams().account.unacked() == 0;
    assert!(pair.run_until(ROUND * 100, acked));
    (pair.now - start).as_secs_f64() / ROUND.as_secs_f64()
}

fn in_flight(pair: &mut Pair) -> u64 {
    pair.client.get().path_report(pair.now).in_flight
}

/// Ten flows have ten initial windows, like ten connections.
#[test]
fn flows_that_begin_do_not_wait_for_the_window() {
    let mut flows = pair();
    write(&mut flows, 10, true);
    let flows = rounds(&mut flows);
    // One to spread them, and one for the round trip itself.
    assert!(flows < 2.2, "{flows}");

    let mut streams = pair();
    write(&mut streams, 10, false);
    let streams = rounds(&mut streams);
    assert!(streams > 8.0, "{streams}");
}

/// A flow adds one initial window, however much it sends, and none while it doesn't send.
#[test]
fn a_long_flow_has_one_start() {
    let mut pair = pair();
    let streams = pair.client.get().streams();
    let ids: Vec<_> = (0..2).map(|_| streams.open(Dir::Uni).unwrap()).collect();
    for id in &ids {
        streams.start_flow(*id).unwrap();
    }
    assert_eq!(streams.write(ids[0], &[7; 100_000]), Ok(100_000));
    let mut most = 0;
    let done = pair.run_until(ROUND * 100, |pair| {
        most = most.max(in_flight(pair));
        pair.client.get().streams().account.unacked() == 0
    });
    assert!(done);
    let bound = WINDOW + 14_720;
    assert!((bound - 1_500..=bound).contains(&most), "{most}");
}

/// A loss or CE ends the additional bytes of starts.
#[test]
fn after_congestion_the_window_alone_counts() {
    for marked in [false, true] {
        let mut pair = pair();
        let streams = pair.client.get().streams();
        let id = streams.open(Dir::Uni).unwrap();
        streams.start_flow(id).unwrap();
        assert_eq!(streams.write(id, &[7; 100_000]), Ok(100_000));
        pair.up.faults.loss = if marked { 0 } else { 1_000_000 };
        pair.up.faults.marks_all = marked;
        pair.step();
        (pair.up.faults.loss, pair.up.faults.marks_all) = (0, false);
        let (mut last, mut most) = (0, 0);
        let done = pair.run_until(ROUND * 100, |pair| {
            let flight = in_flight(pair);
            let log = pair.client.log();
            if log.lost + log.congestion_experienced > 0 {
                assert!(flight <= last.max(WINDOW), "{last} {flight}");
            }
            (last, most) = (flight, most.max(flight));
            pair.client.get().streams().account.unacked() == 0
        });
        let log = pair.client.log();
        assert_eq!(log.lost > 0, !marked);
        assert_eq!(log.congestion_experienced > 0, marked);
        assert!(done && most > WINDOW, "{most}");
    }
}
