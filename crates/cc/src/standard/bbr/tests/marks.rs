//! Marks in the IP header count as congestion.

use super::path::{MTU, Run};
use crate::base::Instant;
use crate::law::Controller;
use crate::standard::bbr::model::{NONE, State};

/// Mean queue in bytes over `ms`, and the delivery rate in bytes per second.
fn queue_and_goodput(run: &mut Run, ms: u64) -> (u64, u64) {
    let (mut sum, mut looks) = (0, 0);
    let before = run.delivered;
    run.run(ms, |run| {
        sum += run.waiting();
        looks += 1;
    });
    (sum / looks, (run.delivered - before) * 1000 / ms)
}

/// 40 Mbit/s, 50 ms, a buffer of four BDP, and marks above a tenth of a BDP. Startup ends with the
/// first marks, so the queue is always shorter than without marks, while the rate is the same.
#[test]
fn a_queue_that_marks_stays_shorter() {
    let bdp = 40 * 125_000 / 20;
    let of = |mark_from| {
        let mut run = Run::new(40, 50, 4 * bdp / MTU);
        run.mark_from = mark_from;
        let mut longest = 0;
        run.run(2_000, |run| longest = longest.max(run.waiting()));
        let (mean, goodput) = queue_and_goodput(&mut run, 30_000);
        assert_eq!(run.drops, 0);
        (longest, mean, goodput)
    };
    let (longest, mean, goodput) = of(NONE);
    let marked = of(bdp / 10);
    assert!(marked.0 < longest, "{marked:?} {longest}");
    // Packets rarely wait in either case.
    assert!(marked.1.max(mean) < 2 * MTU, "{marked:?} {mean}");
    assert!(marked.2 > goodput / 10 * 9, "{marked:?} {goodput}");
}

/// One mark while the rate is kept: the bounds fall once, at the end of the round trip, and a
/// spurious loss does not restore them.
#[test]
fn marks_of_a_round_trip_lower_the_bounds_once_and_for_good() {
    let mut run = Run::until(State::Cruise);
    assert_eq!(run.bbr.bounds.short, NONE);
    let now = Instant::from_nanos(run.now);
    run.bbr.on_congestion_experienced(now, now, u64::MAX);
    run.run(150, |_| ());
    let short = run.bbr.bounds.short;
    assert_ne!(short, NONE);
    // Marks of packets sent before the response have no effect.
    run.bbr.on_congestion_experienced(now, now, u64::MAX);
    run.run(150, |_| ());
    run.bbr.on_spurious_loss(Instant::from_nanos(run.now));
    assert_eq!(run.bbr.bounds.short, short);
}

/// A mark ends a probe like a loss of more than 2 %.
#[test]
fn a_mark_ends_a_probe() {
    let mut run = Run::until(State::Up);
    run.run(40, |_| ());
    assert_eq!((run.bbr.state, run.bbr.bounds.long), (State::Up, NONE));
    let now = Instant::from_nanos(run.now);
    run.bbr.on_congestion_experienced(now, now, u64::MAX);
    assert_eq!(run.bbr.state, State::Down);
    let target = run.bbr.target();
    let range = target / 10 * 7..=run.bbr.window();
    let long = run.bbr.bounds.long;
    assert!(range.contains(&long), "{long} {target}");
}
