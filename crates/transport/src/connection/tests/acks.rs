//! Acknowledgements that would be disproportionate, whether requested or not.

use super::inject::{From, packet, send};
use super::link::Datagram;
use super::pair::{Pair, Setup};
use crate::wire::{Frame, SpaceId};
use crate::{Duration, Ecn};

/// Thousands of small packets arrive, but every second number is missing.
#[test]
fn gaps_make_no_acknowledgements_larger_than_a_quarter_of_what_came() {
    let mut pair = Pair::connected(Setup::default());
    pair.run(Duration::from_millis(500));
    let before = pair.server.get().stats().clone();
    for _ in 0..4000 {
        // One packet is lost, and the next one arrives.
        let ping = super::inject::frames(&[Frame::Ping]);
        let now = pair.now;
        packet(pair.client.get(), now, SpaceId::Data, &ping);
        send(&mut pair, From::Client, SpaceId::Data, &ping);
        pair.run(Duration::from_micros(200));
    }
    pair.run(Duration::from_millis(30));
    assert_eq!(pair.server.error(), None);
    let after = pair.server.get().stats();
    let received = after.bytes_received - before.bytes_received;
    let sent = after.bytes_sent - before.bytes_sent;
    // ACKs that would exceed their share wait for 25 ms. The initial credit is used first.
    let (least, saved) = (4000 / 125 * 100, 4096);
    println!("{received} bytes in, {sent} bytes out");
    assert!(received > 4000 * 28);
    assert!(sent <= received / 4 + least + saved, "{sent} of {received}");
}

/// Returns the bytes that the server receives and sends while `packets` of the client arrive, 200
/// µs apart.
fn answers_to(pair: &mut Pair, packets: u64, payload: impl Fn(u64) -> Vec<u8>) -> (u64, u64) {
    pair.run(Duration::from_millis(500));
    let before = pair.server.get().stats().clone();
    for n in 0..packets {
        send(pair, From::Client, SpaceId::Data, &payload(n));
        pair.run(Duration::from_micros(200));
    }
    pair.run(Duration::from_millis(30));
    assert_eq!(pair.server.error(), None);
    let after = pair.server.get().stats();
    let received = after.bytes_received - before.bytes_received;
    (received, after.bytes_sent - before.bytes_sent)
}

#[test]
fn asking_for_acknowledgements_at_once_makes_them_no_more() {
    // [9000 13.2.1 one-ack-packet]
    let mut pair = Pair::connected(Setup::default());
    let ask = super::inject::frames(&[Frame::Ping, Frame::ImmediateAck]);
    let (received, sent) = answers_to(&mut pair, 4000, |_| ask.clone());
    assert!(pair.server.get().stats().acks_postponed > 1000);
    println!("{received} bytes in, {sent} bytes out");
    let (least, saved) = (4000 / 125 * 100, 4096);
    assert!(sent <= received / 4 + least + saved, "{sent} of {received}");
}

/// RFC 9000 §14.1, which also applies to Initials of an existing connection.
#[test]
fn servers_drop_initials_in_short_datagrams() {
    // [9000 14.1 short-initials-dropped]
    let mut pair = Pair::with(Setup::default());
    // The client's first flight arrives, but not yet the server's.
    pair.run(Duration::from_millis(15));
    let ping = super::inject::frames(&[Frame::Ping]);
    let now = pair.now;
    let mut bytes = packet(pair.client.get(), now, SpaceId::Initial, &ping);
    let before = pair.server.get().stats().clone();
    let arrive = |pair: &mut Pair, bytes: Vec<u8>| {
        let datagram = Datagram {
            from: pair.client.address,
            to: pair.server.address,
            ecn: Ecn::NotEct,
            bytes,
        };
        pair.up.send(now, datagram);
        pair.run(Duration::from_millis(2));
        pair.server.get().stats().clone()
    };
    pair.up.latency = Duration::from_millis(1);
    bytes.resize(1199, 0);
    let short = arrive(&mut pair, bytes.clone());
    // The short packet and the one behind it.
    assert_eq!(short.packets_dropped, before.packets_dropped + 2);
    assert_eq!(short.packets_received, before.packets_received);
    // Only the datagram's size matters, not the bytes behind the packet.
    bytes.resize(1200, 0);
    let full = arrive(&mut pair, bytes);
    assert_eq!(full.packets_received, before.packets_received + 1);
    pair.connect();
}
