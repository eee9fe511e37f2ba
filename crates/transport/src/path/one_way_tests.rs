//! Measurable queues, and clocks that drift, step, or report arbitrary times.

use proptest::prelude::*;

use super::*;

/// Propagation delay of each direction, in ms.
const WAY: u64 = 20;

/// A path and a clock, with their effect on packet `n`, which is sent `n` × `every` ms after the
/// first.
struct Path<A, B, C> {
    every: u64,
    /// Queues in both directions, in µs.
    there: A,
    back: B,
    /// Time of the peer's clock `true_time` µs after the start.
    clock: C,
}

fn honest(start: u64, ppm: i64) -> impl Fn(u64) -> i64 {
    move |time| {
        let time = i64::try_from(start + time).unwrap();
        time + time / 1000 * ppm / 1000
    }
}

impl<A: Fn(u64) -> u64, B: Fn(u64) -> u64, C: Fn(u64) -> i64> Path<A, B, C> {
    fn new(every: u64, there: A, back: B, clock: C) -> Self {
        Self {
            every,
            there,
            back,
            clock,
        }
    }

    fn run(&self, one_way: &mut OneWayDelay, count: u64) -> Vec<Option<u64>> {
        let mut least = u64::MAX;
        (0..count)
            .map(|n| {
                let sent = 1_000_000 + n * self.every * 1000;
                let arrived = sent + WAY * 1000 + (self.there)(n);
                let returned = arrived + WAY * 1000 + (self.back)(n);
                least = least.min(returned - sent);
                let shown = (self.clock)(arrived).rem_euclid(i64::from(TIME_MODULUS));
                let sample = Sample {
                    sent_at: Instant::from_micros(sent),
                    arrived: u32::try_from(shown).unwrap(),
                    rtt: Duration::from_micros(returned - sent),
                    min_rtt: Duration::from_micros(least),
                };
                let queued = one_way.on_sample(Instant::from_micros(returned), &sample);
                queued.map(|queued| u64::try_from(queued.as_micros()).unwrap())
            })
            .collect()
    }
}

const fn nothing(_: u64) -> u64 {
    0
}

#[test]
fn queues_show_whatever_the_clocks_say() {
    for start in [0, 1, 123_456_789, (1 << 30) - 1_020_000] {
        let mut one_way = OneWayDelay::new();
        let queues = [2000, 2000, 17_000, 72_000, 2000, 0];
        let path = Path::new(10, |n| queues[n as usize], nothing, honest(start, 0));
        let queued = path.run(&mut one_way, 6);
        for (queued, expected) in queued.into_iter().zip([0, 0, 15_000, 70_000, 0, 0]) {
            let queued = queued.unwrap();
            let off = queued.abs_diff(expected);
            assert!(off < 20, "{start}: {queued} {expected}");
        }
        assert_eq!(one_way.steps(), 0);
    }
}

#[test]
fn queues_on_the_way_back_are_not_the_senders_doing() {
    let mut one_way = OneWayDelay::new();
    let path = Path::new(10, |n| 3000 * (n % 2), |n| 1000 * (n % 150), honest(7, 0));
    let queued = path.run(&mut one_way, 1000);
    assert!(queued.iter().all(|queued| queued.unwrap() <= 3020));
    // A queue longer than the way back can account for counts as one on the way there.
    let late = |n| if n < 10 { 0 } else { 900_000 };
    let path = Path::new(10, nothing, late, honest(7, 0));
    let queued = path.run(&mut OneWayDelay::new(), 20);
    assert_eq!(queued[9], Some(0));
    assert_eq!(queued[15], Some(700_000));
}

#[test]
fn drifting_clocks_are_no_queue() {
    for ppm in [-200, -50, 50, 190] {
        // In an hour, the clock wraps three times.
        let mut one_way = OneWayDelay::new();
        let path = Path::new(100, |n| 1000 * (n % 3), nothing, honest(7, ppm));
        let queued = path.run(&mut one_way, 36_000);
        assert!(queued.iter().all(|queued| queued.unwrap() < 3000), "{ppm}");
        assert_eq!(one_way.steps(), 0, "{ppm}");
    }
    let queue = |n| if n < 100 { 0 } else { 40_000 };
    let path = Path::new(100, queue, nothing, honest(7, 0));
    let standing = path.run(&mut OneWayDelay::new(), 600);
    let seen = |queued: &Option<u64>| (28_000..=40_000).contains(&queued.unwrap());
    assert!(standing[100..].iter().all(seen));
}

#[test]
fn no_clock_of_a_host_drifts_by_more_than_1000_ppm() {
    for (ppm, used) in [(-900, true), (900, true), (-5000, false), (5000, false)] {
        let mut one_way = OneWayDelay::new();
        let path = Path::new(10, nothing, nothing, honest(7, ppm));
        let _ = path.run(&mut one_way, 6000);
        assert_eq!(!one_way.given_up(), used, "{ppm}");
        assert_eq!(one_way.steps() == 0, used, "{ppm}");
    }
}

/// Otherwise, this would always appear as an empty queue.
#[test]
fn a_clock_that_runs_backwards_is_not_used() {
    let mut one_way = OneWayDelay::new();
    let clock = |time| -i64::try_from(time).unwrap();
    let path = Path::new(10, |n: u64| 100 * n.min(1000), nothing, clock);
    let queued = path.run(&mut one_way, 1000);
    assert!(one_way.given_up());
    // Any increase of the round trip then counts as a queue.
    for (n, queued) in queued.iter().enumerate().skip(60) {
        assert_eq!(*queued, Some(100 * n as u64));
    }
}

#[test]
fn a_step_begins_a_new_base_and_is_counted() {
    for step in [-3_000_000, -80_000, 80_000, 3_000_000, 300_000_000] {
        let mut one_way = OneWayDelay::new();
        let there = |n| if n % 20 < 10 { 0 } else { 30_000 };
        let clock = move |time| {
            let time = i64::try_from(time).unwrap();
            if time < 2_000_000 { time } else { time + step }
        };
        let path = Path::new(10, there, nothing, clock);
        let queued = path.run(&mut one_way, 400);
        assert_eq!((one_way.steps(), one_way.given_up()), (1, false), "{step}");
        assert_eq!(queued.iter().filter(|q| q.is_none()).count(), 1, "{step}");
        for (n, queued) in queued.iter().enumerate().skip(160) {
            let off = queued.unwrap().abs_diff(there(n as u64));
            assert!(off < 1000, "{step}: {n} {queued:?}");
        }
    }
}

#[test]
fn steps_that_come_often_end_the_use_of_the_clock_and_rare_ones_do_not() {
    for (seconds, used) in [(100, false), (400, true)] {
        let mut one_way = OneWayDelay::new();
        let clock = |time| {
            let steps = time / (seconds * 1_000_000);
            i64::try_from(time + steps * 70_000).unwrap()
        };
        let path = Path::new(1000, nothing, nothing, clock);
        path.run(&mut one_way, 3000);
        assert_eq!(!one_way.given_up(), used, "every {seconds} s");
        assert!(one_way.steps() >= 3);
    }
}

proptest! {
    /// With honest clocks and arbitrary queues, no step is detected, and no queue that doesn't
    /// exist.
    #[test]
    fn honest_peers_are_believed(
        ppm in -200..=200i64,
        start in 0..1u64 << 40,
        queues in prop::collection::vec((0..100_000u64, 0..50_000u64), 2..300),
    ) {
        let mut one_way = OneWayDelay::new();
        let (there, back) = (|n| queues[n as usize].0, |n| queues[n as usize].1);
        let path = Path::new(50, there, back, honest(start, ppm));
        let count = queues.len() as u64;
        let queued = path.run(&mut one_way, count);
        prop_assert_eq!(one_way.steps(), 0);
        for (queued, &(there, _)) in queued.iter().zip(&queues) {
            prop_assert!(queued.unwrap() <= there + 10_000);
        }
    }

    /// Whatever a clock shows, there's no panic. The result is never more than the increase of the
    /// round trip, and never less than the part for which the way back can't account.
    #[test]
    fn any_clock(
        samples in prop::collection::vec(
            (0..1u64 << 40, any::<u32>(), 1..5_000_000u64, 1..5_000_000u64), 1..100,
        ),
    ) {
        let mut one_way = OneWayDelay::new();
        let mut now = Instant::from_micros(0);
        for (sent, arrived, rtt, min_rtt) in samples {
            now = now.max(Instant::from_micros(sent + rtt));
            let sample = Sample {
                sent_at: Instant::from_micros(sent),
                arrived,
                rtt: Duration::from_micros(rtt),
                min_rtt: Duration::from_micros(min_rtt),
            };
            if let Some(queued) = one_way.on_sample(now, &sample) {
                let excess = Duration::from_micros(rtt.saturating_sub(min_rtt));
                prop_assert!(queued <= excess);
                let back = Duration::from_millis(200).max(2 * sample.min_rtt);
                prop_assert!(queued + back >= excess);
            }
        }
    }
}
