//! Tasks that wait for one thing. Each has its own waker here, until it is woken or stops waiting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use slab::Slab;

/// Wakers of those who wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct WaitList {
    places: Slab<Option<Waker>>,
    /// Places that have a waker.
    order: Vec<usize>,
}

/// A waiter's place in a [`WaitList`], empty at first. To be [given back](WaitList::leave).
#[derive(Debug, Default)]
pub(super) struct Place(Option<usize>);

impl Place {
    /// True if there is nothing to give back.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl WaitList {
    /// Has `cx` woken by the next [`wakers`](Self::wakers). Replaces the waker that the place had.
    pub(super) fn wait(&mut self, place: &mut Place, cx: &Context<'_>) {
        let key = *place.0.get_or_insert_with(|| self.places.insert(None));
        let Some(slot) = self.places.get_mut(key) else {
            return;
        };
        match slot {
            Some(waker) => waker.clone_from(cx.waker()),
            None => {
                *slot = Some(cx.waker().clone());
                self.order.push(key);
            }
        }
    }

    /// Forgets a waiter.
    pub(super) fn leave(&mut self, place: &mut Place) {
        if let Some(key) = place.0.take()
            && let Some(Some(_)) = self.places.try_remove(key)
        {
            self.order.retain(|other| *other != key);
        }
    }

    /// Takes the wakers of all who wait. Their places stay theirs.
    pub(super) fn wakers(&mut self) -> Vec<Waker> {
        let places = &mut self.places;
        self.order
            .drain(..)
            .filter_map(|key| places.get_mut(key)?.take())
            .collect()
    }

    /// Wakes all who wait.
    pub(super) fn wake(&mut self) {
        self.wakers().into_iter().for_each(Waker::wake);
    }

    /// Places that are not given back.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}

/// One waker that wakes many tasks, for a source that keeps one only: of the tasks that poll a
/// tokio socket, the last one alone is woken.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    list: Mutex<WaitList>,
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, WaitList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let wakers = self.lock().wakers();
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// A task's place among [`Waiters`]; dropped, it waits no longer.
#[derive(Debug)]
pub(super) struct Waiter {
    waiters: Arc<Waiters>,
    place: Place,
}

impl Waiter {
    pub(super) fn new(waiters: &Arc<Waiters>) -> Self {
        Self {
            waiters: Arc::clone(waiters),
            place: Place::default(),
        }
    }

    /// Has `cx` woken together with the others.
    pub(super) fn wait(&mut self, cx: &Context<'_>) {
        self.waiters.lock().wait(&mut self.place, cx);
    }

    /// Waits no longer.
    pub(super) fn leave(&mut self) {
        self.waiters.lock().leave(&mut self.place);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;
    use std::time::Duration;

    use tokio::net::UnixDatagram;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counting() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    #[test]
    fn each_waiter_is_woken_once_by_the_waker_it_polled_with_last() {
        let waiters = Arc::new(Waiters::default());
        let (first, first_waker) = counting();
        let (second, second_waker) = counting();
        let mut one = Waiter::new(&waiters);
        let mut other = Waiter::new(&waiters);
        for _ in 0..3 {
            one.wait(&Context::from_waker(&first_waker));
            other.wait(&Context::from_waker(&first_waker));
        }
        other.wait(&Context::from_waker(&second_waker));
        for _ in 0..2 {
            waiters.wake_by_ref();
            let woken = (
                first.0.load(Ordering::Relaxed),
                second.0.load(Ordering::Relaxed),
            );
            assert_eq!(woken, (1, 1));
        }
        one.wait(&Context::from_waker(&first_waker));
        waiters.wake_by_ref();
        assert_eq!(first.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_waiter_that_is_dropped_leaves_nothing_behind() {
        let waiters = Arc::new(Waiters::default());
        let (count, waker) = counting();
        let mut stays = Waiter::new(&waiters);
        stays.wait(&Context::from_waker(&waker));
        for _ in 0..100 {
            let mut goes = Waiter::new(&waiters);
            goes.wait(&Context::from_waker(&waker));
        }
        let held = || {
            let list = waiters.lock();
            (list.len(), list.order.len())
        };
        assert_eq!(held(), (1, 1));
        waiters.wake_by_ref();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        drop(stays);
        assert_eq!(held(), (0, 0));
    }

    /// Sends one more datagram once there is room, as connection tasks do.
    async fn send(socket: &UnixDatagram, shared: &Waker, waiter: &mut Waiter) {
        poll_fn(|cx| {
            loop {
                match socket.try_send(&[7; 1000]) {
                    Ok(_) => return Poll::Ready(()),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
                waiter.wait(cx);
                if socket
                    .poll_send_ready(&mut Context::from_waker(shared))
                    .is_pending()
                {
                    return Poll::Pending;
                }
            }
        })
        .await;
    }

    /// A socket that is full until its peer reads, many tasks that want to send, some of which give
    /// up.
    #[tokio::test]
    async fn all_who_wait_at_a_full_socket_get_their_turn() {
        let (socket, peer) = UnixDatagram::pair().unwrap();
        let socket = Arc::new(socket);
        let waiters = Arc::new(Waiters::default());
        socket.writable().await.unwrap();
        let mut filled = 0;
        while socket.try_send(&[7; 1000]).is_ok() {
            filled += 1;
        }
        let begin = || {
            let (socket, mut waiter) = (Arc::clone(&socket), Waiter::new(&waiters));
            let shared = Waker::from(Arc::clone(&waiters));
            tokio::spawn(async move { send(&socket, &shared, &mut waiter).await })
        };
        let staying: Vec<_> = (0..50).map(|_| begin()).collect();
        let leaving: Vec<_> = (0..50).map(|_| begin()).collect();
        while waiters.lock().order.len() < 100 {
            tokio::task::yield_now().await;
        }
        for task in leaving {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        assert_eq!(waiters.lock().len(), 50);
        let reading = tokio::spawn(async move {
            for _ in 0..filled + 50 {
                peer.recv(&mut [0; 1000]).await.unwrap();
            }
        });
        for task in staying {
            let limit = Duration::from_secs(10);
            tokio::time::timeout(limit, task).await.unwrap().unwrap();
        }
        reading.await.unwrap();
        assert_eq!(waiters.lock().len(), 0);
    }
}
