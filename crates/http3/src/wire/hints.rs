//! Hints of exchanges to the transport about their streams. The `h3` crate has no way to these, so
//! that hints go by stream ids.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use pathmark_driver::{self as driver, Stopped, WriteError};

use super::frames::Frames;

/// A hint to the transport about a sending part, before it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hint {
    /// The priority among the streams of the connection; higher ones are sent first.
    pub(super) priority: i32,
    /// About this number of bytes will be sent.
    pub(super) bytes: u64,
}

/// Both parts of a stream that leaves `h3`.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) send: Option<driver::SendStream>,
    pub(super) recv: Option<Received>,
}

/// A receiving part, with its filter and what has passed it.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) stream: driver::RecvStream,
    pub(super) frames: Frames,
    pub(super) passed: VecDeque<Bytes>,
}

/// Waits until the peer does not want an answer on a stream any more. Dropped before, it leaves
/// the future to the next one who waits.
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

/// Hints of a connection's streams that are not taken yet, and ends of streams that are.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    hints: BTreeMap<u64, Hint>,
    /// Streams whose acknowledgement an exchange wants; with the future once they are finished.
    ends: BTreeMap<u64, Option<Stopped>>,
    /// Ends of streams that peers opened and that are not finished yet.
    opened: BTreeMap<u64, Stopped>,
    /// Streams that leave `h3`: their parts stay when `h3` drops them.
    leaving: BTreeMap<u64, Parts>,
}

impl Hints {
    /// Leaves a hint for a stream.
    pub(super) fn leave(&self, stream: u64, hint: Hint) {
        self.state().hints.insert(stream, hint);
    }

    /// Takes the hint for a stream.
    pub(super) fn take(&self, stream: u64) -> Option<Hint> {
        self.state().hints.remove(&stream)
    }

    /// An exchange wants the end of a stream that it is about to finish.
    pub(super) fn want_end(&self, stream: u64) {
        self.state().ends.insert(stream, None);
    }

    /// A stream is finished; the future is that of its acknowledgement.
    pub(super) fn leave_end(&self, stream: u64, end: impl FnOnce() -> Stopped) {
        if let Some(wanted) = self.state().ends.get_mut(&stream) {
            *wanted = Some(end());
        }
    }

    /// Removes the end of a stream, and returns it.
    pub(super) fn take_end(&self, stream: u64) -> Option<Stopped> {
        self.state().ends.remove(&stream).flatten()
    }

    /// The peer has opened a stream; the future tells when it does not want an answer any more.
    pub(super) fn leave_opened(&self, stream: u64, stopped: Stopped) {
        self.state().opened.insert(stream, stopped);
    }

    /// Removes the end of a stream that the peer has opened.
    pub(super) fn forget_opened(&self, stream: u64) {
        // It takes the connection's lock as it is dropped.
        let opened = self.state().opened.remove(&stream);
        drop(opened);
    }

    /// Waits until the peer does not want an answer on a stream that it has opened.
    pub(super) fn gone(&self, stream: u64) -> Gone {
        Gone {
            hints: self.clone(),
            stream,
            stopped: self.state().opened.remove(&stream),
        }
    }

    /// The parts of a stream are wanted when `h3` drops them.
    pub(super) fn want_parts(&self, stream: u64) {
        self.state().leaving.insert(stream, Parts::default());
    }

    /// `h3` drops a part of a stream: `keep` puts it among those that are wanted.
    pub(super) fn leave_part(&self, stream: u64, keep: impl FnOnce(&mut Parts)) {
        if let Some(parts) = self.state().leaving.get_mut(&stream) {
            keep(parts);
        }
    }

    /// The parts of a stream that `h3` has dropped.
    pub(super) fn take_parts(&self, stream: u64) -> Parts {
        self.state().leaving.remove(&stream).unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
