//! Conversion between the laws' rate form and the compact header's window form (XCP Linux paper,
//! section II-B).

use pathmark_cc::{WindowForm, XcpCarried, XcpRequest};

use crate::h_feedback;

/// Maximum number of packets that a compact header can cover.
pub const MAX_COMPACT_COVERS: u16 = 8;

/// Fields of the compact form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compact {
    /// Number of packets that the header covers, 1 to [`MAX_COMPACT_COVERS`].
    pub covers: u16,
    /// Window in packets; 0: unknown.
    pub cwnd: u16,
    /// RTT in ms, rounded up; 0: unknown.
    pub rtt_ms: u16,
    /// Window change, see [`h_feedback`].
    pub feedback: u16,
}

/// Returns the compact fields for a sender's request. The RTT is rounded up, the window to the
/// nearest packet, and the feedback down.
pub fn compact(request: &XcpRequest) -> Compact {
    let packet = u64::from(request.packet.max(1));
    let rtt_ms = u16::try_from(request.rtt_us.div_ceil(1000)).unwrap_or(u16::MAX);
    let cwnd = if request.x == 0 {
        0
    } else {
        let packets = request.window.saturating_add(packet / 2) / packet;
        u16::try_from(packets.max(1)).unwrap_or(u16::MAX)
    };
    let form = WindowForm {
        rtt_us: u32::from(rtt_ms) * 1000,
        window_packets: cwnd.into(),
        feedback_q12: 0,
    };
    Compact {
        covers: request.covers.clamp(1, MAX_COMPACT_COVERS),
        cwnd,
        rtt_ms,
        feedback: h_feedback::encode(form.feedback_q12(request.delta, request.packet.into())),
    }
}

impl Compact {
    /// Window change in 2⁻¹² packets.
    #[inline]
    pub const fn feedback_q12(&self) -> i64 {
        h_feedback::decode(self.feedback)
    }

    const fn form(&self) -> WindowForm {
        WindowForm {
            rtt_us: self.rtt_ms as u32 * 1000,
            window_packets: self.cwnd as u32,
            feedback_q12: self.feedback_q12(),
        }
    }

    /// The fields in the rate form, for a packet of `bytes`. The inter-packet time is that of
    /// all packets that the header covers.
    pub fn carried(&self, bytes: u32) -> XcpCarried {
        let one = self.form().carried(bytes);
        XcpCarried {
            x: one.x.saturating_mul(self.covers.into()),
            covers: self.covers,
            ..one
        }
    }

    /// The change of rate in 2⁻¹⁶ bytes per second, for a packet of `bytes`, rounded down.
    pub fn delta(&self, bytes: u32) -> i64 {
        self.form().delta(bytes)
    }

    /// The feedback word for a lower change of rate; never above the current feedback.
    pub fn lowered(&self, delta: i64, bytes: u32) -> u16 {
        let word = h_feedback::encode(self.form().feedback_q12(delta, bytes));
        if h_feedback::decode(word) < self.feedback_q12() {
            word
        } else {
            self.feedback
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A flow of 100 packets of 1500 bytes per 100 ms that requests 12.35 Mbytes/s in total,
    /// distributed over its packets.
    #[test]
    fn known_answers() {
        let request = XcpRequest {
            rtt_us: 100_000,
            x: 1_099_511_627,
            delta: 123_500 << 16,
            covers: 1,
            window: 150_000,
            packet: 1500,
        };
        let compact = compact(&request);
        // 123 500 B/s · 0.1 s ÷ 1500 B = 8.2333 packets.
        assert_eq!(
            (compact.covers, compact.cwnd, compact.rtt_ms),
            (1, 100, 100)
        );
        assert_eq!(compact.feedback, 0x41D9);
        let carried = compact.carried(1500);
        assert_eq!(carried.rtt_us, 100_000);
        assert_eq!(carried.x, 1_099_511_627);
        // 8.23046875 packets · 1500 B ÷ 0.1 s = 123 457.03125 B/s.
        assert_eq!(carried.delta, 8_090_880_000);
    }

    #[test]
    fn unknown_stays_unknown_and_little_is_not_nothing() {
        let unknown = compact(&XcpRequest::default());
        assert_eq!((unknown.cwnd, unknown.rtt_ms, unknown.feedback), (0, 0, 0));
        assert_eq!(
            unknown.carried(1500),
            XcpCarried {
                covers: 1,
                ..XcpCarried::default()
            }
        );
        let near = compact(&XcpRequest {
            rtt_us: 120,
            x: 7,
            window: 700,
            packet: 1500,
            covers: 300,
            ..XcpRequest::default()
        });
        assert_eq!((near.cwnd, near.rtt_ms, near.covers), (1, 1, 8));
    }

    proptest! {
        /// A decoded request gives at most the requested change and not much less, and lowering
        /// never raises it.
        #[test]
        fn rounding(
            rtt_ms in 1..65_000u32, packets in 1..65_535u64, packet in 512..9000u16,
            delta in -(1i64 << 45)..1 << 45,
            // Changes of rate are bounded by 2⁶² in both directions.
            lower in -(1i64 << 62)..=i64::MAX,
        ) {
            let request = XcpRequest {
                rtt_us: rtt_ms * 1000, x: 1, delta, covers: 1, window: packets * u64::from(packet),
                packet,
            };
            let compact = compact(&request);
            prop_assert_eq!(u64::from(compact.cwnd), packets);
            let read = compact.delta(packet.into());
            let window = delta as f64 / 65_536.0 * f64::from(rtt_ms) / 1000.0 / f64::from(packet);
            if window.abs() < 2e8 {
                prop_assert!(read <= delta);
                let got = read as f64 / 65_536.0 * f64::from(rtt_ms) / 1000.0 / f64::from(packet);
                prop_assert!(
                    window - got <= window.abs() / 256.0 + 1.1 / 4096.0,
                    "{} {}",
                    window,
                    got,
                );
            }
            let lowered = Compact { feedback: compact.lowered(lower, packet.into()), ..compact };
            prop_assert!(lowered.feedback_q12() <= compact.feedback_q12());
            let least = lowered.feedback_q12() == h_feedback::MIN_Q12;
            prop_assert!(lowered.delta(packet.into()) <= lower || least);
        }
    }
}
