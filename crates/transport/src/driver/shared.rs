//! What a connection's task, its endpoint and the application share, and how they wait for each
//! other.

use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Waker};

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::clock;
use super::endpoint_shared::EndpointShared;
use super::guard::{Guard, Later};
use super::senders::Sender;
use super::socket::{Outgoing, Socket};
use super::unopened::{Group, Inbox};
use super::waiters::{Place, WaitList, Wakers, replace};
use crate::Instant;
use crate::connection::{self as core, ConnectionError, Event, Received};
use crate::endpoint::ConnectionHandle;
use crate::streams::{Dir, StreamEvent, StreamId};

pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) endpoint: Arc<EndpointShared>,
    pub(super) handle: ConnectionHandle,
    /// Datagrams that arrived and are not opened yet.
    pub(super) inbox: Inbox,
    /// Client: what the server was called.
    pub(super) server_name: Option<String>,
    /// Clones of [`Connection`]; streams keep the state but not the connection alive.
    pub(super) users: AtomicUsize,
    /// The handshake is not complete.
    handshaking: AtomicBool,
    /// Its place is wanted.
    refused: AtomicBool,
}

/// What the task, the endpoint and the application share.
pub(super) struct State {
    pub(super) core: Box<core::Connection>,
    pub(super) senders: FxHashMap<StreamId, Sender>,
    pub(super) readers: FxHashMap<StreamId, Waker>,
    /// Bidirectional streams of the peer's that the application has accepted.
    accepted: u64,
    pub(super) lost: Option<ConnectionError>,
    /// Why the kernel refused the last datagram, if it did.
    pub(super) send_error: Option<io::ErrorKind>,
    pub(super) driver: Option<Waker>,
    /// Where the task sends and the peer's packets arrive.
    pub(super) socket: Weak<Socket>,
    /// Where the connection is to go on, as soon as it may.
    pub(super) next_socket: Option<Arc<Socket>>,
    /// Waiting for the handshake, its confirmation or the end.
    pub(super) progress: WaitList,
    /// Waiting for the peer to open a stream: bidirectional, unidirectional.
    accepting: [WaitList; 2],
    /// Waiting for the peer to allow a stream: bidirectional, unidirectional.
    opening: [WaitList; 2],
    /// Waiting for a datagram.
    reading: WaitList,
    /// Waiting for room to send a datagram.
    sending: WaitList,
    /// What is to be done with wakers once the state is free.
    pub(super) later: Later,
}

/// The event that a task waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Awaited {
    Progress,
    Accept(Dir),
    Open(Dir),
    Datagram,
    DatagramRoom,
}

/// A place among those who wait for something; dropped, it is given back.
pub(super) struct Waiting<'a> {
    shared: &'a Shared,
    awaited: Awaited,
    place: Place,
}

impl Waiting<'_> {
    pub(super) fn place(&mut self) -> &mut Place {
        &mut self.place
    }

    pub(super) fn wait(&mut self, state: &mut State, cx: &Context<'_>) {
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
    pub(super) fn new(
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
            server_name,
            users: AtomicUsize::new(0),
            handshaking: AtomicBool::new(true),
            refused: AtomicBool::new(false),
        })
    }

    pub(super) fn lock(&self) -> Guard<'_> {
        // A panic elsewhere does not make the connection's own state any worse.
        Guard::new(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if the lock is held.
    #[cfg(test)]
    pub(super) fn is_locked(&self) -> bool {
        self.state.try_lock().is_err()
    }

    pub(super) fn waiting(&self, awaited: Awaited) -> Waiting<'_> {
        Waiting {
            shared: self,
            awaited,
            place: Place::default(),
        }
    }

    /// Something panicked that held the connection's lock: it may be half changed, and its task
    /// ends it.
    pub(super) fn is_broken(&self) -> bool {
        self.state.is_poisoned()
    }

    /// Ends a broken connection: its peer gets a close at once, not its idle timeout.
    pub(super) fn end_broken(&self, socket: &Socket, dscp: u8) {
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
    pub(super) fn is_handshaking(&self) -> bool {
        self.handshaking.load(Ordering::Relaxed)
    }

    /// A datagram for this connection arrived, later than all that waits to be opened.
    pub(super) fn receive(&self, now: Instant, received: &Received, bytes: &mut [u8]) {
        self.guarded(self.lock(), |state| {
            while self.open_next(state, now).is_some() {}
            self.open(state, now, received, bytes);
        });
    }

    /// The same for datagrams that were to wait, but had no room.
    pub(super) fn receive_group(&self, now: Instant, group: Group) {
        self.guarded(self.lock(), |state| {
            while self.open_next(state, now).is_some() {}
            self.open_group(state, now, group);
        });
    }

    /// Opens all that has arrived and waits, for a caller that needs to know now what is in it.
    pub(super) fn open_all(&self, now: Instant) {
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
    pub(super) fn open_next(&self, state: &mut State, now: Instant) -> Option<usize> {
        let group = self.inbox.pop()?;
        let datagrams = group.len();
        self.open_group(state, now, group);
        self.inbox.opened();
        Some(datagrams)
    }

    pub(super) fn open_group(&self, state: &mut State, now: Instant, mut group: Group) {
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
    pub(super) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
        self.inbox.wake();
    }

    /// True if the task is to end the handshake.
    pub(super) fn take_refusal(&self) -> bool {
        // Only read, as a rule.
        self.refused.load(Ordering::Relaxed) && self.refused.swap(false, Ordering::Relaxed)
    }

    /// The datagrams of a batch are in: acknowledges, sends and tells the application.
    pub(super) fn received_all(&self) {
        self.lock().wake_driver();
    }

    /// `socket` is of no use any more: ends the connection if it is there.
    pub(super) fn fail(&self, socket: &Arc<Socket>, error: &ConnectionError) {
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
    pub(super) fn close(&self, code: u64, reason: Bytes) {
        let mut state = self.lock();
        state.core.close(clock::now(), code, reason);
        state.settle(&ConnectionError::LocallyClosed);
        state.wake_driver();
    }
}

impl State {
    /// Places of all who wait.
    #[cfg(test)]
    pub(super) fn waiting_places(&self) -> usize {
        let both = self.accepting.iter().chain(&self.opening);
        let others = [&self.progress, &self.reading, &self.sending].map(WaitList::len);
        others.iter().sum::<usize>() + both.map(WaitList::len).sum::<usize>()
    }

    pub(super) fn waiting(&mut self, awaited: Awaited) -> &mut WaitList {
        match awaited {
            Awaited::Progress => &mut self.progress,
            Awaited::Accept(dir) => by_dir(&mut self.accepting, dir),
            Awaited::Open(dir) => by_dir(&mut self.opening, dir),
            Awaited::Datagram => &mut self.reading,
            Awaited::DatagramRoom => &mut self.sending,
        }
    }

    /// Why the connection is over, if it is.
    pub(super) fn lost(&self) -> Option<ConnectionError> {
        self.lost.clone()
    }

    /// Has `cx` woken once what it awaits has happened.
    pub(super) fn wait(&mut self, awaited: Awaited, place: &mut Place, cx: &Context<'_>) {
        let replaced = self.waiting(awaited).wait(place, cx);
        self.later.forget(replaced);
    }

    /// The task with `place` waits no longer.
    pub(super) fn leave(&mut self, awaited: Awaited, place: &mut Place) {
        let waiting = self.waiting(awaited);
        let forgotten = waiting.leave(place);
        if let Awaited::Open(dir) = awaited
            && forgotten.is_some()
            && waiting.is_empty()
        {
            self.core.streams().give_up_opening(dir);
        }
        self.later.forget(forgotten);
    }

    /// No task waits to read any more.
    pub(super) fn forget_reader(&mut self, id: StreamId) {
        let forgotten = self.readers.remove(&id);
        self.later.forget(forgotten);
    }

    /// Wakes who waits for it.
    fn wake_waiting(&mut self, awaited: Awaited) {
        let wakers = self.waiting(awaited).wakers();
        self.later.wake(wakers);
    }

    /// Wakes others once the state is free.
    pub(super) fn wake_later(&mut self, wakers: Wakers) {
        self.later.wake(wakers);
    }

    /// Has the task look at the connection.
    pub(super) fn wake_driver(&mut self) {
        self.later.wake(self.driver.take());
    }

    /// The same, if reading has made credit that the peer should get.
    pub(super) fn wake_driver_for_credit(&mut self) {
        if self.driver.is_some() && self.core.streams().wants_to_send() {
            self.wake_driver();
        } else {
            self.wake_driver_for_request();
        }
    }

    /// The same, if the peer is to be asked for data that the application waits for.
    pub(super) fn wake_driver_for_request(&mut self) {
        if self.driver.is_some() && self.core.streams().wants_preparation() {
            self.wake_driver();
        }
    }

    pub(super) fn wait_to_read(&mut self, id: StreamId, cx: &Context<'_>) {
        let replaced = match self.readers.entry(id) {
            Entry::Occupied(mut known) => replace(known.get_mut(), cx),
            Entry::Vacant(new) => {
                new.insert(cx.waker().clone());
                None
            }
        };
        self.later.forget(replaced);
    }

    pub(super) fn on_event(&mut self, event: Event) {
        match event {
            Event::Stream(event) => self.on_stream_event(event),
            Event::Connected | Event::Confirmed | Event::HandshakeDataReady => {
                self.later.wake(self.progress.wakers());
            }
            Event::DatagramReceived => self.later.wake(self.reading.wakers()),
            Event::DatagramRoom => self.later.wake(self.sending.wakers()),
            Event::Lost(error) => self.settle(&error),
            // The task passes tokens on to the endpoint; who asks for the address gets the new one.
            Event::NewToken(_) | Event::PathChanged => {}
        }
    }

    fn on_stream_event(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Opened(dir) => self.wake_waiting(Awaited::Accept(dir)),
            StreamEvent::Available(dir) => self.wake_waiting(Awaited::Open(dir)),
            StreamEvent::Readable(id) => self.later.wake(self.readers.remove(&id)),
            StreamEvent::Writable(id) => self.wake_sender(id, None),
            StreamEvent::Finished(id) | StreamEvent::ResetAcked(id) => {
                self.wake_sender(id, Some(None));
            }
            StreamEvent::Stopped(id, code) => {
                if id.dir() == Dir::Bi
                    && id.initiator() != self.core.side()
                    && id.index() >= self.accepted
                {
                    // The task that accepts it must learn of that.
                    self.senders.entry(id).or_default();
                }
                self.wake_sender(id, Some(Some(code)));
            }
        }
    }

    /// The application is given a stream of the peer's.
    pub(super) fn on_accepted(&mut self, id: StreamId) {
        if id.dir() == Dir::Bi {
            self.accepted = id.index() + 1;
            self.senders.entry(id).or_default();
        }
    }

    /// The connection is over: all tasks that wait are woken.
    pub(super) fn settle(&mut self, error: &ConnectionError) {
        let error = match (error, self.send_error) {
            // Nothing arrives where nothing can be sent.
            (ConnectionError::TimedOut | ConnectionError::HandshakeTimedOut, Some(kind)) => {
                ConnectionError::Socket(kind)
            }
            (error, _) => error.clone(),
        };
        self.lost.get_or_insert(error);
        let lists = self.accepting.iter_mut().chain(&mut self.opening);
        let lists = lists.chain([&mut self.progress, &mut self.reading, &mut self.sending]);
        self.later.wake(lists.flat_map(WaitList::wakers));
        self.later
            .wake(self.readers.drain().map(|(_, waker)| waker));
        self.wake_senders();
    }
}

fn by_dir<T>(pair: &mut [T; 2], dir: Dir) -> &mut T {
    let [bi, uni] = pair;
    match dir {
        Dir::Bi => bi,
        Dir::Uni => uni,
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}
