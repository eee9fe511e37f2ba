use super::*;
use crate::Ecn;
use crate::crypto::null::NullCrypto;
use crate::crypto::{InitialCrypto, Side};
use crate::recovery::{Fate, PathNumber};
use crate::wire::frame::Frames;
use crate::wire::{Frame, Writer};

const START: Instant = Instant::from_millis(1000);

/// Spaces with keys of Initial packets alone.
fn spaces(random: &mut Random) -> PacketSpaces {
    let crypto = NullCrypto::new(&[b"test"]);
    let keys = InitialCrypto::initial_keys(&crypto, &[1; 8], Side::Client);
    let (idle, longest) = (Duration::from_secs(30), Duration::from_secs(30));
    PacketSpaces::new(
        START,
        Side::Client,
        keys,
        &TransportConfig::default(),
        Duration::from_millis(25),
        (Some(idle), longest),
        random,
    )
}

fn sent(at: Instant, size: u16, frames: Carried) -> SentPacket<Carried> {
    SentPacket {
        sent_at: at,
        state: pathmark_cc::PacketState::default(),
        size,
        ack_eliciting: true,
        in_flight: true,
        shim: false,
        probe: Probe::Nothing,
        path: PathNumber::default(),
        ecn: Ecn::NotEct,
        frames,
    }
}

fn crypto() -> Carried {
    let mut carried = Carried::default();
    carried.add_crypto(0..10);
    carried
}

#[test]
fn left_out_numbers_lie_anywhere_up_to_the_double() {
    let mut random = Random::from_u64(1);
    for number in [70, 1000, 1 << 20, 1 << 40] {
        let mut eighths = [0; 8];
        for _ in 0..4000 {
            let next = next_skipped(number, &mut random);
            assert!(next > number && next <= 2 * number);
            eighths[((next - number - 1) * 8 / number) as usize] += 1;
        }
        assert!(
            eighths.iter().all(|n| (400..600).contains(n)),
            "{eighths:?}"
        );
    }
    // Few of them: the logarithm of what is sent.
    let (mut number, mut count) = (0, 0);
    while number < 1 << 40 {
        number = next_skipped(number, &mut random);
        count += 1;
    }
    assert!((40..120).contains(&count), "{count}");
}

#[test]
fn numbers_of_the_data_space_alone_are_left_out() {
    let mut random = Random::from_u64(1);
    let mut spaces = spaces(&mut random);
    let mut used = [Vec::new(), Vec::new()];
    for _ in 0..300 {
        for (space, used) in [SpaceId::Initial, SpaceId::Data].into_iter().zip(&mut used) {
            let (number, _) = spaces.number(space);
            spaces.on_sent(space, number, sent(START, 100, crypto()), &mut random);
            used.push(number);
        }
    }
    let [initial, data] = used;
    assert_eq!(initial, (0..300).collect::<Vec<_>>());
    let left_out = data.last().unwrap() + 1 - 300;
    assert!((2..20).contains(&left_out), "{left_out}");
    assert!(
        data.windows(2)
            .all(|pair| (1..=2).contains(&(pair[1] - pair[0])))
    );
}

#[test]
fn what_waits_for_keys_goes_with_them() {
    // [9002 6.4 discarded-packets]
    let mut random = Random::from_u64(1);
    let mut spaces = spaces(&mut random);
    let initial = SpaceId::Initial;
    assert!(!spaces.discard(START, SpaceId::Handshake), "there are none");
    spaces.on_sent(initial, 0, sent(START, 1200, crypto()), &mut random);
    let _ = spaces.begin_probes(initial);
    assert!(spaces.is_probing() && spaces.recovery().bytes_in_flight() > 0);
    assert!(spaces.discard(START, initial));
    assert!(!spaces.is_probing() && spaces.recovery().bytes_in_flight() == 0);
    assert!(!spaces.keys().has(initial) && !spaces.discard(START, initial));
}

#[test]
fn a_second_probe_leaves_if_the_first_got_no_answer() {
    let mut random = Random::from_u64(1);
    let mut spaces = spaces(&mut random);
    let initial = SpaceId::Initial;
    spaces.on_sent(initial, 0, sent(START, 1200, crypto()), &mut random);
    assert_eq!(spaces.second_probe(1200), None, "there was no timeout");
    let at = spaces.deadline(START).unwrap();
    let timeout = spaces.recovery_mut().on_timeout(at, |_, _, _| {});
    assert!(matches!(
        timeout,
        crate::recovery::Timeout::Probe(SpaceId::Initial)
    ));
    let later = spaces.begin_probes(initial);
    assert_eq!(later, spaces.recovery().probe_period() / 16);
    assert_eq!(spaces.probe_index(initial), Some(0));
    spaces.on_sent(initial, 1, sent(at, 1200, crypto()), &mut random);
    assert!(!spaces.probes(initial));
    assert_eq!(spaces.second_probe(1200), Some(initial));
    assert_eq!(spaces.probe_index(initial), Some(1));
    // An answer ends that.
    spaces.after_ack();
    assert!(spaces.is_probing());
    spaces.recovery_mut().on_peer_validated();
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

#[test]
fn packets_with_handshake_data_are_repeated_oldest_first() {
    let mut random = Random::from_u64(1);
    let mut spaces = spaces(&mut random);
    let initial = SpaceId::Initial;
    for (number, frames) in [crypto(), Carried::default(), crypto()]
        .into_iter()
        .enumerate()
    {
        let at = START + Duration::from_millis(number as u64);
        let packet = sent(at, 100 + number as u16, frames);
        spaces.on_sent(initial, number as u64, packet, &mut random);
    }
    let sizes = |packets: Vec<&SentPacket<Carried>>| -> Vec<u16> {
        packets.iter().map(|packet| packet.size).collect()
    };
    assert_eq!(sizes(spaces.repeatable(initial).collect()), [100, 102]);
    assert_eq!(sizes(spaces.repeatable(SpaceId::Data).collect()), [0; 0]);
    let soon = START + Duration::from_millis(2);
    assert_eq!(sizes(spaces.overdue(soon, initial).collect()), [100]);
    assert_eq!(sizes(spaces.overdue(START, initial).collect()), [0; 0]);
    let late = START + Duration::from_secs(2);
    assert_eq!(sizes(spaces.overdue(late, initial).collect()), [100, 102]);
}

#[test]
fn acknowledgements_are_due_where_there_are_keys() {
    // [9000 13.2.6 same-space]
    let mut random = Random::from_u64(1);
    let mut spaces = spaces(&mut random);
    // A client probes on, until the server has validated its address.
    assert!(spaces.deadline(START).is_some());
    spaces.recovery_mut().on_peer_validated();
    assert_eq!(spaces.deadline(Instant::ZERO), None);
    let data = spaces.received_mut(SpaceId::Data);
    data.on_packet(START, 0, true, Ecn::NotEct, 1200);
    assert_eq!(spaces.deadline(Instant::ZERO), None);
    let initial = spaces.received_mut(SpaceId::Initial);
    initial.on_packet(START, 0, true, Ecn::NotEct, 1200);
    assert_eq!(spaces.deadline(Instant::ZERO), Some(START));
    assert_eq!(spaces.deadline(START), None, "it could not be sent");
}

#[test]
fn a_peer_is_asked_to_acknowledge_at_once_if_it_knows_how() {
    let mut random = Random::from_u64(1);
    let mut spaces = spaces(&mut random);
    assert!(!spaces.ask_at_once() && !spaces.immediate_due());
    let least = Some(Duration::from_millis(1));
    spaces.on_peer_parameters(Duration::from_millis(25), least);
    assert!(spaces.ask_at_once() && spaces.immediate_due());
    let mut room = [0; 100];
    let mut w = Writer::new(&mut room);
    spaces.write_ack_request(START, None, 10, &mut w);
    let first = Frames::new(w.written()).next();
    assert!(matches!(first, Some(Ok(Frame::ImmediateAck))));
    assert!(!spaces.immediate_due());
}
