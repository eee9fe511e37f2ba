//! Validation of the peer's address, and the bytes that it permits.

use super::*;
use crate::connection::paths::Address;
use crate::path::AmplificationLimit;

/// RFC 9000 §8.1: three times the received bytes, until the handshake proves the address. Initial
/// packets need full datagrams.
#[test]
fn a_handshake_proves_an_address() {
    let mut parts = parts(Side::Server, 3, false);
    assert_eq!(parts.allowance(FULL, true), Allowance::Blocked);
    assert!(parts.paths.on_datagram(&from(HOME), 100));
    assert_eq!(parts.allowance(200, false), Allowance::Bytes(200));
    assert_eq!(parts.allowance(300, false), Allowance::Bytes(300));
    assert_eq!(parts.allowance(301, false), Allowance::Blocked);
    assert!(parts.paths.on_datagram(&from(HOME), 1100));
    assert_eq!(parts.allowance(9000, false), Allowance::Bytes(3600));
    parts.paths.path.address.validate();
    assert_eq!(parts.allowance(9000, false), Allowance::Bytes(9000));
    assert!(parts.paths.path.is_validated());
}

/// A packet sent before the return may have been acknowledged from elsewhere.
#[test]
fn an_acknowledgement_proves_a_return() {
    let mut parts = server();
    let now = parts.now;
    for number in 0..3 {
        let packet = super::ack_report::packet(now, 1200);
        assert!(parts.recovery.on_sent(SpaceId::Data, number, packet));
    }
    parts.away_and_back();
    assert_eq!(parts.allowance(FULL, false), Allowance::Bytes(FULL));
    assert_eq!(parts.allowance(20_000, false), Allowance::Bytes(12_300));
    parts.paths.path.address.on_acked(now, 2);
    assert_eq!(parts.allowance(20_000, false), Allowance::Bytes(12_300));
    parts.paths.path.address.on_acked(now, 3);
    assert_eq!(parts.allowance(20_000, false), Allowance::Bytes(20_000));
}

/// Someone else may have seen the packet that is acknowledged.
#[test]
fn an_acknowledgement_proves_no_new_address() {
    let mut parts = server();
    let now = parts.now;
    assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
    parts.paths.path.address.on_acked(now, 1000);
    assert!(!parts.paths.path.is_validated());
    assert_eq!(parts.paths.path.address.available(), 300);
}

/// After a minute of silence, another peer may have the address. RFC 9000 §9.4: measurements remain
/// valid for a port known to belong to the same host.
#[test]
fn a_host_is_the_peers_for_a_minute() {
    let minute = Duration::from_secs(60);
    let just_less = minute - Duration::from_millis(1);
    let moved = |parts: &mut Parts, wait| {
        parts.now += wait;
        parts.packet(REBOUND, 100)
    };
    let known = || server();
    assert_eq!(moved(&mut known(), just_less), Move::OtherPort);
    assert_eq!(moved(&mut known(), minute), Move::OtherPath);
    let mut acknowledged = known();
    acknowledged.now += just_less;
    let now = acknowledged.now;
    let address = &mut acknowledged.paths.path.address;
    address.on_acked(now, 1);
    assert_eq!(moved(&mut acknowledged, just_less), Move::OtherPort);
    // Nothing has proved this address.
    let mut forged = parts(Side::Server, 3, false);
    assert_eq!(moved(&mut forged, Duration::ZERO), Move::OtherPath);
    assert_eq!(forged.paths.path.address.available(), 300);
}

#[test]
fn a_path_is_one_of_both_addresses_as_far_as_they_are_known() {
    let ours = |text: &str| Some(text.parse::<IpAddr>().unwrap());
    let now = Instant::ZERO;
    let limit = AmplificationLimit::validated();
    for (local, arrived, same) in [
        (None, None, true),
        (None, ours("192.0.2.1"), true),
        (ours("192.0.2.1"), None, true),
        (ours("192.0.2.1"), ours("192.0.2.1"), true),
        (ours("192.0.2.1"), ours("192.0.2.2"), false),
    ] {
        let paths = paths_of(Side::Server, local, |_| ());
        for (remote, same) in [(HOME, same), (AWAY, false)] {
            let mut received = from(remote);
            received.local = arrived;
            assert_eq!(paths.path.brought(&received), same, "{local:?}");
        }
    }
    for (remote, ipv6) in [
        ("10.0.0.1:1", false),
        ("[2001:db8::1]:1", true),
        // The first address as reported by a socket for both versions.
        ("[::ffff:10.0.0.1]:1", false),
    ] {
        let address = Address::new(now, from(remote).remote, None, limit);
        assert_eq!(address.is_ipv6(), ipv6, "{remote}");
    }
}

#[test]
fn a_change_of_the_addresses_of_resets_shows_once() {
    let mut parts = server();
    assert!(!parts.paths.has_moved_tokens());
    assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
    assert!(parts.paths.has_moved_tokens() && parts.paths.take_moved_tokens());
    assert!(!parts.paths.has_moved_tokens());
}

/// RFC 9000 §9.3.3: a server keeps the address that was left until the peer has proved its move. A
/// client keeps the address from which a small response arrived.
#[test]
fn the_former_path_goes_once_a_client_knows_that_the_new_one_works() {
    for (side, room, kept) in [
        (Side::Server, FULL, true),
        (Side::Client, FULL, false),
        (Side::Client, 40, true),
    ] {
        let mut parts = parts(side, 3, true);
        let (moved, local) = match side {
            Side::Server => (parts.packet(AWAY, 101), AWAY),
            Side::Client => (parts.move_to(true), HOME),
        };
        assert_eq!(moved, Move::OtherPath);
        let (challenges, ..) = parts.written(room);
        parts.response(local, challenges[0]);
        assert_eq!(parts.paths.has_fallback(), kept, "{side:?} {room}");
    }
}

#[test]
fn another_law_steers_this_path_and_later_ones() {
    let mut parts = server();
    let now = parts.now;
    let (factory, log) = fixed_window(WINDOW / 2);
    parts.paths.set_controller(now, factory);
    assert_eq!(parts.paths.path.window(), WINDOW / 2);
    assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
    assert_eq!(parts.paths.path.window(), WINDOW / 2);
    assert_eq!(log.lock().unwrap().built, 2);
}

/// On a path that drops shims, losses may have been caused by the datagrams' size. On a path that
/// marks everything, marks didn't indicate congestion.
#[test]
fn a_path_with_a_fault_starts_over() {
    for (fault, again) in [(Fault::DropsShims, true), (Fault::MarksAll, false)] {
        let mut parts = server();
        let (now, size) = (parts.now, parts.probe_mtu());
        let acked = super::ack_report::packet(now, size);
        assert!(parts.paths.path.on_acked(now, 3, &acked));
        parts.paths.start_over(now, fault);
        let expected = if again { 1200 } else { size };
        assert_eq!(parts.paths.path.mtu(), expected);
        let log = parts.log.lock().unwrap();
        assert_eq!((log.built, log.mtu), (2, expected));
    }
}

#[test]
fn deadlines_are_those_of_validations() {
    let mut parts = server();
    let start = parts.now;
    assert_eq!(parts.paths.deadline(start), None);
    assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
    // Challenges are due immediately but couldn't be sent.
    let ends = start + PERIOD.saturating_mul(3);
    assert_eq!(parts.paths.deadline(start), Some(ends));
    assert_eq!(parts.paths.deadline(Instant::ZERO), Some(start));
    parts.written(FULL);
    assert_eq!(parts.paths.deadline(start), Some(start + PERIOD));
}
