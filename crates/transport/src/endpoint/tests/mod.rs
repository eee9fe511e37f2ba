//! Packets from unknown senders, and the endpoint's reactions.

mod first;
mod known;
mod places;
mod resets;
mod retry;

use super::testing::*;
use super::*;
use crate::connection::Connection;
use crate::crypto::null::NullEndpointKey;
use crate::crypto::{InitialCrypto, Side};
use crate::wire::packet::PlainHeader;
use crate::wire::{ConnectionId, Frame, Frames, PartialDecode, TransportErrorCode};

fn handle(endpoint: &mut Endpoint, port: u16, datagram: &[u8]) -> (DatagramEvent, Vec<u8>) {
    let mut answer = Vec::new();
    let event = endpoint.handle(NOW, &from(port), datagram, &mut answer);
    (event, answer)
}

fn incoming(endpoint: &mut Endpoint, port: u16, datagram: &[u8]) -> Incoming {
    match handle(endpoint, port, datagram) {
        (DatagramEvent::Incoming(incoming), _) => incoming,
        other => panic!("{other:?}"),
    }
}

fn begin(endpoint: &mut Endpoint, incoming: Incoming) -> Result<Accepted, AcceptError> {
    let started = endpoint.server(NOW, &incoming)?.start(NOW);
    endpoint.begin(NOW, incoming, started)
}

fn answer(endpoint: &mut Endpoint, port: u16, datagram: &[u8]) -> Vec<u8> {
    match handle(endpoint, port, datagram) {
        (DatagramEvent::Respond, answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn nothing(endpoint: &mut Endpoint, port: u16, datagram: &[u8]) {
    let (event, _) = handle(endpoint, port, datagram);
    assert!(matches!(event, DatagramEvent::Nothing), "{event:?}");
}

/// Returns the connection to which a datagram belongs.
fn found(endpoint: &mut Endpoint, port: u16, datagram: &[u8]) -> ConnectionHandle {
    match handle(endpoint, port, datagram).0 {
        DatagramEvent::Connection(handle) => handle,
        other => panic!("{datagram:x?}: {other:?}"),
    }
}

/// Returns the code of the CONNECTION_CLOSE that answers client `n`'s Initial.
fn close_code(answer: &[u8], dcid: &ConnectionId) -> TransportErrorCode {
    let PartialDecode::Protected(found) = PartialDecode::new(answer, 8).unwrap() else {
        panic!("no packet with frames");
    };
    assert_eq!(found.len, answer.len());
    let mut packet = answer.to_vec();
    let keys = crypto().initial_keys(dcid.as_slice(), Side::Client).remote;
    let header = PlainHeader::decode(&packet, &found).unwrap();
    let len = keys.packet.open(0, &mut packet, header.payload_at).unwrap();
    let payload = &packet[header.payload_at..header.payload_at + len];
    match Frames::new(payload).next().unwrap().unwrap() {
        Frame::ConnectionClose(close) => close.error_code,
        other => panic!("{other:?}"),
    }
}

/// Follows a Retry: returns the token and the new destination.
fn follow(retry: &[u8], original: &ConnectionId) -> (Vec<u8>, ConnectionId) {
    let PartialDecode::Retry(found) = PartialDecode::new(retry, 8).unwrap() else {
        panic!("no Retry");
    };
    let (packet, tag) = retry.split_last_chunk().unwrap();
    assert_eq!(crypto().retry_tag(original.as_slice(), packet), *tag);
    (retry[found.token].to_vec(), found.scid)
}
