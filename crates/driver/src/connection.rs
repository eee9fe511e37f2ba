//! Connections, as an application uses them, and the wakers of the polls of each handle.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::clock;
use super::receive_buffer::ReceiveBuffer;
use super::shared::{Awaited, Shared, State};
use super::user::User;
use super::waiters::Place;
use pathmark_transport::connection::{ConnectionError, EarlyData, PathReport, Stats};
use pathmark_transport::crypto::{ExportError, HandshakeData};
use pathmark_transport::recovery::INITIAL_RTT;
use pathmark_transport::streams::Dir;
use pathmark_transport::{ControllerFactory, Signal, VarInt};

/// A QUIC connection. Clones are cheap handles of the same connection.
///
/// A connection ends when you [`close`](Self::close) it or drop its last handle and stream, when
/// the peer closes or resets it, when it times out, or when its socket or runtime fails. All
/// waiting and later calls then return the same [`ConnectionError`], as do
/// [`closed`](Self::closed) and [`close_reason`](Self::close_reason). However, you can still read
/// data that had already arrived.
///
/// After you drop the last handle, streams continue. Dropping the last stream, too, closes the
/// connection with code 0, which discards what the peer has not received yet.
pub struct Connection {
    pub(super) shared: User,
    /// Where polls of this handle wait.
    pub(super) places: Places,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared: User::new(shared),
            places: Places::default(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Closes the connection immediately, with an application error code below 2^62 and a
    /// human-readable reason.
    ///
    /// Undelivered data is lost. To make sure that it arrives, await
    /// [`delivered`](Self::delivered) first.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        self.shared
            .close(code.into_inner(), Bytes::copy_from_slice(reason));
    }

    /// Waits until the connection is over, and returns the reason.
    pub async fn closed(&self) -> ConnectionError {
        self.shared
            .until(Awaited::Progress, |state| state.lost())
            .await
    }

    /// Waits until the handshake is confirmed, which means that the peer has completed it as well
    /// (RFC 9001 §4.1.2).
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection ends before this.
    pub async fn confirmed(&self) -> Result<(), ConnectionError> {
        let confirmed = |state: &mut State| state.core.handshake().is_confirmed();
        self.shared
            .until_or_lost(Awaited::Progress, confirmed)
            .await
    }

    /// Waits until the peer has received everything on the streams that you have
    /// [finished](super::SendStream::finish), so that [`close`](Self::close) loses none of it.
    /// Streams that are open or reset are not waited for.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection ends before this.
    pub async fn delivered(&self) -> Result<(), ConnectionError> {
        let delivered = |state: &mut State| !state.core.streams().has_undelivered();
        self.shared
            .until_or_lost(Awaited::Delivery, delivered)
            .await
    }

    /// Returns the reason why the connection is over, or `None` if it is still open.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.shared.lock().lost()
    }

    /// Returns the peer's address, which can change during the connection.
    pub fn remote_address(&self) -> SocketAddr {
        let mut address = self.shared.lock().core.remote_address();
        // An IPv6 socket reports IPv4 addresses as IPv4-mapped.
        address.set_ip(address.ip().to_canonical());
        address
    }

    /// Returns the local address at which the peer's packets arrive, if the system reports it, or
    /// `None` before the first packet. IPv4 addresses are never IPv4-mapped.
    pub fn local_ip(&self) -> Option<IpAddr> {
        let local = self.shared.lock().core.local_address();
        local.map(|ip| ip.to_canonical())
    }

    /// Returns a number that no other connection of this process will ever have, not even a later
    /// one after reconnecting.
    pub fn stable_id(&self) -> usize {
        self.shared.id
    }

    /// Returns a handle that doesn't keep the connection open.
    pub fn weak_handle(&self) -> WeakConnection {
        WeakConnection(Arc::downgrade(self.shared()))
    }

    /// Sets how many bidirectional streams the peer can have open at once, replacing
    /// [`StreamsConfig::max_bidi_streams`][most]. Since earlier promises stay valid, a lower number
    /// only takes effect as streams end.
    ///
    /// [most]: pathmark_transport::streams::StreamsConfig::max_bidi_streams
    pub fn set_max_concurrent_bi_streams(&self, streams: VarInt) {
        self.set_max_concurrent(Dir::Bi, streams);
    }

    /// Sets how many unidirectional streams the peer can have open at once, replacing
    /// [`StreamsConfig::max_uni_streams`][most]. Since earlier promises stay valid, a lower number
    /// only takes effect as streams end.
    ///
    /// [most]: pathmark_transport::streams::StreamsConfig::max_uni_streams
    pub fn set_max_concurrent_uni_streams(&self, streams: VarInt) {
        self.set_max_concurrent(Dir::Uni, streams);
    }

    fn set_max_concurrent(&self, dir: Dir, streams: VarInt) {
        let mut state = self.shared.lock();
        let streams = streams.into_inner();
        state.core.streams().set_max_concurrent(dir, streams);
        state.wake_driver();
    }

    /// Returns the smoothed round-trip time, which counts as 333 ms before the first sample (RFC
    /// 9002 §6.2.2). [`path_report`](Self::path_report) tells whether there was one.
    pub fn rtt(&self) -> std::time::Duration {
        self.path_report().smoothed_rtt.unwrap_or(INITIAL_RTT)
    }

    /// Returns the results of the handshake: application protocol, server name, and whether it
    /// resumed a session.
    pub fn handshake_data(&self) -> HandshakeData {
        self.shared.lock().core.handshake().data()
    }

    /// Returns whether early data (0-RTT) was offered, accepted or refused on this connection.
    pub fn early_data(&self) -> EarlyData {
        self.shared.lock().core.handshake().early_data()
    }

    /// Returns the peer's certificate chain in DER, beginning with its own certificate, or an empty
    /// vector if it presented none.
    pub fn peer_certificates(&self) -> Vec<Vec<u8>> {
        self.shared.lock().core.handshake().peer_certificates()
    }

    /// Fills `out` with keying material that only the two sides have, for `label` and `context`
    /// (RFC 8446 §7.5, RFC 5705). Both ends get the same bytes by passing the same label, context
    /// and length.
    ///
    /// # Errors
    /// [`ExportError`] before the handshake is complete, or if `out` is too long.
    pub fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportError> {
        let state = self.shared.lock();
        state
            .core
            .handshake()
            .export_keying_material(out, label, context)
    }

    /// Returns a report on the path: the controller's state, the routers' latest feedback, and the
    /// limits of this side.
    pub fn path_report(&self) -> PathReport {
        self.shared.lock().core.path_report(clock::now())
    }

    /// Returns the connection's counters.
    pub fn stats(&self) -> Stats {
        self.shared.lock().core.stats()
    }

    /// Returns true once this side has closed the connection and built a packet with
    /// CONNECTION_CLOSE, which is sent immediately. By waiting for this before it exits, a process
    /// saves its peer from waiting for the idle timeout.
    pub fn has_sent_close(&self) -> bool {
        self.shared.lock().core.has_sent_close()
    }

    /// Returns the size of the socket's receive buffer, which the connections of an endpoint share.
    pub fn receive_buffer(&self) -> ReceiveBuffer {
        self.shared.endpoint.socket().receive_buffer()
    }

    /// Sets the receive window of the connection in bytes: how much data the peer may send on all
    /// streams together before you read it.
    ///
    /// After this call, the window doesn't grow automatically. Since streams share it, leaving data
    /// unread on some streams leaves less for the others. Earlier promises to the peer stay valid.
    pub fn set_receive_window(&self, bytes: u64) {
        let mut state = self.shared.lock();
        state.core.streams().set_receive_window(bytes);
        state.wake_driver_for_credit();
    }

    /// Limits the send buffer of all streams together, in bytes. Up to this limit, its size follows
    /// the congestion window. Each stream can always buffer 16 KiB.
    pub fn set_send_window(&self, bytes: u64) {
        self.shared.lock().core.streams().set_send_window(bytes);
    }

    /// Switches this connection to the controllers of `factory`. A new controller takes over
    /// immediately.
    pub fn set_controller(&self, factory: Arc<dyn ControllerFactory>) {
        let mut state = self.shared.lock();
        state.core.set_controller(clock::now(), factory);
        state.wake_driver();
    }

    /// Switches to `signal` in front of this side's packets, which a controller that you have
    /// [set](Self::set_controller) may need. This returns false, without changing anything, unless
    /// both sides offered this kind of signal when connecting.
    pub fn set_signal(&self, signal: Arc<dyn Signal>) -> bool {
        self.shared.lock().core.set_signal(signal)
    }

    /// Updates the packet protection keys (RFC 9001 §6). This returns false if it's too early for
    /// another update.
    pub fn force_key_update(&self) -> bool {
        let mut state = self.shared.lock();
        let updated = state.core.update_keys(clock::now());
        state.wake_driver();
        updated
    }

    /// Sends a PING frame, so that neither the path nor the connection becomes idle.
    pub fn ping(&self) {
        let mut state = self.shared.lock();
        state.core.ping();
        state.wake_driver();
    }
}

/// A handle of a [`Connection`] that doesn't keep it open. Call [`Connection::weak_handle`] to get
/// one.
#[derive(Clone, Debug)]
pub struct WeakConnection(Weak<Shared>);

impl WeakConnection {
    /// Returns the connection, or `None` if dropping its last handle and stream has closed it.
    pub fn upgrade(&self) -> Option<Connection> {
        let shared = User::upgrade(&self.0)?;
        let places = Places::default();
        Some(Connection { shared, places })
    }
}

impl Clone for Connection {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.places.leave(&self.shared);
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("handle", &self.shared.handle)
            .finish_non_exhaustive()
    }
}

/// The places of one handle that polls, with one place for each event it can wait for. The handle
/// gives them back when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) accept: [Place; 2],
    pub(super) open: [Place; 2],
    pub(super) datagram: Place,
}

impl Places {
    pub(super) fn of(pair: &mut [Place; 2], dir: Dir) -> &mut Place {
        let [bi, uni] = pair;
        match dir {
            Dir::Bi => bi,
            Dir::Uni => uni,
        }
    }

    fn is_empty(&self) -> bool {
        let mut streams = self.accept.iter().chain(&self.open);
        self.datagram.is_empty() && streams.all(Place::is_empty)
    }

    /// Gives back all places.
    pub(super) fn leave(&mut self, shared: &Shared) {
        if self.is_empty() {
            return;
        }
        let mut state = shared.lock();
        state.leave(Awaited::Datagram, &mut self.datagram);
        for dir in [Dir::Bi, Dir::Uni] {
            state.leave(Awaited::Accept(dir), Self::of(&mut self.accept, dir));
            state.leave(Awaited::Open(dir), Self::of(&mut self.open, dir));
        }
    }
}
