//! A connection as an application sees it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::clock;
use super::endpoint::EndpointShared;
use super::socket::SocketBuffers;
use super::streams::{RecvStream, SendStream};
use super::waiters::{Place, WaitList};
use crate::config::ControllerFactory;
use crate::connection::{self as core, ConnectionError, Event, PathReport, Received, Stats};
use crate::crypto::{ExportError, HandshakeData};
use crate::endpoint::ConnectionHandle;
use crate::streams::{Dir, OpenError, StreamEvent, StreamId};
use crate::{Instant, Signal};

/// Bytes of one send batch: what UDP carries in one system call with segmentation offload.
pub(super) const BATCH_BYTES: usize = 64 * 1024;

/// A connection. Cheap to clone; the last clone dropped closes it with code 0.
pub struct Connection {
    shared: Arc<Shared>,
}

/// A connection whose handshake is under way.
#[derive(Debug)]
pub struct Connecting {
    connection: Option<Connection>,
    place: Place,
}

pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) endpoint: Arc<EndpointShared>,
    pub(super) handle: ConnectionHandle,
    /// Client: what the server was called.
    pub(super) server_name: Option<String>,
    /// Clones of [`Connection`]; streams keep the state but not the connection alive.
    users: AtomicUsize,
}

/// What the task, the endpoint and the application share.
pub(super) struct State {
    pub(super) core: core::Connection,
    pub(super) senders: FxHashMap<StreamId, Sender>,
    pub(super) readers: FxHashMap<StreamId, Waker>,
    lost: Option<ConnectionError>,
    /// Why the kernel refused the last datagram, if it did.
    pub(super) send_error: Option<io::ErrorKind>,
    pub(super) driver: Option<Waker>,
    /// Waiting for the handshake, its confirmation or the end.
    progress: WaitList,
    /// Waiting for the peer to open a stream: bidirectional, unidirectional.
    accepting: [WaitList; 2],
    /// Waiting for the peer to allow a stream: bidirectional, unidirectional.
    opening: [WaitList; 2],
}

/// What one waits for.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    Progress,
    Accept(Dir),
    Open(Dir),
}

/// A place among those who wait for something; dropped, it is given back.
struct Waiting<'a> {
    shared: &'a Shared,
    awaited: Awaited,
    place: Place,
}

impl Waiting<'_> {
    fn wait(&mut self, state: &mut State, cx: &Context<'_>) {
        state.waiting(self.awaited).wait(&mut self.place, cx);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.place.is_empty() {
            let mut state = self.shared.lock();
            state.waiting(self.awaited).leave(&mut self.place);
        }
    }
}

/// A sending part that the application holds.
#[derive(Debug, Default)]
pub(super) struct Sender {
    pub(super) waker: Option<Waker>,
    /// How it ended: delivered, or stopped with a code.
    pub(super) end: Option<Option<u64>>,
}

impl Shared {
    pub(super) fn new(
        core: core::Connection,
        endpoint: Arc<EndpointShared>,
        handle: ConnectionHandle,
        server_name: Option<String>,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                core,
                senders: FxHashMap::default(),
                readers: FxHashMap::default(),
                lost: None,
                send_error: None,
                driver: None,
                progress: WaitList::default(),
                accepting: Default::default(),
                opening: Default::default(),
            }),
            endpoint,
            handle,
            server_name,
            users: AtomicUsize::new(0),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere does not make the connection's own state any worse.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self, awaited: Awaited) -> Waiting<'_> {
        Waiting {
            shared: self,
            awaited,
            place: Place::default(),
        }
    }

    /// A datagram for this connection arrived.
    pub(super) fn receive(&self, now: Instant, received: &Received, bytes: &mut [u8]) {
        let mut state = self.lock();
        let was_handshaking = state.core.is_handshaking();
        state.core.handle_datagram(now, *received, bytes);
        if state.core.has_routing() || was_handshaking && !state.core.is_handshaking() {
            // Before the task, on another thread perhaps, tells the peer of new ids: it may use
            // them at once. And a handshake that is complete makes no room for others.
            self.endpoint.route(now, self.handle, &mut state.core);
        }
    }

    /// Ends a handshake whose place is wanted.
    pub(super) fn refuse(&self, now: Instant) {
        let mut state = self.lock();
        state.core.refuse(now);
        state.wake_driver();
    }

    /// The datagrams of a batch are in: acknowledges, sends and tells the application.
    pub(super) fn received_all(&self) {
        self.lock().wake_driver();
    }

    /// The socket is of no use any more.
    pub(super) fn fail(&self, error: &ConnectionError) {
        self.lock().settle(error);
    }

    /// Ends the connection from outside its own handles.
    pub(super) fn close(&self, code: u64, reason: Bytes) {
        let mut state = self.lock();
        state.core.close(clock::now(), code, reason);
        state.settle(&ConnectionError::Closed);
        state.wake_driver();
    }
}

impl State {
    /// Places of all who wait.
    #[cfg(test)]
    pub(super) fn waiting_places(&self) -> usize {
        let both = self.accepting.iter().chain(&self.opening);
        self.progress.len() + both.map(WaitList::len).sum::<usize>()
    }

    fn waiting(&mut self, awaited: Awaited) -> &mut WaitList {
        match awaited {
            Awaited::Progress => &mut self.progress,
            Awaited::Accept(dir) => by_dir(&mut self.accepting, dir),
            Awaited::Open(dir) => by_dir(&mut self.opening, dir),
        }
    }

    /// Why the connection is over, if it is.
    pub(super) fn lost(&self) -> Option<ConnectionError> {
        self.lost.clone()
    }

    /// Has the task look at the connection.
    pub(super) fn wake_driver(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    /// The same, if reading has made credit that the peer should hear of.
    pub(super) fn wake_driver_for_credit(&mut self) {
        if self.driver.is_some() && self.core.streams().wants_to_send() {
            self.wake_driver();
        }
    }

    pub(super) fn wait_to_write(&mut self, id: StreamId, cx: &Context<'_>) {
        self.senders.entry(id).or_default().waker = Some(cx.waker().clone());
    }

    pub(super) fn wait_to_read(&mut self, id: StreamId, cx: &Context<'_>) {
        self.readers.insert(id, cx.waker().clone());
    }

    pub(super) fn on_event(&mut self, event: Event) {
        match event {
            Event::Stream(event) => self.on_stream_event(event),
            Event::Connected | Event::Confirmed | Event::HandshakeDataReady => {
                self.progress.wake();
            }
            Event::Lost(error) => self.settle(&error),
            // The task passes tokens on to the endpoint; who asks for the address gets the new one.
            Event::NewToken(_) | Event::PathChanged => {}
        }
    }

    fn on_stream_event(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Opened(dir) => self.waiting(Awaited::Accept(dir)).wake(),
            StreamEvent::Available(dir) => self.waiting(Awaited::Open(dir)).wake(),
            StreamEvent::Readable(id) => {
                if let Some(waker) = self.readers.remove(&id) {
                    waker.wake();
                }
            }
            StreamEvent::Writable(id) => self.wake_sender(id, None),
            StreamEvent::Finished(id) => self.wake_sender(id, Some(None)),
            StreamEvent::Stopped(id, code) => self.wake_sender(id, Some(Some(code))),
        }
    }

    fn wake_sender(&mut self, id: StreamId, end: Option<Option<u64>>) {
        if let Some(sender) = self.senders.get_mut(&id) {
            sender.end = sender.end.or(end);
            if let Some(waker) = sender.waker.take() {
                waker.wake();
            }
        }
    }

    /// The connection is over: everyone who waits hears of it.
    fn settle(&mut self, error: &ConnectionError) {
        let error = match (error, self.send_error) {
            // Nothing is heard where nothing can be sent.
            (ConnectionError::TimedOut | ConnectionError::HandshakeTimedOut, Some(kind)) => {
                ConnectionError::Socket(kind)
            }
            (error, _) => error.clone(),
        };
        self.lost.get_or_insert(error);
        self.progress.wake();
        self.accepting.iter_mut().for_each(WaitList::wake);
        self.opening.iter_mut().for_each(WaitList::wake);
        self.readers.drain().for_each(|(_, waker)| waker.wake());
        for sender in self.senders.values_mut() {
            if let Some(waker) = sender.waker.take() {
                waker.wake();
            }
        }
    }
}

fn by_dir<T>(pair: &mut [T; 2], dir: Dir) -> &mut T {
    let [bi, uni] = pair;
    match dir {
        Dir::Bi => bi,
        Dir::Uni => uni,
    }
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        shared.users.fetch_add(1, Ordering::Relaxed);
        Self { shared }
    }

    /// Opens a bidirectional stream, once the peer allows one.
    ///
    /// The peer hears of it with the first bytes that are written.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.open(Dir::Bi).await?;
        Ok((self.sender(id), self.receiver(id)))
    }

    /// Opens a unidirectional stream, once the peer allows one.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        Ok(self.sender(self.open(Dir::Uni).await?))
    }

    /// The next bidirectional stream that the peer opens.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.accept(Dir::Bi).await?;
        Ok((self.sender(id), self.receiver(id)))
    }

    /// The next unidirectional stream that the peer opens.
    ///
    /// # Errors
    /// [`ConnectionError`] if the connection is over.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        Ok(self.receiver(self.accept(Dir::Uni).await?))
    }

    fn sender(&self, id: StreamId) -> SendStream {
        SendStream::new(Arc::clone(&self.shared), id)
    }

    fn receiver(&self, id: StreamId) -> RecvStream {
        RecvStream::new(Arc::clone(&self.shared), id)
    }

    async fn open(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        let mut waiting = self.shared.waiting(Awaited::Open(dir));
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if let Some(error) = state.lost() {
                return Poll::Ready(Err(error));
            }
            match state.core.streams().open(dir) {
                Ok(id) => Poll::Ready(Ok(id)),
                Err(OpenError::Limit(_)) => {
                    waiting.wait(&mut state, cx);
                    // STREAMS_BLOCKED may be due.
                    state.wake_driver();
                    Poll::Pending
                }
            }
        })
        .await
    }

    async fn accept(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        let mut waiting = self.shared.waiting(Awaited::Accept(dir));
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if let Some(id) = state.core.streams().accept(dir) {
                return Poll::Ready(Ok(id));
            }
            if let Some(error) = state.lost() {
                return Poll::Ready(Err(error));
            }
            waiting.wait(&mut state, cx);
            Poll::Pending
        })
        .await
    }

    /// Ends the connection at once, with an application error code and a reason for people. What is
    /// not yet delivered is lost: wait with [`SendStream::stopped`] for what matters.
    pub fn close(&self, code: u32, reason: &[u8]) {
        self.shared
            .close(code.into(), Bytes::copy_from_slice(reason));
    }

    /// Waits until the connection is over, and says why.
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
            if state.core.is_confirmed() {
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

    /// Smoothed round-trip time; `None` before the first sample.
    #[must_use]
    pub fn rtt(&self) -> Option<std::time::Duration> {
        self.path_report().smoothed_rtt
    }

    /// What the handshake settled: application protocol, server name.
    #[must_use]
    pub fn handshake_data(&self) -> HandshakeData {
        self.shared.lock().core.handshake_data()
    }

    /// The peer's certificates in DER, its own first.
    #[must_use]
    pub fn peer_certificates(&self) -> Vec<Vec<u8>> {
        self.shared.lock().core.peer_certificates()
    }

    /// Fills `out` with keying material that both sides share and nobody else knows, for `label`
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
        state.core.export_keying_material(out, label, context)
    }

    /// How the path is doing: the controller's state, what the routers said last, and what bounds
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
        self.shared.endpoint.socket_buffers()
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

impl Clone for Connection {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.shared))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
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

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

impl Connecting {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            connection: Some(connection),
            place: Place::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.connection.as_ref().expect("not ready yet").shared
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            let mut state = connection.shared.lock();
            state.progress.leave(&mut self.place);
        }
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { connection, place } = &mut *self;
        let Some(connected) = connection else {
            // Polled again after it was ready.
            return Poll::Pending;
        };
        let mut state = connected.shared.lock();
        if let Some(error) = state.lost() {
            return Poll::Ready(Err(error));
        }
        // A handshake that has failed is not over until the task has said so.
        if !state.core.is_established() {
            state.progress.wait(place, cx);
            return Poll::Pending;
        }
        state.progress.leave(place);
        drop(state);
        match connection.take() {
            Some(connection) => Poll::Ready(Ok(connection)),
            None => Poll::Pending,
        }
    }
}
