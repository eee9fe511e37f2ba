//! How a sender computes the contents of the next header.

use crate::base::Duration;
use crate::base::arith::{micros, mul_div};
use crate::signals::XcpRequest;
use crate::xcp::fixed::{to_q16, x_of};

/// The state and the wish of a sender, from which the next header is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) srtt: Duration,
    /// The minimum of the congestion window and every other limit, in bytes.
    pub(crate) window: u64,
    /// The rate that the sender could use, in bytes per second. A sender that does not use its
    /// current rate must not wish for more.
    pub(crate) desired: u64,
    /// Bytes of a full packet.
    pub(crate) mtu: u64,
    /// Bytes of all packets that the header stands for.
    pub(crate) bytes: u64,
    pub(crate) covers: u16,
}

impl Wish {
    pub(crate) fn request(&self) -> XcpRequest {
        let window = self.window.max(1);
        let rtt_us = micros(self.srtt).max(1);
        let have = mul_div(to_q16(window), 1_000_000, rtt_us);
        let want = to_q16(self.desired).saturating_sub(have);
        // Spreads the request over the packets of one round trip.
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
