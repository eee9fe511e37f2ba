//! One QUIC connection, composed of parts.
//!
//! ```text
//!  datagrams ─► Receiving ─► keys ─► frames ─┬─► Sources (handshake, control, streams, datagrams)
//!                                            ├─► Fates (ACK) ──► recovery ──► controller of the path
//!                                            ├─► Levels (CRYPTO): keys, parameters, early data
//!                                            └─► Paths (FEEDBACK, PATH_)
//!  datagrams ◄─ Sending ◄─ PacketBuilder ◄─ what each source has, window and pacer permitting
//!  deadlines ─► Receiving ─► the part whose time has come
//! ```
//!
//! [`Connection`] owns the parts; a pass borrows those that it touches. No part reads a clock or
//! does I/O. After any call, ask [`poll_transmit`](Connection::poll_transmit) until it has nothing,
//! take the events, and wait for [`deadline`](Connection::deadline).

mod acknowledged;
mod bounds;
mod building;
mod carried;
mod close;
mod closing;
mod control;
mod datagrams;
mod event;
mod frames;
mod handshake;
mod idle;
mod keys;
mod levels;
mod lifecycle;
mod lone;
mod outbox;
mod packet;
mod paths;
mod probes;
mod receive;
mod received;
mod report;
mod rtt_histogram;
mod sources;
mod spaces;
mod start;
mod stats;
mod timeout;
mod timers;
mod transmit;

#[cfg(test)]
pub(crate) mod tests;

use core::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use pathmark_cc::KnownPath;

use crate::config::{ControllerFactory, TransportConfig};
use crate::crypto::{Random, ResetToken, Side};
use crate::streams::Streams;
use crate::wire::{SpaceId, TransportError, TransportErrorCode};
use crate::{Instant, Signal};

pub use bounds::BoundShares;
pub use close::ConnectionError;
pub use datagrams::Datagrams;
pub use event::{Event, Received, Routing, Transmit};
pub use handshake::{EarlyData, Handshake};
pub use paths::ShownPath;
pub use report::PathReport;
pub use rtt_histogram::RttHistogram;
pub(crate) use start::server;
pub use start::{ClientStart, ConnectError, ServerStart};
pub use stats::Stats;

use bounds::Bounds;
use close::CloseReason;
use lifecycle::Lifecycle;
use outbox::Outbox;
use paths::Paths;
use receive::Receiving;
use sources::Sources;
use spaces::PacketSpaces;
use timers::{Timer, sooner};
use transmit::Sending;

/// A QUIC connection without I/O. See the [module](self) for how it is driven.
pub struct Connection {
    side: Side,
    config: Arc<TransportConfig>, // A controller that is set later is in that of `paths`.
    random: Random,
    sources: Sources,
    spaces: PacketSpaces,
    paths: Paths,
    lifecycle: Lifecycle,
    bounds: Bounds,
    stats: Stats,
    outbox: Outbox,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("paths", &self.paths)
            .field("lifecycle", &self.lifecycle)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Begins a connection to a server; the first datagram is ready at once. It comes in a box: it
    /// has nearly 10 kB, which each move would copy.
    ///
    /// # Errors
    /// [`ConnectError`] if the server's name or a configuration is unusable.
    pub fn client(now: Instant, start: ClientStart) -> Result<Box<Self>, ConnectError> {
        start::client(now, start)
    }

    /// Begins a connection that a client asked for. Hand it the datagram with the client's Initial
    /// next.
    ///
    /// # Errors
    /// [`ConnectError`] if a configuration is unusable.
    pub fn server(now: Instant, start: ServerStart) -> Result<Box<Self>, ConnectError> {
        start::server(now, start, None)
    }

    /// Takes a datagram for this connection. Its bytes are decrypted in place.
    pub fn handle_datagram(&mut self, now: Instant, received: Received, datagram: &mut [u8]) {
        self.receiving(now).datagram(received, datagram);
    }

    /// Builds datagrams to send now, back to back into `buffer`: at most `max_segments`, all of one
    /// size but the last. `None`: nothing to send until something happens or
    /// [`deadline`](Self::deadline) comes. Call it until then; `buffer` should hold `max_segments`
    /// times [`mtu`](Self::mtu) bytes, and at least the largest datagram that
    /// [`TransportConfig::max_mtu`] allows.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        self.lifecycle.timers_mut().on_poll(now);
        if !self.lifecycle.is_open() {
            return self.sending(now).close(buffer);
        }
        let mut sending = self.sending(now);
        let transmit = sending.poll(buffer, max_segments.max(1));
        if let Some(error) = sending.failed.take() {
            self.receiving(now).fail(error);
        }
        if transmit.is_none() {
            let bound = self.sending(now).bound();
            self.bounds.set(now, bound);
            if !self.lifecycle.is_open() {
                return self.sending(now).close(buffer);
            }
        }
        transmit
    }

    /// Does what is due at `now`: call it at or after [`deadline`](Self::deadline). Early calls do
    /// no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.receiving(now).timeout();
    }

    /// A pass over the parts that datagrams are built from.
    const fn sending(&mut self, now: Instant) -> Sending<'_> {
        Sending {
            now,
            side: self.side,
            sources: &mut self.sources,
            spaces: &mut self.spaces,
            paths: &mut self.paths,
            lifecycle: &mut self.lifecycle,
            stats: &mut self.stats,
            random: &mut self.random,
            failed: None,
        }
    }

    /// A pass over the parts that what arrives is for.
    fn receiving(&mut self, now: Instant) -> Receiving<'_> {
        Receiving {
            now,
            side: self.side,
            config: &self.config,
            sources: &mut self.sources,
            spaces: &mut self.spaces,
            paths: &mut self.paths,
            lifecycle: &mut self.lifecycle,
            stats: &mut self.stats,
            outbox: &mut self.outbox,
            random: &mut self.random,
        }
    }

    /// True once this side has closed the connection and a CONNECTION_CLOSE was built.
    #[must_use]
    pub fn has_sent_close(&self) -> bool {
        self.lifecycle.has_sent_close()
    }

    /// After a panic that may have left the connection half changed: the datagram that tells the
    /// peer of it (INTERNAL_ERROR), the last one. Of the connection only its keys, addresses and
    /// packet numbers are used, and no congestion controller. The batch that was being built as it
    /// panicked must not leave: its last packet's number may be used again here.
    pub fn close_after_panic(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        let error = TransportError::new(TransportErrorCode::INTERNAL_ERROR, "");
        self.lifecycle.close_last(error);
        self.sending(now).close(buffer)
    }

    /// Largest datagram that is sent now, bytes of UDP payload.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.paths.path().mtu()
    }

    /// Which end this is.
    #[must_use]
    pub const fn side(&self) -> Side {
        self.side
    }

    /// The application's side of streams. What is written there leaves with the next
    /// [`poll_transmit`](Self::poll_transmit).
    pub const fn streams(&mut self) -> &mut Streams {
        &mut self.sources.streams
    }

    /// The application's side of unreliable datagrams.
    pub const fn datagrams(&mut self) -> Datagrams<'_> {
        Datagrams {
            sources: &mut self.sources,
            path: self.paths.path(),
            is_open: self.lifecycle.is_open(),
        }
    }

    /// The handshake: how far it has come and what it has settled.
    #[must_use]
    pub const fn handshake(&self) -> &Handshake {
        &self.sources.handshake
    }

    /// Something that happened, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.outbox.poll_event() {
            return Some(event);
        }
        if self.sources.datagrams.take_unblocked() {
            return Some(Event::DatagramRoom);
        }
        self.sources.streams.poll_event().map(Event::Stream)
    }

    /// A change of what the endpoint finds this connection by.
    pub fn poll_routing(&mut self) -> Option<Routing> {
        let token = self.sources.control.remote_ids.current().token;
        let moved = self.paths.take_moved_tokens();
        self.outbox.poll_routing(token, moved)
    }

    /// A datagram that comes from such an address, ends with the token listed with it and is for no
    /// connection resets this one (RFC 9000 §10.3.1): the tokens of the peer's ids that are in use,
    /// each with the address to which packets with that id were sent.
    pub fn reset_tokens(&self) -> impl Iterator<Item = (SocketAddr, ResetToken)> {
        self.paths
            .reset_tokens(self.sources.control.remote_ids.current().token)
    }

    /// True if `quote`, the beginning of a datagram as an ICMP message has it, can be of one that
    /// this connection has sent: it has the ID that its packets carry (RFC 9000 §14.2.1).
    #[must_use]
    pub fn is_quoted_by(&self, quote: &[u8]) -> bool {
        let id = self.sources.control.remote_ids.current().id;
        let len = id.as_slice().len();
        len > 0 && quote.windows(len).any(|part| part == id.as_slice())
    }

    /// True if [`poll_routing`](Self::poll_routing) has something.
    #[must_use]
    pub fn has_routing(&self) -> bool {
        let token = self.sources.control.remote_ids.current().token;
        let moved = self.paths.has_moved_tokens();
        self.outbox.has_routing(token, moved)
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let timers = self.lifecycle.timers();
        if !self.lifecycle.is_open() {
            return timers.next();
        }
        // What only poll_transmit can do and what it could not do just now (the amplification limit
        // forbids it, say) waits for something else.
        let polled_at = timers.polled_at();
        let spaces = self.spaces.deadline(polled_at);
        let next = sooner(spaces, self.paths.deadline(polled_at));
        sooner(next, timers.next())
    }

    /// Ends the connection, if it is not over, with an application error code below 2^62 and a
    /// reason for people (what does not fit into a packet is cut). Streams are over.
    pub fn close(&mut self, now: Instant, code: u64, reason: Bytes) {
        let (pto, error) = (self.spaces.pto(), ConnectionError::LocallyClosed);
        let reason = CloseReason::Application { code, reason };
        let ending = self.lifecycle.close(now, pto, reason, error);
        self.sources.on_ending(ending, &mut self.outbox);
    }

    /// The interface carries datagrams of up to `bytes` of UDP payload: path MTU discovery tries
    /// sizes up to that, unless [`TransportConfig::max_mtu`] says how far. Call it before the first
    /// [`poll_transmit`](Self::poll_transmit).
    pub fn set_interface_mtu(&mut self, bytes: u16) {
        self.paths.set_interface_mtu(bytes);
    }

    /// The differentiated services code point that packets are to leave with.
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.config.dscp & 0x3f
    }

    /// The system refuses datagrams of `size` bytes (EMSGSIZE): that is not tried again.
    pub fn on_size_refused(&mut self, now: Instant, size: u16) {
        self.paths.path_mut().route_mut().on_size_refused(now, size);
    }

    /// Ends the connection because this side has no place left for it (CONNECTION_REFUSED).
    pub fn refuse(&mut self, now: Instant) {
        let error = TransportError::new(
            TransportErrorCode::CONNECTION_REFUSED,
            "the server has too many handshakes under way",
        );
        self.receiving(now).fail(error);
    }

    /// True once the handshake is complete on this side and until the connection is over.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.sources.handshake.is_complete() && self.lifecycle.is_open()
    }

    /// True while the handshake runs.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        !self.sources.handshake.is_complete() && self.lifecycle.is_open()
    }

    /// True once all is over and forgotten: the connection may be dropped.
    #[must_use]
    pub const fn is_drained(&self) -> bool {
        self.lifecycle.is_gone()
    }

    /// The peer has closed the connection, and until then what is under way may still arrive (RFC
    /// 9000 §10.2.2). The connection may go before, if the endpoint drops what arrives for it.
    #[must_use]
    pub fn drains_until(&self) -> Option<Instant> {
        let draining = self.lifecycle.is_draining();
        let until = self.lifecycle.timers().get(Timer::Close);
        until.filter(|_| draining)
    }

    /// Why the connection is over, if it is.
    #[must_use]
    pub const fn error(&self) -> Option<&ConnectionError> {
        self.lifecycle.error()
    }

    /// The peer's address.
    #[must_use]
    pub const fn remote_address(&self) -> SocketAddr {
        self.paths.path().remote()
    }

    /// Our address, where the driver tells it.
    #[must_use]
    pub const fn local_address(&self) -> Option<IpAddr> {
        self.paths.path().local()
    }

    /// Asks the peer for a sign of life.
    pub const fn ping(&mut self) {
        self.sources.control.ping = true;
    }

    /// Updates the keys (RFC 9001 §6). False if it is too early for an update.
    pub fn update_keys(&mut self, now: Instant) -> bool {
        let updated = self.spaces.keys_mut().begin_update(now);
        self.stats.key_updates += u64::from(updated);
        updated
    }

    /// From now on `factory`'s controllers steer this connection, at once a fresh one the path.
    pub fn set_controller(&mut self, now: Instant, factory: Arc<dyn ControllerFactory>) {
        self.paths.set_controller(now, factory);
        self.receiving(now).fates().follow_window();
    }

    /// From now on `signal` goes in front of what this side sends, as the controller that was set
    /// may need it. False, and nothing changed, unless both sides offered its kind when they
    /// connected.
    pub fn set_signal(&mut self, signal: Arc<dyn Signal>) -> bool {
        let next = self.spaces.next_number();
        self.paths
            .path_mut()
            .feedback_mut()
            .set_signal(signal, next)
    }

    /// Client: from now on datagrams leave from another address of ours (the driver has rebound its
    /// socket). The path is validated again, with a controller of its own. False if that is not
    /// possible: the handshake is not confirmed, or the server forbids it (RFC 9000 §9.1).
    pub fn migrate(&mut self, now: Instant, local: Option<IpAddr>) -> bool {
        self.receiving(now).move_to(local, false)
    }

    /// The same while the former address is still ours: if the new one gets no answer, the
    /// connection goes on at the last that worked, where it stood; if none is known to work, at the
    /// one before. If that gets no answer either, both are tried by turns.
    pub fn try_address(&mut self, now: Instant, local: Option<IpAddr>) -> bool {
        self.receiving(now).move_to(local, true)
    }

    /// What is known of the path from an earlier connection; the configured rate counts
    /// before it. Call it before the first [`poll_transmit`](Self::poll_transmit).
    pub const fn set_known_path(&mut self, known: Option<KnownPath>) {
        self.paths.set_known(known);
    }

    /// What the connection has measured of its path: once, when it closes after its handshake.
    /// Nothing of an address that is not validated: the peer may have forged it.
    pub fn poll_shown_path(&mut self) -> Option<ShownPath> {
        if self.lifecycle.is_open() || !self.sources.handshake.is_complete() {
            return None;
        }
        self.paths.poll_shown()
    }

    /// The congestion window of the current path, bytes.
    #[inline]
    #[must_use]
    pub fn congestion_window(&self) -> u64 {
        self.paths.path().window()
    }

    /// The current path: algorithm, last feedback, and what keeps the sender from being faster.
    #[must_use]
    pub fn path_report(&self, now: Instant) -> PathReport {
        let receiving = &self.sources.streams.receiving;
        let receiving = (receiving.window(), receiving.is_limited());
        let (recovery, bounds) = (self.spaces.recovery(), self.bounds.shares(now));
        let in_flight = recovery.bytes_in_flight();
        let path = self.paths.path();
        let mut report = path.report(recovery.rtt(), in_flight, receiving, bounds);
        report.controllers.count(now);
        report
    }

    /// Server: gives the client a token for its next connection; see [`Event::NewToken`].
    pub fn send_token(&mut self, token: Bytes) {
        if self.side.is_server() {
            self.sources.control.send_token(token);
        }
    }

    /// Counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let datagrams = self.sources.datagrams.counts();
        Stats {
            datagram_frames_sent: datagrams.sent,
            datagram_frames_received: datagrams.received,
            datagram_frames_unsent: datagrams.unsent,
            datagram_frames_unread: datagrams.unread,
            bytes_retransmitted: self.sources.streams.turns.retransmitted(),
            acks_postponed: self.spaces.received(SpaceId::Data).postponed(),
            feedback_bad: self.paths.path().feedback().disbelieved().total(),
            ..self.stats.clone()
        }
    }
}
