//! A port in front of a modem of another rate, in virtual time. The modem is an oracle in floats: a
//! queue of bytes that it serves at its rate.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const MBIT: f64 = 125_000.0;
/// Time between two steps of the model.
const TICK: u64 = MILLI / 2;

/// A path, and what wants to be sent over it.
struct Path {
    /// Rate of the modem at a time in seconds, in bytes per second.
    modem: fn(f64) -> f64,
    /// Round trip without queue, in milliseconds.
    rtt: fn(f64) -> u64,
    /// Rate of the packets that arrive at the port, in bytes per second.
    demand: fn(f64) -> f64,
    /// Every how many probes one is lost.
    lost: Option<u64>,
    /// Up to how many milliseconds the round trips of probes vary.
    jitter: u64,
    floor: f64,
    ceiling: f64,
    /// The rate that is reported at a time in seconds, which limits the port's.
    reported: fn(f64) -> Option<f64>,
    /// Whether probes change the port's rate.
    measures: bool,
}

const PATH: Path = Path {
    modem: |_| 20.0 * MBIT,
    rtt: |_| 50,
    demand: |_| 1e12,
    lost: None,
    jitter: 0,
    floor: 5.0 * MBIT,
    ceiling: 26.0 * MBIT,
    reported: |_| None,
    measures: true,
};

struct Ran {
    /// Bytes per second that left the modem.
    goodput: f64,
    /// Sorted delays in the modem's queue, in milliseconds.
    delays: Vec<f64>,
    probes: u64,
    estimator: RateEstimator,
}

impl Ran {
    fn delay(&self, percentile: usize) -> f64 {
        self.delays[(self.delays.len() - 1) * percentile / 100]
    }
}

/// Something in the modem's queue that takes no room: a probe, or a ping of a user.
struct Marker {
    /// Bytes that the modem must have sent before it.
    behind: f64,
    since: u64,
    probe: Option<u16>,
}

/// Runs for some seconds, and measures from second `from` on.
fn run(path: &Path, seconds: u64, from: u64) -> Ran {
    let range = RateRange {
        floor: path.floor as u64,
        ceiling: path.ceiling as u64,
    };
    let mut estimator = RateEstimator::new(range, Instant::ZERO);
    let mut queue: VecDeque<Marker> = VecDeque::new();
    let mut answers: VecDeque<(u64, u16)> = VecDeque::new();
    // Bytes that the port has sent, that the modem's queue has taken, and that have left it.
    let (mut sent, mut taken, mut left, mut before) = (0.0, 0.0_f64, 0.0, 0.0);
    let (mut probes, mut delays) = (0, Vec::new());
    let mut report = None;
    for tick in 0..seconds * NANOS / TICK {
        let at = tick * TICK;
        let (now, time) = (Instant::from_nanos(at), at as f64 / 1e9);
        let reported = (path.reported)(time);
        if let Some(rate) = reported.filter(|_| reported != report) {
            estimator.on_report(now, rate as u64);
        }
        report = reported;
        let rate = if path.measures {
            estimator.rate() as f64
        } else {
            path.ceiling
        };
        let rate = rate.min(reported.unwrap_or(rate));
        let arrives = (path.demand)(time).min(rate) * TICK as f64 / 1e9;
        sent += arrives;
        // The modem's buffer takes 600 ms of 20 Mbit/s.
        taken = (taken + arrives).min(left + 12.0 * MBIT);
        left = (left + (path.modem)(time) * TICK as f64 / 1e9).min(taken);
        if at == from * NANOS {
            before = left;
        }
        let mark = |probe| Marker {
            behind: taken,
            since: at,
            probe,
        };
        if at.is_multiple_of(10 * MILLI) {
            queue.push_back(mark(None));
        }
        if estimator.due() <= now {
            let number = estimator.on_probe(now, sent as u64);
            probes += 1;
            if path.lost.is_none_or(|nth| probes % nth != 0) {
                queue.push_back(mark(Some(number)));
            }
        }
        while let Some(marker) = queue.pop_front_if(|marker| marker.behind <= left + 1.0) {
            if let Some(number) = marker.probe {
                // A multiple of an odd number spreads the jitter, and links keep the order.
                let jitter = probes * 7919 % (path.jitter * 1000 + 1) * 1000;
                let due = at + (path.rtt)(time) * MILLI + jitter;
                let last = answers.back().map_or(0, |(last, _)| *last);
                answers.push_back((due.max(last), number));
            } else if marker.since >= from * NANOS {
                delays.push((at - marker.since) as f64 / 1e6);
            }
        }
        while let Some((_, number)) = answers.pop_front_if(|(due, _)| *due <= at) {
            estimator.on_answer(now, number);
        }
    }
    delays.sort_by(f64::total_cmp);
    Ran {
        goodput: (left - before) / (seconds - from) as f64,
        delays,
        probes,
        estimator,
    }
}

/// The ceiling is what an operator would have typed as the rate, 30 % or five times too high.
#[test]
fn a_modem_slower_than_the_ceiling_has_a_short_queue_and_all_its_rate() {
    for (ceiling, rtt) in [
        (26.0, (|_| 50) as fn(f64) -> u64),
        (100.0, |_| 50),
        (26.0, |_| 10),
        (26.0, |_| 200),
    ] {
        let path = Path {
            ceiling: ceiling * MBIT,
            rtt,
            ..PATH
        };
        let ran = run(&path, 60, 10);
        assert!(ran.goodput >= 19.0 * MBIT, "{ceiling}: {}", ran.goodput);
        let (p50, p99, rtt) = (ran.delay(50), ran.delay(99), rtt(0.0));
        let limit = 40.0 + rtt as f64 / 10.0;
        println!("{ceiling} {rtt}: {} {p50} {p99}", ran.goodput / MBIT);
        assert!(p50 <= 10.0 && p99 <= limit, "{ceiling} {rtt}: {p50} {p99}");
    }
}

#[test]
fn a_satellite_link_is_found_within_half_a_minute() {
    let path = Path {
        rtt: |_| 600,
        ..PATH
    };
    let ran = run(&path, 90, 30);
    assert!(ran.goodput >= 18.5 * MBIT, "{}", ran.goodput);
    let (p50, p99) = (ran.delay(50), ran.delay(99));
    assert!(p50 <= 30.0 && p99 <= 150.0, "{p50} {p99}");
}

#[test]
fn slow_and_fast_links_are_measured_like_others() {
    for (modem, floor, ceiling) in [
        ((|_| MBIT) as fn(f64) -> f64, 0.5, 5.0),
        (|_| 500.0 * MBIT, 50.0, 1000.0),
    ] {
        let path = Path {
            modem,
            floor: floor * MBIT,
            ceiling: ceiling * MBIT,
            ..PATH
        };
        let ran = run(&path, 60, 10);
        assert!(ran.goodput >= 0.93 * modem(0.0), "{}", ran.goodput);
        let (p50, p99) = (ran.delay(50), ran.delay(99));
        assert!(p50 <= 15.0 && p99 <= 60.0, "{ceiling}: {p50} {p99}");
        // Probes take a hundredth of the floor at most.
        assert!(ran.probes as f64 * 64.0 / 60.0 <= floor * MBIT / 100.0);
    }
}

#[test]
fn lost_probes_and_jitter_cost_little() {
    for (lost, jitter) in [(Some(20), 0), (Some(7), 0), (None, 5)] {
        let path = Path {
            lost,
            jitter,
            ..PATH
        };
        let ran = run(&path, 60, 10);
        assert!(ran.goodput >= 18.5 * MBIT, "{lost:?} {}", ran.goodput);
        assert!(ran.delay(99) <= 60.0, "{lost:?} {}", ran.delay(99));
    }
}

/// A handover to a satellite that is further away: no queue, although each probe takes longer.
#[test]
fn a_longer_path_is_no_queue() {
    let path = Path {
        rtt: |time| if time < 20.0 { 50 } else { 90 },
        ..PATH
    };
    let ran = run(&path, 60, 25);
    assert!(ran.goodput >= 18.5 * MBIT, "{}", ran.goodput);
}

#[test]
fn packets_that_need_less_than_the_modem_change_nothing() {
    let path = Path {
        demand: |time| if time < 10.0 { 10.0 * MBIT } else { 0.0 },
        ..PATH
    };
    let ran = run(&path, 3600, 0);
    assert_eq!(ran.delays.last(), Some(&0.0));
    // An hour without packets costs a probe each second.
    assert!(ran.probes < 4200, "{}", ran.probes);
    assert!(ran.estimator.rate() >= (10.0 * MBIT) as u64);
}

/// 0 Mbit/s for 2 s of 15 s.
#[test]
fn a_modem_that_pauses_is_used_again_within_seconds() {
    let path = Path {
        modem: |time| {
            if time % 15.0 < 13.0 { 20.0 * MBIT } else { 1.0 }
        },
        ..PATH
    };
    let ran = run(&path, 60, 0);
    assert!(
        ran.goodput >= 0.9 * 20.0 * MBIT * 13.0 / 15.0,
        "{}",
        ran.goodput
    );
}

/// Another rate each second, from 6 to 26 Mbit/s with a mean of 12.6, as satellites that move give.
fn changing(time: f64) -> f64 {
    const RATES: [f64; 15] = [
        6.0, 12.0, 26.0, 8.0, 10.0, 6.0, 18.0, 14.0, 6.0, 22.0, 9.0, 12.0, 7.0, 19.0, 14.0,
    ];
    RATES[time.max(0.0) as usize % RATES.len()] * MBIT
}

#[test]
fn a_modem_whose_rate_changes_each_second_is_followed() {
    let path = Path {
        modem: changing,
        floor: 4.0 * MBIT,
        ..PATH
    };
    let ran = run(&path, 60, 15);
    println!(
        "{} {} {} {}",
        ran.goodput / MBIT,
        ran.delay(50),
        ran.delay(90),
        ran.delay(99)
    );
    assert!(ran.goodput >= 10.0 * MBIT, "{}", ran.goodput);
}

/// The same modem with reports of 98 % of its rate, which are late by up to half a second: a port
/// that also measures sends slower until the queue of a late report is gone.
#[test]
fn the_queue_of_a_late_report_is_drained() {
    let reports: [fn(f64) -> Option<f64>; 4] = [
        |time| Some(0.98 * changing(time)),
        |time| Some(0.98 * changing(time - 0.1)),
        |time| Some(0.98 * changing(time - 0.25)),
        |time| Some(0.98 * changing(time - 0.5)),
    ];
    for reported in reports {
        let path = Path {
            modem: changing,
            floor: 4.0 * MBIT,
            reported,
            ..PATH
        };
        let [alone, both] = [false, true].map(|measures| {
            let ran = run(&Path { measures, ..path }, 60, 15);
            let figures = [
                ran.goodput / MBIT,
                ran.delay(50),
                ran.delay(90),
                ran.delay(99),
            ];
            println!("{measures}: {figures:.1?}");
            figures
        });
        assert!(both[0] >= 0.8 * alone[0] && both[3] <= alone[3] + 1.0);
    }
}

/// Without answers, nobody knows the rate, so it stays as it is.
#[test]
fn a_target_that_stops_answering_lowers_the_rate_once() {
    let mut estimator = run(&PATH, 30, 0).estimator;
    let before = estimator.rate();
    let mut sent = 1 << 40;
    let mut rates = Vec::new();
    let mut now = Instant::from_nanos(30 * NANOS);
    for _ in 0..1000 {
        now = now.max(estimator.due());
        sent += part(estimator.rate(), 25, 1000);
        let _number = estimator.on_probe(now, sent);
        rates.push(estimator.rate());
    }
    rates.dedup();
    assert!(rates.len() <= 2, "{rates:?}");
    assert!(estimator.rate() >= before / 4);
}

proptest! {
    /// Whatever is answered and whenever, the rate stays within its range, and probes are bounded.
    #[test]
    fn answers_of_a_liar_stay_within_the_range(
        steps in prop::collection::vec(
            (0..3_000_000_000u64, any::<u16>(), 0..u64::MAX / 4),
            1..200,
        ),
        floor in 0..u64::MAX,
        ceiling in 0..u64::MAX,
    ) {
        let ceiling = ceiling.max(floor);
        let mut estimator = RateEstimator::new(RateRange { floor, ceiling }, Instant::ZERO);
        let mut now = Instant::ZERO;
        for (wait, number, sent) in steps {
            now += Duration::from_nanos(wait);
            let last = estimator.on_probe(now, sent);
            estimator.on_answer(now, number % (last.max(1)));
            estimator.on_answer(now + Duration::from_nanos(wait / 3), last);
            prop_assert!((floor..=ceiling).contains(&estimator.rate()));
            prop_assert!(estimator.due() > now);
            prop_assert!(estimator.timed.len() <= MOST_PROBES);
        }
    }
}
