//! The sender of the XCP papers, without this library's additional rules.
//!
//! The window changes only by the feedback in headers, and never falls below one packet (XCP-i
//! paper, section II-A). A fast retransmit leaves it unchanged, and a timeout sets it to one packet
//! (XCP Linux paper, section II-C.2; XCP-i paper, section II-A; XCP/CUBIC paper, section III-D).
//! The sender states its window whatever else limits it, and always requests as much as possible.
//! It doesn't look for hops without feedback, and never hands its window to another law.

use super::request::Wish;
use super::steering::Steering;
use crate::base::arith::rate;
use crate::base::{Duration, Instant, arith};
use crate::law::{Acked, Controller, Lost, PacketState, Sent, UNPACED};
use crate::metrics::{Metrics, Phase};
use crate::signals::{Feedback, Request, XcpRequest};
use crate::supervise::RetransmissionTimeout;
use crate::xcp::params::{MOST_DESIRED, XcpParams};

/// If packets are paced, they leave slightly faster than one window per round trip.
const PACE: (u64, u64) = (33, 32);

#[derive(Clone, Debug)]
pub(crate) struct PublishedXcp {
    params: XcpParams,
    mtu: u64,
    steering: Steering,
    timeout: RetransmissionTimeout,
    srtt: Option<Duration>,
    /// Bytes sent since the last header, including its packet, and packets sent after it.
    headed_bytes: u64,
    headed_packets: u16,
    /// Negative feedback has arrived.
    settled: bool,
}

impl PublishedXcp {
    /// Creates a sender for a path that begins at `now` and carries datagrams of `mtu` bytes.
    pub(crate) fn new(now: Instant, mtu: u16, params: XcpParams) -> Self {
        let mtu = u64::from(mtu.max(1));
        Self {
            mtu,
            steering: Steering::new(now, arith::initial(mtu, params.initial_window)),
            timeout: RetransmissionTimeout::new(params.sack),
            srtt: None,
            headed_bytes: 0,
            headed_packets: 0,
            settled: false,
            params,
        }
    }

    fn obey(&mut self, now: Instant, timeout: bool) {
        if timeout {
            self.steering = Steering::new(now, self.mtu);
        }
    }

    fn next_header(&self) -> XcpRequest {
        let covers = self.headed_packets.saturating_add(1);
        let window = self.steering.bytes();
        let Some(srtt) = self.srtt else {
            return XcpRequest {
                covers,
                window,
                packet: u16::try_from(self.mtu).unwrap_or(u16::MAX),
                ..XcpRequest::default()
            };
        };
        let wish = Wish {
            srtt,
            window,
            desired: MOST_DESIRED,
            mtu: self.mtu,
            bytes: match self.headed_bytes {
                0 => self.mtu,
                bytes => bytes,
            },
            covers,
        };
        wish.request()
    }
}

impl Controller for PublishedXcp {
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.timeout.on_sent(now, sent);
        if sent.signal {
            self.headed_bytes = 0;
            self.headed_packets = 0;
        } else {
            self.headed_packets = self.headed_packets.saturating_add(1);
        }
        self.headed_bytes = self.headed_bytes.saturating_add(sent.bytes);
        PacketState {
            explicit: sent.packet_number,
            ..PacketState::default()
        }
    }

    fn on_feedback(&mut self, _now: Instant, feedback: &Feedback, acked: &Acked) {
        let Feedback::Xcp(feedback) = feedback else {
            return;
        };
        if !self.params.sack && !self.timeout.is_new(acked.largest) {
            return;
        }
        let srtt = self.srtt.unwrap_or(acked.srtt);
        self.settled |= feedback.delta < 0;
        self.steering.apply(feedback.delta, srtt, self.mtu);
    }

    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.srtt = Some(acked.srtt);
        let timeout = self.timeout.on_ack(now, acked);
        self.obey(now, timeout);
    }

    fn on_loss(&mut self, _now: Instant, lost: &Lost) {
        let _fast_retransmit = self.timeout.on_loss(lost, self.mtu);
    }

    fn on_probe_timeout(&mut self, now: Instant) {
        let timeout = self.timeout.on_time(now);
        self.obey(now, timeout);
    }

    /// No packet arrived for several round trips, so the timeout has expired or is due.
    fn on_persistent_congestion(&mut self, now: Instant) {
        self.obey(now, true);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu.max(1));
        self.steering.floor(self.mtu);
    }

    fn on_handshake_rtt(&mut self, _now: Instant, srtt: Duration) {
        self.srtt.get_or_insert(srtt);
    }

    fn window(&self) -> u64 {
        self.timeout.leaves(self.steering.bytes(), self.mtu)
    }

    fn pacing_rate(&self) -> Option<u64> {
        if self.params.paced {
            Some(rate(self.window(), self.srtt?, PACE.0, PACE.1))
        } else {
            Some(UNPACED)
        }
    }

    fn request(&self) -> Request {
        Request {
            xcp: Some(self.next_header()),
            ..Request::default()
        }
    }

    fn signal_every(&self) -> u32 {
        u32::from(self.params.every)
    }

    fn metrics(&self) -> Metrics {
        let phase = match (self.timeout.holds_back(), self.settled) {
            (true, _) => Phase::Recovery,
            (false, true) => Phase::Avoidance,
            (false, false) => Phase::Startup,
        };
        Metrics {
            explicit: true,
            timeouts: Some(self.timeout.timeouts()),
            ..Metrics::new("xcp", phase, self.steering.bytes())
        }
    }
}
