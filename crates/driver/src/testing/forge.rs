//! Frames that a connection would never send, inside packets of this connection. They are passed to
//! its key as an unreliable datagram, which the key turns into frames before sealing the packet.

use std::net::SocketAddr;
use std::sync::Arc;

use pathmark_transport::connection::{Connection, Received};
use pathmark_transport::crypto::{
    KeyChange, OpenError, PacketKey, PacketKeys, PhaseKeys, SealError,
};
use pathmark_transport::wire::{Frame, Writer, frame::types};
use pathmark_transport::{Ecn, Instant};

use super::super::shared::Shared;
use super::super::socket::Outgoing;
use super::{Hooks, Tampered};
use crate::clock;

/// The beginning of a datagram whose rest contains frames.
const MARK: &[u8; 16] = b"frames, not data";

/// TLS whose 1-RTT packets can carry the frames that [`packets`] puts into them.
pub(crate) fn forging<T>(tls: T) -> Arc<Tampered<T>> {
    Tampered::new(tls, || {
        let before_read = Box::new(|| {});
        let keys = |change| match change {
            KeyChange::OneRtt(mut keys, phases) => {
                keys.local.packet = Box::new(Forging(keys.local.packet));
                KeyChange::OneRtt(keys, Box::new(ForgingPhases(phases)))
            }
            KeyChange::Handshake(keys) => KeyChange::Handshake(keys),
        };
        Some(Hooks { before_read, keys })
    })
}

pub(crate) fn frames(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut buffer = [0; 1200];
    let mut w = Writer::new(&mut buffer);
    for frame in frames {
        frame.encode(&mut w).unwrap();
    }
    w.written().to_vec()
}

/// Returns all datagrams that a connection with keys from [`forging`] sends now, one of which
/// contains `frames`.
pub(crate) fn packets(connection: &mut Connection, now: Instant, frames: &[u8]) -> Vec<Vec<u8>> {
    let datagram = [MARK, frames].concat();
    connection.datagrams().send(datagram.into()).unwrap();
    let (mut room, mut all) = (vec![0; 65_536], Vec::new());
    while let Some(transmit) = connection.poll_transmit(now, &mut room, 1) {
        all.push(room[..transmit.len].to_vec());
    }
    all
}

/// The same with the frames that `payload` returns for a connection of the driver.
pub(crate) fn forge(
    shared: &Shared,
    payload: impl FnOnce(&mut Connection) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    let mut state = shared.lock();
    let frames = payload(&mut state.core);
    let all = packets(&mut state.core, clock::now(), &frames);
    // The connection's task only continues when woken.
    state.wake_driver();
    all
}

/// Sends a datagram from the socket of a connection.
pub(crate) fn send_by(shared: &Shared, to: SocketAddr, bytes: &[u8]) {
    shared.endpoint.socket().send(&outgoing(to, bytes));
}

pub(crate) fn outgoing(to: SocketAddr, bytes: &[u8]) -> Outgoing<'_> {
    Outgoing {
        to,
        from: None,
        ecn: Ecn::NotEct,
        dscp: 0,
        bytes,
        segment: bytes.len(),
    }
}

pub(crate) fn received_from(remote: SocketAddr) -> Received {
    Received {
        remote,
        local: None,
        ecn: Ecn::NotEct,
        ttl: None,
    }
}

/// A key that turns marked data into frames before it seals.
struct Forging(Box<dyn PacketKey>);

impl PacketKey for Forging {
    fn seal(&self, pn: u64, packet: &mut [u8], header_len: usize) -> Result<(), SealError> {
        let mut windows = packet.windows(MARK.len()).skip(header_len);
        if let Some(at) = windows.position(|window| window == MARK) {
            let at = header_len + at;
            // A frame's type and length precede its data: together with the mark they become
            // PADDING.
            let [kind, length] = [packet[at - 3], packet[at - 2]];
            let is_long = u64::from(kind) == types::DATAGRAM_LEN && length >> 6 == 1;
            let begin = if is_long { at - 3 } else { at - 2 };
            assert_eq!(u64::from(packet[begin]), types::DATAGRAM_LEN);
            packet[begin..at + MARK.len()].fill(0);
        }
        self.0.seal(pn, packet, header_len)
    }

    fn open(&self, pn: u64, packet: &mut [u8], header_len: usize) -> Result<usize, OpenError> {
        self.0.open(pn, packet, header_len)
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

struct ForgingPhases(Box<dyn PhaseKeys>);

impl PhaseKeys for ForgingPhases {
    fn next_phase(&mut self) -> PacketKeys {
        let PacketKeys { local, remote } = self.0.next_phase();
        let local = Box::new(Forging(local));
        PacketKeys { local, remote }
    }
}
