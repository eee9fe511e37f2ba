//! Packets that no correct connection would send, sealed with its own keys.

use super::pair::Pair;
use crate::Ecn;
use crate::connection::Connection;
use crate::connection::building::Contents;
use crate::connection::tests::link::Datagram;
use crate::wire::{Frame, SpaceId, Writer};

/// The sending end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Client,
    Server,
}

/// Builds a datagram with one packet and this payload.
pub(crate) fn packet(
    connection: &mut Connection,
    now: crate::Instant,
    space: SpaceId,
    payload: &[u8],
) -> Vec<u8> {
    packet_with_bits(connection, now, space, payload, 0)
}

/// Like [`packet`], but with `bits` set in the first byte before sealing.
pub(crate) fn packet_with_bits(
    connection: &mut Connection,
    now: crate::Instant,
    space: SpaceId,
    payload: &[u8],
    bits: u8,
) -> Vec<u8> {
    let contents = Contents {
        eliciting: true,
        off_path: true,
        ..Contents::default()
    };
    sealed(connection, now, space, payload, bits, contents)
}

/// Builds a datagram that the connection counts as its own, expecting an acknowledgement.
pub(crate) fn packet_on_path(
    connection: &mut Connection,
    now: crate::Instant,
    space: SpaceId,
    payload: &[u8],
) -> Vec<u8> {
    let contents = Contents {
        eliciting: true,
        ..Contents::default()
    };
    sealed(connection, now, space, payload, 0, contents)
}

fn sealed(
    connection: &mut Connection,
    now: crate::Instant,
    space: SpaceId,
    payload: &[u8],
    bits: u8,
    contents: Contents,
) -> Vec<u8> {
    let mut room = [0; 1400];
    let mut w = Writer::new(&mut room);
    let dcid = connection.sources.control.remote_ids.current().id;
    let mut sending = connection.sending(now);
    let open = sending.start(space, &dcid, &mut w).unwrap();
    w.range_mut(0..1).unwrap()[0] |= bits;
    w.put_slice(payload).unwrap();
    let range = sending.finish(&open, contents, &mut w).unwrap();
    room[range].to_vec()
}

/// Retires all IDs that the peer has, and issues others.
pub(crate) fn replace_ids(connection: &mut Connection) {
    connection.sources.control.local_ids.rotate();
    let receiving = connection.receiving(crate::Instant::ZERO);
    let (random, outbox) = (&mut *receiving.random, &mut *receiving.outbox);
    receiving.sources.control.issue_ids(random, outbox);
}

/// Sends a packet with this payload over the link.
pub(crate) fn send(pair: &mut Pair, from: From, space: SpaceId, payload: &[u8]) {
    let now = pair.now;
    let (host, to) = match from {
        From::Client => (&mut pair.client, pair.server.address),
        From::Server => (&mut pair.server, pair.client.address),
    };
    let bytes = packet(host.get(), now, space, payload);
    let datagram = Datagram {
        from: host.address,
        to,
        ecn: Ecn::NotEct,
        bytes,
    };
    match from {
        From::Client => pair.up.send(now, datagram),
        From::Server => pair.down.send(now, datagram),
    }
}

/// Encodes frames.
pub(crate) fn frames(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut buffer = [0; 1200];
    let mut w = Writer::new(&mut buffer);
    for frame in frames {
        frame.encode(&mut w).unwrap();
    }
    w.written().to_vec()
}
