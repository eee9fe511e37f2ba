//! Packets that no correct connection would send, sealed with its own keys.

use super::*;
use crate::connection::building::Contents;
use crate::wire::packet::Protected;

/// The sending end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Client,
    Server,
}

/// Builds a datagram with one packet and this payload.
pub(crate) fn packet(
    connection: &mut Connection,
    now: Instant,
    space: SpaceId,
    payload: &[u8],
) -> Vec<u8> {
    sealed(connection, now, space, payload, 0, true)
}

/// The same with `bits` set in the first byte before sealing. If it isn't `off_path`, the
/// connection counts it as its own and expects an acknowledgement.
pub(crate) fn sealed(
    connection: &mut Connection,
    now: Instant,
    space: SpaceId,
    payload: &[u8],
    bits: u8,
    off_path: bool,
) -> Vec<u8> {
    let mut contents = Contents::default();
    (contents.eliciting, contents.off_path) = (true, off_path);
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
    let receiving = connection.receiving(Instant::ZERO);
    let control = &mut receiving.sources.control;
    control.issue_ids(&mut *receiving.random, &mut *receiving.outbox, u64::MAX);
}

/// Builds a datagram of this end with one packet that has these frames.
pub(crate) fn packet_from(
    pair: &mut Pair,
    from: From,
    space: SpaceId,
    list: &[Frame<'_>],
) -> Vec<u8> {
    let now = pair.now;
    let payload = frames(list);
    packet(pair.host(from == From::Client).get(), now, space, &payload)
}

/// Sends a packet with this payload over the link.
pub(crate) fn send(pair: &mut Pair, from: From, space: SpaceId, payload: &[u8]) {
    let now = pair.now;
    let bytes = packet(pair.host(from == From::Client).get(), now, space, payload);
    match from {
        From::Client => pair.send_to_server(bytes),
        From::Server => {
            let datagram = Datagram::new(&pair.server, &pair.client, bytes);
            pair.down.send(pair.now, datagram);
        }
    }
}

/// Sends a 1-RTT packet with these frames over the link.
pub(crate) fn send_frames(pair: &mut Pair, from: From, list: &[Frame<'_>]) {
    send(pair, from, SpaceId::Data, &frames(list));
}

/// Encodes frames.
pub(crate) fn frames(list: &[Frame<'_>]) -> Vec<u8> {
    let mut buffer = [0; 1200];
    let mut w = Writer::new(&mut buffer);
    for frame in list {
        frame.encode(&mut w).unwrap();
    }
    w.written().to_vec()
}

pub(crate) fn id(initiator: Side, dir: Dir, index: u64) -> StreamId {
    StreamId::new(initiator, dir, index).unwrap()
}

pub(crate) fn stream(id: StreamId, offset: u64, data: &[u8], fin: bool) -> Frame<'_> {
    Frame::Stream(Stream {
        id,
        offset,
        fin,
        data,
    })
}

/// A RESET_STREAM frame with error code 1.
pub(crate) fn reset(id: StreamId, final_size: u64) -> Frame<'static> {
    Frame::ResetStream(ResetStream {
        id,
        error_code: 1,
        final_size,
    })
}

/// Returns the headers of a datagram's packets.
pub(crate) fn packets(mut datagram: &[u8]) -> Vec<Protected> {
    let mut packets = Vec::new();
    while let Ok(PartialDecode::Protected(found)) = PartialDecode::new(datagram, 8) {
        datagram = &datagram[found.len..];
        packets.push(found);
    }
    packets
}

/// Returns the header of a datagram's first packet.
pub(crate) fn first_packet(datagram: &[u8]) -> Protected {
    packets(datagram).remove(0)
}

/// Returns the types of a datagram's packets.
pub(crate) fn types(datagram: &[u8]) -> Vec<PacketType> {
    packets(datagram).iter().map(|packet| packet.ty).collect()
}
