//! Packet number spaces without a connection, with keys of the null cipher.

mod keys;
mod packets;
mod probes;

use super::*;
use crate::Ecn;
use crate::connection::tests::fixed_window::fixed_window;
use crate::crypto::null::NullCrypto;
use crate::crypto::{DirectionalKeys, InitialCrypto, testing};
use crate::recovery::packet as sent;
use crate::wire::frame::Frames;
use crate::wire::{ConnectionId, Frame, Writer};

const START: Instant = Instant::from_millis(1000);
const LONGEST_PTO: Duration = Duration::from_secs(5);

fn after(ms: u64) -> Instant {
    START + Duration::from_millis(ms)
}

fn initial_keys(side: Side, destination: u8) -> Keys {
    NullCrypto::new(&[b"test"]).initial_keys(&[destination; 8], side)
}

/// Creates the spaces of `side` with only the keys of Initial packets.
fn spaces_of(side: Side, random: &mut Random) -> PacketSpaces {
    PacketSpaces::new(
        START,
        side,
        initial_keys(side, 1),
        &TransportConfig::new(fixed_window(1 << 20).0),
        Duration::from_millis(25),
        (Some(Duration::from_secs(30)), LONGEST_PTO),
        random,
    )
}

/// Creates the spaces of a client.
fn spaces(random: &mut Random) -> PacketSpaces {
    spaces_of(Side::Client, random)
}

/// Creates both sides of the same connection.
fn both_sides() -> [PacketSpaces; 2] {
    [Side::Client, Side::Server].map(|side| spaces_of(side, &mut Random::from_u64(1)))
}

/// Returns the keys of Handshake and 1-RTT packets that `side` gets from a handshake.
fn later_keys(side: Side) -> [KeyChange; 2] {
    let crypto = NullCrypto::new(&[b"test"]);
    let done = testing::handshake(&crypto, &crypto, "server", 4000);
    let end = match side {
        Side::Client => done.client,
        Side::Server => done.server,
    };
    let (keys, phases) = end.one_rtt.unwrap();
    [
        KeyChange::Handshake(end.handshake.unwrap()),
        KeyChange::OneRtt(keys, phases),
    ]
}

fn install(spaces: &mut PacketSpaces) {
    for change in later_keys(spaces.side) {
        spaces.install(change, u64::MAX);
    }
}

/// Returns keys of 0-RTT packets.
fn early_keys() -> DirectionalKeys {
    initial_keys(Side::Client, 9).local
}

/// Returns the IDs of a packet's receiver and sender.
fn ids() -> [ConnectionId; 2] {
    [1, 2].map(|n| ConnectionId::new(&[n; 8]).unwrap())
}

/// Sends a packet with CRYPTO data.
fn send(spaces: &mut PacketSpaces, space: SpaceId, at: Instant, size: u16) {
    let (number, _) = spaces.number(space);
    let random = &mut Random::from_u64(1);
    spaces.on_sent(space, number, sent(at, size, crypto()), random);
}

/// Processes an ACK frame for `number` at `now`.
fn acked(spaces: &mut PacketSpaces, space: SpaceId, number: u64, now: Instant) {
    let (recovery, ..) = spaces.split(space);
    recovery
        .on_ack(now, space, [number..=number], Duration::ZERO, |_, _, _| {})
        .unwrap();
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
        let even = eighths.iter().all(|n| (400..600).contains(n));
        assert!(even, "{eighths:?}");
    }
    // There are few gaps: the logarithm of the packets sent.
    let (mut number, mut count) = (0, 0);
    while number < 1 << 40 {
        number = next_skipped(number, &mut random);
        count += 1;
    }
    assert!((40..120).contains(&count), "{count}");
}

/// Sends `count` packets of `space` and returns their numbers.
fn numbers(
    spaces: &mut PacketSpaces,
    space: SpaceId,
    count: usize,
    random: &mut Random,
) -> Vec<u64> {
    let send = |_| {
        let (number, _) = spaces.number(space);
        spaces.on_sent(space, number, sent(START, 100, crypto()), random);
        number
    };
    (0..count).map(send).collect()
}

#[test]
fn numbers_of_the_data_space_alone_are_left_out() {
    let mut random = Random::from_u64(1);
    let mut spaces = spaces(&mut random);
    let initial = numbers(&mut spaces, SpaceId::Initial, 300, &mut random);
    assert_eq!(initial, (0..300).collect::<Vec<_>>());
    let data = numbers(&mut spaces, SpaceId::Data, 300, &mut random);
    let left_out = data.last().unwrap() + 1 - 300;
    assert!((2..20).contains(&left_out), "{left_out}");
    let mut steps = data.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(steps.all(|step| (1..=2).contains(&step)));
    assert_eq!(spaces.next_number(), data.last().unwrap() + 1);
}

/// The first packet has number 0, and packets in other spaces don't matter.
#[test]
fn the_first_number_left_out_is_one_of_a_hundred() {
    let mut random = Random::from_u64(1);
    for _ in 0..500 {
        let mut spaces = spaces(&mut random);
        numbers(&mut spaces, SpaceId::Initial, 120, &mut random);
        let data = numbers(&mut spaces, SpaceId::Data, 101, &mut random);
        assert!(data[0] == 0 && data[100] > 100, "{data:?}");
    }
}
