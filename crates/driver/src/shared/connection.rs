//! What a connection's task and the endpoint's do with its state.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::guard::{Guard, Later};
use super::{Awaited, EndpointShared, Shared, State};
use crate::clock;
use crate::socket::{Outgoing, Socket};
use crate::unopened::{Group, Inbox};
use crate::waiters::{Place, WaitList};
use pathmark_transport::Instant;
use pathmark_transport::connection::{self as core, ConnectionError, Received};
use pathmark_transport::endpoint::ConnectionHandle;

/// The number of the next connection.
static NEXT_ID: AtomicUsize = AtomicUsize::new(1);

/// Probe timeouts after the first report of a host or network out of reach, after which another
/// such report ends an attempt: 3 s where nothing is known of the path.
const PATIENCE: u64 = 2;

/// A place among those who wait for something; dropped, it is given back.
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
                socket: Arc::downgrade(socket),
                next_socket: None,
                progress: WaitList::default(),
                accepting: Default::default(),
                opening: Default::default(),
                reading: WaitList::default(),
                sending: WaitList::default(),
                later: Later::default(),
            }),
            endpoint,
            handle,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            server_name,
            users: AtomicUsize::new(0),
            handshaking: AtomicBool::new(true),
            refused: AtomicBool::new(false),
        })
    }

    pub(crate) fn lock(&self) -> Guard<'_> {
        // A panic elsewhere does not make the connection's own state any worse.
        Guard::new(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if the lock is held.
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

    /// Something panicked that held the connection's lock: it may be half changed, and its task
    /// ends it.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.is_poisoned()
    }

    /// Ends a broken connection: its peer gets a close at once, not its idle timeout.
    pub(crate) fn end_broken(&self, socket: &Socket, dscp: u8) {
        let mut buffer = self.endpoint.take_buffer();
        // The half of the connection that this uses may be the one that panicked.
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

    /// The handshake is not complete: the holder of the lock perhaps signs, or checks signatures.
    /// That takes long, and the task that receives for all does not wait for it.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.handshaking.load(Ordering::Relaxed)
    }

    /// The server is reported out of reach. True if that was so some probe timeouts ago as well.
    pub(crate) fn is_long_out_of_reach(&self) -> bool {
        let mut state = self.lock();
        let timeouts = state.core.stats().probe_timeouts;
        let since = *state.out_of_reach.get_or_insert(timeouts);
        timeouts >= since + PATIENCE
    }

    /// A datagram for this connection arrived, later than all that waits to be opened. True if the
    /// application should have a turn to read DATAGRAM frames before more is opened.
    pub(crate) fn receive(&self, now: Instant, received: &Received, bytes: &mut [u8]) -> bool {
        let mut piles_up = false;
        self.guarded(self.lock(), |state| {
            while self.open_next(state, now).is_some() {}
            self.open(state, now, received, bytes);
            piles_up = state.core.datagrams().pile_up();
        });
        piles_up
    }

    /// The same for datagrams that were to wait, but had no room.
    pub(crate) fn receive_group(&self, now: Instant, group: Group) {
        self.guarded(self.lock(), |state| {
            while self.open_next(state, now).is_some() {}
            self.open_group(state, now, group);
        });
    }

    /// Opens all that has arrived and waits, for a caller that needs to know now what is in it.
    pub(crate) fn open_all(&self, now: Instant) {
        if self.inbox.is_empty() {
            return;
        }
        self.guarded(self.lock(), |state| {
            while self.open_next(state, now).is_some() {}
            state.wake_driver();
        });
    }

    /// Opens datagrams outside the connection's own task. A panic (of a controller of the
    /// application's, say) ends this connection and nothing else. A broken one opens nothing.
    fn guarded(&self, state: Guard<'_>, open: impl FnOnce(&mut State)) {
        if self.is_broken() {
            return;
        }
        // The state is unused after a panic: the lock is poisoned by it.
        let opened = catch_unwind(AssertUnwindSafe(move || {
            let mut state = state;
            open(&mut state);
        }));
        if opened.is_err() {
            tracing::error!("a connection panicked as it opened a packet, and ends");
            self.lock().wake_driver();
        }
    }

    /// Opens the group of datagrams that has waited longest, and returns how many it held; `None`
    /// if no group waits.
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
            // Before the task, on another thread perhaps, tells the peer of new ids: it may use
            // them at once. And a handshake that is complete makes no room for others.
            self.endpoint.route(now, self.handle, &mut state.core);
        }
    }

    /// Has the task end a handshake whose place is wanted.
    pub(crate) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
        self.inbox.wake();
    }

    /// True if the task is to end the handshake.
    pub(crate) fn take_refusal(&self) -> bool {
        // Only read, as a rule.
        self.refused.load(Ordering::Relaxed) && self.refused.swap(false, Ordering::Relaxed)
    }

    /// The datagrams of a batch are in: acknowledges, sends and tells the application.
    pub(crate) fn received_all(&self) {
        self.lock().wake_driver();
    }

    /// `socket` is of no use any more: ends the connection if it is there.
    pub(crate) fn fail(&self, socket: &Arc<Socket>, error: &ConnectionError) {
        let mut state = self.lock();
        if std::ptr::eq(state.socket.as_ptr(), Arc::as_ptr(socket)) {
            state.settle(error);
            // There is nothing to send to the peer by. What the connection holds goes like that of
            // any that was closed, not with the idle timeout.
            state.core.close(clock::now(), 0, Bytes::new());
            state.wake_driver();
        }
    }

    /// Ends the connection from outside its own handles.
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
