//! What arrives during a control interval.

use super::XcpCarried;
use super::params::MAX_INTERVAL;
use crate::Duration;
use crate::arith::{MAX_BYTES, micros, nanos, saturate};

/// 2^-40 s per µs, rounded up: a header may say as much inter-packet time as its RTT, for a window of one packet, and no more.
const X_PER_MICRO: u64 = 1_099_512;

/// Inter-packet times of so long a time, in 2^-40 s.
pub(crate) fn x_of(time: Duration) -> u64 {
    saturate((u128::from(nanos(time)) << 40) / 1_000_000_000)
}

/// Sums over the packets of an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sums {
    /// Bytes of all traffic.
    bytes: u64,
    /// Inter-packet times in 2^-40 s.
    x: u128,
    /// Inter-packet times times RTTs, in 2^-40 s · µs.
    x_rtt: u128,
    /// No inter-packet time counts as more: that of a flow with one packet per interval.
    most_x: u64,
    /// No RTT counts as more, in µs.
    most_rtt: u64,
}

impl Sums {
    pub(crate) fn new(interval: Duration, mean_rtt_us: u64, spread: u64) -> Self {
        Self {
            bytes: 0,
            x: 0,
            x_rtt: 0,
            most_x: x_of(interval).max(1),
            most_rtt: mean_rtt_us
                .saturating_mul(spread)
                .clamp(1, micros(MAX_INTERVAL)),
        }
    }

    /// A packet's inter-packet time as far as it can be true; 0 if its header takes no part.
    #[inline]
    pub(crate) fn x_counted(&self, header: &XcpCarried) -> u64 {
        let own = u64::from(header.rtt_us) * X_PER_MICRO;
        header.x.min(own).min(self.most_x)
    }

    /// Counts a packet's bytes.
    #[inline]
    pub(crate) fn count(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_add(u64::from(bytes)).min(MAX_BYTES);
    }

    /// Counts its header.
    #[inline]
    pub(crate) fn count_header(&mut self, header: &XcpCarried) {
        let x = self.x_counted(header);
        let rtt = u64::from(header.rtt_us).min(self.most_rtt);
        self.x += u128::from(x);
        self.x_rtt += u128::from(x) * u128::from(rtt);
    }

    /// Bytes so far.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sum of inter-packet times, in 2^-40 s.
    pub(crate) const fn x(&self) -> u128 {
        self.x
    }

    /// Mean RTT in µs, weighted by inter-packet times, so that each flow counts alike. `None`: no header told one.
    pub(crate) fn mean_rtt_us(&self) -> Option<u64> {
        (self.x > 0).then(|| saturate(self.x_rtt / self.x).max(1))
    }
}
