//! Streams and flow control (RFC 9000 §2–4, §19.4–19.14), without I/O.
//!
//! ```text
//!  application ─write─► SendPart ─ SendBuffer ─► Schedule ─► write_frames ─► packet ── SentFrames ──► acked, lost
//!                          ▲ credit: SendCredit (stream, connection), LocalStreams
//!                          │ MAX_DATA, MAX_STREAM_DATA, MAX_STREAMS
//!                          │ promise: ReceiveWindow (stream, connection), RemoteStreams
//!  application ◄─read── RecvPart ─ Reassembly ◄── on_stream ◄─ packet
//! ```
//!
//! [`Streams`] composes the parts for one connection. It holds no clock and no packet: the contents
//! of a packet are in a [`SentFrames`] record that the connection keeps and hands back. What
//! the peer can make it hold is bounded by the limits that it was promised; a stream that is done
//! leaves nothing but counters.

mod account;
mod application;
mod asking;
mod config;
mod control;
mod error;
mod event;
mod flow;
mod limits;
mod memory;
mod ranges;
mod reassembly;
mod receive;
mod record;
mod recv;
mod repeats;
mod schedule;
mod send;
mod send_buffer;
mod sent;
mod shortage;
mod start_over;
mod transmit;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use pathmark_cc::{Duration, Limit, Limits};

pub use crate::wire::{Dir, Side, StreamId};
pub use config::{PeerLimits, StreamsConfig};
pub use error::{ClosedStream, FinishError, OpenError, ReadError, WriteError};
pub use event::StreamEvent;
pub use flow::{CreditExceeded, ReceiveWindow, SendCredit};
pub use limits::{LocalStreams, RemoteStreams, StreamLimitExceeded};
pub use memory::ReceiveMemory;
pub use reassembly::Reassembly;
pub use receive::Arrival;
pub use recv::{RecvError, RecvPart, RecvState};
pub use schedule::Schedule;
pub use send::{Piece, SendPart, SendState};
pub use send_buffer::SendBuffer;
pub use sent::SentFrames;
pub use transmit::AckedRun;

use account::SendAccount;
use asking::Asking;
use memory::MemoryAccount;
use record::Records;
use sent::ConnectionFrames;

/// With room for more streams than this, their own credit is not looked at one by one: only the
/// connection's counts.
const FEW: usize = 32;

/// All streams of a connection.
///
/// The application's calls ([`open`](Self::open), [`write`](Self::write), [`read`](Self::read), …)
/// and the connection's ([`on_stream`](Self::on_stream), [`write_frames`](Self::write_frames),
/// [`on_acked`](Self::on_acked), …) may alternate in any order. After any of them,
/// [`poll_event`](Self::poll_event) tells what happened and [`wants_to_send`](Self::wants_to_send)
/// whether packets should be built.
#[derive(Debug)]
pub struct Streams {
    side: Side,
    config: StreamsConfig,
    peer: PeerLimits,
    records: Records,
    /// By [`slot`].
    local: [LocalStreams; 2],
    /// By [`slot`].
    remote: [RemoteStreams; 2],
    credit: SendCredit,
    window: ReceiveWindow,
    account: SendAccount,
    /// Memory of received data.
    memory: MemoryAccount,
    /// Data that was refused for want of it.
    asking: Asking,
    /// Bytes that the application could read now, of all streams.
    readable: u64,
    schedule: Schedule,
    /// The stream whose turn it is to send data, if that is known: it is asked for several times
    /// for each packet. Forgotten whenever a stream's data, its place or the credit changes.
    ready: Option<StreamId>,
    /// Packets that are still to take one stream after the other.
    in_order: u8,
    /// Data was acknowledged since streams were put in order.
    progress: bool,
    /// Streams whose data waits for the connection's credit alone.
    parked: VecDeque<StreamId>,
    /// Streams with frames other than STREAM to send.
    control: VecDeque<StreamId>,
    /// Frames of the connection as a whole to send in any case.
    due: ConnectionFrames,
    events: VecDeque<StreamEvent>,
    /// Streams that wait for the peer to allow them, by [`slot`], lowest first.
    held: [VecDeque<StreamId>; 2],
    /// The application has accepted all there was, by [`slot`].
    acceptor_waits: [bool; 2],
    rtt: Option<Duration>,
}

impl Streams {
    /// No streams, and none allowed by the peer until [`set_peer_limits`](Self::set_peer_limits).
    #[must_use]
    pub fn new(side: Side, config: StreamsConfig) -> Self {
        Self {
            side,
            config,
            peer: PeerLimits::default(),
            records: Records::default(),
            local: [LocalStreams::default(); 2],
            remote: [
                RemoteStreams::new(config.max_bidi_streams),
                RemoteStreams::new(config.max_uni_streams),
            ],
            credit: SendCredit::default(),
            window: ReceiveWindow::new(config.initial_connection_window, config.max_window),
            account: SendAccount::new(config.max_send_buffer),
            memory: MemoryAccount::default(),
            asking: Asking::default(),
            readable: 0,
            schedule: Schedule::default(),
            ready: None,
            in_order: 0,
            progress: true,
            parked: VecDeque::new(),
            control: VecDeque::new(),
            due: ConnectionFrames::default(),
            events: VecDeque::new(),
            held: Default::default(),
            acceptor_waits: [true; 2],
            rtt: None,
        }
    }

    /// The peer's transport parameters are known. Limits only grow, so values remembered for 0-RTT
    /// may be set before.
    pub fn set_peer_limits(&mut self, limits: PeerLimits) {
        self.peer = limits;
        self.on_max_data(limits.max_data);
        for (dir, max) in [
            (Dir::Bi, limits.max_streams_bidi),
            (Dir::Uni, limits.max_streams_uni),
        ] {
            self.on_max_streams(dir, max);
        }
        for id in self.sorted_ids() {
            self.raise_stream(id, self.initial_credit(id));
        }
    }

    /// All streams. A map's order differs from machine to machine; that of events and of what is
    /// sent must not.
    fn sorted_ids(&self) -> Vec<StreamId> {
        let mut ids: Vec<StreamId> = self.records.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// The smoothed RTT, for windows that grow by it.
    pub fn on_rtt(&mut self, smoothed: Duration) {
        self.rtt = Some(smoothed);
    }

    /// The congestion window in bytes: the send buffer sizes itself by it.
    pub fn on_congestion_window(&mut self, bytes: u64) {
        self.account.on_congestion_window(bytes);
        self.wake_writers();
    }

    /// The next thing that an application may wait for.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        let event = self.events.pop_front();
        if self.events.is_empty() && self.events.capacity() > 1024 {
            self.events = VecDeque::new();
        }
        event
    }

    /// What keeps the streams from sending more right now: [`Limit::Window`] if they would.
    pub fn limit(&mut self) -> Limit {
        if self.wants_to_send() {
            Limit::Window
        } else if self.any_parked() || self.account.stalled > 0 {
            Limit::Peer
        } else if self.account.writers_wait() {
            Limit::Buffer
        } else {
            Limit::Application
        }
    }

    /// What bounds the bytes in flight besides the congestion window, while `in_flight` are.
    #[must_use]
    pub fn limits(&self, in_flight: u64) -> Limits {
        let connection = self.credit.available();
        let more = self.account.has_more();
        // A table that was large once takes long to walk for ever.
        let (peer, unwritten) = if self.records.capacity() > FEW {
            (connection, (!more).then_some(0))
        } else {
            let sends = self.records.values().filter_map(|r| r.send.as_ref());
            let streams = sends.clone();
            let streams = streams.fold(0u64, |sum, send| sum.saturating_add(send.allowed()));
            let mut each = sends.map(|send| match send.unwritten() {
                None if more && send.unacked() > 0 => None,
                bytes => Some(bytes.unwrap_or(0)),
            });
            let unwritten = each.try_fold(0u64, |sum, bytes| Some(sum.saturating_add(bytes?)));
            (connection.min(streams), unwritten)
        };
        let own = self.account.unacked.max(in_flight);
        Limits {
            peer: in_flight.saturating_add(peer),
            // It sizes itself by the window, so only its greatest size is a bound.
            buffer: self.account.max(),
            application: unwritten.map_or(u64::MAX, |bytes| own.saturating_add(bytes)),
        }
    }

    /// Streams with at least one part that is not done.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.records.len()
    }

    /// Bytes written and not acknowledged, on all streams.
    #[must_use]
    pub fn unacked(&self) -> u64 {
        self.account.unacked
    }

    /// Bytes sent again so far, on all streams.
    #[must_use]
    pub fn retransmitted(&self) -> u64 {
        self.account.retransmitted
    }

    /// Bytes that the send buffer of all streams together takes now.
    #[must_use]
    pub fn send_buffer_limit(&self) -> u64 {
        self.account.limit()
    }

    /// The receive window of the connection as a whole, bytes.
    #[must_use]
    pub fn receive_window(&self) -> u64 {
        self.window.window()
    }

    /// Sets the receive window of the connection as a whole, bytes. It does not grow by itself from
    /// then on; [`receive_memory`](crate::endpoint::EndpointConfig::receive_memory) still bounds
    /// it.
    pub fn set_receive_window(&mut self, bytes: u64) {
        self.window.set(bytes);
    }

    /// Sets the most that the send buffer of all streams together grows to, bytes. Each stream may
    /// buffer 16 KiB in any case.
    pub fn set_send_window(&mut self, bytes: u64) {
        self.account.set_max(bytes);
    }

    /// True while that window is smaller than the rate at which the application reads asks for: by
    /// `max_window`, or for want of memory.
    #[must_use]
    pub fn receive_limited(&self) -> bool {
        self.window.is_limited()
    }

    /// Takes memory for received data out of what connections share. Without it, flow control is
    /// the only bound.
    pub fn share_memory(&mut self, memory: std::sync::Arc<ReceiveMemory>) {
        self.memory.share(memory);
    }

    /// Bytes that the peer still allows on all streams together.
    #[must_use]
    pub fn peer_credit(&self) -> u64 {
        self.credit.available()
    }

    /// Memory held by received data, bytes. Walks all streams.
    #[must_use]
    pub fn receive_memory(&self) -> usize {
        let parts = self.records.values().filter_map(|r| r.recv.as_ref());
        parts.map(|part| part.kept().memory).sum()
    }
}

/// Position of a direction in a pair.
const fn slot(dir: Dir) -> usize {
    match dir {
        Dir::Bi => 0,
        Dir::Uni => 1,
    }
}
