//! A connection's state while it is locked, and the wakers that wait until it is free again.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::task::Waker;

use super::State;

/// The state, locked. Tasks that its user wakes are woken once it is free again, and wakers of
/// tasks that stop waiting are dropped then: a task may end, and drop what it holds of the
/// connection, as it is woken or forgotten.
pub(crate) struct Guard<'a> {
    state: MutexGuard<'a, State>,
    /// Behind the state, so that it goes after that.
    later: Later,
}

/// What is done once the state is free.
#[derive(Default)]
pub(crate) struct Later {
    woken: Woken,
    forgotten: Vec<Waker>,
}

impl Later {
    /// Wakes them.
    pub(crate) fn wake(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        self.woken.extend(wakers);
    }

    /// Drops a waker of a task that waits no longer.
    pub(crate) fn forget(&mut self, waker: Option<Waker>) {
        self.forgotten.extend(waker);
    }
}

/// Wakers, which are woken when this goes. One alone, as after most packets, takes no memory.
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
        let others = self.others.drain(..);
        self.first
            .take()
            .into_iter()
            .chain(others)
            .for_each(Waker::wake);
    }
}

impl<'a> Guard<'a> {
    pub(crate) fn new(state: MutexGuard<'a, State>) -> Self {
        let later = Later::default();
        Self { state, later }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Perhaps in what the application made, a controller or a logger: the connection may be
            // half changed, and its task is to see that.
            self.state.wake_driver();
        }
        self.later = std::mem::take(&mut self.state.later);
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

    /// All are woken, and one alone costs no allocation: it is so after most packets.
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
