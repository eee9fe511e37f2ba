//! Events that reset timers, and delays that count.

use super::sender::Sender;
use super::*;

/// RFC 9002 section 5.3: the ACK delay that the peer reports is limited to its `max_ack_delay`
/// once the handshake is confirmed. Before, this parameter may not have arrived.
#[test]
fn a_confirmed_peer_holds_acks_back_for_its_maximum_at_most() {
    // [9002 5.3 ack-delay-limit]
    for (confirmed, srtt_us) in [(true, 121_875), (false, 106_250)] {
        let mut s = Sender::new(true);
        if confirmed {
            s.recovery.on_handshake_confirmed();
        }
        s.send(0, SpaceId::Data);
        s.ack(100, SpaceId::Data, &[(0, 0)]);
        s.send(1000, SpaceId::Data);
        let (ranges, recovery) = ([0..=1], &mut s.recovery);
        let outcome = recovery.on_ack(at(1300), SpaceId::Data, ranges, ms(150), |_, _, _| {});
        let rtt = if confirmed { ms(275) } else { ms(150) };
        assert_eq!(outcome.unwrap().rtt, Some(rtt));
        let srtt = s.recovery.rtt().srtt();
        assert_eq!(srtt, Some(Duration::from_micros(srtt_us)), "{confirmed}");
    }
    // ACKs of the handshake aren't delayed.
    let mut s = Sender::new(true);
    s.send(0, SpaceId::Initial);
    s.ack(100, SpaceId::Initial, &[(0, 0)]);
    s.send(1000, SpaceId::Initial);
    let (ranges, recovery) = ([0..=1], &mut s.recovery);
    let outcome = recovery.on_ack(at(1300), SpaceId::Initial, ranges, ms(150), |_, _, _| {});
    assert_eq!(outcome.unwrap().rtt, Some(ms(300)));
}

/// A connection with one unanswered packet whose probe timeout fired twice.
fn backed_off() -> Sender {
    let mut s = Sender::settled();
    s.send(1000, SpaceId::Data);
    for _ in 0..2 {
        let due = s.recovery.deadline().unwrap();
        let now = (due - Instant::ZERO).as_millis();
        s.fire(u64::try_from(now).unwrap());
    }
    assert_eq!(s.recovery.pto_count(), 2);
    s
}

/// RFC 9002 section 6.2.2: discarding keys ends the backoff, and so does another path.
#[test]
fn discarded_keys_and_another_path_end_the_backoff() {
    // [9002 6.2.2 discarded-keys-reset]
    let mut drained = backed_off();
    let handshake = SpaceId::Handshake;
    drained.recovery.drain(at(5000), handshake, |_, _| {});
    assert_eq!(drained.recovery.pto_count(), 0);
    let mut moved = backed_off();
    moved.recovery.change_path(at(5000), None, false);
    assert_eq!(moved.recovery.pto_count(), 0);
}

/// An ACK of nothing new isn't a sign of life.
#[test]
fn an_ack_of_nothing_new_does_not_end_the_backoff() {
    let mut s = backed_off();
    s.ack(5000, SpaceId::Data, &[(0, 0)]);
    assert_eq!(s.recovery.pto_count(), 2);
}

#[test]
fn probes_come_several_times_within_an_idle_timeout() {
    let mut s = Sender::settled();
    s.recovery.set_idle_timeout(Some(ms(8000)));
    s.send(10_000, SpaceId::Data);
    // 325 ms, doubled each time, up to a quarter of the timeout.
    for wait in [325, 650, 1300, 2000, 2000] {
        assert_eq!(s.recovery.deadline(), Some(at(10_000 + wait)));
        assert!(matches!(s.fire(10_000 + wait), Timeout::Probe(_)));
    }
}

/// A client with nothing in flight must keep the server unblocked. Its timer runs from the last
/// packet sent or acknowledged, and from each probe.
#[test]
fn the_timer_against_a_blocked_server_counts_from_the_last_activity() {
    // [9002 6.2.2.1 blocked-server] [9002 6.2.2.1 client-keeps-probing]
    let client = || {
        let mut s = Sender::new(true);
        s.send(0, SpaceId::Initial);
        s.ack(100, SpaceId::Initial, &[(0, 0)]);
        // 100 + 4 x 50.
        assert_eq!(s.recovery.deadline(), Some(at(400)));
        s
    };
    let mut sent = client();
    assert!(sent.recovery.on_sent(SpaceId::Initial, 1, bare(250)));
    assert_eq!(sent.recovery.deadline(), Some(at(550)));
    // An ACK of nothing new isn't activity.
    sent.ack(300, SpaceId::Initial, &[(0, 0)]);
    assert_eq!(sent.recovery.deadline(), Some(at(550)));
    assert!(matches!(sent.fire(550), Timeout::Probe(SpaceId::Initial)));
    assert_eq!(sent.recovery.deadline(), Some(at(550 + 600)));
    let mut drained = client();
    drained.recovery.drain(at(350), SpaceId::Initial, |_, _| {});
    assert_eq!(drained.recovery.deadline(), Some(at(650)));
    let mut moved = client();
    moved.recovery.change_path(at(350), None, false);
    // The round trip must be measured again: 333 + 4 x 166.5.
    assert_eq!(moved.recovery.deadline(), Some(at(350 + 999)));
    let mut blocked = client();
    blocked.recovery.set_amplification_blocked(at(300), false);
    assert_eq!(blocked.recovery.deadline(), Some(at(400)), "it was not");
    blocked.recovery.set_amplification_blocked(at(310), true);
    assert_eq!(blocked.recovery.deadline(), None);
    blocked.recovery.set_amplification_blocked(at(320), true);
    blocked.recovery.set_amplification_blocked(at(360), false);
    assert_eq!(blocked.recovery.deadline(), Some(at(660)));
}

/// A connection whose path failed from 1 s to 6 s. Of packets 1 to 6, the first waited in a
/// queue; the others and both pairs of probes were dropped.
fn after_an_outage() -> Sender {
    let mut s = Sender::settled();
    s.send_at([1000; 6]);
    for due in [1325, 1325 + 650] {
        assert_eq!(s.recovery.deadline(), Some(at(due)));
        assert!(matches!(s.fire(due), Timeout::Probe(_)));
        s.send(due, SpaceId::Data);
        s.send(due, SpaceId::Data);
    }
    s.ack(6000, SpaceId::Data, &[(1, 1)]);
    // What was measured counts.
    assert!(s.recovery.rtt().srtt() > Some(ms(700)));
    s
}

/// The timer uses the estimate from before the outage, so that probes detect its end. The
/// first packet sent afterwards restores this estimate.
#[test]
fn an_outage_makes_no_later_probe_wait() {
    let mut s = after_an_outage();
    // A probe is due at once.
    assert!(s.recovery.deadline() <= Some(at(6000)));
    assert!(matches!(s.fire(6000), Timeout::Probe(_)));
    let probe = s.send(6000, SpaceId::Data);
    // 325 ms, doubled.
    assert_eq!(s.recovery.deadline(), Some(at(6650)));
    let outcome = s.ack(6100, SpaceId::Data, &[(probe, probe)]);
    assert_eq!(s.recovery.rtt().srtt(), Some(ms(100)));
    assert_eq!(s.recovery.pto(), ms(100 + 150 + 25));
    // What the outage measured judges its losses, and what was dropped is known.
    assert!(!outcome.loss.persistent_congestion);
    assert_eq!(s.lost(), [2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

/// If the path is slower afterwards, the new samples are kept.
#[test]
fn a_path_that_became_slower_is_no_outage() {
    let mut s = after_an_outage();
    let srtt = s.recovery.rtt().srtt().unwrap();
    assert!(matches!(s.fire(6000), Timeout::Probe(_)));
    let probe = s.send(6000, SpaceId::Data);
    s.ack(11_000, SpaceId::Data, &[(probe, probe)]);
    assert!(s.recovery.rtt().srtt().unwrap() > srtt);
    assert!(s.recovery.pto() > ms(5000));
}

/// Packets sent before the outage ended reflect its length as well.
#[test]
fn a_late_answer_from_the_outage_decides_nothing() {
    let mut s = after_an_outage();
    s.ack(6010, SpaceId::Data, &[(7, 10)]);
    assert!(s.recovery.rtt().srtt() > Some(ms(1000)));
    let next = s.send(6010, SpaceId::Data);
    assert_eq!(s.recovery.deadline(), Some(at(6010 + 325)));
    s.ack(6110, SpaceId::Data, &[(next, next)]);
    assert_eq!(s.recovery.rtt().srtt(), Some(ms(100)));
}

#[test]
fn a_probe_timeout_is_the_round_trip_with_its_variation_and_the_peers_delay() {
    let mut s = Sender::settled();
    assert_eq!(s.recovery.pto(), ms(100 + 4 * 50 + 25));
    s.recovery.set_max_ack_delay(ms(60));
    assert_eq!(s.recovery.pto(), ms(360));
}
