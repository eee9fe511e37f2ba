//! Delivery rates, compared with a slow oracle that stores all values with each packet.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::base::Instant;
use crate::law::{Limit, PacketState, Sent};
use crate::standard::bbr::rate::Sampler;
use crate::testing::{acked, ms};

const BYTES: u64 = 1000;
const RTT: u64 = 40;

/// The draft's algorithm, implemented literally, in seconds.
#[derive(Default)]
struct Oracle {
    delivered: f64,
    delivered_at: f64,
    first_sent: f64,
    in_flight: u64,
    packets: BTreeMap<u64, (f64, f64, f64, f64)>,
}

impl Oracle {
    fn send(&mut self, number: u64, now: f64) {
        if self.in_flight == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        self.in_flight += 1;
        let state = (self.delivered, self.delivered_at, self.first_sent, now);
        self.packets.insert(number, state);
    }

    /// Acknowledges all packets up to `largest`. Returns bytes per second.
    fn ack(&mut self, largest: u64, now: f64) -> f64 {
        let rest = self.packets.split_off(&(largest + 1));
        let count = self.packets.len();
        self.delivered += count as f64 * BYTES as f64;
        self.in_flight -= count as u64;
        self.delivered_at = now;
        let (delivered, delivered_at, first_sent, sent) = self.packets[&largest];
        self.packets = rest;
        self.first_sent = sent;
        let interval = (sent - first_sent).max(now - delivered_at);
        (self.delivered - delivered) / interval
    }
}

struct Both {
    /// The round trip that spaces snapshots.
    rtt: u64,
    sampler: Sampler,
    oracle: Oracle,
    states: Vec<(Instant, PacketState)>,
    acked: u64,
}

impl Both {
    fn new(rtt: u64) -> Self {
        Self {
            rtt,
            sampler: Sampler::new(Instant::ZERO),
            oracle: Oracle::default(),
            states: Vec::new(),
            acked: 0,
        }
    }

    fn send(&mut self, micros: u64, limit: Limit) {
        let now = Instant::from_micros(micros);
        let number = self.states.len() as u64;
        let sent = Sent {
            packet_number: number,
            bytes: BYTES,
            in_flight: (number + 1 - self.acked) * BYTES,
            limit,
            signal: false,
        };
        let state = self.sampler.on_sent(now, &sent, ms(self.rtt));
        self.states.push((now, state));
        self.oracle.send(number, micros as f64 / 1e6);
    }

    /// Acknowledges all packets up to `largest`. Returns the sample and the exact rate.
    fn ack(&mut self, micros: u64, largest: u64) -> (crate::standard::bbr::rate::RateSample, f64) {
        let now = Instant::from_micros(micros);
        let (sent_at, state) = self.states[largest as usize];
        let mut news = acked(largest, (largest + 1 - self.acked) * BYTES, now - sent_at);
        news.sent_at = sent_at;
        news.state = state;
        news.min_rtt = ms(1);
        self.acked = largest + 1;
        let sample = self.sampler.on_ack(now, &news).expect("young enough");
        (sample, self.oracle.ack(largest, micros as f64 / 1e6))
    }
}

/// A packet per millisecond, each acknowledged 40 ms later: 1 MB/s.
#[test]
fn a_steady_flow_has_its_rate() {
    let mut both = Both::new(RTT);
    for n in 0..400 {
        both.send(n * 1000, Limit::Window);
        if n >= 40 {
            let (sample, exact) = both.ack(n * 1000 + 1, n - 40);
            // Earlier packets were sent before anything had been delivered.
            if n >= 130 {
                assert_eq!(sample.rate, 1_000_000);
                assert!((exact - 1e6).abs() < 1.0, "{exact}");
            }
        }
    }
}

/// Acknowledgements that arrive at once yield at most the sending rate of their packets.
#[test]
fn compressed_acknowledgements_do_not_raise_the_rate() {
    let mut both = Both::new(RTT);
    for n in 0..200 {
        both.send(n * 1000, Limit::Window);
    }
    for n in 0..200 {
        let (sample, _) = both.ack(240_000 + n, n);
        assert!(sample.rate <= 1_010_000, "packet {n}: {}", sample.rate);
    }
}

/// Samples are marked until everything that was in flight at the pause has been delivered.
#[test]
fn an_application_that_pauses_marks_its_samples() {
    let mut both = Both::new(RTT);
    for n in 0..10 {
        both.send(n * 1000, Limit::Window);
    }
    both.sampler.mark_app_limited(10 * BYTES);
    both.send(10_000, Limit::Window);
    assert!(!both.ack(40_000, 9).0.app_limited);
    assert!(both.sampler.is_app_limited());
    both.send(41_000, Limit::Window);
    assert!(both.ack(50_000, 10).0.app_limited);
    assert!(!both.sampler.is_app_limited());
    both.send(51_000, Limit::Window);
    assert!(both.ack(81_000, 11).0.app_limited);
    assert!(!both.ack(91_000, 12).0.app_limited);
}

proptest! {
    /// Any gaps and batches of acknowledgements, with a snapshot for each acknowledgement, give the
    /// oracle's rates.
    #[test]
    fn rates_are_the_oracles(
        gaps in prop::collection::vec(100u64..3000, 300),
        batches in prop::collection::vec(1u64..12, 300),
    ) {
        let mut both = Both::new(1);
        let (mut now, mut sent, mut next_ack) = (0, 0u64, 0u64);
        for (gap, batch) in gaps.into_iter().zip(batches) {
            now += gap;
            both.send(now, Limit::Window);
            sent += 1;
            let due = both.states.iter().filter(|(at, _)| {
                at.as_nanos() + RTT * 1_000_000 <= now * 1000
            }).count() as u64;
            if due >= next_ack + batch && due > both.acked && sent > due {
                next_ack = due;
                let (sample, exact) = both.ack(now, due - 1);
                let close = (sample.rate as f64 - exact).abs() <= 1.0 + exact * 1e-9;
                prop_assert!(close, "{} for {exact}", sample.rate);
            }
        }
    }
}
