//! RFC 9002, rule by rule.

use super::sender::Sender;
use super::*;

#[test]
fn packet_threshold_of_three_and_time_threshold_of_nine_eighths() {
    // [9002 6.2.1 loss-timer-first]
    let mut s = Sender::settled();
    s.send_at(100..105);
    s.out.clear();
    s.recovery.note_window_limited();
    let outcome = s.ack(203, SpaceId::Data, &[(4, 4)]);
    assert_eq!(s.out, [(Fate::Acked, 4), (Fate::Lost, 1)]);
    let acked = outcome.acked.unwrap();
    assert_eq!((acked.bytes, acked.packets, acked.largest), (1200, 1, 4));
    assert_eq!(acked.rtt, Some(ms(100)));
    assert_eq!((acked.in_flight_before, acked.window_limited), (6000, true));
    let lost = outcome.loss.lost.unwrap();
    assert_eq!((lost.bytes, lost.largest, lost.last_sent), (1200, 1, 5));
    assert_eq!(lost.in_flight_before, 4800);
    // Packets 2 and 3 are lost by time, 112.5 ms after each was sent; 5 isn't overtaken.
    let due = Instant::from_micros(101_000 + 112_500);
    assert_eq!(s.recovery.deadline(), Some(due));
    assert!(matches!(s.fire(213), Timeout::None));
    assert!(matches!(s.fire(214), Timeout::Lost(l) if l.packets == 1));
    assert!(matches!(s.fire(215), Timeout::Lost(l) if l.packets == 1));
    assert_eq!(s.out[2..], [(Fate::Lost, 2), (Fate::Lost, 3)]);
    assert_eq!(s.recovery.bytes_in_flight(), 1200);
}

#[test]
fn what_has_no_shim_may_overtake_what_has_one() {
    let mut s = Sender::settled();
    let first = s.send_shim(200, true);
    for _ in 0..9 {
        s.send_shim(200, true);
    }
    let plain = s.send_shim(200, false);
    // It doesn't wait in a queue for shims, so it reveals nothing about the others.
    s.ack(300, SpaceId::Data, &[(plain, plain)]);
    assert!(s.lost().is_empty(), "{:?}", s.out);
    // Twice the time threshold: 2 · 9/8 · 100 ms after they were sent.
    assert_eq!(s.recovery.deadline(), Some(at(425)));
    // A packet with a shim still reveals the loss of earlier packets.
    s.out.clear();
    s.ack(310, SpaceId::Data, &[(first + 5, first + 5)]);
    assert_eq!(s.lost(), [first, first + 1, first + 2]);
}

#[test]
fn where_few_packets_have_shims_the_others_condemn_them() {
    let mut s = Sender::settled();
    let mut send = |n: u64| match n % 20 {
        0 => s.send_shim(200, true),
        _ => s.send(200, SpaceId::Data),
    };
    let numbers: Vec<u64> = (0..40).map(&mut send).collect();
    s.ack(300, SpaceId::Data, &[(numbers[1], numbers[19])]);
    assert_eq!(s.lost(), [numbers[0]]);
    // A shim that arrived changes nothing as long as the following packets have none.
    s.ack(310, SpaceId::Data, &[(numbers[1], numbers[20])]);
    s.out.clear();
    let ranges = [(numbers[22], numbers[39]), (numbers[1], numbers[20])];
    s.ack(320, SpaceId::Data, &ranges);
    assert_eq!(s.lost(), [numbers[21]]);
}

#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    for (range, error) in [
        (&[(4, 4)][..], AckError::NeverSent(4)),
        (&[(3, u64::MAX)], AckError::NeverSent(u64::MAX)),
        (&[(0, 3)], AckError::NeverSent(3)),
        (&[(3, 3), (1, 1)], AckError::NeverSent(1)),
        (&[(3, 3), (3, 3)], AckError::Disordered),
        (&[(3, 0)], AckError::Disordered),
    ] {
        let mut s = Sender::settled();
        s.next[2] = 3; // 1 and 2 are left out
        s.send(100, SpaceId::Data);
        assert_eq!(s.try_ack(200, SpaceId::Data, range).unwrap_err(), error);
    }
    let nothing = Sender::new(false).try_ack(0, SpaceId::Initial, &[(0, 0)]);
    assert_eq!(nothing.unwrap_err(), AckError::NeverSent(0));
}

#[test]
fn duplicate_acks_change_nothing() {
    let mut s = Sender::settled();
    s.send(100, SpaceId::Data);
    s.ack(200, SpaceId::Data, &[(1, 1)]);
    let again = s.ack(900, SpaceId::Data, &[(0, 1)]);
    assert_eq!((again.newly.packets, again.rtt), (0, None));
    assert!(again.acked.is_none() && !again.newly.advanced);
    assert_eq!(s.recovery.rtt().latest(), Some(ms(100)));
}

/// An ACK of packets that aren't ack-eliciting may arrive at any time, so it measures nothing.
#[test]
fn an_ack_of_acks_alone_is_no_sample() {
    // [9002 5.1 sample-of-eliciting]
    let mut s = Sender::settled();
    let bare = s.send_shim(200, false);
    let of_ack = s.ack(900, SpaceId::Data, &[(bare, bare)]);
    assert_eq!((of_ack.newly.packets, of_ack.rtt), (1, None));
    assert_eq!(s.recovery.rtt().latest(), Some(ms(100)));
    let eliciting = s.send(900, SpaceId::Data);
    let bare = s.send_shim(910, false);
    let of_both = s.ack(1050, SpaceId::Data, &[(eliciting, bare)]);
    assert_eq!(of_both.rtt, Some(ms(140)));
}

#[test]
fn probe_timeouts_back_off_and_an_ack_ends_that() {
    // [9002 6.2 timeout-loses-nothing] [9002 7.5 probes-count] [9002 6.2.1 backoff]
    let mut s = Sender::settled();
    let number = s.send(1000, SpaceId::Data);
    // srtt 100 + 4 · 50 + max_ack_delay 25
    let mut wait = 325;
    for count in 1..4 {
        assert_eq!(s.recovery.deadline(), Some(at(1000 + wait)));
        assert!(matches!(s.fire(1000 + wait - 1), Timeout::None));
        assert!(matches!(s.fire(1000 + wait), Timeout::Probe(SpaceId::Data)));
        assert_eq!(s.recovery.pto_count(), count);
        wait *= 2;
    }
    // A timeout loses nothing.
    assert_eq!(s.recovery.bytes_in_flight(), 1200);
    // Probes are lost too; the last one is acknowledged, and all packets before it are lost.
    s.send_at([3000; 3]);
    // Probes count in addition.
    assert_eq!(s.recovery.bytes_in_flight(), 4800);
    s.out.clear();
    s.ack(3100, SpaceId::Data, &[(number + 3, number + 3)]);
    assert_eq!(s.out[..2], [(Fate::Acked, 4), (Fate::Lost, 1)]);
    assert_eq!(s.recovery.pto_count(), 0);
}

#[test]
fn timers_of_the_handshake() {
    // [9002 6.2.1 earliest-space] [9002 6.2.1 data-after-confirmation]
    // [9002 6.2.2.1 blocked-server] [9002 6.2.2.1 client-keeps-probing]
    // [9002 6.2.2.1 client-probe-space]
    let mut client = Sender::new(true);
    client.send(0, SpaceId::Initial);
    assert_eq!(client.recovery.deadline(), Some(at(999)));
    assert!(matches!(client.fire(999), Timeout::Probe(SpaceId::Initial)));
    client.send(999, SpaceId::Initial);
    client.ack(1099, SpaceId::Initial, &[(0, 1)]);
    // The server may still be stuck.
    assert_eq!(client.recovery.pto_count(), 1);
    // Nothing is in flight, but the client must keep the server unblocked: 2 × (100 + 200) from
    // the last ACK.
    assert_eq!(client.recovery.deadline(), Some(at(1699)));
    client.recovery.on_handshake_keys();
    let probe = client.fire(1699);
    assert!(matches!(probe, Timeout::Probe(SpaceId::Handshake)));
    client.recovery.on_peer_validated();
    assert_eq!(client.recovery.deadline(), None);
    client.send(1700, SpaceId::Data);
    assert_eq!(client.recovery.deadline(), None, "not before confirmation");
    client.recovery.on_handshake_confirmed();
    assert!(client.recovery.deadline().is_some());

    let mut server = Sender::new(false);
    server.send(0, SpaceId::Initial);
    server.send(1, SpaceId::Handshake);
    assert_eq!(server.recovery.deadline(), Some(at(999)));
    server.recovery.set_amplification_blocked(at(5), true);
    assert_eq!(server.recovery.deadline(), None);
    server.recovery.set_amplification_blocked(at(2000), false);
    let mut dropped = Vec::new();
    let recovery = &mut server.recovery;
    recovery.drain(at(2000), SpaceId::Initial, |n, _| dropped.push(n));
    assert_eq!(dropped, [0]);
    assert_eq!(server.recovery.deadline(), Some(at(1000)));
    let probe = server.fire(2000);
    assert!(matches!(probe, Timeout::Probe(SpaceId::Handshake)));
    assert_eq!(server.recovery.bytes_in_flight(), 1200);
}

#[test]
fn a_loss_event_that_was_none_is_reported_once() {
    let mut s = Sender::settled();
    s.send_at(100..108);
    s.ack(205, SpaceId::Data, &[(5, 5)]);
    assert!(s.out.contains(&(Fate::Lost, 1)) && s.out.contains(&(Fate::Lost, 2)));
    let one = s.ack(206, SpaceId::Data, &[(5, 6), (1, 1)]);
    assert_eq!((one.newly.spurious, one.newly.event_undone), (1, false));
    let both = s.ack(206, SpaceId::Data, &[(1, 6)]);
    assert_eq!((both.newly.spurious, both.newly.event_undone), (1, true));
    let again = s.ack(207, SpaceId::Data, &[(1, 7)]);
    assert_eq!((again.newly.spurious, again.newly.event_undone), (0, false));
    assert_eq!(s.recovery.space(SpaceId::Data).reordering().packets(), 5);
}

#[test]
fn persistent_congestion_spans_ack_frames() {
    let mut s = Sender::settled();
    // Three probe timeouts are 975 ms.
    s.send_at((1000..2200).step_by(100));
    let early = s.ack(2101, SpaceId::Data, &[(9, 9)]);
    assert!(early.loss.lost.is_some() && !early.loss.persistent_congestion);
    s.send_at((2200..4000).step_by(100));
    let late = s.ack(4200, SpaceId::Data, &[(30, 30), (9, 9)]);
    assert!(late.loss.persistent_congestion);
}

#[test]
fn mtu_probes_and_acks_are_no_congestion() {
    let mut s = Sender::settled();
    let mut probe = packet(at(100), 1452, ());
    probe.probe = Probe::Mtu;
    s.send_as(SpaceId::Data, probe);
    s.send_shim(100, false);
    s.send_at([101; 4]);
    s.out.clear();
    let outcome = s.ack(201, SpaceId::Data, &[(3, 6)]);
    assert_eq!(outcome.loss.packets, 1);
    assert!(outcome.loss.lost.is_none());
    assert_eq!(s.out.last(), Some(&(Fate::Lost, 1)));
    assert_eq!(s.recovery.bytes_in_flight(), 0);
}

#[test]
fn another_path_starts_from_nothing() {
    // [9000 9.4 other-paths-packets]
    let mut s = Sender::settled();
    s.send_at([100; 4]);
    s.recovery.change_path(at(150), None, false);
    assert_eq!(s.recovery.bytes_in_flight(), 0);
    assert_eq!(s.recovery.rtt().srtt(), None);
    let old = s.ack(200, SpaceId::Data, &[(4, 4)]);
    assert!(old.acked.is_none() && old.rtt.is_none() && old.loss.lost.is_none());
    assert_eq!((old.newly.packets, old.loss.packets), (1, 1));
    s.send(210, SpaceId::Data);
    let new = s.ack(300, SpaceId::Data, &[(4, 5)]);
    assert_eq!(new.rtt, Some(ms(90)));
    assert_eq!(new.acked.map(|a| a.in_flight_before), Some(1200));
}

/// RFC 9002 section 7.8: each ACK reports whether the window limited the sender since it was
/// last able to send.
#[test]
fn what_bounded_the_sender_is_reported_with_each_ack() {
    let mut s = Sender::settled();
    let mut limited_after = |before: fn(&mut Recovery<()>)| {
        before(&mut s.recovery);
        let number = s.send(100, SpaceId::Data);
        let acked = s.ack(200, SpaceId::Data, &[(number, number)]).acked;
        acked.unwrap().window_limited
    };
    assert!(!limited_after(|_| {}));
    assert!(limited_after(Recovery::note_window_limited));
    assert!(!limited_after(Recovery::note_not_window_limited));
    assert!(limited_after(Recovery::note_window_limited));
}

/// Shims are rare after sixteen consecutive packets with data but without a shim, and not
/// before.
#[test]
fn few_shims_are_sixteen_packets_without_one() {
    // In addition to the one that a settled sender has sent.
    for (bare, lost) in [(14, 0), (15, 1)] {
        let mut s = Sender::settled();
        let shim = s.send_shim(200, true);
        s.send_at((0..bare).map(|_| 200));
        let outcome = s.ack(300, SpaceId::Data, &[(shim + 1, shim + bare)]);
        assert_eq!(outcome.loss.packets, lost, "{bare}");
    }
}

#[test]
fn records_stay_small() {
    // With 600 000 packets in flight, each byte counts. A state of two words takes 16.
    assert_eq!(size_of::<Option<SentPacket<[u64; 3]>>>(), 56);
}
