//! What keeps a connection open.

use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::shared::Shared;

/// A reference to a connection, which is closed with code 0 once the last of these is dropped.
#[derive(Debug)]
pub(super) struct User(Arc<Shared>);

impl User {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        shared.users.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }

    /// Returns `None` if the last one was dropped.
    pub(super) fn upgrade(shared: &Weak<Shared>) -> Option<Self> {
        let shared = shared.upgrade()?;
        let one_more = |users: usize| (users > 0).then(|| users + 1);
        let order = (Ordering::Acquire, Ordering::Relaxed);
        let counted = shared.users.fetch_update(order.0, order.1, one_more);
        counted.is_ok().then(|| Self(shared))
    }
}

impl Deref for User {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Clone for User {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if self.0.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut state = self.0.lock();
            if state.lost.is_none() {
                drop(state);
                self.0.close(0, Bytes::new());
            } else {
                state.wake_driver();
            }
        }
    }
}
