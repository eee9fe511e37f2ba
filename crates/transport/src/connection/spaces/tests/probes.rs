//! Probes after a timeout, and the packets that they repeat.

use super::*;
use crate::recovery::{Fate, Timeout};

/// Fires the probe timeout, and returns its time and space.
fn fire(spaces: &mut PacketSpaces) -> (Instant, SpaceId) {
    let at = spaces.deadline(START).unwrap();
    match spaces.recovery.on_timeout(at, |_, _, _| {}) {
        Timeout::Probe(space) => {
            let _ = spaces.begin_probes(space);
            (at, space)
        }
        other => panic!("{other:?}"),
    }
}

fn sizes<'a>(packets: impl Iterator<Item = &'a SentPacket<Carried>>) -> Vec<u16> {
    packets.map(|packet| packet.size).collect()
}

#[test]
fn a_second_probe_leaves_if_the_first_got_no_answer() {
    let [mut spaces, _] = both_sides();
    let initial = SpaceId::Initial;
    send(&mut spaces, initial, START, 1200);
    assert_eq!(spaces.second_probe(1200), None, "there was no timeout");
    let (at, space) = fire(&mut spaces);
    assert_eq!(space, initial);
    assert!(spaces.probes(initial) && !spaces.probes(SpaceId::Handshake));
    let later = spaces.begin_probes(initial);
    assert_eq!(later, spaces.recovery.probe_period() / 16);
    assert_eq!(spaces.probe_index(initial), Some(0));
    send(&mut spaces, initial, at, 1200);
    assert!(!spaces.probes(initial));
    assert_eq!(spaces.second_probe(1200), Some(initial));
    assert_eq!(spaces.probe_index(initial), Some(1));
    // An answer ends the probes.
    spaces.after_ack();
    assert!(spaces.is_probing());
    spaces.recovery.on_peer_validated();
    let mut fates = Vec::new();
    let ack = [1..=1];
    let (recovery, ..) = spaces.split(initial);
    recovery
        .on_ack(at, initial, ack, Duration::ZERO, |fate, number, _| {
            fates.push((fate, number));
        })
        .unwrap();
    spaces.after_ack();
    assert!(fates.contains(&(Fate::Acked, 1)) && !spaces.is_probing());
}

/// A client that has Handshake keys and sent a packet of each level.
fn client_with_both(initial: u16, handshake: u16) -> PacketSpaces {
    let [mut client, _] = both_sides();
    install(&mut client);
    send(&mut client, SpaceId::Initial, START, initial);
    send(&mut client, SpaceId::Handshake, after(1), handshake);
    client
}

#[test]
fn the_second_probe_holds_both_levels_if_they_fit_one_datagram() {
    // RFC 9002 §6.2.4.
    for (initial, handshake, fits) in [(700, 500, true), (700, 501, false), (300, 300, true)] {
        let mut client = client_with_both(initial, handshake);
        let (_, space) = fire(&mut client);
        assert_eq!(space, SpaceId::Initial);
        assert_eq!(client.second_probe(1200), Some(SpaceId::Initial));
        assert!(client.probes(SpaceId::Initial));
        assert_eq!(client.probes(SpaceId::Handshake), fits);
        // After the first probe, the oldest packet without an answer belongs to the other level.
        let mut client = client_with_both(initial, handshake);
        let (at, _) = fire(&mut client);
        send(&mut client, SpaceId::Initial, at, initial);
        assert!(!client.is_probing());
        assert_eq!(client.second_probe(1200), Some(SpaceId::Handshake));
        assert!(client.probes(SpaceId::Handshake));
        assert_eq!(client.probes(SpaceId::Initial), fits);
    }
}

#[test]
fn a_level_without_keys_has_no_probe() {
    let mut client = client_with_both(300, 300);
    assert!(client.discard(after(2), SpaceId::Initial));
    let (_, space) = fire(&mut client);
    assert_eq!(space, SpaceId::Handshake);
    assert_eq!(client.second_probe(1200), Some(SpaceId::Handshake));
    assert!(client.probes(SpaceId::Handshake) && !client.probes(SpaceId::Initial));
}

/// Data packets are sent by themselves, whatever is left of the handshake.
#[test]
fn the_second_probe_of_data_has_no_company() {
    let mut client = client_with_both(300, 300);
    client.on_confirmed();
    send(&mut client, SpaceId::Data, after(2), 300);
    acked(&mut client, SpaceId::Initial, 0, after(3));
    acked(&mut client, SpaceId::Handshake, 0, after(3));
    let (_, space) = fire(&mut client);
    assert_eq!(space, SpaceId::Data);
    send(&mut client, SpaceId::Initial, after(500), 300);
    assert_eq!(client.second_probe(1200), Some(SpaceId::Data));
    assert!(!client.probes(SpaceId::Initial) && !client.probes(SpaceId::Handshake));
}

#[test]
fn probes_of_data_repeat_what_was_sent_after_the_first_timeout() {
    let [_, mut server] = both_sides();
    install(&mut server);
    send(&mut server, SpaceId::Initial, START, 300);
    for _ in 0..2 {
        assert_eq!(fire(&mut server).1, SpaceId::Initial);
        assert!(!server.probes_again(), "no data is probed");
    }
    assert!(server.discard(START, SpaceId::Initial));
    server.on_confirmed();
    send(&mut server, SpaceId::Data, START, 300);
    for again in [false, true, true] {
        assert_eq!(fire(&mut server).1, SpaceId::Data);
        assert_eq!(server.probes_again(), again);
    }
    server.recovery.drain(START, SpaceId::Data, |_, _| {});
    server.after_ack();
    assert!(!server.is_probing() && !server.probes_again());
}

/// Probes of the path's size aren't losses, and packets that aren't ack-eliciting need no answer.
#[test]
fn packets_of_data_that_are_repeated_want_an_answer_and_probe_no_size() {
    let mut random = Random::from_u64(1);
    let mut spaces = spaces(&mut random);
    let plain = |size| sent(START, size, Carried::default());
    let packets = [
        plain(100),
        SentPacket {
            ack_eliciting: false,
            ..plain(101)
        },
        SentPacket {
            probe: Probe::Mtu,
            ..plain(102)
        },
        plain(103),
    ];
    for (number, packet) in (0..).zip(packets) {
        spaces.on_sent(SpaceId::Data, number, packet, &mut random);
    }
    assert_eq!(sizes(spaces.repeatable(SpaceId::Data)), [100, 103]);
}

#[test]
fn packets_with_handshake_data_are_repeated_oldest_first() {
    let mut random = Random::from_u64(1);
    let mut spaces = spaces(&mut random);
    let initial = SpaceId::Initial;
    for (number, frames) in (0..).zip([crypto(), Carried::default(), crypto()]) {
        let packet = sent(after(number), 100 + number as u16, frames);
        spaces.on_sent(initial, number, packet, &mut random);
    }
    assert_eq!(sizes(spaces.repeatable(initial)), [100, 102]);
    assert_eq!(sizes(spaces.repeatable(SpaceId::Data)), [0; 0]);
}

/// Before the round trip is known, one packet may be repeated at any time, and all packets after
/// the time that timers assume.
#[test]
fn packets_older_than_a_round_trip_are_overdue() {
    let [mut client, _] = both_sides();
    let initial = SpaceId::Initial;
    for (ms, size) in [(0, 100), (1, 101), (2, 102)] {
        send(&mut client, initial, after(ms), size);
    }
    let overdue = |client: &PacketSpaces, ms| sizes(client.overdue(after(ms), initial));
    let guess = 333;
    assert_eq!(overdue(&client, 0), [0; 0]);
    assert_eq!(overdue(&client, 2), [100]);
    assert_eq!(overdue(&client, 2 + guess), [100]);
    assert_eq!(overdue(&client, 3 + guess), [100, 101, 102]);
    // The round trip takes 100 ms.
    acked(&mut client, initial, 0, after(100));
    send(&mut client, initial, after(60), 103);
    assert_eq!(overdue(&client, 101), [0; 0]);
    assert_eq!(overdue(&client, 102), [101]);
    assert_eq!(overdue(&client, 160), [101]);
    assert_eq!(overdue(&client, 161), [101, 102, 103]);
}

#[test]
fn a_timeout_asks_for_a_probe_and_then_for_another() {
    let mut probes = Probes::new();
    assert!(!probes.any());
    probes.on_timeout(SpaceId::Data);
    assert!(probes.any() && probes.is_due(SpaceId::Data));
    assert_eq!(probes.index(SpaceId::Data), Some(0));
    assert_eq!(probes.index(SpaceId::Handshake), None);
    probes.clear(SpaceId::Data);
    assert_eq!(probes.index(SpaceId::Data), None);
    assert!(!probes.any());
    assert!(probes.on_second(SpaceId::Data));
    assert_eq!(probes.index(SpaceId::Data), Some(1));
    probes.clear_all();
    assert!(!probes.any());
    // The next timeout begins again.
    probes.on_timeout(SpaceId::Data);
    assert_eq!(probes.index(SpaceId::Data), Some(0));
}

/// The space of the probes may change between the two, as the handshake progresses.
#[test]
fn a_second_probe_of_another_space_is_its_first() {
    let mut probes = Probes::new();
    probes.on_timeout(SpaceId::Initial);
    probes.clear(SpaceId::Initial);
    assert!(!probes.on_second(SpaceId::Data));
    assert!(!probes.any());
    assert!(probes.on_second(SpaceId::Handshake));
    assert_eq!(probes.index(SpaceId::Handshake), Some(0));
    probes.clear(SpaceId::Handshake);
    assert!(probes.on_second(SpaceId::Initial));
    probes.add(SpaceId::Handshake);
    assert_eq!(probes.index(SpaceId::Initial), Some(1));
    assert_eq!(probes.index(SpaceId::Handshake), Some(0));
}
