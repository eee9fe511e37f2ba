//! The error queue of a socket (`IP_RECVERR`, ip(7)), which is on during clients' handshakes.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::net::UdpSocket;

/// The error queue of a socket, and the effects that remain after using it.
#[derive(Debug, Default)]
pub(super) struct ErrorQueue(Mutex<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    /// Number of handshakes that use the queue.
    pub(super) users: usize,
    /// Errors have arrived since the queue was switched on.
    pub(super) has_reported: bool,
    /// Reports when there is room to send, instead of the socket's own registration at the runtime.
    /// After an error was reported, that registration considers the direction closed forever (mio
    /// interprets EPOLLERR this way), and would always be ready.
    pub(super) room: Option<Arc<UdpSocket>>,
}

impl ErrorQueue {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room to send if the socket's own registration can't report this any more.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Option<Poll<io::Result<()>>> {
        let room = self.lock().room.clone()?;
        Some(room.poll_send_ready(cx).map_ok(|()| {
            // This makes the next call wait for the next report of room.
            let none = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = room.try_io(Interest::WRITABLE, none);
        }))
    }
}
