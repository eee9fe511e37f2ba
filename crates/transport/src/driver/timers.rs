//! Deadlines of all connections of an endpoint, kept by one timer that is finer than the runtime's.
//!
//! ```text
//!   connection tasks ─ deadline, waker ─► Timers ─ earliest ─► one kernel timer ─► TimerTask ─ wakes those due
//! ```
//!
//! A deadline that moves back, as most do with each packet, costs no system call: the kernel's
//! timer stays as it is, and is set anew when it fires. Whoever sets it holds no lock meanwhile:
//! others who want it set leave that to the one who is at it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::clock;
use super::deadlines::Deadlines;
use super::sys::Alarm;
use crate::Instant;

/// Nobody sets the kernel's timer.
const NOBODY: u8 = 0;
/// Somebody does.
const SETTING: u8 = 1;
/// And is to do it once more.
const AGAIN: u8 = 2;

/// The deadlines of an endpoint's connections.
#[derive(Debug)]
pub(super) struct Timers {
    state: Mutex<State>,
    alarm: Alarm,
    /// [`NOBODY`], [`SETTING`] or [`AGAIN`]; others than whoever sets the timer change it under the
    /// lock.
    setting: AtomicU8,
    /// Called before the system call.
    #[cfg(test)]
    on_set: Mutex<Option<fn(&Self)>>,
}

#[derive(Debug, Default)]
struct State {
    deadlines: Deadlines<Waker>,
    /// When the kernel's timer fires, if it is set, or is about to be.
    armed: Option<Instant>,
    /// The task that waits for it.
    task: Option<Waker>,
    /// Nobody will need a timer any more.
    over: bool,
}

impl Timers {
    /// # Errors
    /// If the kernel gives no timer.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            state: Mutex::default(),
            alarm: Alarm::new()?,
            setting: AtomicU8::new(NOBODY),
            #[cfg(test)]
            on_set: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the task.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.over = true;
        if let Some(task) = state.task.take() {
            task.wake();
        }
    }

    /// Sees to it that the kernel's timer fires by the earliest deadline.
    fn arm<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        let Some(first) = state.deadlines.first() else {
            return;
        };
        if state.armed.is_some_and(|armed| armed <= first) {
            return;
        }
        state.armed = Some(first);
        // What is written here is read under the lock: the order of other memory does not matter.
        let order = Ordering::Relaxed;
        if self.setting.swap(AGAIN, order) != NOBODY {
            return;
        }
        loop {
            self.setting.store(SETTING, order);
            let armed = state.armed;
            let task = match Alarm::NEEDS_ITS_TASK {
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
            let done = self.setting.compare_exchange(SETTING, NOBODY, order, order);
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

/// One connection's deadline. Dropped, it is forgotten.
#[derive(Debug)]
pub(super) struct Timer {
    timers: Arc<Timers>,
    key: usize,
    /// What was asked for last and has not passed.
    set: Option<(Instant, Waker)>,
}

impl Timer {
    pub(super) fn new(timers: &Arc<Timers>) -> Self {
        let key = timers.lock().deadlines.add();
        Self {
            timers: Arc::clone(timers),
            key,
            set: None,
        }
    }

    /// Ready once `deadline` has passed; otherwise the task is woken then. A deadline in the past
    /// is ready at once.
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
                Some(deadline) => {
                    let waker = cx.waker().clone();
                    state.deadlines.set(self.key, deadline, waker);
                    self.timers.arm(state);
                }
                None => state.deadlines.clear(self.key),
            }
            self.set = deadline.map(|deadline| (deadline, cx.waker().clone()));
        }
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.timers.lock().deadlines.remove(self.key);
    }
}

/// The task that waits for the kernel's timer and wakes the connections whose deadlines have
/// passed.
pub(super) struct TimerTask {
    timers: Arc<Timers>,
    due: Vec<Waker>,
}

impl TimerTask {
    pub(super) fn new(timers: Arc<Timers>) -> Self {
        Self {
            timers,
            due: Vec::new(),
        }
    }
}

impl Future for TimerTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { timers, due } = &mut *self;
        loop {
            let fired = timers.alarm.poll(cx);
            let now = clock::now();
            let mut state = timers.lock();
            if state.over {
                return Poll::Ready(());
            }
            if state
                .task
                .as_ref()
                .is_none_or(|task| !task.will_wake(cx.waker()))
            {
                state.task = Some(cx.waker().clone());
            }
            if fired.is_ready() {
                state.armed = None;
            }
            while let Some(waker) = state.deadlines.take_due(now) {
                due.push(waker);
            }
            timers.arm(state);
            due.drain(..).for_each(Waker::wake);
            if fired.is_pending() {
                return Poll::Pending;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::poll_fn;

    use super::*;
    use crate::Duration;

    thread_local! {
        /// Deadlines that the kernel's timer was about to be set to.
        static SET: RefCell<Vec<Option<Instant>>> = const { RefCell::new(Vec::new()) };
        /// Set while the first one is.
        static OTHER: RefCell<Option<(Timer, Instant)>> = const { RefCell::new(None) };
    }

    fn set_other(timers: &Timers) {
        let armed = timers.state.try_lock().expect("nobody has the lock").armed;
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

    /// Whoever sets the kernel's timer holds nobody up, and sets it once more if an earlier
    /// deadline comes meanwhile; later ones cost no system call.
    #[tokio::test]
    async fn the_lock_is_free_while_the_kernels_timer_is_set() {
        let timers = Arc::new(Timers::new().unwrap());
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

    /// Many tasks on several threads set deadlines near and far, and each passes.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn each_deadline_passes_whoever_sets_the_timer() {
        let timers = Arc::new(Timers::new().unwrap());
        let task = tokio::spawn(TimerTask::new(Arc::clone(&timers)));
        let sleeping: Vec<_> = (0..64)
            .map(|n: u64| {
                let mut timer = Timer::new(&timers);
                tokio::spawn(async move {
                    for round in 0..200 {
                        let micros = (n + 1) * (round * 7919 % 41) % 503;
                        let at = clock::now() + Duration::from_micros(micros);
                        poll_fn(|cx| timer.poll(cx, clock::now(), Some(at))).await;
                    }
                })
            })
            .collect();
        let all = async {
            for sleeper in sleeping {
                sleeper.await.unwrap();
            }
        };
        let limit = std::time::Duration::from_secs(30);
        tokio::time::timeout(limit, all)
            .await
            .expect("all have passed");
        timers.end();
        task.await.unwrap();
    }
}
