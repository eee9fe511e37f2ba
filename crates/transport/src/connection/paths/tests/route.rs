//! The datagrams that a path permits, and events other than acknowledgements that reach its
//! controller.

use pathmark_cc::Lost;

use super::ack_report::packet;
use super::*;
use crate::connection::paths::Admission;

const RTT: Duration = Duration::from_millis(100);

#[test]
fn a_window_below_one_datagram_lets_one_be_in_flight() {
    let mut parts = server();
    let (now, path) = (parts.now, &mut parts.paths.path);
    for (size, in_flight, expected) in [
        (WINDOW + 1, 0, Admission::Now),
        (1200, WINDOW - 1200, Admission::Now),
        (1200, WINDOW - 1199, Admission::WindowFull),
    ] {
        assert_eq!(path.route.admits(now, size, in_flight), expected);
    }
    assert!(!path.route.is_full(WINDOW - 1200) && path.route.is_full(WINDOW - 1199));
}

/// RFC 9002 §7.7: five quarters of a window per round trip, after a burst of ten packets.
#[test]
fn a_path_is_paced() {
    let mut parts = server();
    let (now, route) = (parts.now, &mut parts.paths.path.route);
    assert_eq!(route.follow_window(now, Some(RTT)), WINDOW);
    route.on_in_flight(now, 10_800);
    assert_eq!(route.admits(now, 1200, 10_800), Admission::Now);
    // A batch of a millisecond: 1250 bytes.
    let later = now + Duration::from_micros(40);
    assert_eq!(route.admits(now, 1201, 10_800), Admission::At(later));
    assert_eq!(route.admits(later, 1201, 10_800), Admission::Now);
}

/// First bytes of flows may exceed the window for one round trip, but not after a loss.
#[test]
fn first_bytes_of_flows_leave_beyond_the_window() {
    let begun = || {
        let mut parts = server();
        let now = parts.now;
        parts.paths.path.route.on_starts(now, 5000, RTT);
        parts
    };
    let admits = |parts: &mut Parts| {
        let now = parts.now;
        parts.paths.path.route.admits(now, 5000, WINDOW)
    };
    assert_eq!(admits(&mut begun()), Admission::Now);
    let mut later = begun();
    later.now += RTT * 2;
    let now = later.now;
    later.paths.path.route.poll(now);
    assert_eq!(admits(&mut later), Admission::WindowFull);
    let mut lossy = begun();
    let now = lossy.now;
    let lost = Lost {
        bytes: 1200,
        packets: 2,
        ranges: 1,
        first_state: PacketState::default(),
        largest: 7,
        sent_at: now,
        state: PacketState::default(),
        last_sent: 9,
        srtt: RTT,
        min_rtt: RTT,
        in_flight_before: 2400,
    };
    let mut losses = LossOutcome {
        packets: 2,
        lost: Some(lost),
        question: Some(3),
        persistent_congestion: false,
    };
    assert!(!lossy.paths.path.route.on_losses(now, &losses));
    assert_eq!(admits(&mut lossy), Admission::WindowFull);
    losses.persistent_congestion = true;
    assert!(lossy.paths.path.route.on_losses(now, &losses));
    let log = lossy.log.lock().unwrap();
    assert_eq!((log.lost, log.questions_lost), (4, 2));
    assert_eq!(log.persistent_congestions, 1);
}

#[test]
fn pauses_timeouts_and_the_handshake_reach_the_controller() {
    let mut parts = server();
    let (now, route) = (parts.now, &mut parts.paths.path.route);
    assert!(!route.restart(now), "nothing has left");
    route.on_in_flight(now, 1200);
    assert!(!route.restart(now));
    let later = now + RTT;
    assert!(route.restart(later) && !route.restart(later));
    route.on_probe_timeout(later, 1);
    route.on_question_lost(later, 3);
    route.on_handshake_rtt(now, RTT);
    assert_eq!(route.metrics().window, WINDOW);
    let log = parts.log.lock().unwrap();
    assert_eq!((log.restarts, log.probe_timeouts), (1, 1));
    assert_eq!(log.questions_lost, 1);
    assert_eq!(log.handshake_rtt, Some(RTT));
}

/// RFC 9000 §13.4.2: if marked packets are lost, others are sent unmarked, and marks are tried
/// later.
#[test]
fn marks_stop_where_nothing_is_acknowledged_and_are_tried_again() {
    for timeout in [true, false] {
        let mut parts = server();
        let (now, path) = (parts.now, &mut parts.paths.path);
        assert_eq!(path.mtu_probe_mark(), Ecn::Ect0);
        let marked = if timeout { 1 } else { 10 };
        (0..marked).for_each(|number| path.route.ecn.on_sent(number, Ecn::Ect0));
        if timeout {
            path.route.on_probe_timeout(now, 3);
            assert_eq!(path.mark(), Ecn::NotEct);
            continue;
        }
        for number in 0..10 {
            path.route.on_lost(now, number, &packet(now, 1200));
        }
        assert_eq!(path.mark(), Ecn::NotEct);
        let half_a_minute = now + Duration::from_secs(30);
        path.route.poll(half_a_minute);
        assert_eq!(path.mark(), Ecn::Ect0);
        // A packet tests only one property.
        assert_eq!(path.mtu_probe_mark(), Ecn::NotEct);
    }
}

/// The loss of a probe for larger datagrams shows nothing about shims.
#[test]
fn losses_of_datagrams_with_shims_make_a_path_plain() {
    for (probe, passes) in [(Probe::Nothing, false), (Probe::Mtu, true)] {
        let mut parts = server();
        let (now, route) = (parts.now, &mut parts.paths.path.route);
        for number in [0, 2, 4] {
            route.plain.on_sent(number, true);
            route.plain.on_sent(number + 1, false);
            route.plain.on_acked(number + 1, false);
            let mut lost = packet(now, 1200);
            (lost.shim, lost.probe) = (true, probe);
            route.on_lost(now, number, &lost);
            route.plain.settle(now);
        }
        assert_eq!(route.plain.passes_shims(), passes);
    }
}

#[test]
fn a_datagram_that_the_system_refuses_is_not_sent_again() {
    let mut parts = server();
    let (now, size) = (parts.now, parts.probe_mtu());
    let path = &mut parts.paths.path;
    assert_eq!(path.poll_mtu_probe(now, 0), None, "one at a time");
    assert!(path.on_acked(now, 3, &packet(now, size)));
    let route = &mut path.route;
    route.on_mtu_change(now);
    // From the second consecutive timeout on, the size may be the cause.
    assert_eq!([1, 2].map(|count| route.probe_limit(count)), [size, 1200]);
    route.on_size_refused(now, size);
    assert_eq!(parts.paths.path.mtu(), 1200);
    assert_eq!(parts.log.lock().unwrap().mtu, 1200);
}

/// The connection doesn't report the fate of a probe on a path that it has left.
#[test]
fn a_probe_on_a_path_that_was_left_is_sent_again_after_the_return() {
    let mut parts = server();
    let (now, size) = (parts.now, parts.probe_mtu());
    parts.away_and_back();
    let path = &mut parts.paths.path;
    assert_eq!(path.poll_mtu_probe(now, 0), Some(size));
}
