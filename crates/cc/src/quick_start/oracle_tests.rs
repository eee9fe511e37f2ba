//! Compares a granting port with RFC 4782's rule in `f64`: 0.85·C, minus the rate used in the
//! busiest 200 ms of the last second, minus approved rates that may still arrive.

use proptest::prelude::*;

use super::QuickStartLink;
use super::link_tests::ask;
use crate::base::Instant;
use crate::law::{LinkController, Passive};
use crate::testing::{asking, foreign};

/// Stores all packets and approvals. Times are in milliseconds and rates in bytes per second.
#[derive(Debug, Default)]
struct Oracle {
    packets: Vec<(u64, f64)>,
    /// Rates, and the times after which they are no longer expected.
    approved: Vec<(f64, f64)>,
}

impl Oracle {
    fn used(&self, now: u64) -> f64 {
        let sample = now / 200;
        let bytes = |n: u64| -> f64 {
            let within = self.packets.iter().filter(|(at, _)| at / 200 == n);
            within.map(|(_, bytes)| bytes).sum()
        };
        let busiest = (sample.saturating_sub(5)..=sample).map(bytes);
        busiest.fold(0.0, f64::max) / 0.2
    }

    fn ask(&mut self, now: u64, capacity: f64, rate: f64, rtt: u64) -> f64 {
        let pending = self
            .approved
            .iter()
            .filter(|(_, until)| *until > now as f64);
        let pending: f64 = pending.map(|(rate, _)| rate).sum();
        let free = 0.85 * capacity - self.used(now) - pending;
        let got = rate.min(free).max(0.0);
        let patience = (rtt as f64 * 1.25).max(rtt as f64 + 50.0);
        self.approved.push((got, now as f64 + patience));
        got
    }
}

proptest! {
    #[test]
    fn approvals_follow_the_oracle(
        capacity in 1_000_000..10_000_000_000u64,
        events in prop::collection::vec(
            (0..300u64, any::<bool>(), 0..1_000_000u64, 1..1000u64),
            1..40,
        ),
    ) {
        let mut port = QuickStartLink::new(Instant::ZERO, capacity, 7, Passive);
        let mut oracle = Oracle::default();
        let mut now = 0;
        for (flow, (wait, asks, amount, rtt)) in (10..).zip(events) {
            now += wait;
            if asks {
                let rate = capacity / 1_000_000 * amount + 1;
                let got = ask(&mut port, now, &asking(flow, rate, rtt));
                oracle.packets.push((now, 1500.0));
                let exact = oracle.ask(now, capacity as f64, rate as f64, rtt);
                prop_assert!((got as f64 - exact).abs() <= 40.0, "{got} {exact} at {now} ms");
            } else {
                let bytes = (capacity / 5 * amount / 1_000_000) as u32;
                port.on_arrival(Instant::from_millis(now), &foreign(bytes), 0);
                oracle.packets.push((now, f64::from(bytes)));
            }
        }
    }
}
