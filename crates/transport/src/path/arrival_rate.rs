//! The rate at which data arrived at the peer, according to its acknowledgements.

use pathmark_cc::{Acked, KnownPath};

use crate::{Duration, Instant};

/// Size of a packet's IPv4 and UDP headers, which known rates include.
const HEADERS: u64 = 28;
/// A rate is measured over a smoothed round trip, but over at least this time.
const LEAST: Duration = Duration::from_millis(20);
/// A rate is only worth keeping if more than this arrives within a round trip, because roughly an
/// initial window (RFC 9002 §7.2) and a handshake arrive in any case.
const WORTH: u64 = 32_000;

/// Measures the highest rate at which data arrived, over a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrivalRate {
    /// Start of the period over which `bytes` counts.
    since: Option<Instant>,
    bytes: u64,
    /// Highest rate, in bytes of IP packets per second.
    most: u64,
    min_rtt: Duration,
}

impl ArrivalRate {
    /// Counts acknowledged packets, which have arrived since the previous ACK frame.
    #[inline]
    pub fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.min_rtt = acked.min_rtt;
        let Some(since) = self.since else {
            self.since = Some(now);
            return;
        };
        let bytes = acked
            .bytes
            .saturating_add(acked.packets.saturating_mul(HEADERS));
        self.bytes = self.bytes.saturating_add(bytes);
        let took = now.saturating_since(since);
        if took >= acked.srtt.max(LEAST) {
            let nanos = took.as_nanos().max(1);
            let rate = u128::from(self.bytes) * 1_000_000_000 / nanos;
            self.most = self.most.max(u64::try_from(rate).unwrap_or(u64::MAX));
            self.since = Some(now);
            self.bytes = 0;
        }
    }

    /// Returns the rate that a later connection may request.
    pub fn known(&self) -> Option<KnownPath> {
        let within = u128::from(self.most) * self.min_rtt.as_nanos() / 1_000_000_000;
        (within > u128::from(WORTH)).then_some(KnownPath {
            rate: self.most,
            rtt: Some(self.min_rtt),
        })
    }
}

#[cfg(test)]
mod tests {
    use pathmark_cc::PacketState;

    use super::*;

    fn acked(bytes: u64, rtt: Duration) -> Acked {
        Acked {
            bytes,
            packets: bytes / 1000,
            largest: 0,
            sent_at: Instant::ZERO,
            state: PacketState::default(),
            rtt: Some(rtt),
            forward_delay: None,
            srtt: rtt,
            min_rtt: rtt,
            in_flight_before: bytes,
            window_limited: true,
        }
    }

    /// Acknowledges `bytes` each millisecond from `from` until `until`, with round trips of 50 ms.
    fn run(rate: &mut ArrivalRate, from: u64, until: u64, bytes: u64) {
        for millis in from..until {
            let rtt = Duration::from_millis(50);
            rate.on_ack(Instant::from_millis(millis), &acked(bytes, rtt));
        }
    }

    #[test]
    fn it_is_the_most_of_any_round_trip_with_headers() {
        let mut rate = ArrivalRate::default();
        run(&mut rate, 0, 49, 1_000_000);
        assert_eq!(rate.known(), None, "no round trip yet");
        let mut rate = ArrivalRate::default();
        run(&mut rate, 0, 500, 2000);
        run(&mut rate, 500, 1001, 5000);
        run(&mut rate, 1001, 3000, 1000);
        let known = rate.known().unwrap();
        assert_eq!(known.rate, 5 * 1028 * 1000);
        assert_eq!(known.rtt, Some(Duration::from_millis(50)));
    }

    #[test]
    fn what_the_first_window_carries_is_not_kept_and_nothing_overflows() {
        let mut rate = ArrivalRate::default();
        run(&mut rate, 0, 500, 600);
        assert_eq!(rate.known(), None);
        for at in [0, 1, u64::MAX / 2_000_000] {
            let acked = acked(u64::MAX, Duration::from_secs(u64::MAX / 4_000_000_000));
            rate.on_ack(Instant::from_millis(at), &acked);
        }
        let _ = rate.known();
    }
}
