//! The link half against known answers, the papers' form in `f64`, and senders that mean harm.

use proptest::prelude::*;

use super::efficiency::{aggregate, rate_q16, to_q16};
use super::fairness::{Pools, Settled, shuffle};
use super::oracle::{Header, Router, WindowRouter};
use super::standing::{StandingQueue, look_ns};
use super::sums::x_of;
use super::{WindowForm, XcpCapacity, XcpLink, XcpLinkMetrics, XcpLinkParams};
use crate::testing::ms;
use crate::{
    Answer, Arrival, Carried, Duration, Instant, LinkController, VcpCarried, VcpCode, XcpAnswer,
    XcpCarried,
};

const CAPACITY: u64 = 12_500_000;

/// As published.
fn published() -> XcpLinkParams {
    XcpLinkParams {
        guard: false,
        ..XcpLinkParams::default()
    }
}

fn packet(flow_hash: u32, bytes: u32, header: XcpCarried) -> Arrival {
    Arrival {
        bytes,
        flow_hash,
        carried: Carried::Xcp(header),
    }
}

fn stamp(answer: Answer) -> XcpAnswer {
    match answer {
        Answer::Xcp(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn metrics(link: &XcpLink) -> XcpLinkMetrics {
    link.metrics().xcp.expect("an XCP port")
}

// --- Known answers
// -------------------------------------------------------------------------------------------------

/// An interval of 100 ms at 12.5 MB/s, 1500-byte packets: groups of (packets, X in 2^-40 s).
fn pools(groups: &[(u64, u64)], queue: u64, mean_rtt_us: u64) -> (i64, Pools) {
    let packets: u64 = groups.iter().map(|(packets, _)| packets).sum();
    let sum_x = groups.iter().map(|(n, x)| u128::from(n * x)).sum();
    let input = rate_q16(packets * 1500, 100_000_000);
    let params = XcpLinkParams::default();
    let total = aggregate(&params, to_q16(CAPACITY), input, queue, mean_rtt_us);
    let moved = shuffle(params.shuffle_ppm, input, total, u64::MAX);
    (total, Pools::new(total, moved, sum_x, packets * 1500))
}

const EAGER: i64 = 1 << 61;

/// What the first packet of an interval gets, and what remains of the pools.
fn first(mut pools: Pools, wanted: i64, x: u64) -> (Settled, u64, u64) {
    let settled = pools.settle(wanted, x, 1500);
    (settled, pools.positive_left(), pools.negative_left())
}

/// The reciprocals may cost one unit of what is given and of what is taken.
fn near(got: i64, want: i64) {
    assert!((want - 2..=want).contains(&got), "{got}, not {want}");
}

#[test]
fn spare_bandwidth_is_given() {
    let (slow, fast) = (1_099_511_627, 274_877_906);
    let (total, pools) = pools(&[(100, slow), (400, fast)], 30_000, 75_000);
    assert_eq!(total, 125_147_545_600);
    assert_eq!(pools.positive_left(), 125_147_545_600);
    assert_eq!(pools.negative_left(), 0);
    near(first(pools, EAGER, slow).0.delta, 625_737_728);
    near(first(pools, EAGER, fast).0.delta, 156_434_431);
    // Whoever wants less leaves the rest in the pool.
    let (settled, positive, negative) = first(pools, 5000 << 16, slow);
    assert_eq!((settled.delta, settled.bounding), (5000 << 16, false));
    assert_eq!(positive >> 16, 1_904_600);
    assert_eq!(negative, 0);
}

#[test]
fn a_full_link_is_shuffled() {
    let (slow, fast) = (3_665_038_759, 137_438_953);
    let (total, pools) = pools(&[(30, slow), (800, fast)], 0, 100_000);
    assert_eq!(total, 1_310_720_000);
    assert_eq!(pools.positive_left(), 81_592_320_000);
    assert_eq!(pools.negative_left(), 80_281_600_000);
    let (settled, positive, negative) = first(pools, EAGER, slow);
    near(settled.delta, 1_359_872_002 - 96_724_820);
    assert!(settled.bounding);
    assert_eq!((81_592_320_000 - positive) >> 16, 20_750);
    assert_eq!((80_281_600_000 - negative) >> 16, 1475);
    near(first(pools, EAGER, fast).0.delta, 50_995_199 - 96_724_820);
    // Wants 1000: 18 274.1 more are taken than its bytes call for.
    let (settled, positive, negative) = first(pools, 1000 << 16, slow);
    assert_eq!((settled.delta, settled.bounding), (1000 << 16, false));
    assert_eq!((positive >> 16, negative >> 16), (1_224_249, 1_205_249));
    let (settled, positive, negative) = first(pools, -5000 << 16, fast);
    assert_eq!((settled.delta, settled.bounding), (-5000 << 16, false));
    assert_eq!((positive >> 16, negative >> 16), (1_244_221, 1_219_221));
}

#[test]
fn overload_is_taken_back() {
    let (slow, fast) = (549_755_813, 137_438_953);
    let (total, pools) = pools(&[(200, slow), (800, fast)], 150_000, 99_999);
    assert_eq!(total, -87_752_926_169);
    assert_eq!(pools.positive_left(), 10_551_073_831);
    assert_eq!(pools.negative_left(), 98_304_000_000);
    near(first(pools, EAGER, slow).0.delta, 26_377_684 - 98_304_000);
    near(first(pools, EAGER, fast).0.delta, 6_594_421 - 98_304_000);
}

#[test]
fn the_queue_is_watched_for_half_of_what_remains_of_a_round_trip() {
    assert_eq!(look_ns(75_000, 30_000, CAPACITY), 36_300_000);
    assert_eq!(look_ns(3_000, 0, CAPACITY), 2_000_000);
    assert_eq!(look_ns(75_000, u64::MAX, 1), 2_000_000);

    let at = Instant::from_millis;
    let mut queue = StandingQueue::new(at(0));
    for (time, bytes) in [(0, 9000), (10, 4000), (20, 6000), (38, 8000)] {
        queue.sample(at(time), bytes, 75_000, CAPACITY);
    }
    assert_eq!(queue.bytes(), 4000, "the least of the look that ended");
    queue.sample(at(60), 3000, 75_000, CAPACITY);
    assert_eq!(queue.bytes(), 4000);
    queue.sample(at(76), 5000, 75_000, CAPACITY);
    assert_eq!(queue.bytes(), 3000);
}

// --- Intervals, idleness, capacity
// --------------------------------------------------------------------------------------

#[test]
fn the_first_packets_after_idleness_are_given_at_most_one_interval_of_the_share() {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, XcpLinkParams::default());
    let header = XcpCarried {
        rtt_us: 100_000,
        x: x_of(ms(10)),
        delta: EAGER,
        covers: 1,
        cloud: None,
    };
    let mut given = 0;
    for n in 0..20u32 {
        // Twenty senders with ten packets per round trip each.
        let now = Instant::from_millis(1000 + u64::from(n));
        let arrival = packet(n, 1500, header);
        link.on_arrival(now, &arrival, 0);
        let answer = stamp(link.on_departure(now, &arrival, 0));
        assert!(answer.bounding && answer.delta >= 0);
        given += answer.delta >> 16;
    }
    let most = 4 * i64::try_from(CAPACITY).unwrap() / 5;
    assert!((most * 99 / 100..=most).contains(&given), "{given}");
    // As published they are given nothing before an interval has passed.
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, published());
    let arrival = packet(1, 1500, header);
    link.on_arrival(Instant::from_millis(1000), &arrival, 0);
    let answer = stamp(link.on_departure(Instant::from_millis(1000), &arrival, 0));
    assert_eq!(answer.delta, 0);
}

/// The port's interval and mean RTT after each packet of one flow, from its first on.
fn intervals(params: XcpLinkParams, rtt_us: u32, packets: u64) -> Vec<(Duration, Duration)> {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, params);
    let header = XcpCarried {
        rtt_us,
        x: u64::from(rtt_us) * 1_099_512 / 100,
        delta: EAGER,
        covers: 1,
        cloud: None,
    };
    let mut seen: Vec<(Duration, Duration)> = Vec::new();
    for n in 0..packets {
        let now = Instant::from_micros(1_000_000 + n * u64::from(rtt_us) / 100);
        link.on_arrival(now, &packet(1, 1500, header), 0);
        let state = metrics(&link);
        let pair = (state.interval, state.mean_rtt);
        if seen.last() != Some(&pair) {
            seen.push(pair);
        }
    }
    seen
}

#[test]
fn a_port_that_wakes_begins_with_its_own_interval_and_doubles_it_at_most() {
    let seen = intervals(XcpLinkParams::default(), 3_000_000, 1000);
    assert_eq!(seen[0], (ms(50), ms(50)));
    assert_eq!(seen.last().unwrap(), &(ms(3000), ms(3000)));
    for pair in seen.windows(2) {
        assert!(
            pair[1].0 <= 2 * pair[0].0 && pair[1].1 <= 2 * pair[0].1,
            "{seen:?}"
        );
    }
    // Shorter ones count at once.
    let seen = intervals(XcpLinkParams::default(), 5_000, 1000);
    assert_eq!(seen, [(ms(50), ms(50)), (ms(10), ms(5))]);
    // As published, what one interval shows is the next one's length.
    let seen = intervals(published(), 3_000_000, 1000);
    assert_eq!(seen, [(ms(50), ms(50)), (ms(3000), ms(3000))]);
}

#[test]
fn a_long_interval_ends_within_seconds_of_shorter_round_trips() {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, XcpLinkParams::default());
    let header = |rtt_us: u32| XcpCarried {
        rtt_us,
        x: u64::from(rtt_us) * 1_099_512 / 100,
        delta: EAGER,
        covers: 1,
        cloud: None,
    };
    let mut now = 0;
    while metrics(&link).interval < ms(30_000) {
        now += 300;
        link.on_arrival(
            Instant::from_millis(now),
            &packet(1, 1500, header(30_000_000)),
            0,
        );
    }
    let since = now;
    while metrics(&link).interval > ms(200) {
        now += 1;
        link.on_arrival(
            Instant::from_millis(now),
            &packet(1, 1500, header(100_000)),
            0,
        );
        assert!(now - since <= 4_000, "{:?}", metrics(&link));
    }
}

/// Mean RTT of a port at 20 Mbit/s whose packets tell 50 ms, of which one in `each` is replaced by
/// a forged one of 84 bytes.
fn mean_rtt_beside(params: XcpLinkParams, forged: XcpCarried, each: u64) -> Duration {
    let mut link = XcpLink::new(Instant::ZERO, 2_500_000, params);
    let honest = XcpCarried {
        rtt_us: 50_000,
        x: x_of(ms(50)) * 4 / 83,
        delta: EAGER,
        covers: 1,
        cloud: None,
    };
    let mut worst = ms(50);
    for n in 1..10_000u64 {
        let arrival = if n % each == 0 {
            packet(9, 84, forged)
        } else {
            packet((n % 4) as u32, 1500, honest)
        };
        let now = Instant::from_micros(600 * n);
        link.on_arrival(now, &arrival, 0);
        let _ = link.on_departure(now, &arrival, 0);
        // The first interval, which has nothing to go by, may be off by twice.
        if n > 1000 {
            worst = worst.max(metrics(&link).mean_rtt);
        }
    }
    worst
}

#[test]
fn few_bytes_move_the_mean_rtt_by_little() {
    let huge = XcpCarried {
        rtt_us: u32::MAX,
        x: u64::MAX,
        delta: EAGER,
        covers: u16::MAX,
        cloud: None,
    };
    // One in 500 packets, of 84 bytes: 0.01 % of the bytes; one in 50: 0.1 %.
    for (each, most) in [(500, 53), (50, 60)] {
        let mean = mean_rtt_beside(XcpLinkParams::default(), huge, each);
        assert!(mean <= ms(most), "1 in {each}: {mean:?}");
    }
    // As published, everything is believed.
    let mean = mean_rtt_beside(published(), huge, 500);
    assert!(mean >= ms(60_000), "{mean:?}");
}

#[test]
fn after_a_drop_nothing_is_given_until_an_interval_without_drops_has_passed() {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, XcpLinkParams::default());
    let header = XcpCarried {
        rtt_us: 100_000,
        x: x_of(ms(1)),
        delta: EAGER,
        covers: 1,
        cloud: None,
    };
    let arrival = packet(1, 1500, header);
    let foreign = Arrival {
        carried: Carried::Foreign,
        ..arrival
    };
    let mut given = Vec::new();
    for n in 0..1000u64 {
        let now = Instant::from_millis(n);
        link.on_arrival(now, &arrival, 0);
        if n == 450 {
            link.on_drop(now, &arrival);
        }
        if n == 850 {
            link.on_drop(now, &foreign);
        }
        if stamp(link.on_departure(now, &arrival, 0)).delta > 0 {
            given.push(n);
        }
    }
    let silent = |from: u64, to: u64| !given.iter().any(|n| (from..to).contains(n));
    assert!(given.contains(&449), "{given:?}");
    // The rest of the interval with the drop, and the whole one after it.
    assert!(silent(450, 600) && given.contains(&660), "{given:?}");
    assert!(given.contains(&851), "{given:?}");
}

#[test]
fn what_the_buffer_cannot_take_is_not_given() {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, XcpLinkParams::default());
    // A twentieth of a bandwidth-delay product.
    link.on_buffer(62_500);
    let header = XcpCarried {
        rtt_us: 100_000,
        x: x_of(ms(1)),
        delta: EAGER,
        covers: 1,
        cloud: None,
    };
    for n in 0..300u64 {
        let now = Instant::from_millis(n);
        let arrival = packet(1, 1500, header);
        link.on_arrival(now, &arrival, 0);
        let _ = link.on_departure(now, &arrival, 0);
        assert!(metrics(&link).aggregate <= 625_000, "{:?}", metrics(&link));
    }
    assert_eq!(metrics(&link).aggregate, 625_000);
}

#[test]
fn capacity_is_the_ports_or_fixed_and_overhead_counts() {
    let run = |params: XcpLinkParams| {
        let mut link = XcpLink::new(Instant::ZERO, CAPACITY, params);
        link.on_capacity(Instant::ZERO, 2 * CAPACITY);
        let foreign = Arrival {
            bytes: 1410,
            flow_hash: 1,
            carried: Carried::Foreign,
        };
        for n in 0..200 {
            link.on_arrival(Instant::from_millis(n), &foreign, 0);
        }
        metrics(&link)
    };
    let plain = run(XcpLinkParams::default());
    assert_eq!(plain.capacity, 2 * CAPACITY);
    assert_eq!(plain.input, 1_410_000);
    let params = XcpLinkParams {
        capacity: XcpCapacity::Fixed(1_250_000),
        overhead: 90,
        ..XcpLinkParams::default()
    };
    let counted = run(params);
    assert_eq!(counted.capacity, 1_250_000);
    assert_eq!(counted.input, 1_500_000);
    assert_eq!(counted.spare, -250_000);
}

#[test]
fn a_vcp_packet_is_told_the_same_in_codes() {
    let mut link = XcpLink::new(Instant::ZERO, 1_250_000, XcpLinkParams::default());
    let vcp = |code| Arrival {
        bytes: 1500,
        flow_hash: 7,
        carried: Carried::Vcp(VcpCarried {
            code,
            bise: true,
            carries_r: true,
            ..VcpCarried::default()
        }),
    };
    let mut codes = [0; 4];
    // 100 packets per interval of 50 ms are 2.4 times what the link takes.
    for n in 0..2000u64 {
        let now = Instant::from_micros(500 * n);
        let arrival = vcp(VcpCode::Low);
        link.on_arrival(now, &arrival, 0);
        match link.on_departure(now, &arrival, 0) {
            Answer::Vcp(answer) => {
                codes[answer.code as usize] += 1;
                assert_eq!(answer.t_rho_ms, 200);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(codes[3] >= 1500, "{codes:?}");
    let erased = vcp(VcpCode::None);
    assert_eq!(
        link.on_departure(Instant::from_millis(1000), &erased, 0),
        Answer::None
    );
}

// --- Against the papers
// -------------------------------------------------------------------------------------------------

/// A flow of a trace.
#[derive(Clone, Copy, Debug)]
struct Source {
    rtt_us: u32,
    window: u64,
    bytes: u32,
    next: u64,
}

impl Source {
    fn gap_ns(&self) -> u64 {
        (u64::from(self.rtt_us) * 1000 * u64::from(self.bytes) / self.window).max(1)
    }

    fn header(&self, delta: i64) -> XcpCarried {
        let rtt = u128::from(self.rtt_us) << 40;
        let x = rtt * u128::from(self.bytes) / (1_000_000 * u128::from(self.window));
        XcpCarried {
            rtt_us: self.rtt_us,
            x: u64::try_from(x).unwrap(),
            delta,
            covers: 1,
            cloud: None,
        }
    }
}

fn exact(header: &XcpCarried, bytes: u32) -> Header {
    Header {
        x: header.x as f64 / 2f64.powi(40),
        rtt: f64::from(header.rtt_us) / 1e6,
        delta: header.delta as f64 / 65_536.0,
        bytes: f64::from(bytes),
    }
}

fn close_to(what: &str, got: f64, want: f64, relative: f64, absolute: f64) {
    let off = (got - want).abs();
    assert!(
        off <= relative * want.abs() + absolute,
        "{what}: {got}, not {want}"
    );
}

/// Runs `packets` packets of `sources` through a port and the oracle side by side. Loads swing
/// around the capacity, the queue with them.
fn trace(capacity: u64, sources: &mut [Source], packets: u64, seed: u64) {
    let mut link = XcpLink::new(Instant::ZERO, capacity, published());
    let mut oracle = Router::new(capacity as f64);
    let (mut intervals, mut started, mut random) = (0, 0u64, seed | 1);
    let mut compared = 0;
    for n in 0..packets {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = (0..sources.len())
            .min_by_key(|at| sources[*at].next)
            .unwrap();
        let source = &mut sources[at];
        let now = source.next;
        // Each window swings by half, slowly, each in its own time.
        let swing = ((now >> 28).wrapping_add(at as u64 * 7)) % 16;
        let window = source.window * (16 + swing) / 24;
        let moment = Source {
            window: window.max(u64::from(source.bytes)),
            ..*source
        };
        source.next = now + moment.gap_ns();
        let delta = match random >> 61 {
            0 => 0,
            1 => -((random >> 30) as i64 & 0xFFFF_FFFF),
            _ => EAGER,
        };
        let header = moment.header(delta);
        let arrival = packet(at as u32, moment.bytes, header);
        let queue = ((n >> 12) % 5) * u64::from(moment.bytes) * 10;
        let instant = Instant::from_nanos(now);
        let standing = metrics(&link).persistent_queue;
        link.on_arrival(instant, &arrival, queue);
        let seen = metrics(&link);
        if n == 0 {
            started = now;
        }
        if seen.intervals != intervals {
            intervals = seen.intervals;
            let elapsed = (now - started) as f64 / 1e9;
            oracle.close(elapsed, standing as f64);
            started = now;
            let unit = 1e-6 * capacity as f64 + 1.0;
            close_to(
                "d",
                seen.mean_rtt.as_secs_f64(),
                oracle.mean_rtt,
                1e-3,
                1e-6,
            );
            close_to("F", seen.aggregate as f64, oracle.aggregate, 1e-3, unit);
            close_to("+", seen.positive_left as f64, oracle.positive, 1e-3, unit);
            close_to("-", seen.negative_left as f64, oracle.negative, 1e-3, unit);
            compared += 1;
        }
        oracle.arrival(&exact(&header, moment.bytes));
        let answer = stamp(link.on_departure(instant, &arrival, queue));
        let want = oracle.departure(&exact(&header, moment.bytes));
        assert!(answer.delta <= delta, "a wish only ever shrinks");
        // A mean RTT in whole µs moves the queue's part of F; and the sum of what is left drifts
        // with every rounding.
        let own = oracle.positive * exact(&header, moment.bytes).x;
        close_to(
            "feedback",
            answer.delta as f64 / 65_536.0,
            want,
            1e-4,
            own.abs() * 1e-3 + 1.0,
        );
    }
    assert!(compared > 10, "{compared} intervals");
}

#[test]
fn a_million_packets_of_few_flows_agree_with_the_paper() {
    let mut sources: Vec<Source> = [(100_000, 30), (50_000, 60), (200_000, 10), (400_000, 900)]
        .iter()
        .map(|&(rtt_us, packets)| Source {
            rtt_us,
            window: packets * 1500,
            bytes: 1500,
            next: u64::from(rtt_us),
        })
        .collect();
    trace(CAPACITY / 2, &mut sources, 1_000_000, 1);
}

#[test]
fn slow_fast_and_long_paths_agree_with_the_paper() {
    // 50 GB/s in jumbo packets over 10 ms.
    let mut sources: Vec<Source> = (0..8)
        .map(|n| Source {
            rtt_us: 10_000 + 100 * n,
            window: 62_500_000,
            bytes: 9000,
            next: u64::from(n),
        })
        .collect();
    trace(50_000_000_000, &mut sources, 1_000_000, 2);
    // 2 MB/s over 20 s of RTT.
    let mut sources = [Source {
        rtt_us: 20_000_000,
        window: 40_000_000,
        bytes: 512,
        next: 0,
    }];
    trace(2_000_000, &mut sources, 1_200_000, 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// F to 3 units of 2^-16 B/s and what a mean RTT in µs costs.
    #[test]
    fn the_aggregate_is_exact(
        capacity in 1_000u64..1_000_000_000_000, capacity_shift in 0u32..30,
        load_ppm in 0u64..3_000_000, queue_ppm in 0u64..2_000_000,
        rtt_us in 100u64..65_535_000, rtt_shift in 0u32..18, elapsed_us in 10_000u64..65_535_000,
    ) {
        let capacity = (capacity >> capacity_shift).max(1000);
        let rtt_us = (rtt_us >> rtt_shift).max(100);
        let bytes = u64::try_from(u128::from(capacity) * u128::from(load_ppm) * u128::from(elapsed_us) / 1_000_000_000_000).unwrap();
        let queue = u64::try_from(u128::from(capacity) * u128::from(queue_ppm) * u128::from(rtt_us) / 1_000_000_000_000).unwrap();
        let input = rate_q16(bytes, elapsed_us * 1000);
        let got = aggregate(&XcpLinkParams::default(), to_q16(capacity), input, queue, rtt_us);
        let y = bytes as f64 / elapsed_us as f64 * 1e6;
        let want = 0.4 * (capacity as f64 - y) - 0.226 * queue as f64 / rtt_us as f64 * 1e6;
        let slack = 3.0 / 65_536.0 + (capacity as f64 + want.abs()) * 1e-12;
        prop_assert!((got as f64 / 65_536.0 - want).abs() <= slack, "{} {want}", got as f64 / 65_536.0);
    }

    /// What one interval gives and takes is what its pools hold, to the unit, whatever is asked.
    #[test]
    fn pools_pay_what_they_hold(
        aggregate in -(1i64 << 56)..1i64 << 56, moved in 0u64..1 << 56,
        sum_x in 1u128..1 << 60, bytes in 1u64..1 << 50,
        wishes in prop::collection::vec((any::<i64>(), 0u64..1 << 47, 1u64..1 << 26), 1..200),
    ) {
        let mut pools = Pools::new(aggregate, moved, sum_x, bytes);
        let (positive, negative) = (pools.positive_left(), pools.negative_left());
        let (mut given, mut taken) = (0i128, 0i128);
        for (wanted, x, size) in wishes {
            let settled = pools.settle(wanted, x, size);
            prop_assert!(settled.delta <= wanted);
            if settled.bounding {
                given += i128::from(settled.delta.max(0));
                taken += i128::from(-settled.delta.min(0));
            } else {
                given += i128::from(settled.delta.max(0));
            }
        }
        prop_assert!(given <= i128::from(positive));
        prop_assert!(taken <= i128::from(negative));
        prop_assert!(pools.positive_left() <= positive && pools.negative_left() <= negative);
    }

    /// Flows that were there all the time are given the same, whatever their packets; what is taken
    /// goes by bytes.
    #[test]
    fn equal_shares(gain in 1i64 << 20..1i64 << 50, packets in prop::collection::vec(1u64..2000, 2..20)) {
        let interval = x_of(ms(100));
        let sum: u128 = packets.iter().map(|n| u128::from(interval / n * n)).sum();
        let mut pools = Pools::new(gain, 0, sum, 1_000_000);
        let given: Vec<i64> = packets
            .iter()
            .map(|&n| (0..n).map(|_| pools.settle(EAGER, interval / n, 500).delta).sum())
            .collect();
        let share = gain as f64 / packets.len() as f64;
        for (sum, n) in given.iter().zip(&packets) {
            prop_assert!((*sum as f64 - share).abs() <= share * 1e-4 + *n as f64 + 1.0, "{given:?} {packets:?}");
        }
    }

    /// The rate form inside, the papers' window form outside: a header of theirs is answered as
    /// their router would.
    #[test]
    fn equals_the_window_form(
        flows in prop::collection::vec((10u32..900, 4u32..2000), 1..8),
        load in 0.3f64..1.6, queued in 0u64..200,
    ) {
        let (size, elapsed) = (1500u32, 0.2);
        let mut packets = Vec::new();
        let mut bytes = 0u64;
        let mut sum_x = 0u128;
        let mut headers = Vec::new();
        for &(rtt_ms, window) in &flows {
            let form = WindowForm { rtt_us: rtt_ms * 1000, window_packets: window, feedback_q12: i64::MAX >> 20 };
            let count = (f64::from(window) * elapsed / (f64::from(rtt_ms) / 1e3)).round().max(1.0) as usize;
            let as_paper = (f64::from(rtt_ms) / 1e3, f64::from(window) * f64::from(size), f64::from(size));
            for _ in 0..count {
                packets.push(as_paper);
                sum_x += u128::from(form.carried(size).x);
                bytes += u64::from(size);
            }
            headers.push((form, as_paper));
        }
        let capacity = (bytes as f64 / elapsed / load) as u64;
        let queue = queued * u64::from(size);
        let paper = WindowRouter::new(&packets, capacity as f64, queue as f64, elapsed);
        // The same in rates.
        let d = packets.iter().map(|(r, w, s)| r * r * s / w).sum::<f64>()
            / packets.iter().map(|(r, w, s)| r * s / w).sum::<f64>();
        let params = XcpLinkParams::default();
        let input = rate_q16(bytes, 200_000_000);
        let total = aggregate(&params, to_q16(capacity), input, queue, (d * 1e6) as u64);
        let moved = shuffle(params.shuffle_ppm, input, total, u64::MAX);
        for (form, as_paper) in headers {
            let mut pools = Pools::new(total, moved, sum_x, bytes);
            let carried = form.carried(size);
            let answer = pools.settle(carried.delta, carried.x, u64::from(size));
            let got = form.feedback_q12(answer.delta, size) as f64 / 4096.0 * f64::from(size);
            let want = paper.feedback(as_paper);
            let parts = (total.unsigned_abs() + moved) as f64 / 65_536.0 * as_paper.0 / packets.len() as f64;
            prop_assert!((got - want).abs() <= 2.0 * f64::from(size) / 4096.0 + 1e-3 * (want.abs() + parts), "{got} {want}");
        }
    }

    /// Whatever arrives, whenever: no panic, no wish raised, no state out of bounds.
    #[test]
    fn malice_changes_nothing_it_should_not(
        capacity in 1u64..=1_000_000_000_000, buffer in any::<u64>(),
        guard in any::<bool>(), police in any::<bool>(), auto in any::<bool>(),
        events in prop::collection::vec(
            (0u64..1 << 36, 0u32..40, any::<u32>(), any::<u32>(), 0u32..64, any::<u64>(), any::<i64>(), any::<u16>(), any::<u64>()),
            1..400,
        ),
    ) {
        let capacity_from = if auto { XcpCapacity::Auto } else { XcpCapacity::Port };
        let params = XcpLinkParams { guard, police, capacity: capacity_from, ..XcpLinkParams::default() };
        let mut link = XcpLink::new(Instant::ZERO, capacity, params);
        link.on_buffer(buffer);
        let mut now = 0u64;
        for (gap, shift, flow, rtt_us, x_shift, x, delta, covers, queue) in events {
            now = now.saturating_add(gap >> shift);
            let instant = Instant::from_nanos(now);
            let header = XcpCarried { rtt_us: rtt_us >> (shift % 32), x: x >> x_shift, delta, covers, cloud: None, };
            let arrival = packet(flow, rtt_us >> 16, header);
            if link.admits(instant, &arrival) {
                link.on_arrival(instant, &arrival, queue >> x_shift);
            }
            let answer = stamp(link.on_departure(instant, &arrival, queue >> x_shift));
            prop_assert!(answer.delta <= delta);
            let seen = metrics(&link);
            prop_assert!(seen.interval >= ms(10) && seen.interval <= Duration::from_millis(65_535));
            prop_assert!(seen.mean_rtt <= Duration::from_millis(65_535));
            prop_assert!(seen.positive_left <= 1 << 46 && seen.negative_left <= 1 << 46);
            prop_assert!(seen.capacity >= 1 && seen.capacity <= 1_000_000_000_000);
        }
    }
}
