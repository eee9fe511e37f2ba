//! The task that drives a connection: it sends, watches deadlines and handles events.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use super::clock;
use super::interfaces::bound;
use super::receive_buffer;
use super::shared::{Awaited, Shared};
use super::socket::{Outgoing, Sent, Socket};
use super::timers::Timer;
use super::waiters::Waiter;
use pathmark_transport::connection::{ConnectionError, Event, Transmit};
use pathmark_transport::path::{BASE_MTU, ETHERNET_MTU};
use pathmark_transport::{Duration, Instant};

/// Batches that the task sends per turn before other tasks can run.
const BATCHES_PER_TURN: usize = 16;

/// Groups of datagrams that the task opens per turn before it sends, because their ACKs are due.
const GROUPS_PER_TURN: usize = 4;

/// Connections that have ended are removed at multiples of this interval. Since no task waits for
/// this, a single wake-up can handle all connections that are due.
const FORGETTING: Duration = Duration::from_millis(10);

/// While the socket has no room, deadlines are first checked after this time, and then after twice
/// as long each time, because some can only be met by sending …
const FULL: Duration = Duration::from_millis(10);
/// … up to this multiple.
const LONGEST_FULL: u32 = 64;

/// Why a turn of sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nothing is left to send.
    Done,
    /// The kernel has no room. The task will be woken when it has.
    Full,
    /// Other tasks get their turn. The task is woken for its next turn.
    Over,
}

/// The task that sends for a connection, watches its deadlines and handles its events. It ends when
/// the connection is over and its peer has had time to receive the close.
pub(super) struct ConnectionTask {
    shared: Arc<Shared>,
    socket: Arc<Socket>,
    timer: Timer,
    /// A batch for which the kernel had no room yet.
    unsent: Option<(Box<[u8]>, Transmit)>,
    room: Waiter,
    /// DSCP of all packets sent.
    dscp: u8,
    /// The last send failed.
    failing: bool,
    /// The pause while the socket has no room, in multiples of [`FULL`].
    pause: u32,
    /// The connection is over, and the endpoint has been informed.
    over: bool,
    /// The task has let others run before it sends little data. A runtime with several threads runs
    /// a woken task before those that were woken earlier, so that the data of each of them would
    /// otherwise leave in a packet of its own.
    has_yielded: bool,
    /// The length of the longest datagram that could be sent after the last turn.
    datagram_size: Option<usize>,
}

impl ConnectionTask {
    pub(super) fn new(shared: Arc<Shared>, socket: Arc<Socket>) -> Self {
        let dscp = shared.lock().core.dscp();
        Self {
            room: socket.sender(),
            socket,
            timer: Timer::new(&shared.endpoint.timers),
            dscp,
            shared,
            unsent: None,
            failing: false,
            pause: 1,
            over: false,
            has_yielded: false,
            datagram_size: None,
        }
    }

    /// Sends batches until there is nothing left to send, the kernel has no room, or other tasks
    /// should get a turn.
    fn send(&mut self, cx: &mut Context<'_>) -> Turn {
        let endpoint = Arc::clone(&self.shared.endpoint);
        let socket = Arc::clone(&self.socket);
        let mut pending = self.unsent.take();
        for _ in 0..BATCHES_PER_TURN {
            let (buffer, transmit) = match pending.take() {
                Some(pending) => pending,
                None => {
                    let mut buffer = endpoint.take_buffer();
                    let segments = socket.max_segments();
                    let now = clock::now();
                    let mut state = self.shared.lock();
                    let transmit = state.core.poll_transmit(now, &mut buffer, segments);
                    if state.core.has_routing() {
                        // The peer may use new connection IDs as soon as they are sent.
                        endpoint.route(now, self.shared.handle, &mut state.core);
                    }
                    drop(state);
                    match transmit {
                        Some(transmit) => (buffer, transmit),
                        None => {
                            endpoint.give_buffer(buffer);
                            return Turn::Done;
                        }
                    }
                }
            };
            let outgoing = Outgoing {
                to: transmit.remote,
                from: transmit.local,
                ecn: transmit.ecn,
                dscp: self.dscp,
                bytes: buffer.get(..transmit.len).unwrap_or(&[]),
                segment: transmit.segment_size,
            };
            let sent = socket.send(&outgoing);
            self.note(sent, &transmit);
            if sent != Sent::Full {
                endpoint.give_buffer(buffer);
                continue;
            }
            pending = Some((buffer, transmit));
            match socket.poll_writable(cx, &mut self.room) {
                // There is room in the meantime.
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    // There will never be room again.
                    let error = ConnectionError::Socket(error.kind());
                    self.shared.fail(&socket, &error);
                    return Turn::Done;
                }
                Poll::Pending => {
                    self.unsent = pending;
                    return Turn::Full;
                }
            }
        }
        self.unsent = pending;
        cx.waker().wake_by_ref();
        Turn::Over
    }

    /// Opens datagrams that have arrived, up to a few groups, or until the application should read
    /// DATAGRAM frames first. The task is woken for the rest.
    fn open(&self, cx: &Context<'_>) {
        for _ in 0..GROUPS_PER_TURN {
            if self.shared.inbox.is_empty() {
                return;
            }
            let mut state = self.shared.lock();
            let opened = self.shared.open_next(&mut state, clock::now());
            let piles_up = state.core.datagrams().pile_up();
            drop(state);
            let received = &self.shared.endpoint.received;
            received.count_handed_over(opened.unwrap_or(0));
            if piles_up {
                break;
            }
        }
        if !self.shared.inbox.is_empty() {
            cx.waker().wake_by_ref();
        }
    }

    /// Moves to another socket if the endpoint has one and the connection may migrate.
    fn change_socket(&mut self) {
        let mut state = self.shared.lock();
        if state.next_socket.is_some()
            && let Some(next) = state.take_next_socket()
        {
            let remote = state.core.remote_address();
            drop(state);
            let interfaces = &self.shared.endpoint.interfaces;
            let mtu = interfaces.mtu(clock::now(), &next, remote, bound(next.local_address()));
            let mtu = mtu.unwrap_or(ETHERNET_MTU);
            self.shared.lock().core.set_interface_mtu(mtu);
            // A datagram for which the former socket had no room counts as lost.
            if let Some((buffer, _)) = self.unsent.take() {
                self.shared.endpoint.give_buffer(buffer);
            }
            self.room = next.sender();
            self.socket = next;
        }
    }

    /// Informs the connection about the result of sending a batch, if it needs to know.
    fn note(&mut self, sent: Sent, transmit: &Transmit) {
        match sent {
            Sent::TooLong => {
                let size = u16::try_from(transmit.segment_size).unwrap_or(u16::MAX);
                let mut state = self.shared.lock();
                state.core.on_size_refused(clock::now(), size);
                let begins = self.shared.server_name.is_some()
                    && state.core.is_handshaking()
                    && state.core.stats().packets_received == 0;
                drop(state);
                if begins && size <= BASE_MTU {
                    // A smaller datagram would not be allowed.
                    let error = ConnectionError::PathTooNarrow(size);
                    self.shared.fail(&self.socket, &error);
                }
            }
            Sent::Failed(kind) => {
                self.failing = true;
                let mut state = self.shared.lock();
                state.send_error = Some(kind);
                // An error of a datagram from another address, such as an answer to a probe,
                // doesn't concern the current path.
                let in_use = state.core.local_address();
                if transmit.local.is_some() && transmit.local == in_use && is_address_gone(kind) {
                    // Another address may work. Without a source address, this is not tried again.
                    state.core.migrate(clock::now(), None);
                }
                let is_lost = is_lasting(kind)
                    && self.shared.server_name.is_some()
                    && state.core.is_handshaking()
                    && state.core.stats().packets_received == 0;
                drop(state);
                // The kernel also reports ICMP errors at the next call. Since these can come from
                // anyone, they only count if they last.
                let is_lost = is_lost
                    && (!self.socket.has_icmp_errors() || self.shared.is_long_out_of_reach());
                if is_lost {
                    let error = ConnectionError::Socket(kind);
                    self.shared.fail(&self.socket, &error);
                }
            }
            Sent::Done if self.failing => {
                self.failing = false;
                self.shared.lock().send_error = None;
            }
            Sent::Done | Sent::Full => {}
        }
    }
}

fn next_forgetting(deadline: Instant) -> Instant {
    let since = deadline.saturating_since(Instant::ZERO).as_nanos();
    let over = u64::try_from(since % FORGETTING.as_nanos()).unwrap_or(0);
    deadline + FORGETTING.saturating_sub(Duration::from_nanos(over))
}

/// Returns true for the kernel's errors about a source address that this host no longer has: EINVAL
/// or ENETUNREACH on Linux.
fn is_address_gone(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::InvalidInput
            | io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::NetworkUnreachable
    )
}

/// Returns true for the kernel's errors about a destination to which it can't send: no route, no
/// route from this address, or not allowed (on Linux ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL,
/// EINVAL, EACCES, EPERM).
fn is_lasting(kind: io::ErrorKind) -> bool {
    is_address_gone(kind)
        || matches!(
            kind,
            io::ErrorKind::HostUnreachable | io::ErrorKind::PermissionDenied
        )
}

impl Future for ConnectionTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        // After a panic, the state is only used for ending the connection.
        let polled = catch_unwind(AssertUnwindSafe(|| this.turn(cx)));
        if polled.is_err() {
            tracing::error!("a connection panicked, and ends");
        }
        if polled.is_err() || this.shared.is_broken() {
            this.shared.end_broken(&this.socket, this.dscp);
            return Poll::Ready(());
        }
        polled.unwrap_or(Poll::Ready(()))
    }
}

impl ConnectionTask {
    /// Runs one turn of the task.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let this = self;
        // Any later change of the connection wakes this task again.
        let mut state = this.shared.lock();
        state.driver = Some(cx.waker().clone());
        let may_gather = std::mem::take(&mut state.may_gather) && this.unsent.is_none();
        let rtt = state.core.settled_min_rtt();
        drop(state);
        if this.shared.is_broken() || this.timer.is_gone() {
            // The connection ends as it does with its runtime.
            return Poll::Ready(());
        }
        this.shared.inbox.wait(cx.waker());
        this.has_yielded = may_gather && !this.has_yielded;
        if this.has_yielded {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(rtt) = rtt {
            let bytes = receive_buffer::for_path(rtt);
            if bytes > this.shared.receive_buffer.load(Ordering::Relaxed) {
                this.shared.receive_buffer.store(bytes, Ordering::Relaxed);
            }
            this.socket.grow_receive_buffer(bytes);
        }
        if this.shared.take_refusal() {
            this.shared.lock().core.refuse(clock::now());
        }
        this.open(cx);
        loop {
            this.change_socket();
            let turn = this.send(cx);
            let now = clock::now();
            if turn == Turn::Over {
                // The task was busy for a whole turn and will be again, so it wakes those due
                // itself.
                this.shared.endpoint.timers.wake_due(now);
            }
            let shared = Arc::clone(&this.shared);
            let mut state = shared.lock();
            // What was written in the meantime has left, too.
            state.may_gather &= turn != Turn::Done;
            if turn != Turn::Done && state.core.deadline().is_some_and(|at| at <= now) {
                // Idle timeouts, closes and handshakes must end in time even if nothing can be
                // sent.
                state.core.handle_timeout(now);
            }
            while let Some(event) = state.core.poll_event() {
                match (event, &shared.server_name) {
                    (Event::NewToken(token), Some(name)) => shared.endpoint.remember(name, token),
                    (event, _) => state.on_event(event),
                }
            }
            let size = state.core.datagrams().max_size();
            if std::mem::replace(&mut this.datagram_size, size) != size {
                state.wake_waiting(Awaited::Progress);
            }
            if let Some(idle) = shared.endpoint.update(now, shared.handle, &mut state.core) {
                this.over = true;
                state.wake_later(idle);
                if state.lost().is_none() {
                    // The connection had to make room and is only refused now. Waiting tasks get
                    // this reason.
                    state.core.refuse(now);
                    let refused = state.core.error().cloned();
                    state.settle(&refused.unwrap_or(ConnectionError::LocallyClosed));
                }
                drop(state);
                shared.endpoint.fit_receive_buffer(&this.socket, &shared);
                return Poll::Ready(());
            }
            if turn == Turn::Over {
                return Poll::Pending;
            }
            let mut deadline = match state.core.deadline() {
                Some(deadline) if state.core.error().is_some() => Some(next_forgetting(deadline)),
                deadline => deadline,
            };
            drop(state);
            let pause = FULL * this.pause;
            if turn == Turn::Full {
                deadline = deadline.map(|at| at.max(now + pause));
            } else {
                this.pause = 1;
            }
            if this.timer.poll(cx, now, deadline).is_pending() {
                return Poll::Pending;
            }
            if turn == Turn::Full {
                this.pause = (2 * this.pause).min(LONGEST_FULL);
            }
            shared.lock().core.handle_timeout(clock::now());
        }
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.shared.inbox.close();
        if !self.over {
            // The runtime has ended, or the task has panicked. Tasks in other runtimes must be
            // woken, and the endpoint must drop the connection, because the two hold references to
            // each other.
            self.shared.lock().settle(&ConnectionError::RuntimeEnded);
            self.shared.endpoint.abandon(self.shared.handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_forgotten_together_and_not_too_early() {
        for (due, forgotten) in [(1000, 1010), (1001, 1010), (1009, 1010), (1010, 1020)] {
            let due = Instant::from_millis(due);
            assert_eq!(next_forgetting(due), Instant::from_millis(forgotten));
        }
    }
}
