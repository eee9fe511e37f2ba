//! A connection's locked state, and wakers that must wait until it is unlocked.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::task::Waker;

use super::State;

/// The locked state. Tasks are only woken, and wakers only dropped, after unlocking it, because a
/// task that is woken or dropped may end and drop handles of this connection.
pub(crate) struct Guard<'a> {
    state: MutexGuard<'a, State>,
    /// Declared after the state, so that it is dropped after unlocking.
    later: Option<Later>,
}

/// Work for the time when the state is unlocked.
#[derive(Default)]
pub(crate) struct Later {
    woken: Woken,
    forgotten: Vec<Waker>,
}

impl Later {
    fn is_empty(&self) -> bool {
        self.woken.first.is_none() && self.forgotten.is_empty()
    }

    pub(crate) fn wake(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        self.woken.extend(wakers);
    }

    /// Adds a waker to drop, because its task isn't waiting any more.
    pub(crate) fn forget(&mut self, waker: Option<Waker>) {
        self.forgotten.extend(waker);
    }
}

/// Wakers that are woken when this is dropped. A single waker, as after most packets, needs no
/// allocation.
#[derive(Default)]
struct Woken {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Woken {
    fn extend(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        let mut wakers = wakers.into_iter();
        if self.first.is_none() {
            self.first = wakers.next();
        }
        self.others.extend(wakers);
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        if let Some(first) = self.first.take() {
            first.wake();
            self.others.drain(..).for_each(Waker::wake);
        }
    }
}

impl<'a> Guard<'a> {
    pub(crate) fn new(state: MutexGuard<'a, State>) -> Self {
        Self { state, later: None }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // This may be a panic in the application's code, for example a controller or a logger.
            // Since the state may be inconsistent, the task must check it.
            self.state.wake_driver();
        }
        // Most calls wake nobody, so this is worth a branch.
        if !self.state.later.is_empty() {
            self.later = Some(std::mem::take(&mut self.state.later));
        }
    }
}

impl Deref for Guard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::woken::Woken as WakeFlag;

    /// All tasks are woken, and a single waker, as after most packets, needs no allocation.
    #[test]
    fn one_waker_takes_no_memory_and_many_are_all_woken() {
        for count in [0, 1, 2, 50] {
            let flags: Vec<_> = (0..count).map(|_| Arc::new(WakeFlag::default())).collect();
            let mut woken = Woken::default();
            for flag in &flags {
                woken.extend(Some(Waker::from(Arc::clone(flag))));
                woken.extend(None);
            }
            assert_eq!(woken.others.capacity() == 0, count <= 1, "{count}");
            assert!(!flags.iter().any(|flag| flag.take()));
            drop(woken);
            assert!(flags.iter().all(|flag| flag.take()), "{count}");
        }
    }
}
