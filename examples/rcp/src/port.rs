//! The port's law: one rate for all flows.

use pathmark_cc::{
    Answer, Arrival, Carried, Duration, Instant, LinkController, LinkMetrics, OwnWords,
};

use crate::KIND;

/// α and β of equation 1, in thousandths, as in the simulations of the thesis.
const ALPHA: i128 = 400;
const BETA: i128 = 226;
/// Longest time between updates; it is less if round trips are shorter (10 ms in the thesis).
const LONGEST: Duration = Duration::from_millis(10);
/// The mean round trip in µs until a packet reports one.
const FIRST_RTT_US: u64 = 100_000;
/// Bounds of the round trips that headers report, in µs. Values outside these bounds are clamped.
const LEAST_RTT_US: u64 = 1_000;
const MOST_RTT_US: u64 = 10_000_000;
/// Each packet's round trip has a weight of 1/64 in the mean.
const WEIGHT: u64 = 64;
/// R never falls below this fraction of the capacity, so that packets always arrive.
const LEAST_PART: u64 = 1_000;

/// Limits a capacity, in bytes per second, to the range of the port's arithmetic.
fn bounded(bytes_per_second: u64) -> u64 {
    bytes_per_second.clamp(1, 1 << 40)
}

/// An RCP port. The size of its state doesn't depend on the number of flows.
#[derive(Debug)]
pub struct RcpLink {
    /// In bytes per second.
    capacity: u64,
    /// R in units of 2^-16 bytes per second.
    rate_q16: u64,
    mean_rtt_us: u64,
    /// Bytes that arrived since the last update.
    bytes: u64,
    updated: Instant,
    /// Time of the next update; `None` while no packets arrive and R equals C.
    next: Option<Instant>,
}

impl RcpLink {
    /// Creates a port that starts at `now` and sends `bytes_per_second`.
    #[must_use]
    pub fn new(now: Instant, bytes_per_second: u64) -> Self {
        Self {
            capacity: bounded(bytes_per_second),
            rate_q16: bounded(bytes_per_second) << 16,
            mean_rtt_us: FIRST_RTT_US,
            bytes: 0,
            updated: now,
            next: None,
        }
    }

    /// Returns R, the rate that the port offers to each flow, in bytes per second.
    #[must_use]
    pub const fn rate(&self) -> u64 {
        self.rate_q16 >> 16
    }

    fn interval(&self) -> Duration {
        Duration::from_micros(self.mean_rtt_us).clamp(Duration::from_millis(1), LONGEST)
    }

    /// R ← R · (1 + T/d · (α·(C − y) − β·q/d) / C), between a thousandth of C and C (equation 1).
    fn update(&mut self, now: Instant, queue: u64) {
        let elapsed = now - self.updated;
        let nanos = elapsed.as_nanos().max(1);
        let capacity = i128::from(self.capacity);
        let input = (u128::from(self.bytes) * 1_000_000_000 / nanos).min(1 << 60);
        let spare = capacity - i128::try_from(input).unwrap_or(capacity);
        let rtt = i128::from(self.mean_rtt_us.max(1));
        let drain = i128::from(queue.min(1 << 50)) * 1_000_000 / rtt;
        let change = ALPHA * spare - BETA * drain;
        let time = i128::try_from(elapsed.as_micros()).unwrap_or(rtt).min(rtt);
        let rate = i128::from(self.rate_q16);
        // This is less than 2^56 · 2^68.
        let rate = rate + rate * time / rtt * change / (1000 * capacity);
        let least = ((self.capacity << 16) / LEAST_PART).max(1 << 16);
        let rate = u64::try_from(rate.max(0)).unwrap_or(u64::MAX);
        self.rate_q16 = rate.clamp(least, self.capacity << 16);
        (self.bytes, self.updated) = (0, now);
    }
}

impl LinkController for RcpLink {
    fn protocol(&self) -> Option<u8> {
        Some(KIND.number())
    }

    fn on_arrival(&mut self, now: Instant, arrival: &Arrival, _queue: u64) {
        self.bytes = self.bytes.saturating_add(arrival.bytes.into());
        if let Carried::Own(OwnWords {
            kind,
            words: [_, rtt_us, _],
        }) = arrival.carried
            && kind == KIND.number()
            && rtt_us > 0
        {
            let rtt_us = rtt_us.clamp(LEAST_RTT_US, MOST_RTT_US);
            self.mean_rtt_us = (self.mean_rtt_us * (WEIGHT - 1) + rtt_us) / WEIGHT;
        }
        if self.next.is_none() {
            self.updated = now;
            self.next = Some(now + self.interval());
        }
    }

    fn on_departure(&mut self, _now: Instant, packet: &Arrival, _queue: u64) -> Answer {
        match packet.carried {
            Carried::Own(own) if own.kind == KIND.number() => Answer::Own(OwnWords {
                kind: own.kind,
                words: [self.rate(), 0, 0],
            }),
            _ => Answer::None,
        }
    }

    fn on_timer(&mut self, now: Instant, queue: u64) {
        let idle = self.bytes == 0 && queue == 0;
        self.update(now, queue);
        // Without traffic, a port that offers its full capacity needs no update until a packet
        // arrives.
        let rests = idle && self.rate() == self.capacity;
        self.next = (!rests).then(|| now + self.interval());
    }

    fn deadline(&self) -> Option<Instant> {
        self.next
    }

    fn on_capacity(&mut self, _now: Instant, bytes_per_second: u64) {
        self.capacity = bounded(bytes_per_second);
        self.rate_q16 = self.rate_q16.min(self.capacity << 16);
    }

    fn metrics(&self) -> LinkMetrics {
        let mut metrics = LinkMetrics::default();
        metrics.interval = self.interval();
        metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(bytes: u32) -> Arrival {
        Arrival {
            bytes,
            flow_hash: 0,
            carried: Carried::Foreign,
        }
    }

    /// Equation 1 calculated by hand: C = 1 MB/s, d = 100 ms, T = 10 ms, R = C.
    #[test]
    fn known_answers() {
        for (bytes, queue, rate) in [
            // y = C, no queue: R doesn't change.
            (10_000, 0, 1_000_000),
            // y = 2C: 1 + 0.1 · 0.4 · (1 − 2) = 0.96.
            (20_000, 0, 960_000),
            // y = C and a queue of C·d: 1 − 0.1 · 0.226 = 0.9774.
            (10_000, 100_000, 977_400),
            // y = 0: R stays at C, its bound.
            (1, 0, 1_000_000),
        ] {
            let mut port = RcpLink::new(Instant::ZERO, 1_000_000);
            port.on_arrival(Instant::ZERO, &foreign(bytes), 0);
            let due = port.deadline().unwrap();
            assert_eq!(due, Instant::from_millis(10));
            port.on_timer(due, queue);
            assert_eq!(port.rate(), rate, "{bytes} {queue}");
        }
    }

    /// At 128 kbit/s, R recovers from its minimum within a few seconds once the queue is empty.
    #[test]
    fn a_slow_port_recovers() {
        let mut port = RcpLink::new(Instant::ZERO, 16_000);
        port.on_arrival(Instant::ZERO, &foreign(1500), 0);
        let mut run = |queue| {
            for _ in 0..1000 {
                let Some(due) = port.deadline() else { break };
                port.on_timer(due, queue);
            }
            port.rate()
        };
        assert_eq!((run(75_000), run(0)), (16, 16_000));
    }

    #[test]
    fn bounds_hold_whatever_arrives() {
        let mut port = RcpLink::new(Instant::ZERO, u64::MAX);
        port.on_arrival(Instant::ZERO, &foreign(u32::MAX), u64::MAX);
        port.on_timer(Instant::ZERO, u64::MAX);
        port.on_timer(Instant::FAR_FUTURE, u64::MAX);
        port.on_capacity(Instant::ZERO, 0);
        assert_eq!(port.rate(), 1);

        let mut port = RcpLink::new(Instant::ZERO, 1_000_000);
        let mut now = Instant::ZERO;
        for round in 0..1000 {
            let words = [u64::MAX, u64::MAX, u64::MAX];
            let carried = Carried::Own(OwnWords {
                kind: KIND.number(),
                words,
            });
            let arrival = Arrival {
                carried,
                ..foreign(u32::MAX)
            };
            port.on_arrival(now, &arrival, u64::MAX);
            now = port.deadline().unwrap();
            port.on_timer(now, if round % 2 == 0 { u64::MAX } else { 0 });
            assert!((1_000..=1_000_000).contains(&port.rate()));
        }
        assert_eq!(port.rate(), 1_000);
    }
}
