//! How the tasks of a connection and of its endpoint use the connection's state.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::{Awaited, EndpointShared, Shared, State};
use super::{Guard, Later};
use crate::clock;
use crate::socket::{Outgoing, Socket};
use crate::unopened::{Group, Inbox};
use crate::waiters::{Place, WaitList};
use pathmark_transport::Instant;
use pathmark_transport::connection::{self as core, ConnectionError, Received};
use pathmark_transport::endpoint::ConnectionHandle;

/// The number of the next connection.
static NEXT_ID: AtomicUsize = AtomicUsize::new(1);

/// Number of probe timeouts after the first report of an unreachable host or network, after which
/// another such report ends an attempt. This is 3 s if nothing is known about the path.
const PATIENCE: u64 = 2;

/// A place among the tasks that wait for an event. Dropping this gives it back.
pub(crate) struct Waiting<'a> {
    shared: &'a Shared,
    awaited: Awaited,
    place: Place,
}

impl Waiting<'_> {
    pub(crate) fn place(&mut self) -> &mut Place {
        &mut self.place
    }

    pub(crate) fn wait(&mut self, state: &mut State, cx: &Context<'_>) {
        state.wait(self.awaited, &mut self.place, cx);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.place.is_empty() {
            let mut state = self.shared.lock();
            state.leave(self.awaited, &mut self.place);
        }
    }
}

impl Shared {
    pub(crate) fn new(
        core: Box<core::Connection>,
        endpoint: Arc<EndpointShared>,
        socket: &Arc<Socket>,
        handle: ConnectionHandle,
        server_name: Option<String>,
    ) -> Arc<Self> {
        let inbox = Inbox::new(&endpoint.groups);
        Arc::new(Self {
            inbox,
            state: Mutex::new(State {
                core,
                senders: FxHashMap::default(),
                readers: FxHashMap::default(),
                accepted: 0,
                lost: None,
                out_of_reach: None,
                send_error: None,
                driver: None,
                may_gather: false,
                socket: Arc::downgrade(socket),
                next_socket: None,
                progress: WaitList::default(),
                accepting: Default::default(),
                opening: Default::default(),
                reading: WaitList::default(),
                delivering: WaitList::default(),
                sending: WaitList::default(),
                later: Later::default(),
            }),
            endpoint,
            handle,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            server_name,
            users: AtomicUsize::new(0),
            receive_buffer: AtomicUsize::new(0),
            handshaking: AtomicBool::new(true),
            refused: AtomicBool::new(false),
        })
    }

    pub(crate) fn lock(&self) -> Guard<'_> {
        // A panic elsewhere doesn't damage the connection's own state.
        Guard::new(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if the lock is held.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.state.try_lock().is_err()
    }

    pub(crate) fn waiting(&self, awaited: Awaited) -> Waiting<'_> {
        Waiting {
            shared: self,
            awaited,
            place: Place::default(),
        }
    }

    /// Waits until `outcome` returns something, by asking again after each such event.
    pub(crate) async fn until<T>(
        &self,
        awaited: Awaited,
        outcome: impl Fn(&mut State) -> Option<T>,
    ) -> T {
        let mut waiting = self.waiting(awaited);
        poll_fn(|cx| {
            let mut state = self.lock();
            if let Some(outcome) = outcome(&mut state) {
                return Poll::Ready(outcome);
            }
            waiting.wait(&mut state, cx);
            Poll::Pending
        })
        .await
    }

    /// Waits until `is_done` returns true, or returns why the connection ended first.
    pub(crate) async fn until_or_lost(
        &self,
        awaited: Awaited,
        is_done: impl Fn(&mut State) -> bool,
    ) -> Result<(), ConnectionError> {
        let lost = |state: &State| state.lost().map(Err);
        let done = |state: &mut State| is_done(state).then_some(Ok(())).or_else(|| lost(state));
        self.until(awaited, done).await
    }

    /// Returns true if code has panicked while holding the connection's lock. In this case the
    /// state may be inconsistent, and the task ends the connection.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.is_poisoned()
    }

    /// Ends a broken connection by sending its peer a close, so that it needn't wait for the idle
    /// timeout.
    pub(crate) fn end_broken(&self, socket: &Socket, dscp: u8) {
        let mut buffer = self.endpoint.take_buffer();
        // The part of the connection that this uses may itself be inconsistent.
        let close = catch_unwind(AssertUnwindSafe(|| {
            let core = &mut self.lock().core;
            core.close_after_panic(clock::now(), &mut buffer)
        }));
        if let Ok(Some(transmit)) = close {
            socket.send(&Outgoing {
                to: transmit.remote,
                from: transmit.local,
                ecn: transmit.ecn,
                dscp,
                bytes: buffer.get(..transmit.len).unwrap_or(&[]),
                segment: transmit.segment_size,
            });
        }
        self.endpoint.give_buffer(buffer);
        self.lock().settle(&ConnectionError::Panicked);
    }

    /// Returns true while the handshake is not complete. Whoever holds the lock may then be signing
    /// or checking signatures, which takes too long for the receiving task to wait.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.handshaking.load(Ordering::Relaxed)
    }

    /// Records a report that the server is unreachable. Returns true if it was also reported some
    /// probe timeouts ago.
    pub(crate) fn is_long_out_of_reach(&self) -> bool {
        let mut state = self.lock();
        let timeouts = state.core.stats().probe_timeouts;
        let since = *state.out_of_reach.get_or_insert(timeouts);
        timeouts >= since + PATIENCE
    }

    /// Opens a datagram that arrived after all those that are waiting. Returns true if the
    /// application should read DATAGRAM frames before more is opened.
    pub(crate) fn receive(&self, now: Instant, received: &Received, bytes: &mut [u8]) -> bool {
        let mut piles_up = false;
        self.guarded(self.lock(), |state| {
            while self.open_next(state, now).is_some() {}
            self.open(state, now, received, bytes);
            piles_up = state.core.datagrams().pile_up();
        });
        piles_up
    }

    /// Opens a group of datagrams for which there was no room to wait.
    pub(crate) fn receive_group(&self, now: Instant, group: Group) {
        self.guarded(self.lock(), |state| {
            while self.open_next(state, now).is_some() {}
            self.open_group(state, now, group);
        });
    }

    /// Opens everything that is waiting, for a caller that needs the contents now.
    pub(crate) fn open_all(&self, now: Instant) {
        if self.inbox.is_empty() {
            return;
        }
        self.guarded(self.lock(), |state| {
            while self.open_next(state, now).is_some() {}
            state.wake_driver();
        });
    }

    /// Opens datagrams outside the connection's own task. A panic (for example in the application's
    /// controller) only ends this connection. If it is broken, nothing is opened.
    fn guarded(&self, state: Guard<'_>, open: impl FnOnce(&mut State)) {
        if self.is_broken() {
            return;
        }
        // Unwinding is safe here, because the poisoned lock prevents using the state afterwards.
        let opened = catch_unwind(AssertUnwindSafe(move || {
            let mut state = state;
            open(&mut state);
        }));
        if opened.is_err() {
            tracing::error!("a connection panicked as it opened a packet, and ends");
            self.lock().wake_driver();
        }
    }

    /// Opens the group of datagrams that has waited longest, and returns how many it held, or
    /// `None` if no group is waiting.
    pub(crate) fn open_next(&self, state: &mut State, now: Instant) -> Option<usize> {
        let group = self.inbox.pop()?;
        let datagrams = group.len();
        self.open_group(state, now, group);
        self.inbox.opened();
        Some(datagrams)
    }

    pub(crate) fn open_group(&self, state: &mut State, now: Instant, mut group: Group) {
        for (received, datagram) in group.iter_mut() {
            self.open(state, now, &received, datagram);
        }
        self.endpoint.groups.give(group);
    }

    fn open(&self, state: &mut State, now: Instant, received: &Received, bytes: &mut [u8]) {
        let was_handshaking = state.core.is_handshaking();
        state.core.handle_datagram(now, *received, bytes);
        let complete = was_handshaking && !state.core.is_handshaking();
        if complete {
            self.handshaking.store(false, Ordering::Relaxed);
        }
        if state.core.has_routing() || complete {
            // This must happen before the task, perhaps on another thread, sends new connection IDs
            // to the peer, which may use them immediately. Besides, a connection whose handshake is
            // now complete needn't make room for others.
            self.endpoint.route(now, self.handle, &mut state.core);
        }
    }

    /// Makes the task end a handshake whose place another connection needs.
    pub(crate) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
        self.inbox.wake();
    }

    /// Returns true if the task must end the handshake.
    pub(crate) fn take_refusal(&self) -> bool {
        // The first part avoids writing to this memory in the usual case.
        self.refused.load(Ordering::Relaxed) && self.refused.swap(false, Ordering::Relaxed)
    }

    /// Wakes the task after receiving a batch, so that it acknowledges, sends and informs the
    /// application.
    pub(crate) fn received_all(&self) {
        self.lock().wake_driver();
    }

    /// Ends the connection if it uses `socket`, which can't be used any more.
    pub(crate) fn fail(&self, socket: &Arc<Socket>, error: &ConnectionError) {
        let mut state = self.lock();
        if std::ptr::eq(state.socket.as_ptr(), Arc::as_ptr(socket)) {
            state.settle(error);
            // No close can be sent to the peer, but the connection's memory is freed as after any
            // other close, without waiting for the idle timeout.
            state.core.close(clock::now(), 0, Bytes::new());
            state.wake_driver();
        }
    }

    /// Closes the connection.
    pub(crate) fn close(&self, code: u64, reason: Bytes) {
        let mut state = self.lock();
        state.core.close(clock::now(), code, reason);
        state.settle(&ConnectionError::LocallyClosed);
        state.wake_driver();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}
