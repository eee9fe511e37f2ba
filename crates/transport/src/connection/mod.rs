//! One QUIC connection, composed of parts.
//!
//! ```text
//!  datagrams ─► Receiving ─► keys ─► frames ─┬─► Sources (handshake, control, streams, datagrams)
//!                                            ├─► Fates (ACK) ──► recovery ──► path's controller
//!                                            ├─► Levels (CRYPTO): keys, parameters, early data
//!                                            └─► Paths (FEEDBACK, PATH_)
//!  datagrams ◄─ Sending ◄─ PacketBuilder ◄─ frames of each source, within window and pacer
//!  deadlines ─► Receiving ─► the part whose deadline has passed
//! ```
//!
//! [`Connection`] owns the parts, and each operation borrows those that it needs. No part reads a
//! clock or does I/O. After any call, you should call [`poll_transmit`](Connection::poll_transmit)
//! until it returns nothing, take the events, and wait for [`deadline`](Connection::deadline).

mod building;
mod control;
mod datagrams;
mod fates;
mod frames;
mod handshake;
mod keys;
mod lifecycle;
mod outbox;
mod packet;
mod paths;
mod receive;
mod received;
mod sources;
mod spaces;
mod start;
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
use crate::observe::{Bounds, Tracing};
use crate::streams::Streams;
use crate::wire::{SpaceId, TransportError, TransportErrorCode};
use crate::{Duration, Instant, Signal};

pub use crate::observe::{
    ApplicationClose, BoundShares, ConnectionError, PathReport, RttHistogram, Stats,
};
pub use datagrams::Datagrams;
pub use handshake::{EarlyData, Handshake};
pub use outbox::{Event, Received, Routing, Transmit};
pub use paths::ShownPath;
pub(crate) use start::server;
pub use start::{ClientStart, ConnectError, ServerStart};

use lifecycle::{CloseReason, Lifecycle};
use outbox::Outbox;
use paths::Paths;
use receive::Receiving;
use sources::Sources;
use spaces::PacketSpaces;
use timers::{Timer, sooner};
use transmit::Sending;

/// A QUIC connection without I/O. See the [module](self) for how to drive it.
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
    tracing: Tracing,
    outbox: Outbox,
}

/// A log has a last report even if the connection is dropped before it ends.
impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(last) = self.tracing.unended() {
            self.tracing
                .report(last, &self.path_report(last), &self.stats());
        }
    }
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
    /// Begins a connection to a server. Its first datagram is immediately ready for sending. The
    /// connection is boxed because moving it would copy nearly 10 kB.
    ///
    /// # Errors
    /// Returns [`ConnectError`] if the server's name or a configuration is unusable.
    pub fn client(now: Instant, start: ClientStart) -> Result<Box<Self>, ConnectError> {
        start::client(now, start)
    }

    /// Begins a connection that a client asked for. You must next pass it the datagram containing
    /// the client's Initial.
    ///
    /// # Errors
    /// Returns [`ConnectError`] if a configuration is unusable.
    pub fn server(now: Instant, start: ServerStart) -> Result<Box<Self>, ConnectError> {
        start::server(now, start, None)
    }

    /// Processes a datagram for this connection, decrypting its bytes in place.
    pub fn handle_datagram(&mut self, now: Instant, received: Received, datagram: &mut [u8]) {
        self.receiving(now).datagram(received, datagram);
    }

    /// Builds datagrams to send now, writing them back to back into `buffer`: at most
    /// `max_segments`, all of the same size except the last. Call it until it returns `None`, which
    /// means that there's nothing to send until something happens or [`deadline`](Self::deadline)
    /// is reached. `buffer` should hold `max_segments` times [`mtu`](Self::mtu) bytes, and at least
    /// the largest datagram that [`TransportConfig::max_mtu`] allows.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        max_segments: usize,
    ) -> Option<Transmit> {
        self.lifecycle.timers.on_poll(now);
        if !self.lifecycle.is_open() {
            self.trace(now);
            return self.sending(now).close(buffer);
        }
        let mut sending = self.sending(now);
        let transmit = sending.poll(buffer, max_segments.max(1));
        if let Some(error) = sending.failed.take() {
            self.receiving(now).fail(error);
        }
        if transmit.is_none() {
            self.trace(now);
            let bound = self.sending(now).bound();
            self.bounds.set(now, bound);
            if !self.lifecycle.is_open() {
                return self.sending(now).close(buffer);
            }
        }
        transmit
    }

    /// Performs everything due at `now`. Call it at or after [`deadline`](Self::deadline); calling
    /// it early is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.receiving(now).timeout();
        self.trace(now);
    }

    /// Records a report in the connection's log if one is due, and the connection's end.
    fn trace(&mut self, now: Instant) {
        if self.tracing.is_due(now, self.lifecycle.error().is_some()) {
            self.tracing
                .report(now, &self.path_report(now), &self.stats());
            self.tracing.end(now, self.lifecycle.error());
        }
    }

    /// Borrows the parts for building datagrams.
    const fn sending(&mut self, now: Instant) -> Sending<'_> {
        Sending {
            now,
            side: self.side,
            sources: &mut self.sources,
            spaces: &mut self.spaces,
            paths: &mut self.paths,
            lifecycle: &mut self.lifecycle,
            stats: &mut self.stats,
            tracing: &mut self.tracing,
            random: &mut self.random,
            failed: None,
        }
    }

    /// Borrows the parts for processing arrivals.
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
            tracing: &mut self.tracing,
            outbox: &mut self.outbox,
            random: &mut self.random,
        }
    }

    /// Returns true once this side has closed the connection and built a CONNECTION_CLOSE.
    pub fn has_sent_close(&self) -> bool {
        self.lifecycle.has_sent_close()
    }

    /// Builds the last datagram after a panic (INTERNAL_ERROR). Because the connection may be
    /// inconsistent, this only uses its keys, addresses and packet numbers. You must not send the
    /// batch that was being built when the panic occurred: its last packet number may be reused.
    pub fn close_after_panic(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        let error = TransportError::new(TransportErrorCode::INTERNAL_ERROR, "");
        self.lifecycle.close_last(error);
        self.tracing.stop();
        self.sending(now).close(buffer)
    }

    /// Returns the largest datagram that can be sent, in bytes of UDP payload.
    pub fn mtu(&self) -> u16 {
        self.paths.path.mtu()
    }

    /// Returns which end of the connection this is.
    pub const fn side(&self) -> Side {
        self.side
    }

    /// Accesses the streams. Data that you write there is sent by [`Self::poll_transmit`].
    pub const fn streams(&mut self) -> &mut Streams {
        &mut self.sources.streams
    }

    /// Accesses the unreliable datagrams.
    pub const fn datagrams(&mut self) -> Datagrams<'_> {
        Datagrams {
            sources: &mut self.sources,
            path: &self.paths.path,
            is_open: self.lifecycle.is_open(),
        }
    }

    /// Returns the state of the handshake, including the parameters negotiated so far.
    pub const fn handshake(&self) -> &Handshake {
        &self.sources.handshake
    }

    /// Returns the next event, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.outbox.poll_event() {
            return Some(event);
        }
        if self.sources.datagrams.take_unblocked() {
            return Some(Event::DatagramRoom);
        }
        self.sources.streams.poll_event().map(Event::Stream)
    }

    /// Returns the next change in how the endpoint must route datagrams to this connection.
    pub fn poll_routing(&mut self) -> Option<Routing> {
        let token = self.sources.control.remote_ids.current().token;
        let moved = self.paths.take_moved_tokens();
        self.outbox.poll_routing(token, moved)
    }

    /// Returns the stateless reset tokens of the peer's ids in use, each with the address to which
    /// packets with that id were sent. A datagram from that address which ends with the token and
    /// doesn't belong to any connection resets this one (RFC 9000 §10.3.1).
    pub fn reset_tokens(&self) -> impl Iterator<Item = (SocketAddr, ResetToken)> {
        self.paths
            .reset_tokens(self.sources.control.remote_ids.current().token)
    }

    /// Returns true if `quote`, the beginning of a datagram quoted in an ICMP message, may be from
    /// this connection, because it contains the ID that its packets carry (RFC 9000 §14.2.1).
    pub fn is_quoted_by(&self, quote: &[u8]) -> bool {
        let id = self.sources.control.remote_ids.current().id;
        let len = id.as_slice().len();
        len > 0 && quote.windows(len).any(|part| part == id.as_slice())
    }

    /// Returns true if [`poll_routing`](Self::poll_routing) would return something.
    pub fn has_routing(&self) -> bool {
        let token = self.sources.control.remote_ids.current().token;
        let moved = self.paths.has_moved_tokens();
        self.outbox.has_routing(token, moved)
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) if nothing happens earlier.
    pub fn deadline(&self) -> Option<Instant> {
        let timers = &self.lifecycle.timers;
        if !self.lifecycle.is_open() {
            return timers.next();
        }
        // If poll_transmit couldn't send something just now, for example because of the
        // amplification limit, this waits for another event.
        let polled_at = timers.polled_at();
        let spaces = self.spaces.deadline(polled_at);
        let next = sooner(spaces, self.paths.deadline(polled_at));
        sooner(next, timers.next())
    }

    /// Closes the connection, unless it is already over, by sending an application error code below
    /// 2^62 and a human-readable reason (truncated if it doesn't fit into a packet). You can't use
    /// its streams anymore.
    pub fn close(&mut self, now: Instant, code: u64, reason: Bytes) {
        let (pto, error) = (self.spaces.pto(), ConnectionError::LocallyClosed);
        let reason = CloseReason::Application { code, reason };
        let ending = self.lifecycle.close(now, pto, reason, error);
        self.sources.on_ending(ending, &mut self.outbox);
    }

    /// Sets how large a UDP payload the interface can carry, in bytes. Path MTU discovery then
    /// tries sizes up to this, unless [`TransportConfig::max_mtu`] sets a limit. You must call it
    /// before the first [`poll_transmit`](Self::poll_transmit).
    pub fn set_interface_mtu(&mut self, bytes: u16) {
        self.paths.set_interface_mtu(bytes);
    }

    /// Returns the differentiated services code point with which packets should be sent.
    pub fn dscp(&self) -> u8 {
        self.config.dscp & 0x3f
    }

    /// Reports that the system refused a datagram of `size` bytes (EMSGSIZE), so that this size
    /// isn't tried again.
    pub fn on_size_refused(&mut self, now: Instant, size: u16) {
        self.paths.path.route.on_size_refused(now, size);
    }

    /// Closes the connection because this side no longer has room for it (CONNECTION_REFUSED).
    pub fn refuse(&mut self, now: Instant) {
        let error = TransportError::new(
            TransportErrorCode::CONNECTION_REFUSED,
            "the server has too many handshakes under way",
        );
        self.receiving(now).fail(error);
    }

    /// Returns true from when the handshake is complete on this side until the connection is over.
    pub fn is_established(&self) -> bool {
        self.sources.handshake.is_complete() && self.lifecycle.is_open()
    }

    /// Returns true while the handshake is running.
    pub fn is_handshaking(&self) -> bool {
        !self.sources.handshake.is_complete() && self.lifecycle.is_open()
    }

    /// Returns true once the connection is over and has nothing left to do, so that you can drop
    /// it.
    pub const fn is_drained(&self) -> bool {
        self.lifecycle.is_gone()
    }

    /// Returns until when packets can still arrive, if the peer has closed the connection (RFC 9000
    /// §10.2.2). You can drop the connection earlier if the endpoint drops its datagrams.
    pub fn drains_until(&self) -> Option<Instant> {
        let draining = self.lifecycle.is_draining();
        let until = self.lifecycle.timers.get(Timer::Close);
        until.filter(|_| draining)
    }

    /// Returns why the connection is over, or `None` while it isn't.
    pub const fn error(&self) -> Option<&ConnectionError> {
        self.lifecycle.error()
    }

    /// Returns the peer's address.
    pub const fn remote_address(&self) -> SocketAddr {
        self.paths.path.remote()
    }

    /// Returns the local address, if the driver provides it.
    pub const fn local_address(&self) -> Option<IpAddr> {
        self.paths.path.local()
    }

    /// Sends a PING, which the peer must acknowledge.
    pub const fn ping(&mut self) {
        self.sources.control.ping = true;
    }

    /// Updates the keys (RFC 9001 §6). Returns false if it is too early for an update.
    pub fn update_keys(&mut self, now: Instant) -> bool {
        let updated = self.spaces.keys.begin_update(now);
        self.stats.key_updates += u64::from(updated);
        updated
    }

    /// Uses controllers made by `factory` from now on, starting immediately with a fresh controller
    /// on the current path.
    pub fn set_controller(&mut self, now: Instant, factory: Arc<dyn ControllerFactory>) {
        self.paths.set_controller(now, factory);
        self.receiving(now).fates().follow_window();
    }

    /// Puts `signal` in front of outgoing datagrams from now on, because a controller set later may
    /// need it. Returns false, without changing anything, unless both sides offered this kind when
    /// connecting.
    pub fn set_signal(&mut self, signal: Arc<dyn Signal>) -> bool {
        let next = self.spaces.next_number();
        self.paths.path.feedback.set_signal(signal, next)
    }

    /// Client: sends datagrams from another local address from now on, because the driver has
    /// rebound its socket. The path is validated again and gets its own controller. Returns false
    /// if migrating isn't possible, because the handshake isn't confirmed or the server forbids it
    /// (RFC 9000 §9.1).
    pub fn migrate(&mut self, now: Instant, local: Option<IpAddr>) -> bool {
        self.receiving(now).move_to(local, false)
    }

    /// Like [`migrate`](Self::migrate), but while the former address is still available. If the new
    /// address doesn't get an answer, the connection returns to the last address that worked, with
    /// its former state; if no address is known to work, it returns to the previous address. If
    /// that doesn't get an answer either, it tries both alternately.
    pub fn try_address(&mut self, now: Instant, local: Option<IpAddr>) -> bool {
        self.receiving(now).move_to(local, true)
    }

    /// Provides the state of the path known from an earlier connection; a configured rate takes
    /// precedence. You must call it before the first [`poll_transmit`](Self::poll_transmit).
    pub const fn set_known_path(&mut self, known: Option<KnownPath>) {
        self.paths.set_known(known);
    }

    /// Returns the connection's measurements of its path, once, when it closes after completing its
    /// handshake. An address that isn't validated is never reported, because the peer may have
    /// forged it.
    pub fn poll_shown_path(&mut self) -> Option<ShownPath> {
        if self.lifecycle.is_open() || !self.sources.handshake.is_complete() {
            return None;
        }
        self.paths.poll_shown()
    }

    /// Returns the congestion window of the current path, in bytes.
    pub fn congestion_window(&self) -> u64 {
        self.paths.path.window()
    }

    /// Reports the state of the current path: algorithm, latest feedback, and the limits that keep
    /// the sender from being faster.
    pub fn path_report(&self, now: Instant) -> PathReport {
        let receiving = &self.sources.streams.receiving;
        let recovery = &self.spaces.recovery;
        let mut report = self.paths.path.report(
            recovery.rtt(),
            recovery.bytes_in_flight(),
            receiving.window(),
            receiving.is_limited(),
            self.bounds.shares(now),
        );
        report.controllers.count(now);
        report
    }

    /// Server: gives the client a token for its next connection; see [`Event::NewToken`].
    pub fn send_token(&mut self, token: Bytes) {
        if self.side.is_server() {
            self.sources.control.send_token(token);
        }
    }

    /// Returns the shortest round-trip time of this path once 100 packets have arrived. Before
    /// that, most samples are those of the handshake, which include the time for signatures.
    pub fn settled_min_rtt(&self) -> Option<Duration> {
        let settled = self.stats.packets_received >= 100;
        settled.then(|| self.spaces.recovery.rtt().min()).flatten()
    }

    /// Returns the counters so far.
    pub fn stats(&self) -> Stats {
        let datagrams = self.sources.datagrams.counts();
        Stats {
            datagram_frames_sent: datagrams.sent,
            datagram_frames_received: datagrams.received,
            datagram_frames_unsent: datagrams.unsent,
            datagram_frames_unread: datagrams.unread,
            bytes_retransmitted: self.sources.streams.turns.retransmitted(),
            acks_postponed: self.spaces.received(SpaceId::Data).postponed(),
            feedback_bad: self.paths.path.feedback.disbelieved().total(),
            ..self.stats.clone()
        }
    }
}
