//! A timer that wakes one task. It uses a kernel timer if the system has one, because pacing needs
//! tens of microseconds, whereas the runtime's resolution is a millisecond.

use std::fmt;
use std::io;
use std::task::{Context, Poll};

use pathmark_transport::Duration;

#[cfg(target_os = "linux")]
pub(crate) type SystemAlarm = kernel::KernelAlarm;
#[cfg(not(target_os = "linux"))]
pub(crate) type SystemAlarm = runtime::RuntimeAlarm;

#[cfg(all(test, target_os = "linux"))]
pub(crate) use runtime::RuntimeAlarm;

/// A timer that wakes one task.
pub(crate) trait Alarm: fmt::Debug + Sized {
    /// If true, setting the timer only takes effect at the next poll, so that the task must be
    /// woken. Otherwise the timer wakes the task that polled last.
    const NEEDS_ITS_TASK: bool;

    /// Creates a timer.
    ///
    /// # Errors
    /// If the kernel provides no timer.
    fn new() -> io::Result<Self>;

    /// Makes the timer fire after `left` instead of the time set before.
    fn set(&self, left: Duration);

    /// Returns `Ready` once for each time that the timer fires.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()>;
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::task::{Context, Poll};

    use rustix::io::Errno;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    use pathmark_transport::Duration;

    /// A kernel timer, used through a descriptor.
    #[derive(Debug)]
    pub(crate) struct KernelAlarm {
        fd: AsyncFd<OwnedFd>,
    }

    impl super::Alarm for KernelAlarm {
        const NEEDS_ITS_TASK: bool = false;

        fn new() -> io::Result<Self> {
            let fd = timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
            )?;
            #[expect(
                unsafe_code,
                reason = "the runtime cannot see that it alone holds the descriptor"
            )]
            // SAFETY: the descriptor is owned, and stays open while it is registered.
            let fd = unsafe { AsyncFd::register(fd) }.map_err(io::Error::from)?;
            Ok(Self { fd })
        }

        fn set(&self, left: Duration) {
            let value = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                // Zero for both fields would stop the timer.
                tv_nsec: i64::from(left.subsec_nanos()).max(1),
            };
            let interval = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let spec = Itimerspec {
                it_interval: interval,
                it_value: value,
            };
            if let Err(error) =
                timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &spec)
            {
                // The descriptor and the times are valid, so this can't fail in other ways.
                tracing::error!(%error, "a timer could not be set");
            }
        }

        fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
            loop {
                let mut ready = match self.fd.poll_read_ready(cx) {
                    Poll::Ready(Ok(ready)) => ready,
                    // The runtime is shutting down, so no task waits for this timer any more.
                    Poll::Ready(Err(_)) | Poll::Pending => return Poll::Pending,
                };
                let mut expirations = [0; 8];
                match rustix::io::read(self.fd.get_ref(), &mut expirations) {
                    // The timer was set again after it became readable.
                    Err(Errno::AGAIN) => ready.clear_ready(),
                    _ => {
                        // Another call would only return that it has not fired again.
                        ready.clear_ready();
                        return Poll::Ready(());
                    }
                }
            }
        }
    }
}

#[cfg(any(test, not(target_os = "linux")))]
mod runtime {
    use std::future::Future as _;
    use std::io;
    use std::pin::Pin;
    use std::sync::{Mutex, PoisonError};
    use std::task::{Context, Poll};

    use tokio::time::{Instant, Sleep};

    use pathmark_transport::Duration;

    /// The runtime's timer.
    #[derive(Debug, Default)]
    pub(crate) struct RuntimeAlarm {
        state: Mutex<State>,
    }

    #[derive(Debug, Default)]
    struct State {
        /// When the timer will fire, if it is set.
        at: Option<Instant>,
        /// Created by the first poll.
        sleep: Option<Pin<Box<Sleep>>>,
    }

    impl super::Alarm for RuntimeAlarm {
        const NEEDS_ITS_TASK: bool = true;

        fn new() -> io::Result<Self> {
            Ok(Self::default())
        }

        fn set(&self, left: Duration) {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.at = Some(Instant::now() + left);
        }

        fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { at, sleep } = &mut *state;
            let Some(until) = *at else {
                return Poll::Pending;
            };
            let sleep = sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if sleep.deadline() != until {
                sleep.as_mut().reset(until);
            }
            let fired = sleep.as_mut().poll(cx);
            if fired.is_ready() {
                *at = None;
            }
            fired
        }
    }
}
