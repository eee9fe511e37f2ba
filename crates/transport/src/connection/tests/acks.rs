//! Acknowledgements that would be disproportionate, whether requested or not.

use super::*;

/// 4000 small packets of the client arrive, 200 µs apart. The server's acknowledgements have at
/// most a quarter of their bytes.
fn answered_in_proportion(mut send_one: impl FnMut(&mut Pair)) -> Pair {
    let mut pair = Pair::at_rest(Setup::default());
    let before = pair.server.get().stats().clone();
    for _ in 0..4000 {
        send_one(&mut pair);
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
    pair
}

#[test]
fn gaps_make_no_acknowledgements_larger_than_a_quarter_of_what_came() {
    answered_in_proportion(|pair| {
        // One packet is lost, and the next one arrives.
        packet_from(pair, From::Client, SpaceId::Data, &[Frame::Ping]);
        send_frames(pair, From::Client, &[Frame::Ping]);
    });
}

#[test]
fn asking_for_acknowledgements_at_once_makes_them_no_more() {
    // [9000 13.2.1 one-ack-packet]
    let mut pair = answered_in_proportion(|pair| {
        send_frames(pair, From::Client, &[Frame::Ping, Frame::ImmediateAck]);
    });
    assert!(pair.server.get().stats().acks_postponed > 1000);
}

/// RFC 9000 §14.1, which also applies to Initials of an existing connection.
#[test]
fn servers_drop_initials_in_short_datagrams() {
    // [9000 14.1 short-initials-dropped]
    let mut pair = Pair::with(Setup::default());
    // The client's first flight arrives, but not yet the server's.
    pair.run(Duration::from_millis(15));
    let mut bytes = packet_from(&mut pair, From::Client, SpaceId::Initial, &[Frame::Ping]);
    let before = pair.server.get().stats().clone();
    let arrive = |pair: &mut Pair, bytes: Vec<u8>| {
        pair.send_to_server(bytes);
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
