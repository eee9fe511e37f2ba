//! Deadlines of all connections of an endpoint, using one timer that is more precise than the
//! runtime's.
//!
//! ```text
//!   connection tasks ─ deadline, waker ─► Timers ─ earliest ─► one kernel timer ─► TimerTask ─ wakes those due
//! ```
//!
//! Most packets move a deadline back. This costs no system call: the kernel's timer isn't changed
//! until it fires, and is then set again. A task that sets the timer holds no lock during the
//! system call; if other tasks want to set it at the same time, they leave this to the first.
//!
//! A runtime whose threads are all busy only checks the kernel's timer after many turns of its
//! tasks. Therefore tasks that may be busy for long [wake those due](Timers::wake_due) themselves.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::clock::{self, Deadlines};
use super::sys::{Alarm, SystemAlarm};
use pathmark_transport::Instant;

/// No task is setting the kernel's timer.
const UNSET: u8 = 0;
/// A task is setting it.
const SETTING: u8 = 1;
/// A task is setting it, and must then set it once more.
const AGAIN: u8 = 2;

/// The deadlines of an endpoint's connections.
#[derive(Debug)]
pub(super) struct Timers<A = SystemAlarm> {
    state: Mutex<State>,
    /// The earliest deadline in nanoseconds, or [`u64::MAX`] if there is none. Without taking the
    /// lock, tasks can use it to see that nothing is due. It only changes under the lock.
    first: AtomicU64,
    alarm: A,
    /// [`UNSET`], [`SETTING`] or [`AGAIN`]. Tasks change this under the lock, except for the task
    /// that is setting the timer.
    setting: AtomicU8,
    /// The task has ended prematurely, and the kernel's timer with it, so that no deadline will be
    /// noticed any more. This only changes under the lock.
    gone: AtomicBool,
    /// Called before the system call.
    #[cfg(test)]
    on_set: Mutex<Option<fn(&Self)>>,
}

#[derive(Debug, Default)]
struct State {
    deadlines: Deadlines<Waker>,
    /// When the kernel's timer fires, if it is set or about to be.
    armed: Option<Instant>,
    /// The task that waits for the timer.
    task: Option<Waker>,
    /// No task needs a timer any more.
    over: bool,
}

impl<A: Alarm> Timers<A> {
    /// Creates the timer.
    ///
    /// # Errors
    /// If the kernel provides no timer.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            state: Mutex::default(),
            first: AtomicU64::new(u64::MAX),
            alarm: A::new()?,
            setting: AtomicU8::new(UNSET),
            gone: AtomicBool::new(false),
            #[cfg(test)]
            on_set: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.over = true;
        if let Some(task) = state.task.take() {
            task.wake();
        }
    }

    /// Returns true if deadlines aren't noticed any more because the runtime of the timer task has
    /// ended.
    pub(super) fn are_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Updates the earliest deadline. This must be called after each change.
    fn note_first(&self, state: &State) {
        let first = state.deadlines.first().map_or(u64::MAX, Instant::as_nanos);
        self.first.store(first, Ordering::Relaxed);
    }

    /// Wakes the connections whose deadlines have passed. If there are none, this is very cheap.
    pub(super) fn wake_due(&self, now: Instant) {
        while self.first.load(Ordering::Relaxed) <= now.as_nanos() {
            let mut state = self.lock();
            let due = state.deadlines.take_due(now);
            self.note_first(&state);
            drop(state);
            // The kernel's timer will then fire without need and be set again.
            match due {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }

    /// Makes sure that the kernel's timer fires no later than the earliest deadline.
    fn arm<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        let Some(first) = state.deadlines.first() else {
            return;
        };
        if state.armed.is_some_and(|armed| armed <= first) {
            return;
        }
        state.armed = Some(first);
        // The lock orders all other memory accesses.
        let order = Ordering::Relaxed;
        if self.setting.swap(AGAIN, order) != UNSET {
            return;
        }
        loop {
            self.setting.store(SETTING, order);
            let armed = state.armed;
            let task = match A::NEEDS_ITS_TASK {
                true => state.task.take(),
                false => None,
            };
            drop(state);
            if let Some(at) = armed {
                self.set(at);
            }
            if let Some(task) = task {
                task.wake();
            }
            let done = self.setting.compare_exchange(SETTING, UNSET, order, order);
            if done.is_ok() {
                return;
            }
            state = self.lock();
        }
    }

    fn set(&self, at: Instant) {
        #[cfg(test)]
        if let Some(on_set) = *self.on_set.lock().unwrap() {
            on_set(self);
        }
        self.alarm.set(at.saturating_since(clock::now()));
    }
}

/// The deadline of one connection. Dropping this removes the deadline.
#[derive(Debug)]
pub(super) struct Timer<A: Alarm = SystemAlarm> {
    timers: Arc<Timers<A>>,
    key: usize,
    /// The latest request, unless it has passed.
    set: Option<(Instant, Waker)>,
}

impl<A: Alarm> Timer<A> {
    pub(super) fn new(timers: &Arc<Timers<A>>) -> Self {
        let key = timers.lock().deadlines.add();
        Self {
            timers: Arc::clone(timers),
            key,
            set: None,
        }
    }

    /// Returns true if this timer can't wake tasks any more.
    pub(super) fn is_gone(&self) -> bool {
        self.timers.are_gone()
    }

    /// Returns `Ready` once `deadline` has passed, immediately if it is in the past; otherwise the
    /// task will be woken then. The task is also woken if the timer task ends.
    pub(super) fn poll(
        &mut self,
        cx: &Context<'_>,
        now: Instant,
        deadline: Option<Instant>,
    ) -> Poll<()> {
        if deadline.is_some_and(|deadline| deadline <= now) {
            self.set = None;
            return Poll::Ready(());
        }
        let is_set = match (&self.set, deadline) {
            (Some((at, waker)), Some(deadline)) => *at == deadline && waker.will_wake(cx.waker()),
            (None, None) => true,
            _ => false,
        };
        if !is_set {
            let mut state = self.timers.lock();
            match deadline {
                Some(_) if self.is_gone() => {
                    drop(state);
                    cx.waker().wake_by_ref();
                }
                Some(deadline) => {
                    let waker = cx.waker().clone();
                    state.deadlines.set(self.key, deadline, waker);
                    self.timers.note_first(&state);
                    self.timers.arm(state);
                }
                None => {
                    state.deadlines.clear(self.key);
                    self.timers.note_first(&state);
                }
            }
            self.set = deadline.map(|deadline| (deadline, cx.waker().clone()));
        }
        Poll::Pending
    }
}

impl<A: Alarm> Drop for Timer<A> {
    fn drop(&mut self) {
        let mut state = self.timers.lock();
        state.deadlines.remove(self.key);
        self.timers.note_first(&state);
    }
}

/// The task that waits for the kernel's timer and wakes the connections whose deadlines have
/// passed.
pub(super) struct TimerTask<A: Alarm = SystemAlarm> {
    timers: Arc<Timers<A>>,
    due: Vec<Waker>,
}

impl<A: Alarm> TimerTask<A> {
    pub(super) fn new(timers: Arc<Timers<A>>) -> Self {
        Self {
            timers,
            due: Vec::new(),
        }
    }
}

impl<A: Alarm> Future for TimerTask<A> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { timers, due } = &mut *self;
        loop {
            let mut state = timers.lock();
            if state.over {
                return Poll::Ready(());
            }
            // This is registered before checking the deadlines, so that a task that sets the timer
            // later can wake this task if the alarm needs that.
            if state
                .task
                .as_ref()
                .is_none_or(|task| !task.will_wake(cx.waker()))
            {
                state.task = Some(cx.waker().clone());
            }
            drop(state);
            let fired = timers.alarm.poll(cx);
            let now = clock::now();
            let mut state = timers.lock();
            if fired.is_ready() {
                state.armed = None;
            }
            while let Some(waker) = state.deadlines.take_due(now) {
                due.push(waker);
            }
            timers.note_first(&state);
            timers.arm(state);
            due.drain(..).for_each(Waker::wake);
            if fired.is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl<A: Alarm> Drop for TimerTask<A> {
    fn drop(&mut self) {
        let mut state = self.timers.lock();
        if std::mem::replace(&mut state.over, true) {
            return;
        }
        // The runtime has ended. Tasks of connections may be in other runtimes, and must see this.
        self.timers.gone.store(true, Ordering::Release);
        let waiting = state.deadlines.take_all();
        self.timers.note_first(&state);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::poll_fn;

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::sys::RuntimeAlarm;
    use crate::test_waker::Woken;
    use pathmark_transport::Duration;

    thread_local! {
        /// Deadlines that the kernel's timer was about to be set to.
        static SET: RefCell<Vec<Option<Instant>>> = const { RefCell::new(Vec::new()) };
        /// Another timer to set while the first one is being set.
        static OTHER: RefCell<Option<(Timer, Instant)>> = const { RefCell::new(None) };
    }

    fn set_other(timers: &Timers) {
        let armed = timers.state.try_lock().expect("the lock is free").armed;
        SET.with_borrow_mut(|set| set.push(armed));
        if let Some((mut other, at)) = OTHER.take() {
            poll(&mut other, at);
            std::mem::forget(other);
        }
    }

    fn poll(timer: &mut Timer, at: Instant) {
        let cx = Context::from_waker(Waker::noop());
        assert!(timer.poll(&cx, clock::now(), Some(at)).is_pending());
    }

    /// While a task sets the kernel's timer, others aren't blocked. The task sets it again if an
    /// earlier deadline is added meanwhile, whereas later deadlines cost no system call.
    #[tokio::test]
    async fn the_lock_is_free_while_the_kernels_timer_is_set() {
        let timers = Arc::new(Timers::<SystemAlarm>::new().unwrap());
        *timers.on_set.lock().unwrap() = Some(set_other);
        let [mut first, other, mut last] = [(); 3].map(|()| Timer::new(&timers));
        let at = |seconds| clock::now() + Duration::from_secs(seconds);
        let (early, late) = (at(100), at(200));
        OTHER.set(Some((other, early)));
        poll(&mut first, late);
        assert_eq!(SET.take(), [Some(late), Some(early)]);
        poll(&mut last, at(300));
        poll(&mut first, at(400));
        assert!(SET.take().is_empty());
        let earliest = at(50);
        poll(&mut last, earliest);
        assert_eq!(SET.take(), [Some(earliest)]);
    }

    /// Many tasks on several threads set near and far deadlines, and every deadline is noticed.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn each_deadline_passes_whichever_task_sets_the_timer() {
        each_deadline_passes::<SystemAlarm>().await;
    }

    /// The same with the timer of systems that have no kernel timer.
    #[cfg(target_os = "linux")]
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn each_deadline_passes_by_the_runtimes_timer() {
        each_deadline_passes::<RuntimeAlarm>().await;
    }

    async fn each_deadline_passes<A: Alarm + Send + Sync + 'static>() {
        let timers = Arc::new(Timers::<A>::new().unwrap());
        let task = tokio::spawn(TimerTask::new(Arc::clone(&timers)));
        let sleeping = (0..64).map(|n: u64| {
            let mut timer = Timer::new(&timers);
            tokio::spawn(async move {
                for round in 0..200 {
                    let micros = (n + 1) * (round * 7919 % 41) % 503;
                    let at = clock::now() + Duration::from_micros(micros);
                    poll_fn(|cx| timer.poll(cx, clock::now(), Some(at))).await;
                }
            })
        });
        let sleeping: Vec<_> = sleeping.collect();
        let all = async {
            for sleeper in sleeping {
                sleeper.await.unwrap();
            }
        };
        let limit = std::time::Duration::from_secs(30);
        let passed = tokio::time::timeout(limit, all).await;
        passed.expect("all have passed");
        timers.end();
        task.await.unwrap();
    }

    #[tokio::test]
    async fn who_is_busy_wakes_those_that_are_due_and_no_others() {
        let timers = Arc::new(Timers::<SystemAlarm>::new().unwrap());
        let woken = [(); 3].map(|()| Arc::new(Woken::default()));
        let mut set = [(); 3].map(|()| Timer::new(&timers));
        let now = clock::now();
        let at = [20, 10, 30].map(|seconds| now + Duration::from_secs(seconds));
        for ((timer, at), woken) in set.iter_mut().zip(at).zip(&woken) {
            let waker = Waker::from(Arc::clone(woken));
            let cx = Context::from_waker(&waker);
            assert!(timer.poll(&cx, now, Some(at)).is_pending());
        }
        let due = |now| {
            timers.wake_due(now);
            let woken = woken.each_ref();
            woken.map(|woken| woken.take())
        };
        let before = at[1] - Duration::from_nanos(1);
        assert_eq!(due(before), [false; 3]);
        assert_eq!(due(at[0]), [true, true, false]);
        assert_eq!(due(at[0]), [false; 3]);
        // One deadline is removed, and another moved.
        let cx = Context::from_waker(Waker::noop());
        assert!(set[2].poll(&cx, now, None).is_pending());
        assert_eq!(timers.first.load(Ordering::Relaxed), u64::MAX);
        poll(&mut set[1], at[2]);
        let first = timers.first.load(Ordering::Relaxed);
        assert_eq!(first, at[2].as_nanos());
        drop(set);
        assert_eq!(timers.first.load(Ordering::Relaxed), u64::MAX);
    }

    /// A timer that only takes effect at the next poll, and for which a deadline is set just after
    /// that poll.
    #[derive(Debug, Default)]
    struct Overtaken {
        /// The timer was set since the last poll.
        is_set: AtomicBool,
    }

    thread_local! {
        static SETS: RefCell<Option<(Timer<Overtaken>, Instant)>> = const { RefCell::new(None) };
    }

    impl Alarm for Overtaken {
        const NEEDS_ITS_TASK: bool = true;

        fn new() -> io::Result<Self> {
            Ok(Self::default())
        }

        fn set(&self, _: Duration) {
            self.is_set.store(true, Ordering::Relaxed);
        }

        fn poll(&self, _: &mut Context<'_>) -> Poll<()> {
            self.is_set.store(false, Ordering::Relaxed);
            if let Some((mut timer, at)) = SETS.take() {
                let cx = Context::from_waker(Waker::noop());
                assert!(timer.poll(&cx, clock::now(), Some(at)).is_pending());
                std::mem::forget(timer);
            }
            Poll::Pending
        }
    }

    #[test]
    fn a_deadline_that_is_set_while_the_task_looks_is_not_missed() {
        let timers = Arc::new(Timers::<Overtaken>::new().unwrap());
        let mut task = TimerTask::new(Arc::clone(&timers));
        let at = clock::now() + Duration::from_secs(100);
        SETS.set(Some((Timer::new(&timers), at)));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        for _ in 0..3 {
            assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
            if !woken.take() {
                break;
            }
        }
        let is_set = timers.alarm.is_set.load(Ordering::Relaxed);
        assert!(!is_set, "the task sleeps, and has not seen what is set");
    }
}
