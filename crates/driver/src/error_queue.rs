//! A socket's error queue (`IP_RECVERR`, ip(7)), while handshakes of clients have it on.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::net::UdpSocket;

/// A socket's error queue, and what its use leaves behind.
#[derive(Debug, Default)]
pub(super) struct ErrorQueue(Mutex<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    /// Handshakes that have the queue on.
    pub(super) users: usize,
    /// Errors came since the queue was switched on.
    pub(super) has_reported: bool,
    /// Tells of room to send in place of the socket's own registration at the runtime, which holds
    /// the direction for closed for ever once an error was reported (mio reads EPOLLERR so), and
    /// would always be ready.
    pub(super) room: Option<Arc<UdpSocket>>,
}

impl ErrorQueue {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room to send, where the socket's own registration does not tell it any more.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Option<Poll<io::Result<()>>> {
        let room = self.lock().room.clone()?;
        Some(room.poll_send_ready(cx).map_ok(|()| {
            // The next call waits for the next report of room.
            let none = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = room.try_io(Interest::WRITABLE, none);
        }))
    }
}
