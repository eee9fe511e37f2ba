//! Connections whose handshake is under way.

use std::future::Future;
use std::pin::Pin;
#[cfg(test)]
use std::sync::Arc;
use std::task::{Context, Poll};

use super::connection::Connection;
#[cfg(test)]
use super::shared::Shared;
use super::waiters::Place;
use crate::connection::ConnectionError;

/// A connection whose handshake is under way: a future of the connection, or of why there is none.
///
/// Once the handshake is complete the connection is handed over even if the peer has closed it
/// since; its calls then fail, and [`Connection::closed`] says why.
#[derive(Debug)]
pub struct Connecting {
    connection: Option<Connection>,
    place: Place,
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
        self.connection.as_ref().expect("not ready yet").shared()
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            let mut state = connection.shared().lock();
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
        let mut state = connected.shared().lock();
        // What ends right after its handshake, perhaps by a packet of the same batch, was connected
        // all the same: whoever waits for the handshake learns of the end by the connection.
        if !state.core.has_completed_handshake() {
            if let Some(error) = state.lost() {
                return Poll::Ready(Err(error));
            }
            // A handshake that has failed is not over until the task has said so.
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
