//! Real time for the sans-I/O core: a monotonic clock and a timer finer than the runtime's.

use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time;

use tokio::time::Sleep;

use crate::{Duration, Instant};

/// Beyond this the runtime's timer, whose tick is a millisecond, does.
const COARSE: Duration = Duration::from_millis(50);

/// Now, since the first call in this process.
#[expect(clippy::disallowed_methods, reason = "the driver owns the clock")]
pub(super) fn now() -> Instant {
    static EPOCH: OnceLock<time::Instant> = OnceLock::new();
    let since = EPOCH.get_or_init(time::Instant::now).elapsed();
    // Zero is the epoch of no connection: leave room below for arithmetic.
    Instant::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
        + Duration::from_secs(1)
}

/// Unix time in seconds, for tokens that expire.
#[expect(clippy::disallowed_methods, reason = "the driver owns the clock")]
pub(super) fn unix_time() -> Duration {
    time::SystemTime::now()
        .duration_since(time::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Wakes a task at a deadline.
#[derive(Debug, Default)]
pub(super) struct Timer {
    deadline: Option<Instant>,
    coarse: Option<Pin<Box<Sleep>>>,
    #[cfg(target_os = "linux")]
    fine: Option<fine::Fine>,
    use_fine: bool,
}

impl Timer {
    /// Ready once `deadline` has passed; otherwise the task is woken then. A deadline in the past is ready at once.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        deadline: Option<Instant>,
    ) -> Poll<()> {
        let Some(deadline) = deadline else {
            self.deadline = None;
            return Poll::Pending;
        };
        let left = deadline.saturating_since(now);
        if left.is_zero() {
            return Poll::Ready(());
        }
        let armed = self.deadline == Some(deadline);
        self.deadline = Some(deadline);
        if !armed {
            self.use_fine = left < COARSE && self.arm_fine(left);
            if !self.use_fine {
                let at = tokio::time::Instant::now() + left;
                match &mut self.coarse {
                    Some(sleep) => sleep.as_mut().reset(at),
                    None => self.coarse = Some(Box::pin(tokio::time::sleep_until(at))),
                }
            }
        }
        let fired = if self.use_fine {
            self.poll_fine(cx)
        } else {
            self.coarse
                .as_mut()
                .map_or(Poll::Pending, |sleep| sleep.as_mut().poll(cx))
        };
        if fired.is_ready() {
            self.deadline = None;
        }
        fired
    }

    #[cfg(target_os = "linux")]
    fn arm_fine(&mut self, left: Duration) -> bool {
        if self.fine.is_none() {
            self.fine = fine::Fine::new().ok();
        }
        self.fine.as_mut().is_some_and(|fine| fine.arm(left))
    }

    #[cfg(target_os = "linux")]
    fn poll_fine(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.fine
            .as_mut()
            .map_or(Poll::Pending, |fine| fine.poll(cx))
    }

    #[cfg(not(target_os = "linux"))]
    fn arm_fine(&mut self, _left: Duration) -> bool {
        false
    }

    #[cfg(not(target_os = "linux"))]
    fn poll_fine(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

use std::future::Future as _;

/// Pacing wants tens of microseconds: a kernel timer as a descriptor.
#[cfg(target_os = "linux")]
mod fine {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::task::{Context, Poll};

    use rustix::io::Errno;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    use crate::Duration;

    #[derive(Debug)]
    pub(super) struct Fine {
        fd: AsyncFd<OwnedFd>,
    }

    impl Fine {
        pub(super) fn new() -> io::Result<Self> {
            let fd = timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
            )?;
            #[expect(
                unsafe_code,
                reason = "the runtime cannot see that it alone holds the descriptor"
            )]
            // SAFETY: the descriptor is owned, and stays open for as long as it is registered.
            let fd = unsafe { AsyncFd::register(fd) }.map_err(io::Error::from)?;
            Ok(Self { fd })
        }

        pub(super) fn arm(&mut self, left: Duration) -> bool {
            let value = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
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
            timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &spec).is_ok()
        }

        pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
            loop {
                let mut ready = match self.fd.poll_read_ready(cx) {
                    Poll::Ready(Ok(ready)) => ready,
                    // The runtime is shutting down: nobody waits for this timer any more.
                    Poll::Ready(Err(_)) | Poll::Pending => return Poll::Pending,
                };
                let mut expirations = [0; 8];
                match rustix::io::read(self.fd.get_ref(), &mut expirations) {
                    // Armed anew since it was readable.
                    Err(Errno::AGAIN) => ready.clear_ready(),
                    _ => return Poll::Ready(()),
                }
            }
        }
    }
}
