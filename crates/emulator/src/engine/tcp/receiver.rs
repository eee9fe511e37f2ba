//! The receiving end: it keeps segments that arrive out of order, and acknowledges each segment.

use std::collections::VecDeque;
use std::net::SocketAddr;

use pathmark_cc::Instant;
use pathmark_protocols::forged;
use pathmark_transport::Ecn;
use pathmark_transport::connection::Transmit;

use super::segment::{ACK, Ack, HEADER, Segment};
use crate::engine::packet::IP_UDP_HEADER;

/// Receives the segments of a [`TcpSender`](super::TcpSender).
#[derive(Debug)]
pub(in crate::engine) struct TcpReceiver {
    /// Bytes in front of a segment's header.
    shim: usize,
    /// Bytes of data in a segment, and in all of them.
    segment: u64,
    bytes: Option<u64>,
    /// The first segment that is missing, and which of those behind it have arrived.
    next: u64,
    behind: VecDeque<bool>,
    completed: Option<Instant>,
    acks: VecDeque<Ack>,
}

impl TcpReceiver {
    /// Creates a receiver of segments with `segment` bytes each, `bytes` in all if they end.
    pub(in crate::engine) fn new(shim: usize, segment: u64, bytes: Option<u64>) -> Self {
        Self {
            shim,
            segment,
            bytes,
            next: 0,
            behind: VecDeque::new(),
            completed: None,
            acks: VecDeque::new(),
        }
    }

    /// Handles an arriving datagram.
    pub(in crate::engine) fn on_datagram(&mut self, now: Instant, datagram: &[u8]) {
        let Some(segment) = datagram.get(self.shim..).and_then(Segment::read) else {
            return;
        };
        if let Some(place) = segment.number.checked_sub(self.next) {
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            if place >= self.behind.len() {
                self.behind.resize(place + 1, false);
            }
            if let Some(arrived) = self.behind.get_mut(place) {
                *arrived = true;
            }
        }
        while self.behind.front() == Some(&true) {
            self.behind.pop_front();
            self.next += 1;
        }
        if self.bytes.is_some_and(|bytes| self.delivered() >= bytes) {
            self.completed.get_or_insert(now);
        }
        let bytes = u32::try_from(datagram.len()).unwrap_or(u32::MAX);
        self.acks.push_back(Ack {
            next: self.next,
            echo: segment.sent,
            delta: forged::granted(datagram, bytes.saturating_add(IP_UDP_HEADER)),
        });
    }

    /// Returns an acknowledgement to send.
    pub(in crate::engine) fn poll_transmit(
        &mut self,
        remote: SocketAddr,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let out = buffer.get_mut(..ACK)?;
        self.acks.pop_front()?.write(out);
        Some(transmit(remote, ACK))
    }

    /// Bytes delivered in order.
    pub(in crate::engine) fn delivered(&self) -> u64 {
        let bytes = self.next.saturating_mul(self.segment);
        self.bytes.map_or(bytes, |all| bytes.min(all))
    }

    /// When everything had arrived.
    pub(in crate::engine) fn completed(&self) -> Option<Instant> {
        self.completed
    }
}

/// One datagram of `len` bytes.
pub(super) fn transmit(remote: SocketAddr, len: usize) -> Transmit {
    Transmit {
        remote,
        local: None,
        ecn: Ecn::NotEct,
        len,
        segment_size: len,
    }
}

/// Bytes of data in a datagram of `payload` bytes.
pub(in crate::engine) fn room(payload: u16, shim: usize) -> u64 {
    u64::from(payload)
        .saturating_sub((shim + HEADER) as u64)
        .max(1)
}
