//! A connection as an application sees it.

use std::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Poll;

use bytes::Bytes;

use super::clock;
use super::places::Places;
use super::shared::{Awaited, Shared};
use super::socket::SocketBuffers;
use pathmark_transport::ControllerFactory;
use pathmark_transport::connection::{ConnectionError, EarlyData, PathReport, Stats};
use pathmark_transport::crypto::{ExportError, HandshakeData};
use pathmark_transport::streams::Dir;
use pathmark_transport::{Signal, VarInt};

/// A connection. Cheap to clone; the last clone dropped closes it with code 0.
pub struct Connection {
    pub(super) shared: Arc<Shared>,
    /// Where this handle's polls wait.
    pub(super) places: Places,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        shared.users.fetch_add(1, Ordering::Relaxed);
        Self {
            shared,
            places: Places::default(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Ends the connection at once, with an application error code below 2^62 and a reason for
    /// people. What is not yet delivered is lost: wait with
    /// [`SendStream::stopped`](super::SendStream::stopped) for what matters.
    pub fn close(&self, code: impl Into<VarInt>, reason: &[u8]) {
        let code = code.into().into_inner();
        self.shared.close(code, Bytes::copy_from_slice(reason));
    }

    /// Waits until the connection is over, and returns the reason.
    pub async fn closed(&self) -> ConnectionError {
        let mut waiting = self.shared.waiting(Awaited::Progress);
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if let Some(error) = state.lost() {
                return Poll::Ready(error);
            }
            waiting.wait(&mut state, cx);
            Poll::Pending
        })
        .await
    }

    /// Waits until the peer is known to have completed the handshake too (RFC 9001 §4.1.2).
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection ends before.
    pub async fn confirmed(&self) -> Result<(), ConnectionError> {
        let mut waiting = self.shared.waiting(Awaited::Progress);
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if state.core.handshake().is_confirmed() {
                return Poll::Ready(Ok(()));
            }
            if let Some(error) = state.lost() {
                return Poll::Ready(Err(error));
            }
            waiting.wait(&mut state, cx);
            Poll::Pending
        })
        .await
    }

    /// Why the connection is over, if it is.
    #[must_use]
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.shared.lock().lost()
    }

    /// The peer's address, which may change during the connection.
    #[must_use]
    pub fn remote_address(&self) -> SocketAddr {
        let mut address = self.shared.lock().core.remote_address();
        // An IPv6 socket names IPv4 addresses in a form of its own.
        address.set_ip(address.ip().to_canonical());
        address
    }

    /// This side's address, by which the peer's packets come, where the system tells it; `None`
    /// before the first one. IPv4 addresses are not IPv4-mapped.
    #[must_use]
    pub fn local_ip(&self) -> Option<IpAddr> {
        let local = self.shared.lock().core.local_address();
        local.map(|ip| ip.to_canonical())
    }

    /// A number that no other connection of this process has or had: not even a later one, as after
    /// a reconnect.
    #[must_use]
    pub fn stable_id(&self) -> usize {
        self.shared.id
    }

    /// A handle that does not keep the connection open.
    #[must_use]
    pub fn weak_handle(&self) -> WeakConnection {
        WeakConnection(Arc::downgrade(&self.shared))
    }

    /// Sets how many bidirectional streams the peer may have open at once, in place of
    /// [`StreamsConfig::max_bidi_streams`][most]. A lower number holds as streams end: what the
    /// peer was promised stays.
    ///
    /// [most]: pathmark_transport::streams::StreamsConfig::max_bidi_streams
    pub fn set_max_concurrent_bi_streams(&self, streams: impl Into<VarInt>) {
        self.set_max_concurrent(Dir::Bi, streams.into());
    }

    /// Sets how many unidirectional streams the peer may have open at once, in place of
    /// [`StreamsConfig::max_uni_streams`][most]. A lower number holds as streams end: what the peer
    /// was promised stays.
    ///
    /// [most]: pathmark_transport::streams::StreamsConfig::max_uni_streams
    pub fn set_max_concurrent_uni_streams(&self, streams: impl Into<VarInt>) {
        self.set_max_concurrent(Dir::Uni, streams.into());
    }

    fn set_max_concurrent(&self, dir: Dir, streams: VarInt) {
        let mut state = self.shared.lock();
        let streams = streams.into_inner();
        state.core.streams().set_max_concurrent(dir, streams);
        state.wake_driver();
    }

    /// Smoothed round-trip time; `None` before the first sample.
    #[must_use]
    pub fn rtt(&self) -> Option<std::time::Duration> {
        self.path_report().smoothed_rtt
    }

    /// What the handshake settled: application protocol, server name.
    #[must_use]
    pub fn handshake_data(&self) -> HandshakeData {
        self.shared.lock().core.handshake().data()
    }

    /// What became of early data (0-RTT) on this connection.
    #[must_use]
    pub fn early_data(&self) -> EarlyData {
        self.shared.lock().core.handshake().early_data()
    }

    /// The peer's certificates in DER, its own first.
    #[must_use]
    pub fn peer_certificates(&self) -> Vec<Vec<u8>> {
        self.shared.lock().core.handshake().peer_certificates()
    }

    /// Fills `out` with keying material that only the two sides have, for `label`
    /// and `context` (RFC 8446 §7.5, RFC 5705): the same at both ends if these are.
    ///
    /// # Errors
    /// [`ExportError`] if `out` is too long.
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

    /// How the path is doing: the controller's state, the routers' last feedback, and what bounds
    /// this side.
    #[must_use]
    pub fn path_report(&self) -> PathReport {
        self.shared.lock().core.path_report(clock::now())
    }

    /// Counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.lock().core.stats()
    }

    /// The endpoint's socket buffers as the kernel granted them.
    #[must_use]
    pub fn socket_buffers(&self) -> SocketBuffers {
        self.shared.endpoint.socket().buffers()
    }

    /// Sets how many bytes of all streams together may be under way to the application: what the
    /// peer sends beyond what was read waits there. The window does not grow by itself from then
    /// on. Streams share it: data that is not read on some of them leaves less for the others.
    /// What the peer was promised before stays promised.
    pub fn set_receive_window(&self, bytes: u64) {
        let mut state = self.shared.lock();
        state.core.streams().set_receive_window(bytes);
        state.wake_driver_for_credit();
    }

    /// Sets how many bytes of all streams together are kept for sending at most; the buffer sizes
    /// itself by the congestion window up to there. Each stream keeps 16 KiB in any case.
    pub fn set_send_window(&self, bytes: u64) {
        self.shared.lock().core.streams().set_send_window(bytes);
    }

    /// From now on `factory`'s controllers steer this connection, beginning with a fresh one.
    pub fn set_controller(&self, factory: Arc<dyn ControllerFactory>) {
        let mut state = self.shared.lock();
        state.core.set_controller(clock::now(), factory);
        state.wake_driver();
    }

    /// From now on `signal` goes in front of what this side sends, as the controller that was
    /// [set](Self::set_controller) may need it. False, and nothing changed, unless both sides
    /// offered its kind when they connected.
    pub fn set_signal(&self, signal: Arc<dyn Signal>) -> bool {
        self.shared.lock().core.set_signal(signal)
    }

    /// Updates the packet protection keys (RFC 9001 §6). False if it is too early for another
    /// update.
    pub fn update_keys(&self) -> bool {
        let mut state = self.shared.lock();
        let updated = state.core.update_keys(clock::now());
        state.wake_driver();
        updated
    }

    /// Says something, so that the path and the peer stay awake.
    pub fn ping(&self) {
        let mut state = self.shared.lock();
        state.core.ping();
        state.wake_driver();
    }
}

/// A handle of a [`Connection`] that does not keep it open.
#[derive(Clone, Debug)]
pub struct WeakConnection(Weak<Shared>);

impl WeakConnection {
    /// The connection, unless its last [`Connection`] was dropped, which closed it.
    #[must_use]
    pub fn upgrade(&self) -> Option<Connection> {
        let shared = self.0.upgrade()?;
        let one_more = |users: usize| (users > 0).then(|| users + 1);
        let order = (Ordering::Acquire, Ordering::Relaxed);
        let counted = shared.users.fetch_update(order.0, order.1, one_more);
        counted.is_ok().then(|| Connection {
            shared,
            places: Places::default(),
        })
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
        if self.shared.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut state = self.shared.lock();
            if state.lost.is_none() {
                drop(state);
                self.shared.close(0, Bytes::new());
            } else {
                state.wake_driver();
            }
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("handle", &self.shared.handle)
            .finish_non_exhaustive()
    }
}
