//! Deadlines of all connections of an endpoint, kept by one timer that is finer than the runtime's.
//!
//! ```text
//!   connection tasks ─ deadline, waker ─► Timers ─ earliest ─► one kernel timer ─► TimerTask ─ wakes those due
//! ```
//!
//! A deadline that moves back, as most do with each packet, costs no system call: the kernel's
//! timer stays as it is, and is set anew when it fires.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::clock;
use super::deadlines::Deadlines;
use super::sys::Alarm;
use crate::Instant;

/// The deadlines of an endpoint's connections.
#[derive(Debug)]
pub(super) struct Timers {
    state: Mutex<State>,
    alarm: Alarm,
}

#[derive(Debug, Default)]
struct State {
    deadlines: Deadlines<Waker>,
    /// When the kernel's timer fires, if it is set.
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
    fn arm(&self, state: &mut State, now: Instant) {
        let Some(first) = state.deadlines.first() else {
            return;
        };
        if state.armed.is_none_or(|armed| first < armed) {
            self.alarm.set(first.saturating_since(now));
            state.armed = Some(first);
            if Alarm::NEEDS_ITS_TASK
                && let Some(task) = state.task.take()
            {
                task.wake();
            }
        }
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
                    self.timers.arm(&mut state, now);
                }
                None => state.deadlines.clear(self.key),
            }
            drop(state);
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
            timers.arm(&mut state, now);
            drop(state);
            due.drain(..).for_each(Waker::wake);
            if fired.is_pending() {
                return Poll::Pending;
            }
        }
    }
}
