//! The task that receives for all connections of an endpoint.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::arrivals::ReceiveBatch;
use super::clock;
use super::endpoint_shared::EndpointShared;
use super::shared::Shared;
use super::socket::Socket;
use super::timers::{Timer, Timers};
use super::waiters::Place;
use crate::connection::{ConnectionError, Received};
use crate::{Duration, Instant};

/// Receive batches that one turn of the task handles before other tasks get their turn.
const BATCHES_PER_TURN: usize = 8;

/// How long a socket that was replaced is read after its last connection has left it: until what
/// was under way to there has arrived.
const LINGER: Duration = Duration::from_secs(3);

/// The task that receives at one socket, for all connections of an endpoint. It ends when nobody
/// can use it any more.
pub(super) struct ReceiveTask {
    batch: ReceiveBatch,
    /// Connections that a batch was for.
    touched: Vec<Arc<Shared>>,
    /// What a stranger is answered.
    answer: Vec<u8>,
    place: Place,
    /// Once the socket was replaced.
    replaced: Option<Replaced>,
    /// It has ended in order.
    over: bool,
    /// These go last: who sees the socket closed may count on the memory above being free.
    socket: Arc<Socket>,
    shared: Arc<EndpointShared>,
}

/// A socket that was replaced, which is looked after once in a while.
struct Replaced {
    timer: Timer,
    look_at: Instant,
    /// No connection was at the socket when it was last looked at.
    is_left: bool,
}

impl Replaced {
    fn new(timers: &Arc<Timers>) -> Self {
        Self {
            timer: Timer::new(timers),
            look_at: clock::now() + LINGER,
            is_left: false,
        }
    }

    /// True once nobody has used `socket` for a while.
    fn is_over(&mut self, socket: &Arc<Socket>, cx: &Context<'_>) -> bool {
        loop {
            let now = clock::now();
            if self.timer.poll(cx, now, Some(self.look_at)).is_pending() {
                return false;
            }
            // Connections' tasks hold the others.
            let left = Arc::strong_count(socket) == 1;
            if left && self.is_left {
                return true;
            }
            self.is_left = left;
            self.look_at = now + LINGER;
        }
    }
}

impl ReceiveTask {
    pub(super) fn new(shared: Arc<EndpointShared>, socket: Arc<Socket>) -> Self {
        Self {
            shared,
            socket,
            place: Place::default(),
            replaced: None,
            over: false,
            batch: ReceiveBatch::new(),
            touched: Vec::new(),
            answer: Vec::new(),
        }
    }

    fn handle_batch(&mut self) {
        let now = clock::now();
        let Self {
            shared,
            socket,
            batch,
            touched,
            answer,
            ..
        } = self;
        for datagram in batch.datagrams() {
            let received = Received {
                remote: datagram.from,
                local: datagram.to,
                ecn: datagram.ecn,
                ttl: datagram.ttl,
            };
            let found = shared.sort(now, socket, &received, datagram.bytes, answer);
            let Some(connection) = found else {
                continue;
            };
            connection.receive(now, &received, datagram.bytes);
            if !touched.iter().any(|other| Arc::ptr_eq(other, &connection)) {
                touched.push(connection);
            }
        }
        for connection in touched.drain(..) {
            connection.received_all();
        }
    }
}

impl ReceiveTask {
    /// The socket is of no use any more: the connections at it are over, and the endpoint if it
    /// has no other.
    fn fail(&self, error: &ConnectionError) {
        let mut state = self.shared.lock();
        if Arc::ptr_eq(&state.socket, &self.socket) {
            state.stop_accepting();
        }
        let connections: Vec<_> = state.connections.iter().flatten().cloned().collect();
        drop(state);
        for connection in connections {
            connection.fail(&self.socket, error);
        }
    }
}

impl Future for ReceiveTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.shared.lock();
        if this.shared.is_over(&state) {
            this.over = true;
            return Poll::Ready(());
        }
        state.receiving.wait(&mut this.place, cx);
        let is_current = Arc::ptr_eq(&state.socket, &this.socket);
        drop(state);
        if !is_current {
            let timers = &this.shared.timers;
            let replaced = this.replaced.get_or_insert_with(|| Replaced::new(timers));
            if replaced.is_over(&this.socket, cx) {
                this.over = true;
                return Poll::Ready(());
            }
        }
        for _ in 0..BATCHES_PER_TURN {
            match this.socket.poll_receive(cx, &mut this.batch) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => this.handle_batch(),
                Poll::Ready(Err(error)) => {
                    tracing::error!(%error, "a socket fails, and its connections with it");
                    this.fail(&ConnectionError::Socket(error.kind()));
                    this.over = true;
                    return Poll::Ready(());
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for ReceiveTask {
    fn drop(&mut self) {
        if !self.over {
            // Its runtime has ended, or it panicked: nobody listens at the socket any more.
            self.fail(&ConnectionError::Closed);
        }
        self.shared.lock().receiving.leave(&mut self.place);
    }
}
