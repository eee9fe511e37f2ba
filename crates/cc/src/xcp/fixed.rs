//! Conversions between rates, windows and XCP's fixed-point scales.

use crate::base::Duration;
use crate::base::arith::{nanos, saturate};

pub(crate) const RATE_BITS: u32 = 16;

/// Largest rate in 2^-16 bytes per second: sixty-four times the largest capacity.
pub(crate) const MOST_RATE_Q16: u64 = 1 << 62;

/// 2^-40 s per µs, rounded up. A header may state an inter-packet time of up to its RTT, which is
/// the value for a window of one packet.
pub(crate) const X_PER_MICRO: u64 = 1_099_512;

/// Converts bytes per second to 2^-16 bytes per second.
pub(crate) fn to_q16(bytes_per_second: u64) -> u64 {
    bytes_per_second
        .saturating_mul(1 << RATE_BITS)
        .min(MOST_RATE_Q16)
}

/// The rate of `bytes` in `nanos`, in 2^-16 bytes per second, rounded down.
pub(crate) fn rate_q16(bytes: u64, nanos: u64) -> u64 {
    let wide = (u128::from(bytes) << RATE_BITS) * 1_000_000_000 / u128::from(nanos.max(1));
    u64::try_from(wide).map_or(MOST_RATE_Q16, |rate| rate.min(MOST_RATE_Q16))
}

/// Converts `time` to 2^-40 s, the unit of inter-packet times.
pub(crate) fn x_of(time: Duration) -> u64 {
    saturate((u128::from(nanos(time)) << 40) / 1_000_000_000)
}
