//! Consecutive moves of peers and of our own sockets.

use super::*;
use crate::connection::paths::least_challenge;

const THIRD: &str = "10.0.0.1:1002";

fn ours(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

fn of_config(change: impl FnOnce(&mut TransportConfig)) -> Parts {
    let mut parts = server();
    parts.paths = paths_of(Side::Server, None, change);
    parts
}

fn sequence(parts: &Parts) -> u64 {
    parts.ids.current().sequence
}

/// RFC 9000 §9: a server must not move. A peer that must not migrate may get another port from its
/// NAT, but nothing else.
#[test]
fn packets_from_elsewhere_move_nothing_where_nothing_may_move() {
    // [9000 9 disabled-but-moved]
    assert_eq!(parts(Side::Client, 3, true).packet(AWAY, 100), Move::Stays);
    let forbidding = || of_config(|config| config.migration = false);
    assert_eq!(forbidding().packet(AWAY, 101), Move::Stays);
    assert_eq!(forbidding().packet(REBOUND, 100), Move::OtherPort);
    assert_eq!(of_config(|_| ()).packet(AWAY, 101), Move::OtherPath);
}

/// The first packet shows which of our addresses the peer uses. Another address is another path.
#[test]
fn our_address_is_learnt_once() {
    let mut parts = server();
    let mut arrives = |local| {
        let now = parts.now;
        let mut received = from(HOME);
        received.local = local;
        let (paths, others) = parts.split();
        let moved = paths.follow_peer(now, &received, &id(100), others);
        (moved, paths.path.local())
    };
    let (one, two) = (ours("192.0.2.1"), ours("192.0.2.2"));
    assert_eq!(arrives(one), (Move::Stays, one));
    assert_eq!(arrives(None), (Move::Stays, one));
    assert_eq!(arrives(two), (Move::OtherPath, two));
}

/// RFC 9000 §9.4, §9.5: a NAT that is rebound twice doesn't change IDs and window, and neither does
/// the return.
#[test]
fn a_nat_may_rebind_again_before_the_first_port_has_answered() {
    let mut parts = server();
    assert_eq!(parts.packet(REBOUND, 100), Move::OtherPort);
    parts.paths.path.address.on_datagram_sent(1000);
    let left = parts.paths.path.address.available();
    assert_eq!(left, WINDOW + 300 - 1000);
    assert_eq!(parts.packet(THIRD, 100), Move::OtherPort);
    assert_eq!(parts.paths.path.address.available(), left + 300);
    assert_eq!(sequence(&parts), 0);
    parts.now += PERIOD * 3;
    assert_eq!(parts.check(), Move::OtherPort);
    assert_eq!(parts.paths.path.remote(), from(HOME).remote);
}

/// The measurements of a path are available after the return, even if a NAT was rebound before.
#[test]
fn what_was_learnt_survives_moves_without_an_answer() {
    for rebinds in [false, true] {
        let mut parts = server();
        assert!(parts.paths.path.route.carries_data(|| true));
        if rebinds {
            assert_eq!(parts.packet(REBOUND, 100), Move::OtherPort);
        }
        assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
        assert!(!parts.paths.path.route.carries_data(|| false));
        parts.now += PERIOD * 3;
        assert_eq!(parts.check(), Move::OtherPath);
        assert_eq!(parts.paths.path.remote(), from(HOME).remote);
        assert!(parts.paths.path.route.carries_data(|| false));
    }
}

/// RFC 9000 §9.5: a peer that moves on purpose gets another of its IDs at each address.
#[test]
fn ids_follow_moves_on_purpose_and_no_others() {
    // The last peer means to be back.
    for (away, home, sequences) in [(100, 100, [0, 0]), (101, 102, [1, 2]), (100, 101, [0, 1])] {
        let mut peer = parts(Side::Server, 4, true);
        assert_eq!(peer.packet(AWAY, away), Move::OtherPath);
        let first = sequence(&peer);
        assert_eq!(peer.paths.fallback_id(), (away == 101).then_some(2));
        assert_eq!(peer.packet(HOME, home), Move::OtherPath);
        assert_eq!([first, sequence(&peer)], sequences, "{away} {home}");
    }
}

/// RFC 9000 §9.1: a probed path is used with its ID and its credit.
#[test]
fn a_move_to_a_probed_path_uses_what_the_probe_had() {
    let mut parts = parts(Side::Server, 4, true);
    parts.paths.on_datagram(&from(AWAY), 100);
    parts.challenged(AWAY, [7; 8], 100);
    let answer = parts.paths.poll_response(&mut parts.ids).unwrap();
    parts.paths.on_off_path_sent(parts.now, &answer, 64);
    assert_eq!(parts.packet(AWAY, 101), Move::OtherPath);
    assert_eq!((sequence(&parts), parts.paths.off_path_id()), (1, None));
    assert_eq!(parts.paths.path.address.available(), 600 - 64);
}

/// After the return, the peer continues to probe another path.
#[test]
fn a_return_leaves_the_path_that_is_probed() {
    let mut parts = parts(Side::Server, 4, true);
    assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
    let probed = "10.0.0.7:3000";
    parts.paths.on_datagram(&from(probed), 100);
    parts.challenged(probed, [7; 8], 100);
    assert_eq!(parts.packet(HOME, 100), Move::OtherPath);
    assert_eq!(parts.paths.off_path_id(), Some(1));
    assert!(parts.paths.poll_response(&mut parts.ids).is_some());
}

/// RFC 9000 §9.4: packets on the old path count there, and again after the return.
#[test]
fn what_is_in_flight_counts_on_its_own_path() {
    let mut parts = server();
    let sent = super::ack_report::packet(parts.now, 1200);
    assert!(parts.recovery.on_sent(SpaceId::Data, 0, sent));
    assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
    assert_eq!(parts.recovery.bytes_in_flight(), 0);
    assert_eq!(parts.packet(HOME, 100), Move::OtherPath);
    assert_eq!(parts.recovery.bytes_in_flight(), 1200);
}

/// After a minute, the old address may belong to another host.
#[test]
fn a_return_after_a_long_time_is_a_new_path() {
    let mut parts = server();
    assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
    parts.now += Duration::from_secs(60);
    assert_eq!(parts.packet(HOME, 100), Move::OtherPath);
    assert!(!parts.paths.path.is_validated());
    assert_eq!(parts.paths.path.address.available(), 300);
}

/// RFC 9002 §7.2: the initial window has ten datagrams and at most 14,720 bytes, but always at
/// least two datagrams.
#[test]
fn a_return_is_lent_an_initial_window() {
    for (mtu, window) in [(1200, 12_000), (1500, 14_720), (8000, 16_000)] {
        let mut parts = of_config(|config| {
            config.initial_mtu = mtu;
            config.max_mtu = Some(mtu);
        });
        parts.away_and_back();
        assert_eq!(parts.paths.path.address.available(), window + 300);
    }
}

/// RFC 9000 §9.3.3: an old address is challenged with a separate ID, as long as the peer permits
/// its use.
#[test]
fn an_old_address_is_challenged_under_its_own_id() {
    let moved = |ids| {
        let mut parts = parts(Side::Server, ids, true);
        assert_eq!(parts.packet(AWAY, 101), Move::OtherPath);
        parts
    };
    let mut parts = moved(3);
    let sent = parts.poll_challenge().unwrap();
    assert_eq!((sent.remote, sent.dcid), (from(HOME).remote, id(2)));
    // The peer answers from there, too, because someone else had sent copies of its packets.
    let now = parts.now;
    parts.paths.on_off_path_sent(now, &sent, FULL as u64);
    assert!(parts.poll_challenge().is_none());
    let crate::wire::Frame::PathChallenge(data) = sent.frame() else {
        panic!("{sent:?}");
    };
    assert!(!parts.response(HOME, data), "it is not the path in use");
    // Without an ID for it, the address isn't challenged.
    assert!(moved(1).poll_challenge().is_none());
    let mut retired = moved(3);
    retired.ids.on_new(3, &peer_id(4)).unwrap();
    assert!(retired.poll_challenge().is_none());
}

/// RFC 9000 §8.2.4 requires three probe timeouts, which are long on a slow path. The connection
/// should return to the old address before it is idle for too long.
#[test]
fn a_slow_path_without_an_answer_is_left_within_the_idle_timeout() {
    let mut parts = server();
    let idle = Duration::from_secs(30);
    parts.recovery.set_idle_timeout(Some(idle));
    let sent = super::ack_report::packet(parts.now, 1200);
    assert!(parts.recovery.on_sent(SpaceId::Data, 0, sent));
    parts.now += Duration::from_secs(2);
    let (now, zero, recovery) = (parts.now, Duration::ZERO, &mut parts.recovery);
    let acked = recovery.on_ack(now, SpaceId::Data, [0..=0], zero, |_, _, _| ());
    assert!(acked.is_ok() && parts.recovery.pto() > idle / 6);
    assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
    parts.now += idle / 2;
    assert_eq!(parts.check(), Move::OtherPath);
    assert_eq!(parts.paths.path.remote(), from(HOME).remote);
}

/// RFC 9000 §9.5 concerns peers with IDs. A peer without IDs is identified only by its address.
#[test]
fn a_client_moves_away_from_a_server_without_ids() {
    let mut parts = parts(Side::Client, 0, true);
    parts.ids = RemoteIds::new(ConnectionId::EMPTY, 8);
    assert_eq!(parts.move_to(true), Move::OtherPath);
}

/// The connection returns to the last address that worked, if it is still ours.
#[test]
fn a_client_goes_back_to_what_worked_last() {
    let back_to = |moves: &[(&str, bool)]| {
        let mut parts = parts(Side::Client, 6, true);
        for &(local, back) in moves {
            assert_eq!(parts.move_from(local, back), Move::OtherPath);
        }
        parts.now += PERIOD * 3;
        let moved = parts.check();
        (moved, parts.paths.path.local())
    };
    let (one, two) = ("192.0.2.1", "192.0.2.2");
    let home = (Move::OtherPath, None);
    assert_eq!(back_to(&[(one, true)]), home);
    assert_eq!(back_to(&[(one, true), (two, true)]), home);
    let stayed = back_to(&[(one, true), (two, false)]);
    assert_eq!(stayed, (Move::Stays, ours(two)));
    // The first address is gone, so only the second is left.
    let second = (Move::OtherPath, ours(one));
    assert_eq!(back_to(&[(one, false), (two, true)]), second);
}

/// If nothing else fits, the challenge is written first (RFC 9000 §8.2.1).
#[test]
fn challenges_come_first_where_credit_is_little() {
    // First byte, ID, packet number of 4 bytes, frame of 9 bytes, and tag.
    assert_eq!(least_challenge(8), 1 + 8 + 4 + 9 + 16);
    let mut known = parts(Side::Client, 3, true);
    let first = |parts: &Parts| parts.paths.path.challenges_first(parts.now);
    assert_eq!(known.move_to(true), Move::OtherPath);
    assert!(known.paths.path.wants_challenge(known.now) && !first(&known));
    let mut parts = server();
    assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
    assert!(first(&parts) && parts.paths.path.wants_frames(parts.now));
    parts.written(FULL);
    assert!(!first(&parts) && !parts.paths.path.wants_frames(parts.now));
}

/// RFC 9000 §8.2.1: datagrams with challenges have 1200 bytes including the tag, or prove less.
#[test]
fn datagrams_are_filled_where_they_can_prove_that_full_ones_pass() {
    for (room, padded) in [(FULL - 16, true), (FULL - 17, false), (100, false)] {
        let mut parts = server();
        assert_eq!(parts.packet(AWAY, 100), Move::OtherPath);
        let (challenges, _, filled) = parts.written(room);
        assert_eq!((challenges.len(), filled), (1, padded), "{room}");
        assert_eq!(parts.response(AWAY, challenges[0]), padded);
    }
    // The response to a small challenge is small.
    let mut parts = server();
    parts.challenged(HOME, [7; 8], 64);
    assert_eq!(parts.written(FULL), (vec![], vec![[7; 8]], false));
}

#[test]
fn a_probe_is_answered_with_what_its_path_has_left() {
    for (left, answered) in [(64, true), (63, false)] {
        let mut parts = server();
        parts.paths.on_datagram(&from(AWAY), 100);
        for data in [[7; 8], [8; 8]] {
            parts.challenged(AWAY, data, 100);
        }
        let answer = parts.paths.poll_response(&mut parts.ids).unwrap();
        parts.paths.on_off_path_sent(parts.now, &answer, 300 - left);
        let next = parts.paths.poll_response(&mut parts.ids);
        assert_eq!(next.is_some(), answered, "{left}");
    }
}
