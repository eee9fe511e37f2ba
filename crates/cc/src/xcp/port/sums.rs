//! Sums over the arrivals during a control interval.

use super::drain::Level;
use crate::base::Duration;
use crate::base::arith::{MAX_BYTES, mul_div, saturate};
use crate::signals::XcpCarried;
use crate::xcp::params::{
    COVERS_SPREAD, GRANT_SPREAD, IMPLAUSIBLE_SPREAD, RTT_SPREAD, X_PER_MICRO, X_SPREAD, x_of,
};

/// The level of X per byte before anything was measured: no limit.
const NO_LEVEL: u64 = u64::MAX >> 8;

/// The longest RTT that counts, in µs.
const MOST_RTT: u32 = 65_535_000;

/// Sums over the packets of an interval, and limits for how much a header counts in them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums {
    /// Bytes of all traffic, of packets with headers, and of packets that state an RTT.
    bytes: u64,
    headed: u64,
    stated: u64,
    /// Inter-packet times in 2^-40 s.
    x: u128,
    /// Inter-packet times multiplied by RTTs, in 2^-40 s · µs.
    x_rtt: u128,
    /// Bytes multiplied by RTTs, in µs.
    bytes_rtt: u128,
    /// The longest stated RTT, in µs.
    longest_rtt: u32,
    /// Bytes that headers with plausible RTTs stand for, and the inter-packet times of these
    /// headers.
    plausible: (u64, u128),
    /// `None`: all headers are trusted, as published.
    guard: Option<Guard>,
}

/// Inter-packet times of flows without headers, in 2^-40 s, and their products with RTTs in µs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WeightedRtt {
    pub(crate) x: u128,
    pub(crate) x_rtt: u128,
}

#[derive(Clone, Copy, Debug)]
struct Guard {
    /// RTT in µs.
    rtt: Level,
    /// X per byte, in 2^-40 s.
    x_byte: Level,
    /// Number of packets that a header may stand for, from the packets without a header in the last
    /// interval.
    covers: u16,
    /// The largest RTT that counts, in µs.
    most_rtt: u32,
    /// RTTs above this value, in µs, are implausible.
    most_plausible: u64,
    /// The largest X per byte that counts for a header with an implausible RTT, in 2^-40 s.
    most_implausible: u64,
    /// The largest X per byte that counts in measurements, and in grants.
    most_counted: u64,
    most_granted: u64,
}

impl Guard {
    /// Bytes that a header stands for, limited by the packets seen without a header.
    fn stands_for(&self, header: &XcpCarried, bytes: u32) -> u64 {
        if header.covers <= 1 {
            return u64::from(bytes);
        }
        u64::from(bytes) * u64::from(header.covers.min(self.covers))
    }

    fn is_plausible(&self, header: &XcpCarried) -> bool {
        u64::from(header.rtt_us) <= self.most_plausible
    }

    /// The inter-packet time of a header, bounded by its RTT. If the RTT is implausible, the bytes
    /// that the header stands for bound it as well.
    fn x(&self, header: &XcpCarried, stands_for: u64) -> u64 {
        let x = header.x.min(own(header, self.most_rtt));
        if self.is_plausible(header) {
            x
        } else {
            x.min(stands_for.saturating_mul(self.most_implausible))
        }
    }

    /// Number of packets that one header may settle for. It is higher because flows can have
    /// headers on different parts of their packets.
    const fn most_covers(&self) -> u16 {
        match self.covers {
            covers @ 0..=1 => covers,
            covers => covers.saturating_mul(COVERS_SPREAD),
        }
    }

    fn limit(&mut self, plausible_us: u64) {
        let most = self.rtt.at().saturating_mul(RTT_SPREAD);
        let most = most.min(plausible_us).max(1);
        self.most_plausible = plausible_us;
        self.most_rtt = u32::try_from(most).unwrap_or(u32::MAX).min(MOST_RTT);
        self.most_counted = self.x_byte.at().saturating_mul(X_SPREAD);
        self.most_granted = self.x_byte.at().saturating_mul(GRANT_SPREAD);
    }
}

impl Sums {
    /// Creates empty sums. `rtt_us` is the initial level of RTTs; `None`: all headers are trusted.
    pub(crate) fn new(rtt_us: Option<u64>) -> Self {
        Self {
            bytes: 0,
            headed: 0,
            stated: 0,
            x: 0,
            x_rtt: 0,
            bytes_rtt: 0,
            longest_rtt: 0,
            plausible: (0, 0),
            guard: rtt_us.map(|rtt_us| {
                let mut guard = Guard {
                    rtt: Level::new(rtt_us),
                    x_byte: Level::new(NO_LEVEL),
                    covers: 1,
                    most_rtt: 0,
                    most_plausible: u64::MAX,
                    most_implausible: u64::MAX,
                    most_counted: 0,
                    most_granted: 0,
                };
                guard.limit(u64::MAX);
                guard
            }),
        }
    }

    /// Starts the next interval, with levels from the last interval. RTTs above `plausible_us` are
    /// implausible in it.
    pub(crate) fn turn(&mut self, plausible_us: u64) {
        if let Some(guard) = &mut self.guard {
            // A flow's first headers do not count yet, so no level follows from them.
            if guard.x_byte.at() != NO_LEVEL {
                guard.x_byte.turn(self.headed, 1);
            } else if self.x > 0 {
                let mean = saturate(self.x / u128::from(self.headed.max(1)));
                guard.x_byte = Level::new(mean.max(1));
            }
            guard.rtt.turn(self.stated, 1);
            let bare = self.bytes.saturating_sub(self.headed);
            let covers = 1 + bare.div_ceil(self.headed.max(1));
            guard.covers = u16::try_from(covers).unwrap_or(u16::MAX);
            guard.limit(plausible_us);
            let (bytes, x) = self.plausible;
            if bytes > 0 {
                let mean = saturate(x / u128::from(bytes)).max(1);
                guard.most_implausible = mean.saturating_mul(IMPLAUSIBLE_SPREAD);
            }
        }
        (self.bytes, self.headed, self.stated, self.longest_rtt) = (0, 0, 0, 0);
        (self.x, self.x_rtt, self.bytes_rtt) = (0, 0, 0);
        self.plausible = (0, 0);
    }

    /// The longest RTT that counts in full, in µs.
    pub(crate) fn most_rtt_us(&self) -> u64 {
        self.guard
            .as_ref()
            .map_or(u64::from(MOST_RTT), |guard| u64::from(guard.most_rtt))
    }

    /// The part of a departing packet's inter-packet time on which its share may be based; 0 if its
    /// header does not take part.
    pub(crate) fn x_granted(&self, header: &XcpCarried, bytes: u32) -> u64 {
        match &self.guard {
            None => as_stated(header),
            Some(guard) => {
                let stands_for = guard.stands_for(header, bytes);
                let most = stands_for.saturating_mul(guard.most_granted);
                guard.x(header, stands_for).min(most)
            }
        }
    }

    /// Bytes that a departing packet's header settles for, limited to a few times the packets
    /// without a header.
    pub(crate) fn settles_for(&self, header: &XcpCarried, bytes: u32) -> u64 {
        let most = self.guard.as_ref().map_or(u16::MAX, Guard::most_covers);
        u64::from(bytes) * u64::from(header.covers.min(most).max(1))
    }

    pub(crate) fn count(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_add(u64::from(bytes)).min(MAX_BYTES);
    }

    /// Records the header of a packet of `bytes`, whether it is trusted or not. Returns the
    /// inter-packet time that counts.
    pub(crate) fn hear(&mut self, header: &XcpCarried, bytes: u32) -> u64 {
        self.headed = self.headed.saturating_add(u64::from(bytes)).min(MAX_BYTES);
        self.count_rtt(header.rtt_us, bytes);
        let Some(guard) = &mut self.guard else {
            return as_stated(header);
        };
        let stands_for = guard.stands_for(header, bytes);
        let size = u64::from(bytes);
        let x = guard.x(header, stands_for);
        if guard.is_plausible(header) {
            self.plausible.0 = self.plausible.0.saturating_add(stands_for);
            self.plausible.1 += u128::from(x);
        }
        let at = stands_for.saturating_mul(guard.x_byte.at());
        guard.x_byte.count(x, at, size);
        x.min(stands_for.saturating_mul(guard.most_counted))
    }

    /// Counts the RTT that a packet of `bytes` states, and returns the part that counts, in µs.
    pub(crate) fn count_rtt(&mut self, rtt_us: u32, bytes: u32) -> u64 {
        let size = u64::from(bytes);
        self.stated = self.stated.saturating_add(size).min(MAX_BYTES);
        self.longest_rtt = self.longest_rtt.max(rtt_us);
        let rtt = u64::from(rtt_us).min(self.most_rtt_us());
        self.bytes_rtt += u128::from(size) * u128::from(rtt);
        if let Some(guard) = &mut self.guard {
            guard.rtt.count(u64::from(rtt_us), guard.rtt.at(), size);
        }
        rtt
    }

    /// Adds a header with inter-packet time `x` to the sums.
    pub(crate) fn count_header(&mut self, header: &XcpCarried, x: u64) {
        let rtt = u64::from(header.rtt_us).min(self.most_rtt_us());
        self.x += u128::from(x);
        self.x_rtt += u128::from(x) * u128::from(rtt);
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) const fn x(&self) -> u128 {
        self.x
    }

    pub(crate) fn stated_us(&self) -> u64 {
        u64::from(self.longest_rtt.min(MOST_RTT))
    }

    /// Mean RTT in µs, weighted by bytes.
    pub(crate) fn mean_rtt_of_bytes(&self) -> u64 {
        saturate(self.bytes_rtt / u128::from(self.stated.max(1))).max(1)
    }

    /// Mean RTT in µs, weighted by inter-packet times, so that all flows count equally. Flows
    /// without headers contribute `others`. `None`: no flow stated an RTT.
    pub(crate) fn mean_rtt_us(&self, others: WeightedRtt) -> Option<u64> {
        let x = self.x + others.x;
        (x > 0).then(|| saturate((self.x_rtt + others.x_rtt) / x).max(1))
    }
}

/// The inter-packet time of a flow with a window of one packet.
fn own(header: &XcpCarried, most_rtt: u32) -> u64 {
    u64::from(header.rtt_us.min(most_rtt)) * X_PER_MICRO
}

/// As published: a header without an RTT does not take part. The result is limited so that sums do
/// not overflow.
fn as_stated(header: &XcpCarried) -> u64 {
    if header.rtt_us == 0 {
        return 0;
    }
    header.x.min(u64::from(MOST_RTT) * X_PER_MICRO)
}

/// A packet's part of its flow's window, as the inter-packet time of a flow whose RTT is
/// `interval`; limited to half of the interval.
#[cold]
pub(crate) fn x_of_window(header: &XcpCarried, interval: Duration) -> u64 {
    let whole = x_of(interval);
    let own = own(header, MOST_RTT);
    mul_div(header.x.min(own), whole, own.max(1)).min(whole / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: XcpCarried = XcpCarried {
        rtt_us: 80_000,
        // Ten packets per round trip.
        x: (80_000 * X_PER_MICRO) / 10,
        delta: 0,
        covers: 1,
        cloud: None,
    };

    #[test]
    fn a_first_flow_counts_for_what_it_says_once_it_is_known() {
        // Flows without headers were there before, so the first interval with a header does not
        // count it.
        let mut sums = Sums::new(Some(50_000));
        for _ in 0..20 {
            sums.count(1500);
        }
        sums.turn(u64::MAX);
        for known in [false, true, true] {
            for _ in 0..10 {
                sums.count(1500);
                let x = sums.hear(&HEADER, 1500);
                assert_eq!(x, HEADER.x, "{known}");
                if known {
                    sums.count_header(&HEADER, x);
                }
            }
            let expected = if known { 10 * u128::from(HEADER.x) } else { 0 };
            assert_eq!(sums.x(), expected);
            sums.turn(u64::MAX);
        }
        // From then on, a single header has limited influence.
        let slow = XcpCarried {
            x: 80_000 * X_PER_MICRO,
            ..HEADER
        };
        assert!(sums.hear(&slow, 1500) < slow.x);
    }

    /// Simulates an interval of honest headers, and a tenth as many with an RTT of 100 s. Returns
    /// the mean RTTs over flows and over bytes, and the X that counts for one of the long RTTs.
    fn next_to_long_rtts(sums: &mut Sums, plausible_us: u64) -> (u64, u64, u64) {
        let long = XcpCarried {
            rtt_us: 100_000_000,
            x: 80_000 * X_PER_MICRO,
            ..HEADER
        };
        let mut counted = 0;
        for _ in 0..10 {
            for _ in 0..10 {
                sums.count(1500);
                let x = sums.hear(&HEADER, 1500);
                sums.count_header(&HEADER, x);
            }
            sums.count(1500);
            counted = sums.hear(&long, 1500);
            sums.count_header(&long, counted);
        }
        let over_flows = sums.mean_rtt_us(WeightedRtt::default()).unwrap();
        let over_bytes = sums.mean_rtt_of_bytes();
        sums.turn(plausible_us);
        (over_flows, over_bytes, counted)
    }

    #[test]
    fn a_header_whose_rtt_is_not_plausible_counts_for_about_its_bytes() {
        let mut sums = Sums::new(Some(80_000));
        for _ in 0..20 {
            next_to_long_rtts(&mut sums, u64::MAX);
        }
        let (over_flows, over_bytes, counted) = next_to_long_rtts(&mut sums, 16 * 80_000);
        assert!(over_flows > 10_000_000 && over_bytes > 5_000_000);
        assert!(counted > 8 * HEADER.x, "{counted}");
        // The mean X of the others is known after an interval.
        next_to_long_rtts(&mut sums, 16 * 80_000);
        for _ in 0..3 {
            let (over_flows, over_bytes, counted) = next_to_long_rtts(&mut sums, 16 * 80_000);
            // A tenth of the bytes with 16 times the RTT, and with twice the mean X.
            assert!(over_bytes < 80_000 * 5 / 2, "{over_bytes} µs");
            assert!(over_flows < 80_000 * 4, "{over_flows} µs");
            assert_eq!(counted, 2 * HEADER.x / 1500 * 1500);
        }
    }
}
