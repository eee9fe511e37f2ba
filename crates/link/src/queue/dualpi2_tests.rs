use proptest::prelude::*;

use super::*;
use crate::testing::{Log, queued};

const MS: u64 = 1_000_000;

fn at(nanos: u64) -> Instant {
    Instant::ZERO + Duration::from_nanos(nanos)
}

fn share(q32: u64) -> f64 {
    q32 as f64 / ONE as f64
}

fn queue(limit: Limit) -> DualPi2<u32> {
    DualPi2::new(DualPi2Config::new(limit))
}

/// A queue whose p′ stays at `base` for one update interval from now on.
fn fixed(base: f64) -> DualPi2<u32> {
    let mut queue = queue(Limit::Packets(1_000_000));
    queue.pi.base = (base * ONE as f64) as u64;
    queue.pi.due = Instant::FAR_FUTURE;
    queue
}

/// A packet of 1500 bytes with a unique number and this ECN field.
fn push(queue: &mut DualPi2<u32>, now: u64, ecn: Ecn, log: &mut Log) -> Pushed {
    let id = u32::try_from(queue.depth().packets).unwrap() * 4 + ecn as u32;
    queue.push(at(now), queued(id, 1500, at(now)), log)
}

fn ecn(packet: u32) -> Ecn {
    Ecn::from_bits(packet.to_be_bytes()[3])
}

/// The update of RFC 9332, appendix A.1, in seconds.
struct Oracle {
    base: f64,
    delay: f64,
}

impl Oracle {
    fn update(&mut self, delay: f64) {
        let change = 0.16 * (delay - 0.015) + 3.2 * (delay - self.delay);
        self.base = (self.base + change).clamp(0.0, 1.0);
        self.delay = delay;
    }
}

proptest! {
    #[test]
    fn pi_is_that_of_the_rfc(delays in prop::collection::vec(0u64..400_000_000, 1..300)) {
        let (mut pi, mut oracle) = (Pi::default(), Oracle { base: 0.0, delay: 0.0 });
        for delay in delays {
            pi.update(delay, Duration::from_millis(15));
            oracle.update(delay as f64 / 1e9);
            prop_assert!((share(pi.base) - oracle.base).abs() < 1e-6);
            prop_assert!((share(pi.classic()) - oracle.base.powi(2)).abs() < 1e-5);
            prop_assert!((share(pi.coupled()) - 2.0 * oracle.base).abs() < 1e-5);
        }
    }

    /// Every packet waits, leaves or is dropped, whatever its ECN field. Not-ECT is never marked.
    #[test]
    fn packets_are_conserved(
        steps in prop::collection::vec((0u64..5_000_000, 0u32..8), 1..600),
        limit in 1u64..200,
    ) {
        let (mut queue, mut log) = (queue(Limit::Packets(limit)), Log::default());
        let (mut now, mut pushed, mut left, mut early) = (0, 0u64, 0u64, 0u64);
        for (gap, step) in steps {
            now += gap;
            if step < 5 {
                pushed += 1;
                let id = u32::try_from(pushed).unwrap() * 4 + (step & 3);
                queue.push(at(now), queued(id, 1500, at(now)), &mut log);
            } else {
                let popped = queue.pop(at(now), &mut log);
                left += u64::from(popped.item.is_some());
                early += popped.dropped;
            }
            prop_assert_eq!(pushed, left + queue.depth().packets + log.drops.len() as u64);
            prop_assert!(queue.depth().packets <= limit);
        }
        let counted = log.drops.iter().filter(|(_, cause)| *cause == DropCause::Early).count();
        prop_assert_eq!(early, counted as u64);
        prop_assert!(log.ce.iter().all(|id| ecn(*id) != Ecn::NotEct));
    }
}

/// Worked out by hand: a queue of 30 ms after an empty one gives 0.16 · 0.015 + 3.2 · 0.03.
#[test]
fn one_update_by_hand() {
    let mut pi = Pi::default();
    pi.update(30 * MS, Duration::from_millis(15));
    assert!((share(pi.base) - 0.0984).abs() < 1e-9);
    assert!((share(pi.classic()) - 0.009_682_56).abs() < 1e-9);
    assert!((share(pi.coupled()) - 0.1968).abs() < 1e-9);
    // At the target, nothing changes any more.
    pi.update(15 * MS, Duration::from_millis(15));
    let base = pi.base;
    pi.update(15 * MS, Duration::from_millis(15));
    assert_eq!(pi.base, base);
}

/// Shares of 10,000 packets that leave a standing queue: marked, dropped.
fn signals(base: f64, field: Ecn) -> (f64, f64) {
    let (mut queue, mut log) = (fixed(base), Log::default());
    for _ in 0..10_010 {
        push(&mut queue, 0, field, &mut log);
    }
    while queue.depth().packets > 10 {
        queue.pop(at(0), &mut log);
    }
    (log.ce.len() as f64 / 1e4, log.drops.len() as f64 / 1e4)
}

#[test]
fn classic_signals_are_the_square_and_low_latency_marks_twice_the_base() {
    let near = |(marks, drops): (f64, f64), expected: (f64, f64)| {
        assert!((marks - expected.0).abs() < 1e-3, "{marks} {expected:?}");
        assert!((drops - expected.1).abs() < 1e-3, "{drops} {expected:?}");
    };
    for base in [0.0, 0.05, 0.1, 0.4] {
        near(signals(base, Ecn::NotEct), (0.0, base * base));
        near(signals(base, Ecn::Ect0), (base * base, 0.0));
        near(signals(base, Ecn::Ect1), (2.0 * base, 0.0));
        near(signals(base, Ecn::Ce), (2.0 * base, 0.0));
    }
}

/// Marks no longer count, so all packets are dropped alike: 25 % at p_Cmax, more beyond.
#[test]
fn overload_drops_whatever_the_field() {
    for (base, drops) in [(0.5, 0.25), (0.8, 0.64)] {
        for field in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
            let (marked, dropped) = signals(base, field);
            assert!((dropped - drops).abs() < 1e-3, "{field:?}: {dropped}");
            let rest = if field == Ecn::Ect1 { 1.0 - drops } else { 0.0 };
            assert!((marked - rest).abs() < 1e-3, "{field:?}: {marked}");
        }
    }
}

#[test]
fn the_step_marks_what_waited_longer_unless_nothing_waits_behind_it() {
    let marked = |waited: u64, packets: u32| {
        let (mut queue, mut log) = (fixed(0.0), Log::default());
        for _ in 0..packets {
            push(&mut queue, 0, Ecn::Ect1, &mut log);
        }
        queue.pop(at(waited), &mut log);
        log.ce.len()
    };
    assert_eq!(marked(MS, 2), 0);
    assert_eq!(marked(MS + 1, 2), 1);
    assert_eq!(marked(9 * MS, 1), 0, "a slow link's only packet");
}

#[test]
fn low_latency_goes_first_and_leaves_a_tenth_to_classic_packets() {
    let (mut queue, mut log) = (fixed(0.0), Log::default());
    for _ in 0..1000 {
        push(&mut queue, 0, Ecn::NotEct, &mut log);
        push(&mut queue, 0, Ecn::Ect1, &mut log);
    }
    let mut next = || ecn(queue.pop(at(0), &mut log).item.unwrap().packet);
    assert_eq!(next(), Ecn::Ect1);
    let classic = (1..1000).filter(|_| next() == Ecn::NotEct).count();
    assert!((98..=101).contains(&classic), "{classic}");
}

#[test]
fn both_queues_share_one_limit_and_runs_are_cut() {
    let (mut queue, mut log) = (queue(Limit::Bytes(4500)), Log::default());
    for field in [Ecn::Ect1, Ecn::NotEct, Ecn::Ect0] {
        assert_eq!(push(&mut queue, 0, field, &mut log), Pushed::Queued);
    }
    let full = Pushed::Dropped(DropCause::QueueFull);
    assert_eq!(push(&mut queue, 0, Ecn::Ect1, &mut log), full);
    assert!(!queue.takes_whole(2, 100));
}

/// p′ falls by 0.16 · 0.015 per update of an empty queue, also without any packet in between.
#[test]
fn pauses_count_as_an_empty_queue() {
    let (mut queue, mut log) = (queue(Limit::Packets(100)), Log::default());
    let half_second = 500 * MS;
    push(&mut queue, 0, Ecn::NotEct, &mut log);
    queue.pop(at(100 * MS), &mut log);
    let full = queue.pi.base;
    assert!(share(full) > 0.3);
    queue.pop(at(100 * MS + half_second), &mut log);
    let (mut oracle, mut time) = (
        Oracle {
            base: 0.0,
            delay: 0.0,
        },
        16 * MS,
    );
    while time <= 100 * MS + half_second {
        oracle.update(if time <= 100 * MS {
            time as f64 / 1e9
        } else {
            0.0
        });
        time += 16 * MS;
    }
    assert!((share(queue.pi.base) - oracle.base).abs() < 1e-6);
    // However long the pause.
    queue.pop(at(u64::MAX / 4), &mut log);
    assert_eq!(queue.pi.base, 0);
}
