//! Properties that hold for any request of any flow.

use proptest::prelude::*;

use super::{EAGER, metrics, packet, stamp};
use crate::base::{Duration, Instant};
use crate::law::LinkController;
use crate::signals::XcpCarried;
use crate::testing::{header, ms};
use crate::xcp::XcpCapacity;
use crate::xcp::oracle::WindowRouter;
use crate::xcp::params::{SHUFFLE_PPM, WindowForm, XcpLinkParams, rate_q16, to_q16, x_of};
use crate::xcp::port::XcpLink;
use crate::xcp::port::controllers::{Pools, aggregate, shuffle};

/// The share `share_ppm` of the bytes that `capacity` bytes per second carry in `time_us` µs.
fn share_of(capacity: u64, share_ppm: u64, time_us: u64) -> u64 {
    let bytes = u128::from(capacity) * u128::from(share_ppm) * u128::from(time_us);
    u64::try_from(bytes / 1_000_000_000_000).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// F is exact within 3 units of 2^-16 B/s and the rounding of a mean RTT in µs.
    #[test]
    fn the_aggregate_is_exact(
        capacity in 1_000u64..1_000_000_000_000, capacity_shift in 0u32..30,
        load_ppm in 0u64..3_000_000, queue_ppm in 0u64..2_000_000, wanted_ppm in 0u64..2_000_000,
        rtt_us in 100u64..65_535_000, rtt_shift in 0u32..18, elapsed_us in 10_000u64..65_535_000,
    ) {
        let capacity = (capacity >> capacity_shift).max(1000);
        let rtt_us = (rtt_us >> rtt_shift).max(100);
        let bytes = share_of(capacity, load_ppm, elapsed_us);
        let queue = share_of(capacity, queue_ppm, rtt_us);
        let wanted = share_of(capacity, wanted_ppm, rtt_us);
        let input = rate_q16(bytes, elapsed_us * 1000);
        let params = XcpLinkParams::default();
        let got = aggregate(&params, to_q16(capacity), input, queue, wanted, rtt_us);
        let y = bytes as f64 / elapsed_us as f64 * 1e6;
        let stands = queue as f64 - wanted as f64;
        let want = 0.4 * (capacity as f64 - y) - 0.226 * stands / rtt_us as f64 * 1e6;
        let slack = 3.0 / 65_536.0 + (capacity as f64 + want.abs()) * 1e-12;
        let got = got as f64 / 65_536.0;
        prop_assert!((got - want).abs() <= slack, "{got} {want}");
    }

    /// One interval gives and takes exactly the contents of its pools, whatever is requested.
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
            given += i128::from(settled.delta.max(0));
            if settled.bounding {
                taken += i128::from(-settled.delta.min(0));
            }
        }
        prop_assert!(given <= i128::from(positive));
        prop_assert!(taken <= i128::from(negative));
        prop_assert!(pools.positive_left() <= positive && pools.negative_left() <= negative);
    }

    /// Flows that were active all the time get the same, whatever their packets are, and lose
    /// according to their bytes.
    #[test]
    fn equal_shares(
        gain in 1i64 << 20..1i64 << 50,
        packets in prop::collection::vec(1u64..2000, 2..20),
    ) {
        let interval = x_of(ms(100));
        let sum: u128 = packets.iter().map(|n| u128::from(interval / n * n)).sum();
        let mut pools = Pools::new(gain, 0, sum, 1_000_000);
        let given: Vec<i64> = packets
            .iter()
            .map(|&n| (0..n).map(|_| pools.settle(EAGER, interval / n, 500).delta).sum())
            .collect();
        let share = gain as f64 / packets.len() as f64;
        for (sum, n) in given.iter().zip(&packets) {
            let off = (*sum as f64 - share).abs();
            prop_assert!(off <= share * 1e-4 + *n as f64 + 1.0, "{given:?} {packets:?}");
        }
    }

    /// The port computes in rates, but answers a header in the papers' window form as their router
    /// would: [XCP-Linux II-E.2].
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
            let form = WindowForm {
                rtt_us: rtt_ms * 1000,
                window_packets: window,
                feedback_q12: i64::MAX >> 20,
            };
            let rtt = f64::from(rtt_ms) / 1e3;
            let count = (f64::from(window) * elapsed / rtt).round().max(1.0) as usize;
            let as_paper = (rtt, f64::from(window) * f64::from(size), f64::from(size));
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
        let total = aggregate(&params, to_q16(capacity), input, queue, 0, (d * 1e6) as u64);
        let moved = shuffle(SHUFFLE_PPM, input, total, u64::MAX);
        for (form, as_paper) in headers {
            let mut pools = Pools::new(total, moved, sum_x, bytes);
            let carried = form.carried(size);
            let answer = pools.settle(carried.delta, carried.x, u64::from(size));
            let got = form.feedback_q12(answer.delta, size) as f64 / 4096.0 * f64::from(size);
            let (rtt, window, bytes) = as_paper;
            let want = paper.feedback(rtt, window, bytes);
            let all = (total.unsigned_abs() + moved) as f64 / 65_536.0;
            let parts = all * rtt / packets.len() as f64;
            let slack = 2.0 * f64::from(size) / 4096.0 + 1e-3 * (want.abs() + parts);
            prop_assert!((got - want).abs() <= slack, "{got} {want}");
        }
    }

    /// Arbitrary arrivals do not panic, raise a request, or take the state out of bounds.
    #[test]
    fn malice_changes_nothing_it_should_not(
        capacity in 1u64..=1_000_000_000_000, buffer in any::<u64>(),
        guard in any::<bool>(), police in any::<bool>(), auto in any::<bool>(),
        events in prop::collection::vec(
            (
                0u64..1 << 36, 0u32..40, any::<u32>(), any::<u32>(), 0u32..64,
                any::<u64>(), any::<i64>(), any::<u16>(), any::<u64>(),
            ),
            1..400,
        ),
    ) {
        let params = XcpLinkParams {
            guard,
            police,
            capacity: if auto { XcpCapacity::Auto } else { XcpCapacity::Port },
            ..XcpLinkParams::default()
        };
        let mut link = XcpLink::new(Instant::ZERO, capacity, params);
        link.on_buffer(buffer);
        let mut now = 0u64;
        for (gap, shift, flow, rtt_us, x_shift, x, delta, covers, queue) in events {
            now = now.saturating_add(gap >> shift);
            let instant = Instant::from_nanos(now);
            let header = header(rtt_us >> (shift % 32), x >> x_shift, delta);
            let header = XcpCarried { covers, ..header };
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
