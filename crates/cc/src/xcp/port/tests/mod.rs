//! Tests the port with known answers. `against_papers.rs` compares it with the papers' form in
//! `f64`, and `properties.rs` tests malicious senders.

mod against_papers;
mod forged;
mod properties;

use super::XcpLink;
use super::controllers::{Pools, Settled, aggregate, shuffle};
use super::interval::{StandingQueue, look_ns};
use crate::base::{Duration, Instant};
use crate::law::LinkController;
use crate::metrics::XcpLinkMetrics;
use crate::signals::{Answer, Arrival, Carried, VcpCarried, VcpCode, XcpAnswer, XcpCarried};
use crate::testing::{arrival, at, foreign, header, ms};
use crate::xcp::XcpCapacity;
use crate::xcp::params::{SHUFFLE_PPM, XcpLinkParams, rate_q16, to_q16, x_of};

const CAPACITY: u64 = 12_500_000;

fn published() -> XcpLinkParams {
    XcpLinkParams {
        guard: false,
        ..XcpLinkParams::default()
    }
}

fn packet(flow_hash: u32, bytes: u32, header: XcpCarried) -> Arrival {
    arrival(bytes, flow_hash, Carried::Xcp(header))
}

fn stamp(answer: Answer) -> XcpAnswer {
    match answer {
        Answer::Xcp(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// Passes a packet of 1500 bytes through a port.
fn ask(link: &mut XcpLink, now: Instant, flow_hash: u32, header: XcpCarried) -> XcpAnswer {
    let arrival = packet(flow_hash, 1500, header);
    link.on_arrival(now, &arrival, 0);
    stamp(link.on_departure(now, &arrival, 0))
}

fn metrics(link: &XcpLink) -> XcpLinkMetrics {
    link.metrics().xcp.expect("an XCP port")
}

// Known answers.

/// An interval of 100 ms at 12.5 MB/s with 1500-byte packets, in groups of (packets, X in 2^-40 s).
fn pools(groups: &[(u64, u64)], queue: u64, mean_rtt_us: u64) -> (i64, Pools) {
    let packets: u64 = groups.iter().map(|(packets, _)| packets).sum();
    let sum_x = groups.iter().map(|(n, x)| u128::from(n * x)).sum();
    let input = rate_q16(packets * 1500, 100_000_000);
    let params = XcpLinkParams::default();
    let total = aggregate(&params, to_q16(CAPACITY), input, queue, 0, mean_rtt_us);
    let moved = shuffle(SHUFFLE_PPM, input, total, u64::MAX);
    (total, Pools::new(total, moved, sum_x, packets * 1500))
}

const EAGER: i64 = 1 << 61;

/// The header of a sender that wants more than any port has.
fn eager(rtt_us: u32, x: u64) -> XcpCarried {
    header(rtt_us, x, EAGER)
}

/// The settlement of an interval's first packet, and the rest of the pools.
fn first(mut pools: Pools, wanted: i64, x: u64) -> (Settled, u64, u64) {
    let settled = pools.settle(wanted, x, 1500);
    (settled, pools.positive_left(), pools.negative_left())
}

/// Reciprocals may cost one unit in each direction.
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
    // A flow that requests less leaves the rest in the pool.
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
    // It wants 1000, so 18 274.1 more are taken than for its bytes.
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

// Intervals, idleness, capacity.

/// A full port after several seconds, whose capacity rises and falls by `step` every 20 ms, and
/// where packets may wait for `wait`.
fn moved(params: XcpLinkParams, step: u64, wait: Duration) -> XcpLinkMetrics {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, params);
    link.on_variation(wait);
    let header = eager(100_000, x_of(ms(100)) / 833);
    for n in 0..30_000u64 {
        let now = Instant::from_micros(n * 120);
        if n % 167 == 0 {
            let up = n / 167 % 2 == 0;
            link.on_capacity(now, if up { CAPACITY + step } else { CAPACITY - step });
        }
        ask(&mut link, now, 1, header);
    }
    metrics(&link)
}

#[test]
fn a_capacity_that_moves_counts_by_its_mean_and_what_may_wait_is_given() {
    let usual = XcpLinkParams::default;
    for params in [usual, published] {
        for step in [0, CAPACITY / 2] {
            let spare = moved(params(), step, Duration::ZERO).spare;
            let most = i64::try_from(CAPACITY / 10).unwrap();
            assert!(spare.abs() < most, "{step}: {spare}");
        }
    }
    // β · 30 ms / 100 ms of the capacity; the papers' port gives nothing for it.
    let given = |params, wait| moved(params, 0, wait).aggregate;
    let more = given(usual(), ms(30)) - given(usual(), Duration::ZERO);
    assert!((800_000..=850_000).contains(&more), "{more}");
    let more = given(published(), ms(30)) - given(published(), Duration::ZERO);
    assert_eq!(more, 0);
}

#[test]
fn the_first_packets_after_idleness_are_given_at_most_one_interval_of_the_share() {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, XcpLinkParams::default());
    let header = eager(100_000, x_of(ms(10)));
    let mut given = 0;
    for n in 0..20u32 {
        // Twenty senders with ten packets per round trip each.
        let answer = ask(&mut link, at(1000 + u64::from(n)), n, header);
        assert!(answer.bounding && answer.delta >= 0);
        given += answer.delta >> 16;
    }
    let most = 4 * i64::try_from(CAPACITY).unwrap() / 5;
    assert!((most * 99 / 100..=most).contains(&given), "{given}");
    // As published, they get nothing before an interval has passed.
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, published());
    assert_eq!(ask(&mut link, at(1000), 1, header).delta, 0);
}

/// The port's interval and mean RTT after each packet of one flow, beginning with its first packet.
fn intervals(params: XcpLinkParams, rtt_us: u32, packets: u64) -> Vec<(Duration, Duration)> {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, params);
    let header = eager(rtt_us, u64::from(rtt_us) * 1_099_512 / 100);
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
        let [before, after] = pair else {
            panic!("{pair:?}")
        };
        assert!(
            after.0 <= 2 * before.0 && after.1 <= 2 * before.1,
            "{seen:?}"
        );
    }
    // Shorter RTTs count immediately.
    let seen = intervals(XcpLinkParams::default(), 5_000, 1000);
    assert_eq!(seen, [(ms(50), ms(50)), (ms(10), ms(5))]);
    // As published, an interval determines the length of the next interval.
    let seen = intervals(published(), 3_000_000, 1000);
    assert_eq!(seen, [(ms(50), ms(50)), (ms(3000), ms(3000))]);
}

#[test]
fn a_long_interval_ends_within_seconds_of_shorter_round_trips() {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, XcpLinkParams::default());
    let header = |rtt_us: u32| eager(rtt_us, u64::from(rtt_us) * 1_099_512 / 100);
    let mut now = 0;
    while metrics(&link).interval < ms(30_000) {
        now += 300;
        link.on_arrival(at(now), &packet(1, 1500, header(30_000_000)), 0);
    }
    let since = now;
    while metrics(&link).interval > ms(200) {
        now += 1;
        link.on_arrival(at(now), &packet(1, 1500, header(100_000)), 0);
        assert!(now - since <= 4_000, "{:?}", metrics(&link));
    }
}

/// Mean RTT of a port at 20 Mbit/s whose packets state 50 ms, while one in `each` packets is
/// replaced by a forged packet of 84 bytes.
fn mean_rtt_with(params: XcpLinkParams, forged: XcpCarried, each: u64) -> Duration {
    let mut link = XcpLink::new(Instant::ZERO, 2_500_000, params);
    let honest = eager(50_000, x_of(ms(50)) * 4 / 83);
    let mut worst = ms(50);
    for n in 1..10_000u64 {
        let arrival = match n % each {
            0 => packet(9, 84, forged),
            _ => packet((n % 4) as u32, 1500, honest),
        };
        let now = Instant::from_micros(600 * n);
        link.on_arrival(now, &arrival, 0);
        let _ = link.on_departure(now, &arrival, 0);
        // The first interval, which has no measurements, may differ by a factor of two.
        if n > 1000 {
            worst = worst.max(metrics(&link).mean_rtt);
        }
    }
    worst
}

#[test]
fn few_bytes_move_the_mean_rtt_by_little() {
    let huge = XcpCarried {
        covers: u16::MAX,
        ..header(u32::MAX, u64::MAX, EAGER)
    };
    // One in 500 packets, with 84 bytes, is 0.01 % of the bytes; one in 50 is 0.1 %.
    for (each, most) in [(500, 53), (50, 60)] {
        let mean = mean_rtt_with(XcpLinkParams::default(), huge, each);
        assert!(mean <= ms(most), "1 in {each}: {mean:?}");
    }
    // As published, all headers are trusted.
    let mean = mean_rtt_with(published(), huge, 500);
    assert!(mean >= ms(60_000), "{mean:?}");
}

#[test]
fn after_a_drop_nothing_is_given_until_an_interval_without_drops_has_passed() {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, XcpLinkParams::default());
    let header = eager(100_000, x_of(ms(1)));
    let arrival = packet(1, 1500, header);
    let mut given = Vec::new();
    for n in 0..1000u64 {
        let now = at(n);
        link.on_arrival(now, &arrival, 0);
        match n {
            450 => link.on_drop(now, &arrival),
            850 => link.on_drop(now, &foreign(1500)),
            _ => {}
        }
        if stamp(link.on_departure(now, &arrival, 0)).delta > 0 {
            given.push(n);
        }
    }
    let silent = |from: u64, to: u64| !given.iter().any(|n| (from..to).contains(n));
    assert!(given.contains(&449), "{given:?}");
    // The rest of the interval with the drop, and the whole interval after it.
    assert!(silent(450, 600) && given.contains(&660), "{given:?}");
    assert!(given.contains(&851), "{given:?}");
}

#[test]
fn what_the_buffer_cannot_take_is_not_given() {
    let mut link = XcpLink::new(Instant::ZERO, CAPACITY, XcpLinkParams::default());
    // A twentieth of a bandwidth-delay product.
    link.on_buffer(62_500);
    let header = eager(100_000, x_of(ms(1)));
    for n in 0..300u64 {
        ask(&mut link, at(n), 1, header);
        assert!(metrics(&link).aggregate <= 625_000, "{:?}", metrics(&link));
    }
    assert_eq!(metrics(&link).aggregate, 625_000);
}

#[test]
fn capacity_is_the_ports_or_fixed_and_overhead_counts() {
    let run = |params: XcpLinkParams| {
        let mut link = XcpLink::new(Instant::ZERO, CAPACITY, params);
        link.on_capacity(Instant::ZERO, 2 * CAPACITY);
        for n in 0..200 {
            link.on_arrival(at(n), &foreign(1410), 0);
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
    let vcp = |code| {
        let carried = VcpCarried {
            code,
            bise: true,
            carries_r: true,
            ..VcpCarried::default()
        };
        arrival(1500, 7, Carried::Vcp(carried))
    };
    let mut codes = [0; 4];
    // 100 packets per interval of 50 ms are 2.4 times the capacity.
    for n in 0..2000u64 {
        let now = Instant::from_micros(500 * n);
        let arrival = vcp(VcpCode::Low);
        link.on_arrival(now, &arrival, 0);
        match link.on_departure(now, &arrival, 0) {
            Answer::Vcp(answer) => {
                codes[answer.code as usize] += 1;
                assert_eq!(answer.t_rho_ms, 100, "the least");
            }
            other => panic!("{other:?}"),
        }
    }
    // All packets except those of the first look.
    assert!(codes[3] >= 1400, "{codes:?}");
    let erased = vcp(VcpCode::None);
    assert_eq!(link.on_departure(at(1000), &erased, 0), Answer::None);
}

/// A host stalls for a second with a window of 100 packets in flight, which fills the link. The
/// grants of an idle link's first interval would be added to this window.
#[test]
fn a_flow_that_goes_on_after_a_silence_is_given_nothing_at_first() {
    // 125 packets of 1500 bytes in 100 ms are more than half of the link.
    let x = 100_000 * 1_099_512 / 125;
    for (x, most) in [(x, 0), (100_000 * 1_099_512 / 10, CAPACITY)] {
        let mut link = XcpLink::new(Instant::ZERO, CAPACITY, XcpLinkParams::default());
        let header = eager(100_000, x);
        let mut given = 0;
        for n in 0..1_250 {
            let pause = if n < 1000 { 0 } else { 1_000_000 };
            let now = Instant::from_micros(1_000_000 + 800 * n + pause);
            let answer = ask(&mut link, now, 1, header);
            if (1000..1100).contains(&n) {
                given += answer.delta.max(0);
            }
        }
        let given = given.unsigned_abs() >> 16;
        assert!(given <= most, "{x}: {given}");
        assert_eq!(given > 0, most > 0, "{x}: {given}");
    }
}
