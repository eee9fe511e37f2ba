//! Passes hints about streams from exchanges to the transport. Since the `h3` crate can't
//! forward them, they are stored by stream id.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use pathmark_driver::{self as driver, Stopped, WriteError};

use super::frames::Frames;

/// A hint to the transport about a sending part, given before it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hint {
    /// The priority among the connection's streams. Higher priorities are sent first.
    pub(super) priority: i32,
    /// The approximate number of bytes to send.
    pub(super) bytes: u64,
}

/// Both parts of a stream that becomes a tunnel.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) send: Option<driver::SendStream>,
    pub(super) recv: Option<Received>,
}

/// A receiving part, its filter, and the pieces that have passed the filter.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) stream: driver::RecvStream,
    pub(super) frames: Frames,
    pub(super) passed: VecDeque<Bytes>,
}

/// Waits until the peer no longer wants an answer on a stream. If it is dropped earlier, a later
/// call can wait again.
pub(super) struct Gone {
    hints: Hints,
    stream: u64,
    stopped: Option<Stopped>,
}

impl Future for Gone {
    type Output = Result<Option<u64>, WriteError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.stopped {
            Some(stopped) => Pin::new(stopped).poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        if let Some(stopped) = self.stopped.take() {
            self.hints.leave_opened(self.stream, stopped);
        }
    }
}

/// The hints for a connection's streams that no stream has taken yet, and the ends of streams.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    hints: BTreeMap<u64, Hint>,
    /// Streams for which an exchange waits for acknowledgement, with the future once they are
    /// finished.
    ends: BTreeMap<u64, Option<Stopped>>,
    /// The ends of streams that peers opened and that are not finished yet.
    opened: BTreeMap<u64, Stopped>,
    /// Streams that become tunnels. Their parts are kept when `h3` drops them.
    leaving: BTreeMap<u64, Parts>,
}

impl Hints {
    pub(super) fn leave(&self, stream: u64, hint: Hint) {
        self.state().hints.insert(stream, hint);
    }

    pub(super) fn take(&self, stream: u64) -> Option<Hint> {
        self.state().hints.remove(&stream)
    }

    /// Requests the end of a stream that an exchange is about to finish.
    pub(super) fn want_end(&self, stream: u64) {
        self.state().ends.insert(stream, None);
    }

    /// Stores the future of a finished stream's acknowledgement, if it was requested.
    pub(super) fn leave_end(&self, stream: u64, end: impl FnOnce() -> Stopped) {
        if let Some(wanted) = self.state().ends.get_mut(&stream) {
            *wanted = Some(end());
        }
    }

    /// Removes and returns the end of a stream.
    pub(super) fn take_end(&self, stream: u64) -> Option<Stopped> {
        self.state().ends.remove(&stream).flatten()
    }

    /// Stores the future that completes when the peer no longer wants an answer on a stream it
    /// opened.
    pub(super) fn leave_opened(&self, stream: u64, stopped: Stopped) {
        self.state().opened.insert(stream, stopped);
    }

    /// Removes the end of a stream that the peer has opened.
    pub(super) fn forget_opened(&self, stream: u64) {
        // Dropping it takes the connection's lock, so it must happen outside this lock.
        let opened = self.state().opened.remove(&stream);
        drop(opened);
    }

    /// Waits until the peer no longer wants an answer on a stream that it has opened.
    pub(super) fn gone(&self, stream: u64) -> Gone {
        Gone {
            hints: self.clone(),
            stream,
            stopped: self.state().opened.remove(&stream),
        }
    }

    /// Requests the parts of a stream when `h3` drops them.
    pub(super) fn want_parts(&self, stream: u64) {
        self.state().leaving.insert(stream, Parts::default());
    }

    /// Calls `keep` to store a part that `h3` drops, if it was requested.
    pub(super) fn leave_part(&self, stream: u64, keep: impl FnOnce(&mut Parts)) {
        if let Some(parts) = self.state().leaving.get_mut(&stream) {
            keep(parts);
        }
    }

    /// Takes the parts of a stream that `h3` has dropped.
    pub(super) fn take_parts(&self, stream: u64) -> Parts {
        self.state().leaving.remove(&stream).unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
