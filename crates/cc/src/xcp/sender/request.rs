//! What goes into the next header.

use crate::base::Duration;
use crate::base::arith::{micros, mul_div};
use crate::signals::XcpRequest;
use crate::xcp::fixed::{to_q16, x_of};

/// What a sender has and wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) srtt: Duration,
    /// The least of the congestion window and every other limit, in bytes.
    pub(crate) window: u64,
    /// The rate it could make use of, in bytes per second; no more than it has if it does not use
    /// that.
    pub(crate) desired: u64,
    /// Bytes of a full packet.
    pub(crate) mtu: u64,
    /// Bytes of the packets that the header stands for.
    pub(crate) bytes: u64,
    pub(crate) covers: u16,
}

impl Wish {
    /// The header with these values.
    pub(crate) fn request(&self) -> XcpRequest {
        let window = self.window.max(1);
        let rtt_us = micros(self.srtt).max(1);
        let have = mul_div(to_q16(window), 1_000_000, rtt_us);
        let want = to_q16(self.desired).saturating_sub(have);
        // Spread over the packets of one round trip.
        let delta = mul_div(want, self.bytes, window);
        XcpRequest {
            rtt_us: u32::try_from(rtt_us).unwrap_or(u32::MAX),
            x: mul_div(x_of(self.srtt), self.bytes, window),
            delta: i64::try_from(delta).unwrap_or(i64::MAX),
            covers: self.covers,
            window,
            packet: u16::try_from(self.mtu).unwrap_or(u16::MAX),
        }
    }
}
