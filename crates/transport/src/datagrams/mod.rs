//! Unreliable datagrams (RFC 9221), which wait in bounded queues until the connection sends them or
//! the application reads them. Datagrams are never retransmitted; a full queue drops its oldest.

use core::ops::AddAssign;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

mod delay;
mod flows;

#[cfg(test)]
mod flows_tests;
#[cfg(test)]
mod tests;

pub use flows::FlowDatagram;

use crate::wire::frame::datagram_len;
use crate::wire::{Frame, Writer};
use crate::{Duration, Ecn, Instant};
use flows::Flows;

/// Bytes counted for each queued datagram in addition to its own: about the memory overhead.
const OVERHEAD: usize = 64;

/// Limits of both queues of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramsConfig {
    /// Memory for datagrams that have arrived but aren't read yet, in bytes. Each counts 64 more
    /// than its own bytes, and also counts as received data towards the endpoint's memory
    /// ([`EndpointConfig::receive_memory`](crate::endpoint::EndpointConfig::receive_memory)). The
    /// default is 1 MiB. With 0, the peer isn't offered DATAGRAM frames, and sending them anyway is
    /// an error.
    pub receive_bytes: usize,
    /// Memory for datagrams that aren't sent yet, counted in the same way. Datagrams of flows can
    /// use as much again. The default is 1 MiB.
    pub send_bytes: usize,
}

impl DatagramsConfig {
    /// `max_datagram_frame_size` as it is sent (RFC 9221 §3): any size, or none.
    pub(crate) const fn max_frame_size(&self) -> u64 {
        if self.receive_bytes == 0 { 0 } else { 65_535 }
    }
}

impl Default for DatagramsConfig {
    fn default() -> Self {
        Self {
            receive_bytes: 1 << 20,
            send_bytes: 1 << 20,
        }
    }
}

/// Error returned when a datagram can't be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// The peer doesn't accept DATAGRAM frames, or its parameters haven't arrived.
    #[error("the peer takes no datagrams")]
    Unsupported,
    /// The datagram is too long: this is the maximum that the path and the peer currently accept.
    #[error("a datagram may have {0} bytes at most now")]
    TooLong(usize),
}

/// Waiting datagrams, each with associated data, and the memory that they take.
#[derive(Debug, Default)]
struct Queue<T> {
    waiting: VecDeque<(Bytes, T)>,
    bytes: usize,
}

impl<T> Queue<T> {
    /// Appends `data`. Returns how many of the oldest datagrams were dropped to keep the queue
    /// within `limit` bytes. This includes `data` if it exceeds the limit by itself.
    fn push(&mut self, data: Bytes, known: T, limit: usize) -> u64 {
        self.bytes += data.len() + OVERHEAD;
        self.waiting.push_back((data, known));
        let mut dropped = 0;
        while self.bytes > limit && self.pop().is_some() {
            dropped += 1;
        }
        dropped
    }

    fn pop(&mut self) -> Option<(Bytes, T)> {
        let (data, known) = self.waiting.pop_front()?;
        self.bytes -= data.len() + OVERHEAD;
        Some((data, known))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Never sent, because the queue was full or they were too long for the path.
    pub(crate) unsent: u64,
    /// Received, but dropped for newer datagrams before they were read.
    pub(crate) unread: u64,
}

#[derive(Debug)]
pub(crate) struct Datagrams {
    config: DatagramsConfig,
    send: Queue<()>,
    /// With the ECN fields of their packets.
    receive: Queue<Ecn>,
    /// `None` until the first flow opens.
    flows: Option<Box<Flows>>,
    /// Bytes per weight, in 1024ths, by which datagrams are ahead of streams. If only one side
    /// sends, it can reduce the other's lead, but not gain one.
    lead: i64,
    /// Whether flows fill the next packet before datagrams without a flow.
    flows_first: bool,
    /// Whether the application waits for room, or for the queue to become empty.
    waits: bool,
    /// Whether room was made after the application had to wait.
    unblocked: bool,
    counts: Counts,
}

impl Datagrams {
    pub(crate) fn new(config: DatagramsConfig) -> Self {
        Self {
            config,
            send: Queue::default(),
            receive: Queue::default(),
            flows: None,
            lead: 0,
            flows_first: false,
            waits: false,
            unblocked: false,
            counts: Counts::default(),
        }
    }

    /// Returns true if this side accepts DATAGRAM frames.
    pub(crate) const fn offered(&self) -> bool {
        self.config.receive_bytes > 0
    }

    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn send(&mut self, data: Bytes) {
        self.counts.unsent += self.send.push(data, (), self.config.send_bytes);
    }

    /// Opens a flow, and returns its number.
    pub(crate) fn open_flow(&mut self, counters: Arc<QueueCounters>) -> u64 {
        self.flows.get_or_insert_default().open(counters)
    }

    pub(crate) fn flows_mut(&mut self) -> Option<&mut Flows> {
        self.flows.as_deref_mut()
    }

    /// Returns the sum of the weights of flows that have something to send.
    fn busy_flows(&self) -> usize {
        self.flows.as_ref().map_or(0, |flows| flows.busy())
    }

    pub(crate) fn send_in(&mut self, now: Instant, flow: u64, datagram: FlowDatagram) {
        let limit = self.config.send_bytes;
        self.counts.unsent += match &mut self.flows {
            Some(flows) => flows.push(now, flow, datagram, limit),
            None => 1,
        };
    }

    /// Returns the maximum size of a datagram that can be queued without dropping another.
    pub(crate) const fn send_room(&self) -> usize {
        let taken = self.send.bytes.saturating_add(OVERHEAD);
        self.config.send_bytes.saturating_sub(taken)
    }

    /// Queues a datagram if no other must be dropped for it. Otherwise, this returns false, the
    /// application must wait, and [`take_unblocked`](Self::take_unblocked) signals when to try
    /// again. A datagram larger than the queue waits until the queue is empty, and is then
    /// dropped as by [`send`](Self::send).
    pub(crate) fn try_send(&mut self, data: &Bytes) -> bool {
        if data.len() > self.send_room() && !self.send.waiting.is_empty() {
            self.waits = true;
            return false;
        }
        self.send(data.clone());
        true
    }

    /// Returns true once after room was made for which the application waits.
    pub(crate) fn take_unblocked(&mut self) -> bool {
        core::mem::take(&mut self.unblocked)
    }

    /// Records that datagrams left the send queue.
    fn made_room(&mut self) {
        self.unblocked |= core::mem::take(&mut self.waits);
    }

    pub(crate) fn wants_to_send(&self) -> bool {
        !self.send.waiting.is_empty() || self.busy_flows() > 0
    }

    /// Drops datagrams longer than `max` at the front, so that they don't block others.
    pub(crate) fn drop_longer_than(&mut self, max: usize) {
        let too_long = |(data, ()): &(Bytes, ())| data.len() > max;
        while self.send.waiting.front().is_some_and(too_long) {
            self.send.pop();
            self.counts.unsent += 1;
            self.made_room();
        }
        if let Some(flows) = &mut self.flows {
            self.counts.unsent += flows.drop_longer_than(max);
        }
    }

    pub(crate) fn drop_unsent(&mut self) {
        self.counts.unsent += self.send.waiting.len() as u64;
        if let Some(flows) = &mut self.flows {
            self.counts.unsent += flows.clear();
        }
        self.send = Queue::default();
        self.made_room();
    }

    /// Returns true if datagrams fill the next packet before streams.
    pub(crate) const fn goes_first(&self) -> bool {
        self.lead <= 0
    }

    /// Records the bytes of datagrams and of streams in a packet that was built while flows and
    /// streams of these weights waited. Bytes are shared by weight; datagrams without a flow
    /// get as many as all streams.
    pub(crate) fn on_turn(&mut self, bytes: (usize, usize), (flows, streams): (usize, usize)) {
        let each = |bytes: usize, weight: usize| (bytes * 1024 / weight.max(1)) as i64;
        let lead = self.lead + each(bytes.0, flows) - each(bytes.1, streams);
        self.lead = match (flows, streams) {
            (0, _) => lead.max(0),
            (_, 0) => lead.min(0),
            _ => lead,
        };
    }

    /// Returns the weight of waiting flows, in which datagrams without a flow count as much as
    /// streams of the total weight `streams`.
    pub(crate) fn waiting_flows(&self, streams: usize) -> usize {
        if self.send.waiting.is_empty() {
            self.busy_flows()
        } else {
            self.busy_flows() + streams.max(1)
        }
    }

    /// Writes frames as long as they fit. If datagrams with and without a flow wait, these two
    /// kinds alternate in filling a packet first.
    pub(crate) fn write(&mut self, now: Instant, w: &mut Writer<'_>) {
        if core::mem::take(&mut self.flows_first) {
            self.write_flows(now, w);
            self.write_others(w);
        } else {
            self.flows_first = self.write_others(w);
            self.write_flows(now, w);
        }
    }

    fn write_flows(&mut self, now: Instant, w: &mut Writer<'_>) {
        if let Some(flows) = &mut self.flows {
            let (sent, dropped) = flows.write(now, w);
            self.counts.sent += sent;
            self.counts.unsent += dropped;
        }
    }

    /// Writes datagrams without a flow. Returns true if any was written.
    fn write_others(&mut self, w: &mut Writer<'_>) -> bool {
        let before = self.counts.sent;
        while let Some((data, ())) = self.send.waiting.front() {
            if datagram_len(data.len()) > w.remaining() || Frame::Datagram(data).encode(w).is_err()
            {
                break;
            }
            self.send.pop();
            self.counts.sent += 1;
            self.made_room();
        }
        self.counts.sent > before
    }

    /// Stores a received datagram with the ECN field of its packet, unless memory is `scarce`.
    /// Returns true if the queue was empty before.
    pub(crate) fn on_datagram(&mut self, data: &[u8], mark: Ecn, scarce: bool) -> bool {
        let first = self.receive.waiting.is_empty();
        self.counts.received += 1;
        if scarce || data.len() + OVERHEAD > self.config.receive_bytes {
            self.counts.unread += 1;
            return false;
        }
        let data = Bytes::copy_from_slice(data);
        let limit = self.config.receive_bytes;
        self.counts.unread += self.receive.push(data, mark, limit);
        first
    }

    /// Returns the oldest received datagram, with the ECN field of its packet.
    pub(crate) fn read(&mut self) -> Option<(Bytes, Ecn)> {
        self.receive.pop()
    }

    /// Returns true if unread datagrams take more than half of their queue.
    pub(crate) const fn pile_up(&self) -> bool {
        self.receive.bytes > self.config.receive_bytes / 2
    }

    /// Returns the memory that unread datagrams take, bytes.
    pub(crate) const fn unread_bytes(&self) -> usize {
        self.receive.bytes
    }

    /// Stops sending, because the connection is closed. Received datagrams can still be read.
    pub(crate) fn stop(&mut self) {
        self.send = Queue::default();
        if let Some(flows) = &mut self.flows {
            flows.clear();
        }
    }

    /// Returns the memory that both queues take, as counted towards their limits.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.send.bytes + self.receive.bytes
    }
}

/// Upper bounds of the classes by which waiting times are counted, milliseconds.
const WAITS: [u64; 9] = [1, 2, 5, 10, 20, 50, 100, 200, 500];

/// Counters of a flow's queue, which can be read at any time.
#[derive(Debug, Default)]
pub struct QueueCounters {
    marked: AtomicU64,
    dropped: AtomicU64,
    waits: [AtomicU64; WAITS.len() + 1],
    waited_micros: AtomicU64,
    busy_micros: AtomicU64,
}

/// Totals of [`QueueCounters`], for one or several flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueCounts {
    /// Datagrams sent.
    pub sent: u64,
    /// Sent datagrams that the queue marked.
    pub marked: u64,
    /// Datagrams that the queue dropped.
    pub dropped: u64,
    /// Sent datagrams by waiting time: one class up to each of [`QueueCounts::BOUNDS`], and one
    /// for longer times.
    pub waits: [u64; WAITS.len() + 1],
    /// Sum of all waiting times.
    pub waited: Duration,
    /// Time during which at least one datagram of a flow waited, summed over flows.
    pub busy: Duration,
}

impl QueueCounts {
    /// Upper bounds of the classes of waiting times, milliseconds.
    pub const BOUNDS: [u64; WAITS.len()] = WAITS;
}

impl AddAssign for QueueCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.marked += other.marked;
        self.dropped += other.dropped;
        self.waited += other.waited;
        self.busy += other.busy;
        for (sum, more) in self.waits.iter_mut().zip(other.waits) {
            *sum += more;
        }
    }
}

impl QueueCounters {
    /// Returns the totals so far.
    pub fn counts(&self) -> QueueCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let waits = self.waits.each_ref().map(of);
        QueueCounts {
            sent: waits.iter().sum(),
            marked: of(&self.marked),
            dropped: of(&self.dropped),
            waits,
            waited: Duration::from_micros(of(&self.waited_micros)),
            busy: Duration::from_micros(of(&self.busy_micros)),
        }
    }

    /// Records that a datagram was sent. `busy` is the part of its waiting time after the
    /// previous one was sent.
    fn on_sent(&self, waited: Duration, busy: Duration, is_marked: bool) {
        if is_marked {
            add(&self.marked, 1);
        }
        let above = |bound: &u64| waited > Duration::from_millis(*bound);
        if let Some(waits) = self.waits.get(WAITS.partition_point(above)) {
            add(waits, 1);
        }
        for (counter, time) in [(&self.waited_micros, waited), (&self.busy_micros, busy)] {
            add(counter, u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        }
    }
}

fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
