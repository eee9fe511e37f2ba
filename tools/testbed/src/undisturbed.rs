//! Real-time measurements on a machine that also does other work.
//!
//! A test that measures rates or delays of real processes also measures the scheduler. If a check
//! fails while threads were held up, this says nothing about the code, so the check is repeated. If
//! it fails without any delays, it has failed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::sys;

/// Largest number of attempts per check.
const MOST: u32 = 4;
/// A thread that wakes this late was held up, so routers and endpoints were held up as well.
const HELD_UP: Duration = Duration::from_millis(10);
/// How long a thread sleeps before it checks again.
const LOOK: Duration = Duration::from_millis(1);

/// Runs a check that measures in real time. If the check panics while this machine held threads up
/// by 10 ms or more, it is repeated, up to four attempts in all.
///
/// # Panics
///
/// If `check` panics in the last attempt.
pub fn undisturbed<T>(check: impl Fn() -> T) -> T {
    repeat(|| {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            // One thread on each of the first 32 processors, because a virtual machine may lose a
            // single processor.
            let processors = sys::processors().unwrap_or_default();
            let pinned = processors
                .into_iter()
                .take(32)
                .map(Some)
                .chain([None])
                .map(|processor| {
                    let over = &over;
                    scope.spawn(move || latest(over, processor))
                });
            let watches: Vec<_> = pinned.collect();
            let outcome = catch_unwind(AssertUnwindSafe(&check));
            over.store(true, Ordering::Relaxed);
            let late = watches
                .into_iter()
                .map(|watch| watch.join().unwrap_or_default());
            (outcome, late.max().unwrap_or_default())
        })
    })
}

fn repeat<T>(mut once: impl FnMut() -> (thread::Result<T>, Duration)) -> T {
    let mut times = 1;
    loop {
        match once() {
            (Ok(done), _) => return done,
            (Err(panic), late) if late < HELD_UP || times == MOST => resume_unwind(panic),
            (Err(_), late) => {
                times += 1;
                eprintln!("threads were held up by {late:?} meanwhile: time {times} of {MOST}");
            }
        }
    }
}

/// Returns the largest delay with which a thread that repeatedly sleeps for [`LOOK`] wakes up. It
/// runs on `processor` if this is given.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock and the scheduler are what it measures"
)]
fn latest(over: &AtomicBool, processor: Option<usize>) -> Duration {
    if let Some(processor) = processor
        && sys::stay_on(processor).is_err()
    {
        // This process may not be allowed to use it any more.
        return Duration::ZERO;
    }
    let mut latest = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let before = Instant::now();
        thread::sleep(LOOK);
        latest = latest.max(before.elapsed().saturating_sub(LOOK));
    }
    latest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a check that fails the first `failures` times while threads are held up by `late`.
    /// Returns the number of attempts and whether the check passes.
    fn run(failures: u32, late: Duration) -> (u32, bool) {
        let mut times = 0;
        let passes = catch_unwind(AssertUnwindSafe(|| {
            repeat(|| {
                times += 1;
                let outcome = if times <= failures {
                    Err(Box::new("it failed") as Box<dyn std::any::Any + Send>)
                } else {
                    Ok(())
                };
                (outcome, late)
            });
        }));
        (times, passes.is_ok())
    }

    #[test]
    fn a_check_is_made_again_only_where_threads_were_held_up() {
        let quiet = Duration::from_millis(9);
        assert_eq!(run(0, Duration::ZERO), (1, true));
        assert_eq!(run(0, HELD_UP), (1, true));
        assert_eq!(run(1, quiet), (1, false));
        assert_eq!(run(1, HELD_UP), (2, true));
        assert_eq!(run(3, HELD_UP), (4, true));
        assert_eq!(run(4, HELD_UP), (4, false), "not for ever");
    }

    #[test]
    fn a_watch_stays_on_its_processor() {
        let all = sys::processors().unwrap();
        assert!(!all.is_empty());
        for processor in all {
            thread::spawn(move || {
                sys::stay_on(processor).unwrap();
                assert_eq!(sys::processors().unwrap(), [processor]);
            })
            .join()
            .unwrap();
        }
        assert!(sys::stay_on(usize::MAX).is_err());
    }

    #[test]
    fn what_the_check_returns_and_says_is_handed_on() {
        assert_eq!(undisturbed(|| 7), 7);
        let said = catch_unwind(|| undisturbed(|| panic!("as the check does"))).unwrap_err();
        assert_eq!(said.downcast_ref::<&str>(), Some(&"as the check does"));
    }
}
