//! A waker that tests can inspect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

/// True if it was woken.
#[derive(Default)]
pub(super) struct Woken(AtomicBool);

impl Woken {
    /// Returns true if it was woken since the last call.
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
