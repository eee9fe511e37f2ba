//! The task that receives for all connections of an endpoint.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::arrivals::ReceiveBatch;
use super::clock;
use super::connection::Shared;
use super::endpoint::EndpointShared;
use crate::connection::{ConnectionError, Received};

/// Receive batches that one turn of the task handles before other tasks get their turn.
const BATCHES_PER_TURN: usize = 8;

/// The task that receives for all connections of an endpoint. It ends when nobody can use it any
/// more.
pub(super) struct ReceiveTask {
    shared: Arc<EndpointShared>,
    batch: ReceiveBatch,
    /// Connections that a batch was for.
    touched: Vec<Arc<Shared>>,
}

impl ReceiveTask {
    pub(super) fn new(shared: Arc<EndpointShared>) -> Self {
        Self {
            shared,
            batch: ReceiveBatch::new(),
            touched: Vec::new(),
        }
    }

    fn handle_batch(&mut self) {
        let now = clock::now();
        let Self {
            shared,
            batch,
            touched,
        } = self;
        for datagram in batch.datagrams() {
            let received = Received {
                remote: datagram.from,
                local: datagram.to,
                ecn: datagram.ecn,
                ttl: datagram.ttl,
            };
            let Some(connection) = shared.sort(now, &received, datagram.bytes) else {
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

impl Future for ReceiveTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        {
            let mut state = this.shared.lock();
            if this.shared.is_over(&state) {
                return Poll::Ready(());
            }
            state.task = Some(cx.waker().clone());
        }
        for _ in 0..BATCHES_PER_TURN {
            match this.shared.socket.poll_receive(cx, &mut this.batch) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => this.handle_batch(),
                Poll::Ready(Err(error)) => {
                    tracing::error!(%error, "the socket fails; the endpoint ends");
                    let mut state = this.shared.lock();
                    state.stop_accepting();
                    let connections: Vec<_> = state.connections.iter().flatten().cloned().collect();
                    drop(state);
                    for connection in connections {
                        connection.fail(&ConnectionError::Socket(error.kind()));
                    }
                    return Poll::Ready(());
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
