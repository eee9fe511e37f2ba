//! A path that is used again after a copy sent by someone else, or a NAT, had briefly moved the
//! connection. Everything that waited for earlier packets continues (RFC 9000 §9.3.3).

use super::*;

/// A server with data for its client. A single packet of the client arrives from elsewhere after
/// `after`, and the transfer then continues for 15 s.
fn moved_for_a_moment(after: Duration) -> Pair {
    let mut pair = Pair::connected(Setup::with_latency(20));
    let id = pair.server.open();
    let sending = |pair: &mut Pair, time: Duration| {
        let end = pair.now + time;
        pair.run_until(time, |pair| {
            let _ = pair.server.get().streams().write(id, &[7; 4000]);
            let mut got = Vec::new();
            let client = pair.client.get();
            while client.streams().accept(Dir::Uni).is_some() {}
            drain(client, id, &mut got);
            pair.now >= end
        });
    };
    sending(&mut pair, after);
    let home = pair.client.address;
    pair.client.address = "192.0.2.1:9".parse().unwrap();
    pair.client.get().ping();
    pair.flush();
    pair.client.address = home;
    sending(&mut pair, Duration::from_secs(15));
    assert_eq!(pair.server.get().remote_address(), home);
    pair
}

#[test]
fn the_search_for_an_mtu_and_the_test_of_marks_go_on() {
    for after in (0..200).step_by(10) {
        let mut pair = moved_for_a_moment(Duration::from_millis(after));
        let report = pair.server.get().path_report(pair.now);
        assert_eq!(report.mtu, 1472, "after {after} ms");
        assert_eq!(report.ecn, EcnState::Capable, "after {after} ms");
    }
}
