//! Tasks that wait for the same event. Each keeps its own waker here until it is woken or stops
//! waiting.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::IntoValues;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

/// The position of a waiter in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticket(u64);

impl Ord for Ticket {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        tests::count_step();
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Ticket {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Wakers of waiting tasks in order of arrival. Finding one takes a logarithmic number of steps,
/// and a task only takes memory while it waits.
#[derive(Debug, Default)]
pub(super) struct WaitList {
    waiting: BTreeMap<Ticket, Waker>,
    /// Number of tickets issued so far.
    drawn: u64,
}

/// A waiter's place in a [`WaitList`], which is initially empty. It must be [given
/// back](WaitList::leave).
#[derive(Debug, Default)]
pub(super) struct Place(Option<Ticket>);

impl Place {
    /// Returns true if there is nothing to give back.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl WaitList {
    /// Registers `cx` for the next [`wakers`](Self::wakers). Returns the waker that it replaces,
    /// which the caller must drop without holding a lock, because it may be the last reference to
    /// its task.
    #[must_use = "to be dropped without a lock"]
    pub(super) fn wait(&mut self, place: &mut Place, cx: &Context<'_>) -> Option<Waker> {
        let held = place.0.and_then(|ticket| self.waiting.get_mut(&ticket));
        if let Some(waker) = held {
            return replace(waker, cx);
        }
        let ticket = Ticket(self.drawn);
        self.drawn += 1;
        place.0 = Some(ticket);
        self.waiting.insert(ticket, cx.waker().clone())
    }

    /// Removes a waiter, and returns its waker as [`wait`](Self::wait) does.
    #[must_use = "to be dropped without a lock"]
    pub(super) fn leave(&mut self, place: &mut Place) -> Option<Waker> {
        self.waiting.remove(&place.0.take()?)
    }

    /// Takes the wakers of all waiting tasks. They can reuse their places to wait again.
    pub(super) fn wakers(&mut self) -> Wakers {
        Wakers(mem::take(&mut self.waiting).into_values())
    }

    /// Wakes all waiting tasks.
    pub(super) fn wake(&mut self) {
        self.wakers().for_each(Waker::wake);
    }

    /// Returns true if no task is waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of waiting tasks.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Replaces `waker` with that of `cx` unless both wake the same task. Returns the former waker.
#[must_use = "to be dropped without a lock"]
pub(super) fn replace(waker: &mut Waker, cx: &Context<'_>) -> Option<Waker> {
    let is_other = !waker.will_wake(cx.waker());
    is_other.then(|| mem::replace(waker, cx.waker().clone()))
}

/// Wakers taken out of a [`WaitList`].
#[derive(Debug, Default)]
#[must_use = "those who wait are to be woken"]
pub(super) struct Wakers(IntoValues<Ticket, Waker>);

impl Iterator for Wakers {
    type Item = Waker;

    fn next(&mut self) -> Option<Waker> {
        self.0.next()
    }
}

/// A single waker that wakes many tasks, for sources that only keep one. For example, if several
/// tasks poll a tokio socket, only the last task would be woken.
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
        wakers.for_each(Waker::wake);
    }
}

/// A task's place among [`Waiters`]. Dropping this ends the wait.
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

    /// Registers `cx` to be woken together with the others.
    pub(super) fn wait(&mut self, cx: &Context<'_>) {
        let _replaced = self.waiters.lock().wait(&mut self.place, cx);
    }

    /// Ends the wait.
    pub(super) fn leave(&mut self) {
        let _forgotten = self.waiters.lock().leave(&mut self.place);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Poll;
    use std::time::Duration;

    use tokio::net::UnixDatagram;

    use super::*;

    thread_local! {
        /// Number of ticket comparisons in this test.
        static STEPS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count_step() {
        STEPS.set(STEPS.get() + 1);
    }

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
        assert_eq!(waiters.lock().len(), 1);
        waiters.wake_by_ref();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        let kept = waiters.lock().len();
        assert_eq!(kept, 0, "nothing is kept of those who were woken");
        stays.wait(&Context::from_waker(&waker));
        assert_eq!(waiters.lock().len(), 1);
        drop(stays);
        assert_eq!(waiters.lock().len(), 0);
        assert_eq!(Arc::strong_count(&count), 2);
    }

    /// A woken waiter that gives its place back does not remove the next one that arrived.
    #[test]
    fn a_woken_waiter_that_leaves_removes_no_other() {
        let waiters = Arc::new(Waiters::default());
        let (count, waker) = counting();
        let mut woken = Waiter::new(&waiters);
        woken.wait(&Context::from_waker(Waker::noop()));
        waiters.wake_by_ref();
        let mut next = Waiter::new(&waiters);
        next.wait(&Context::from_waker(&waker));
        drop(woken);
        waiters.wake_by_ref();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn those_who_stay_are_woken_in_the_order_in_which_they_came() {
        let mut list = WaitList::default();
        let mut waiting: Vec<_> = (0..20).map(|_| (Place::default(), counting().1)).collect();
        for (place, waker) in &mut waiting {
            assert!(list.wait(place, &Context::from_waker(waker)).is_none());
        }
        for (place, waker) in waiting.iter_mut().rev().step_by(3) {
            assert!(list.leave(place).is_some());
            assert!(list.leave(place).is_none());
            assert!(place.is_empty());
            *waker = Waker::noop().clone();
        }
        let stay = waiting.iter().filter(|(place, _)| !place.is_empty());
        let woken: Vec<_> = list.wakers().collect();
        assert_eq!(woken.len(), 13);
        let mut both = stay.zip(&woken);
        assert!(both.all(|((_, waker), woken)| waker.will_wake(woken)));
    }

    #[test]
    fn any_number_leave_in_any_order_in_a_few_steps_each() {
        const WAITERS: usize = 20_000;
        for step in [1, WAITERS - 1, 7_919] {
            let mut list = WaitList::default();
            let mut places: Vec<_> = (0..WAITERS).map(|_| Place::default()).collect();
            let context = Context::from_waker(Waker::noop());
            for place in &mut places {
                assert!(list.wait(place, &context).is_none());
            }
            STEPS.set(0);
            // Forwards, backwards, and in a mixed order.
            for i in 0..WAITERS {
                assert!(list.leave(&mut places[i * step % WAITERS]).is_some());
            }
            assert_eq!(list.len(), 0);
            let steps = STEPS.get() / WAITERS as u64;
            assert!(steps < 100, "{steps} steps for each of {WAITERS}");
        }
    }

    /// Sends another datagram once there is room, as connection tasks do.
    async fn send(socket: &UnixDatagram, shared: &Waker, waiter: &mut Waiter) {
        poll_fn(|cx| {
            loop {
                match socket.try_send(&[7; 1000]) {
                    Ok(_) => return Poll::Ready(()),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
                waiter.wait(cx);
                let mut context = Context::from_waker(shared);
                if socket.poll_send_ready(&mut context).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await;
    }

    /// Many tasks want to send on a socket that is full until its peer reads, and some tasks give
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
        while waiters.lock().len() < 100 {
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
