//! A TCP of the papers' time: Reno without selective acknowledgements, as in ns-2.
//!
//! It has no connection of this library. After a timeout, it sends everything again from the first
//! missing segment on (go-back-N), although the receiver may have kept most of it. If routers
//! change the window, losses and timeouts still lower it as in Reno.
//!
//! Headers of segments and acknowledgements begin with a number below 2^56, so that no router takes
//! their first byte for a shim. The receiver keeps segments that arrive out of order, and
//! acknowledges each segment.

mod sender;

use std::collections::VecDeque;
use std::net::SocketAddr;

use pathmark_cc::Instant;
use pathmark_protocols::forged;
use pathmark_transport::Ecn;
use pathmark_transport::connection::Transmit;

use super::packet::IP_UDP_HEADER;
pub(super) use sender::{TcpSender, TcpSetup, shim_len};

/// Bytes of a segment's header. With IPv4 and UDP in front, they are as long as IPv4 and TCP with
/// timestamps, 52 bytes.
const HEADER: usize = 24;
/// Bytes of an acknowledgement.
const ACK: usize = HEADER;

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    /// Its number, from 0 on.
    number: u64,
    sent: Instant,
}

impl Segment {
    fn write(&self, bytes: &mut [u8]) {
        write(bytes, [self.number, self.sent.as_nanos(), 0]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let [number, sent, _] = read(bytes)?;
        Some(Self {
            number,
            sent: Instant::from_nanos(sent),
        })
    }
}

/// The acknowledgement of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ack {
    /// Number of the first segment that is missing.
    next: u64,
    /// When the segment was sent that caused it.
    echo: Instant,
    /// What XCP routers granted this segment, in 2^-16 bytes per second.
    delta: i64,
}

impl Ack {
    fn write(&self, bytes: &mut [u8]) {
        let delta = u64::from_be_bytes(self.delta.to_be_bytes());
        write(bytes, [self.next, self.echo.as_nanos(), delta]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let [next, echo, delta] = read(bytes)?;
        Some(Self {
            next,
            echo: Instant::from_nanos(echo),
            delta: i64::from_be_bytes(delta.to_be_bytes()),
        })
    }
}

fn write(bytes: &mut [u8], fields: [u64; 3]) {
    for (to, field) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(fields) {
        *to = field.to_be_bytes();
    }
}

fn read(bytes: &[u8]) -> Option<[u64; 3]> {
    let (fields, _) = bytes.first_chunk::<HEADER>()?.as_chunks::<8>();
    fields
        .try_into()
        .ok()
        .map(|fields: [[u8; 8]; 3]| fields.map(u64::from_be_bytes))
}

/// Receives the segments of a [`TcpSender`].
#[derive(Debug)]
pub(super) struct TcpReceiver {
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
    pub(super) fn new(shim: usize, segment: u64, bytes: Option<u64>) -> Self {
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
    pub(super) fn on_datagram(&mut self, now: Instant, datagram: &[u8]) {
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
    pub(super) fn poll_transmit(
        &mut self,
        remote: SocketAddr,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let out = buffer.get_mut(..ACK)?;
        self.acks.pop_front()?.write(out);
        Some(transmit(remote, ACK))
    }

    /// Bytes delivered in order.
    pub(super) fn delivered(&self) -> u64 {
        let bytes = self.next.saturating_mul(self.segment);
        self.bytes.map_or(bytes, |all| bytes.min(all))
    }

    /// When everything had arrived.
    pub(super) fn completed(&self) -> Option<Instant> {
        self.completed
    }
}

/// One datagram of `len` bytes.
fn transmit(remote: SocketAddr, len: usize) -> Transmit {
    Transmit {
        remote,
        local: None,
        ecn: Ecn::NotEct,
        len,
        segment_size: len,
    }
}

/// Bytes of data in a datagram of `payload` bytes.
pub(super) fn room(payload: u16, shim: usize) -> u64 {
    u64::from(payload)
        .saturating_sub((shim + HEADER) as u64)
        .max(1)
}
