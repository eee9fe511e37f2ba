//! What exchanges tell the transport of their streams. The `h3` crate has no way to them, so that
//! hints go by stream ids.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What the transport should know of a sending part before it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hint {
    /// The priority among the streams of the connection; higher ones are sent first.
    pub(super) priority: i32,
    /// About this number of bytes will be sent.
    pub(super) bytes: u64,
}

/// Hints of a connection's streams that are not taken yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints(Arc<Mutex<BTreeMap<u64, Hint>>>);

impl Hints {
    /// Leaves a hint for a stream.
    pub(super) fn leave(&self, stream: u64, hint: Hint) {
        let mut hints = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hints.insert(stream, hint);
    }

    /// Takes the hint for a stream.
    pub(super) fn take(&self, stream: u64) -> Option<Hint> {
        let mut hints = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hints.remove(&stream)
    }
}
