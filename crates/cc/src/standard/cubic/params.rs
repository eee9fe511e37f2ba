//! CUBIC's constants (RFC 9438 §4.1, §4.3, §4.6, §4.7).

/// β of RFC 9438 (§4.6), in 10^-6: the share of the window that a cut leaves.
pub(crate) const BETA_PPM: u64 = 700_000;

/// The share that a cut leaves in the CUBIC of Ha, Rhee and Xu ("CUBIC: a new TCP-friendly
/// high-speed TCP variant", 2008), which later papers simulate.
pub(crate) const BETA_2008_PPM: u64 = 800_000;

/// C = 0.4 packets/s³ as 4 / 10, with the 10^18 µs³ of a cubic second: C·mtu·(µs)³ = 4·mtu·x³ /
/// `C_DIVISOR` bytes.
pub(crate) const C_NUMERATOR: u64 = 4;
pub(crate) const C_DIVISOR: u64 = 10_000_000_000_000_000_000;

/// The window may grow by at most half per round trip (RFC 9438 §4.2: target ≤ 1.5 cwnd).
pub(crate) const MAX_GROWTH: (u64, u64) = (3, 2);

/// The curve is evaluated within this time on either side of K: 2^36 µs, about 19 hours.
pub(crate) const MAX_OFFSET_US: u64 = 1 << 36;
