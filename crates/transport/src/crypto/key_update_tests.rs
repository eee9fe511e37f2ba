use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::null::NullCrypto;
use super::testing::handshake;
use super::*;
use crate::{Duration, Instant};

const PTO: Duration = Duration::from_millis(100);
const HEADER: usize = 3;

const UNAUTHENTIC: Result<Opened, OpenFailure> = Err(OpenFailure::Unauthentic);

/// Both ends' keys, confirmed.
fn pair(crypto: &NullCrypto) -> (OneRttKeys, OneRttKeys) {
    let outcome = handshake(crypto, crypto, "server", usize::MAX);
    let (keys, phases) = outcome.client.one_rtt.unwrap();
    let mut client = OneRttKeys::new(keys, phases);
    let (keys, phases) = outcome.server.one_rtt.unwrap();
    let mut server = OneRttKeys::new(keys, phases);
    client.on_confirmed();
    server.on_confirmed();
    (client, server)
}

fn plain() -> (OneRttKeys, OneRttKeys) {
    pair(&NullCrypto::new(&[b"a"]))
}

struct Packet {
    phase: Phase,
    pn: u64,
    bytes: Vec<u8>,
}

fn seal(keys: &mut OneRttKeys, pn: u64) -> Packet {
    let mut bytes = vec![7; 40];
    let phase = keys.phase();
    keys.seal(pn, &mut bytes, HEADER).unwrap();
    Packet { phase, pn, bytes }
}

fn open(keys: &mut OneRttKeys, now: Instant, packet: &Packet) -> Result<Opened, OpenFailure> {
    let mut bytes = packet.bytes.clone();
    keys.open(now, PTO, packet.phase, packet.pn, &mut bytes, HEADER)
}

#[test]
fn update_needs_confirmation_and_an_acknowledgement() {
    // [9001 6.1 confirmed-first] [9001 6.1 acknowledged-first]
    let crypto = NullCrypto::new(&[b"a"]);
    let outcome = handshake(&crypto, &crypto, "server", usize::MAX);
    let (keys, phases) = outcome.client.one_rtt.unwrap();
    let mut keys = OneRttKeys::new(keys, phases);
    let now = Instant::ZERO;
    assert!(!keys.begin_update(now));
    seal(&mut keys, 5);
    keys.on_ack(4, 0).unwrap();
    keys.on_confirmed();
    assert!(!keys.begin_update(now));
    keys.on_ack(5, 0).unwrap();
    assert!(keys.begin_update(now));
    assert_eq!((keys.phase(), keys.generation()), (Phase(true), 1));
    assert!(!keys.begin_update(now));
}

#[test]
fn peer_follows_an_update_and_late_packets_still_open() {
    // [9001 6.1 old-keys-stay] [9001 6.2 follow] [9001 6.2 follow-before-ack]
    let (mut client, mut server) = plain();
    let mut now = Instant::ZERO;
    let late = [seal(&mut client, 0), seal(&mut client, 1)];
    let first = seal(&mut client, 2);
    open(&mut server, now, &first).unwrap();
    client.on_ack(2, 0).unwrap();
    assert!(client.begin_update(now));

    // The peer hasn't followed, so its old packets are opened with the previous key.
    let old = seal(&mut server, 0);
    assert_eq!(open(&mut client, now, &old).unwrap().generation, 0);

    let update = seal(&mut client, 3);
    let opened = open(&mut server, now, &update).unwrap();
    assert!(opened.peer_updated);
    assert_eq!((opened.generation, server.phase()), (1, Phase(true)));

    assert_eq!(open(&mut server, now, &late[0]).unwrap().generation, 0);
    now += PTO * 3 - Duration::from_nanos(1);
    assert!(open(&mut server, now, &late[1]).is_ok());
    now += Duration::from_nanos(1);
    assert_eq!(open(&mut server, now, &late[1]), Err(OpenFailure::KeysGone));

    let answer = seal(&mut server, 1);
    assert!(!open(&mut client, now, &answer).unwrap().peer_updated);
    client.on_ack(3, 1).unwrap();
    assert!(!client.may_update(now + PTO * 3 - Duration::from_nanos(1)));
    assert!(client.may_update(now + PTO * 3));
}

#[test]
fn both_ends_may_update_at_once() {
    let (mut client, mut server) = plain();
    let now = Instant::ZERO;
    let (a, b) = (seal(&mut client, 0), seal(&mut server, 0));
    open(&mut server, now, &a).unwrap();
    open(&mut client, now, &b).unwrap();
    client.on_ack(0, 0).unwrap();
    server.on_ack(0, 0).unwrap();
    assert!(client.begin_update(now) && server.begin_update(now));
    let (a, b) = (seal(&mut client, 1), seal(&mut server, 1));
    assert_eq!(open(&mut server, now, &a).unwrap().generation, 1);
    assert_eq!(open(&mut client, now, &b).unwrap().generation, 1);
    assert_eq!((client.generation(), server.generation()), (1, 1));
}

#[test]
fn hundreds_of_phases_with_loss_and_reordering() {
    // [9001 6.4 ascending]
    let (mut client, mut server) = plain();
    let mut now = Instant::ZERO;
    let mut pn = 0;
    for round in 0..300u64 {
        let packets = [0, 1, 2, 3, 4, 5].map(|n| {
            pn += 1;
            if n == 3 {
                client.begin_update(now);
            }
            seal(&mut client, pn)
        });
        for n in [4, 0, 2, 1, 5] {
            open(&mut server, now, &packets[n]).unwrap();
        }
        let answer = seal(&mut server, round);
        let generation = open(&mut client, now, &answer).unwrap().generation;
        client.on_ack(pn, generation).unwrap();
        now += PTO * 4;
    }
    assert_eq!((client.generation(), server.generation()), (299, 299));
}

#[test]
fn acknowledging_new_keys_under_old_ones_is_an_error() {
    let (mut client, _) = plain();
    seal(&mut client, 0);
    client.on_ack(0, 0).unwrap();
    client.begin_update(Instant::ZERO);
    seal(&mut client, 1);
    client.on_ack(0, 0).unwrap();
    assert_eq!(client.on_ack(1, 0), Err(KeyUpdateError));
    client.on_ack(1, 1).unwrap();
}

/// If a peer returns to old keys, its packets have higher numbers and can't be opened.
#[test]
fn old_keys_open_nothing_above_new_ones() {
    // [9001 5.5 later-packets] [9001 6.4 old-keys-later]
    let (mut client, mut server) = plain();
    let now = Instant::ZERO;
    let first = seal(&mut client, 0);
    open(&mut server, now, &first).unwrap();
    client.on_ack(0, 0).unwrap();
    let (below, above) = (seal(&mut client, 1), seal(&mut client, 9));
    assert!(client.begin_update(now));
    let update = seal(&mut client, 3);
    assert!(open(&mut server, now, &update).unwrap().peer_updated);
    assert_eq!(open(&mut server, now, &above), UNAUTHENTIC);
    assert!(open(&mut server, now, &below).is_ok());
}

#[test]
fn forged_phase_bit_changes_nothing() {
    // [9001 5.5 false-update]
    let (mut client, mut server) = plain();
    let now = Instant::ZERO;
    let packet = seal(&mut client, 0);
    open(&mut server, now, &packet).unwrap();
    let mut forged = seal(&mut client, 1);
    forged.phase = Phase(true);
    assert_eq!(open(&mut server, now, &forged), UNAUTHENTIC);
    assert_eq!(server.generation(), 0);
    forged.phase = Phase(false);
    assert!(open(&mut server, now, &forged).is_ok());
}

#[test]
fn worn_key_asks_for_an_update_and_then_refuses() {
    // [9001 6.6 count-sealed] [9001 6.6 confidentiality]
    let (mut client, _) = pair(&NullCrypto::new(&[b"a"]).with_limits(10, 100));
    let now = Instant::ZERO;
    for pn in 0..10 {
        assert_eq!(client.wants_update(now), pn >= 5, "{pn}");
        seal(&mut client, pn);
        client.on_ack(pn, 0).unwrap();
    }
    let mut bytes = vec![0; 40];
    let sealed = client.seal(10, &mut bytes, HEADER);
    assert_eq!(sealed, Err(SealFailure::LimitReached(AeadLimitReached)));
    assert!(client.begin_update(now));
    client.seal(10, &mut bytes, HEADER).unwrap();
}

#[test]
fn forgeries_are_counted_across_phases() {
    // [9001 6.6 count-forged]
    let (mut client, mut server) = pair(&NullCrypto::new(&[b"a"]).with_limits(1000, 10));
    let now = Instant::ZERO;
    let mut forged = seal(&mut client, 0);
    open(&mut server, now, &forged).unwrap();
    forged.pn = 1;
    for attempt in 0..10 {
        if attempt == 5 {
            seal(&mut server, 0);
            server.on_ack(0, 0).unwrap();
            assert!(server.begin_update(now));
        }
        assert_eq!(open(&mut server, now, &forged), UNAUTHENTIC);
    }
    let opened = open(&mut server, now, &forged);
    assert_eq!(opened, Err(OpenFailure::LimitReached(AeadLimitReached)));
}

/// Counts how often keys are derived.
struct Counted(Box<dyn PhaseKeys>, Arc<AtomicUsize>);

impl PhaseKeys for Counted {
    fn next_phase(&mut self) -> PacketKeys {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.next_phase()
    }
}

#[test]
fn keys_of_the_first_update_wait_for_eight_packets_or_for_the_other_phase_bit() {
    // [9001 6.3 even-timing] [9001 6.3 two-sets]
    let crypto = NullCrypto::new(&[b"a"]);
    let begin = || {
        let outcome = handshake(&crypto, &crypto, "server", usize::MAX);
        let (keys, phases) = outcome.client.one_rtt.unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let client = OneRttKeys::new(keys, Box::new(Counted(phases, Arc::clone(&count))));
        let (keys, phases) = outcome.server.one_rtt.unwrap();
        (client, OneRttKeys::new(keys, phases), count)
    };
    let (mut client, _, count) = begin();
    for (pn, derived) in (0..20).zip([0; 7].into_iter().chain([1; 13])) {
        seal(&mut client, pn);
        assert_eq!(count.load(Ordering::Relaxed), derived, "after {pn}");
    }

    // Only once, regardless of the number of forged packets with the other bit.
    let (mut client, mut server, count) = begin();
    let packet = seal(&mut server, 0);
    open(&mut client, Instant::ZERO, &packet).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 0);
    for pn in 1..10 {
        let mut forged = seal(&mut server, pn);
        forged.phase = Phase(true);
        assert_eq!(open(&mut client, Instant::ZERO, &forged), UNAUTHENTIC);
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
    assert_eq!((client.phase(), client.generation()), (Phase(false), 0));

    // An update before eight packets, begun on this side and followed by the other.
    server.on_confirmed();
    server.on_ack(0, 0).unwrap();
    assert!(server.begin_update(Instant::ZERO));
    let update = seal(&mut server, 10);
    let opened = open(&mut client, Instant::ZERO, &update);
    assert!(opened.unwrap().peer_updated);
    // The keys for the next update are ready immediately.
    assert_eq!(count.load(Ordering::Relaxed), 2);
}
