//! Compares a virtual router's capacity with the module's equations in `f64`.

use proptest::prelude::*;

use super::port::XcpILink;
use super::tests::{CAPACITY, capacity_of, estimate, packet, pass, published, upstream};
use super::{SHARED_GIVEN_PPM, SHARED_TAKEN_PPM};
use crate::base::Instant;
use crate::law::LinkController;
use crate::signals::{CloudEstimate, XcpCarried};
use crate::testing::ms;
use crate::xcp::{CloudParams, XcpLinkParams};

/// C_v = BW + y_v + (g·C − s·y_v)/α, averaged over a round trip; times in seconds, rates in bytes
/// per second.
#[derive(Debug, Default)]
struct Oracle {
    bytes: f64,
    since: f64,
    capacity: Option<f64>,
}

impl Oracle {
    fn estimate(&mut self, now: f64, estimate: &CloudEstimate, alpha: f64, round_trip: f64) -> f64 {
        let elapsed = now - self.since;
        let own = self.bytes / elapsed;
        let of_link = estimate.capacity as f64;
        let given = SHARED_GIVEN_PPM as f64 / 1e6 * of_link;
        let taken = SHARED_TAKEN_PPM as f64 / 1e6 * own.min(of_link);
        let is_known = estimate.capacity > 0;
        let shared = if is_known {
            (given - taken) / alpha
        } else {
            0.0
        };
        let latest = (own + estimate.available as f64 + shared).max(1.0);
        let weight = elapsed / round_trip.max(elapsed);
        let mean = |before: f64| before * (1.0 - weight) + latest * weight;
        let averaged = self.capacity.map_or(latest, mean);
        (self.bytes, self.since, self.capacity) = (0.0, now, Some(averaged));
        averaged
    }
}

proptest! {
    #[test]
    fn capacity_follows_the_oracle(
        rtt_ms in 1..1000u32,
        steps in prop::collection::vec(
            (1..200u64, 0..50u32, -CAPACITY_I64..CAPACITY_I64, 0..CAPACITY, any::<bool>()),
            1..40,
        ),
    ) {
        let params = published();
        let alpha = params.alpha_ppm as f64 / 1e6;
        let mut port = XcpILink::new(Instant::ZERO, CAPACITY, params);
        let mut oracle = Oracle::default();
        let header = XcpCarried { rtt_us: rtt_ms * 1000, x: 1 << 30, ..XcpCarried::default() };
        let mut now = Instant::ZERO;
        pass(&mut port, now, &packet(Some(1), header));
        oracle.bytes += 1000.0;
        for (wait, packets, available, capacity, known) in steps {
            for _ in 0..packets {
                pass(&mut port, now, &packet(Some(1), header));
                oracle.bytes += 1000.0;
            }
            now += ms(wait);
            let mut estimate = estimate(available);
            estimate.capacity = if known { capacity } else { 0 };
            let link = port.table().link(upstream(1));
            let round_trip = link.map_or(0.0, |link| link.mean_rtt().as_secs_f64());
            port.on_estimate(now, upstream(1), &estimate);
            let seconds = now.as_nanos() as f64 / 1e9;
            let exact = oracle.estimate(seconds, &estimate, alpha, round_trip);
            let got = capacity_of(&port);
            // Own rate, shared part and average are each rounded down in each of 40 estimates.
            prop_assert!((got as f64 - exact).abs() <= 1e-9 * exact + 20.0, "{got} {exact}");
        }
    }
}

const CAPACITY_I64: i64 = CAPACITY as i64;

/// [XCP-i eq. 1] unchanged, in the rate form: α·BW − β·Q/d in each interval, whatever arrives. BW
/// is 2 MB/s, the port's own queue 30 kB, and d 100 ms: 800 000 − 67 800 B/s.
#[test]
fn the_papers_virtual_router_gives_the_known_answer() {
    let params = XcpLinkParams {
        clouds: Some(CloudParams {
            published: true,
            ..CloudParams::default()
        }),
        ..published()
    };
    for gap_ms in [1u64, 2, 5] {
        let mut port = XcpILink::new(Instant::ZERO, CAPACITY, params.clone());
        let header = XcpCarried {
            rtt_us: 100_000,
            x: (gap_ms << 40) / 1000,
            covers: 1,
            ..XcpCarried::default()
        };
        for at in (0..2000).step_by(gap_ms as usize) {
            let (now, packet) = (Instant::from_millis(at), packet(Some(1), header));
            port.on_arrival(now, &packet, 30_000);
            let _ = port.on_departure(now, &packet, 30_000);
            if at == 0 {
                port.on_estimate(now, upstream(1), &estimate(2_000_000));
            }
        }
        let link = port.table().link(upstream(1)).unwrap();
        let given = link.metrics().xcp.unwrap().aggregate;
        // The mean RTT is rounded down to whole µs.
        assert!((732_198..=732_201).contains(&given), "{gap_ms} ms: {given}");
    }
}
