//! The papers' window form: a header that carries the window and a window change instead of
//! inter-packet time and rate change.
//!
//! Because a port computes in rates (see the docs of `xcp`), a header in the window form is
//! converted to the rate form, and the answer is converted back: X = rtt · s / cwnd, Δrate = Δcwnd
//! / rtt. Each conversion rounds to the less aggressive side.

use super::fixed::RATE_BITS;
use crate::base::arith::saturate;
use crate::signals::XcpCarried;

/// Fraction bits of a window change in packets, from the smallest change in the compact form.
const FEEDBACK_BITS: u32 = 12;
/// Fraction bits of an inter-packet time in seconds.
const X_BITS: u32 = 40;
const MICROS: u128 = 1_000_000;
/// Largest absolute rate change, in 2^-16 bytes per second.
const MOST: i128 = 1 << 62;

/// A header in the window form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowForm {
    /// Smoothed RTT of the sender in µs; 0: unknown.
    pub rtt_us: u32,
    /// Window of the sender in packets; 0: unknown.
    pub window_packets: u32,
    /// Requested window change per packet, in 2^-12 packets.
    pub feedback_q12: i64,
}

impl WindowForm {
    /// Converts the header to the rate form, for a packet of `bytes` bytes (as both the window and
    /// routers count them).
    pub fn carried(&self, bytes: u32) -> XcpCarried {
        let window = u128::from(self.window_packets);
        let x = (u128::from(self.rtt_us) << X_BITS) / (MICROS * window.max(1));
        XcpCarried {
            rtt_us: self.rtt_us,
            x: if window == 0 { 0 } else { saturate(x) },
            delta: self.delta(bytes),
            covers: 1,
            cloud: None,
        }
    }

    /// The rate change in 2^-16 bytes per second, rounded down.
    pub fn delta(&self, bytes: u32) -> i64 {
        if self.rtt_us == 0 {
            return self.feedback_q12.min(0);
        }
        let bytes_q12 = i128::from(self.feedback_q12) * i128::from(bytes);
        let scaled = bytes_q12 * (1_000_000 << (RATE_BITS - FEEDBACK_BITS));
        let delta = scaled.div_euclid(i128::from(self.rtt_us));
        i64::try_from(delta.clamp(-MOST, MOST)).unwrap_or(0)
    }

    /// Converts a rate change `delta` in 2^-16 bytes per second to a window change in 2^-12
    /// packets, rounded down.
    pub fn feedback_q12(&self, delta: i64, bytes: u32) -> i64 {
        if self.rtt_us == 0 {
            return delta.min(0);
        }
        let scaled = i128::from(delta) * i128::from(self.rtt_us);
        let unit = (i128::from(bytes.max(1)) * 1_000_000) << (RATE_BITS - FEEDBACK_BITS);
        i64::try_from(scaled.div_euclid(unit)).unwrap_or(i64::MIN)
    }
}
