//! Measurements in real time on a machine that has other things to do.
//!
//! A test that measures rates or delays of real processes measures the scheduler too. Where a check
//! fails and threads were held up meanwhile, it says nothing about the code: it is made again. A
//! check that fails on a machine that held nothing up has failed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::sys;

/// So often a check is made at most.
const MOST: u32 = 4;
/// A thread that wakes so late was held up: routers and endpoints were, too.
const HELD_UP: Duration = Duration::from_millis(10);
/// That often a thread looks.
const LOOK: Duration = Duration::from_millis(1);

/// Makes a check that measures in real time, and makes it again where it panics and this machine
/// held threads up by 10 ms or more meanwhile, up to four times in all.
///
/// # Panics
///
/// As `check` does, the last time.
pub fn undisturbed<T>(check: impl Fn() -> T) -> T {
    repeat(|| {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            // One on each of the first 32 processors: a virtual machine may lose one of them alone.
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

/// By how much a thread, on `processor` if it says one, that sleeps for [`LOOK`] at a time woke
/// late at worst.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock and the scheduler are what it measures"
)]
fn latest(over: &AtomicBool, processor: Option<usize>) -> Duration {
    if let Some(processor) = processor
        && sys::stay_on(processor).is_err()
    {
        // It may not be used by this process any more.
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

    /// How often a check is made that fails the first `failures` times, threads held up by `late`,
    /// and whether it passes.
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
