//! Unreliable datagrams between their queues, packets and the application (RFC 9221).

use core::num::NonZeroU8;
use std::sync::Arc;

use bytes::Bytes;

use super::paths::Path;
use super::sources::Sources;
use crate::cid::LOCAL_ID_LEN;
use crate::datagrams::{DatagramError, FlowDatagram, QueueCounters};
use crate::wire::frame::types;
use crate::wire::packet::TAG_LEN;
use crate::wire::{TransportError, varint};
use crate::{Ecn, Instant};

/// Maximum size of a packet number, in bytes.
const NUMBER: usize = 4;
/// Bytes of long headers besides the IDs: version, lengths of both IDs, and length of the packet.
const LONG: usize = 4 + 1 + 1 + 2;

/// Sends and reads unreliable datagrams for the application.
#[derive(Debug)]
pub struct Datagrams<'a> {
    pub(super) sources: &'a mut Sources,
    pub(super) path: &'a Path,
    pub(super) is_open: bool,
}

impl Datagrams<'_> {
    /// Returns the maximum length of a datagram that you can currently send, in bytes. It depends
    /// on the path's MTU, the overhead of its packets, and the peer's limit, so it changes with the
    /// path. `None` means that the peer doesn't accept datagrams, or its parameters haven't
    /// arrived.
    pub fn max_size(&self) -> Option<usize> {
        self.sources.max_datagram_size(self.path)
    }

    /// Queues an unreliable datagram. It is sent as soon as the window allows and is never
    /// retransmitted. If the queue is full, its oldest datagrams are dropped and counted
    /// ([`Stats::datagram_frames_unsent`](super::Stats::datagram_frames_unsent)).
    ///
    /// # Errors
    /// Returns [`DatagramError`] if the peer doesn't accept datagrams, or not of this length.
    pub fn send(&mut self, data: Bytes) -> Result<(), DatagramError> {
        self.sources.check_datagram(self.path, data.len())?;
        if self.is_open {
            self.sources.datagrams.send(data);
        }
        Ok(())
    }

    /// Queues an unreliable datagram without dropping any. Returns false if the queue has no room;
    /// wait for [`Event::DatagramRoom`](super::Event::DatagramRoom) before trying again.
    ///
    /// # Errors
    /// Returns [`DatagramError`] if the peer doesn't accept datagrams, or not of this length.
    pub fn try_send(&mut self, data: &Bytes) -> Result<bool, DatagramError> {
        self.sources.check_datagram(self.path, data.len())?;
        Ok(!self.is_open || self.sources.datagrams.try_send(data))
    }

    /// Returns how long another datagram can be without dropping any from the queue, in bytes.
    pub const fn send_room(&self) -> usize {
        self.sources.datagrams.send_room()
    }

    /// Opens a queue for the datagrams of one flow, with weight 1, and returns its number. Flows
    /// and streams with something to send share the window by weight.
    pub fn open_flow(&mut self, counters: Arc<QueueCounters>) -> u64 {
        self.sources.datagrams.open_flow(counters)
    }

    /// Sets the weight of a flow.
    pub fn set_flow_weight(&mut self, flow: u64, weight: NonZeroU8) {
        if let Some(flows) = self.sources.datagrams.flows_mut() {
            flows.set_weight(flow, weight);
        }
    }

    /// Closes a flow. Datagrams that are still waiting will be sent.
    pub fn close_flow(&mut self, flow: u64) {
        if let Some(flows) = self.sources.datagrams.flows_mut() {
            flows.close(flow);
        }
    }

    /// Queues a datagram of a flow. If datagrams of a flow wait too long, they are marked or
    /// dropped (RFC 8289, RFC 9331), and counted ([`QueueCounters`]).
    ///
    /// # Errors
    /// Returns [`DatagramError`] if the peer doesn't accept datagrams, or not of this length.
    pub fn send_in(
        &mut self,
        now: Instant,
        flow: u64,
        datagram: FlowDatagram,
    ) -> Result<(), DatagramError> {
        let length = datagram.data.len();
        self.sources.check_datagram(self.path, length)?;
        if self.is_open {
            self.sources.datagrams.send_in(now, flow, datagram);
        }
        Ok(())
    }

    /// Returns true if unread datagrams take more than half of their queue, so that you should read
    /// some before opening more packets.
    pub fn pile_up(&self) -> bool {
        self.sources.datagrams.pile_up()
    }

    /// Returns the oldest unread datagram. After `None`, wait for
    /// [`Event::DatagramReceived`](super::Event::DatagramReceived) before calling this again.
    pub fn read(&mut self) -> Option<Bytes> {
        self.read_marked().map(|(data, _)| data)
    }

    /// Reads a datagram together with the ECN field of its packet. The field is reported as Not-ECT
    /// if it holds the code of a [`Signal`](crate::Signal) instead of having the meaning of RFC
    /// 3168.
    pub fn read_marked(&mut self) -> Option<(Bytes, Ecn)> {
        self.sources.read_datagram()
    }
}

impl Sources {
    /// Returns the maximum length of a datagram that can currently be sent, in bytes, or `None` if
    /// the peer doesn't accept any or its parameters haven't arrived.
    fn max_datagram_size(&self, path: &Path) -> Option<usize> {
        let peer = match (self.handshake.peer(), self.handshake.remembered()) {
            (Some(peer), _) => peer.max_datagram_frame_size,
            (None, remembered) => remembered?.max_datagram_frame_size,
        };
        let peer = usize::try_from(peer).unwrap_or(usize::MAX);
        // A frame consists of its type, its length and its data.
        let frame = |bytes: usize| {
            let data = bytes.saturating_sub(1);
            data.saturating_sub(varint::len(data as u64))
        };
        let id = self.control.remote_ids.current().id.len();
        let packet = path.packet_room();
        // 0-RTT packets have long headers.
        let long = if self.handshake.peer().is_some() {
            0
        } else {
            LONG + LOCAL_ID_LEN
        };
        let payload = packet.saturating_sub(1 + long + id + NUMBER + TAG_LEN);
        // A frame with a length has at least two bytes.
        (peer > 1).then(|| frame(payload).min(frame(peer)))
    }

    /// Checks whether a datagram of `bytes` can be sent.
    ///
    /// # Errors
    /// Returns [`DatagramError`] if it can't.
    fn check_datagram(&self, path: &Path, bytes: usize) -> Result<(), DatagramError> {
        let max = self.max_datagram_size(path);
        let max = max.ok_or(DatagramError::Unsupported)?;
        if bytes > max {
            Err(DatagramError::TooLong(max))
        } else {
            Ok(())
        }
    }

    /// Drops datagrams that the path can no longer carry. This must be called before a batch.
    pub(super) fn drop_long_datagrams(&mut self, path: &Path) {
        if self.datagrams.wants_to_send()
            && let Some(max) = self.max_datagram_size(path)
        {
            self.datagrams.drop_longer_than(max);
        }
    }

    /// Queues the data of a DATAGRAM frame whose packet had this mark. Returns true if no datagram
    /// was waiting before it.
    ///
    /// # Errors
    /// Returns PROTOCOL_VIOLATION if this side didn't offer to accept datagrams (RFC 9221 §3).
    pub(super) fn on_datagram_frame(
        &mut self,
        data: &[u8],
        mark: Ecn,
    ) -> Result<bool, TransportError> {
        if !self.datagrams.offered() {
            return Err(
                TransportError::violation("a DATAGRAM frame that was not negotiated")
                    .in_frame(types::DATAGRAM),
            );
        }
        let before = self.datagrams.unread_bytes();
        let scarce = self.streams.receiving.holds_all_it_may();
        let first = self.datagrams.on_datagram(data, mark, scarce);
        let after = self.datagrams.unread_bytes();
        self.streams.receiving.on_other_memory(before, after);
        Ok(first)
    }

    /// Returns the oldest unread datagram, with the mark of its packet.
    fn read_datagram(&mut self) -> Option<(Bytes, Ecn)> {
        let before = self.datagrams.unread_bytes();
        let data = self.datagrams.read();
        let after = self.datagrams.unread_bytes();
        self.streams.receiving.on_other_memory(before, after);
        data
    }
}
