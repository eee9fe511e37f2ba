//! State of a path that doesn't depend on the routers' protocol.

use super::fallback::{Fallback, FallbackLaw};
use super::mode::ModeSelector;
use super::recent_rtt::RecentRtt;
use crate::base::{Duration, Instant};
use crate::bottleneck::{HiddenHop, Step};
use crate::law::{Acked, Limits, PacketState, Sent};
use crate::signals::Carrier;

/// RTT assumed before a measurement, which is the typical RTT in the VCP papers' simulator.
pub(crate) const TYPICAL_RTT: Duration = Duration::from_millis(100);

/// Knowledge about a path, regardless of the law that controls the window.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// Largest datagram in bytes of UDP payload.
    pub(crate) mtu: u64,
    pub(crate) fallback: Fallback,
    /// Whether routers answer.
    pub(crate) mode: ModeSelector,
    /// Losses and delays as evidence of hops without feedback.
    pub(crate) hidden: HiddenHop,
    /// Smoothed RTT, limited by recent samples.
    pub(crate) srtt: Option<Duration>,
    /// The transport's smoothed RTT.
    pub(crate) smoothed: Option<Duration>,
    recent: RecentRtt,
    pub(crate) min_rtt: Option<Duration>,
    /// Largest packet number sent.
    pub(crate) last_sent: u64,
    /// Current limits of the sender other than the window.
    pub(crate) limits: Limits,
    /// True if the acknowledgement being processed carried feedback.
    pub(super) fed: bool,
}

impl Path {
    /// Creates the state of a path that begins at `now` with datagrams of `mtu` bytes. The initial
    /// window is `initial` datagrams, or RFC 9002's with `None`. `step` limits how fast the law's
    /// window may grow.
    pub(crate) fn new(
        now: Instant,
        mtu: u16,
        initial: Option<u32>,
        fallback: FallbackLaw,
        carrier: Carrier,
        step: Step,
    ) -> Self {
        Self {
            mtu: u64::from(mtu.max(1)),
            fallback: Fallback::new(fallback, now, mtu, initial),
            mode: ModeSelector::new(now, carrier),
            hidden: HiddenHop::new(now, u64::from(mtu.max(1)), step),
            srtt: None,
            smoothed: None,
            recent: RecentRtt::new(now),
            min_rtt: None,
            last_sent: 0,
            limits: Limits::NONE,
            fed: false,
        }
    }

    /// Returns the smoothed RTT, or a typical RTT before a measurement.
    #[inline]
    pub(crate) fn rtt(&self) -> Duration {
        self.srtt.unwrap_or(TYPICAL_RTT)
    }

    /// Returns true while routers answer and the bottleneck isn't a hop without feedback.
    #[inline]
    pub(crate) const fn answered(&self) -> bool {
        self.mode.routers() && !self.hidden.rules()
    }

    /// Switches to another law, whose window may grow by `step`. Feedback received for the previous
    /// law doesn't count for it.
    pub(crate) const fn exchange(&mut self, step: Step) {
        self.hidden.set_step(step);
        self.fed = false;
    }

    /// Notes feedback that counts as an answer, whatever its protocol.
    pub(crate) const fn note_feedback(&mut self) {
        self.fed = true;
    }

    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.last_sent = self.last_sent.max(sent.packet_number);
        self.hidden.on_sent(sent.packet_number);
        self.fallback.on_sent(now, sent)
    }

    #[inline]
    pub(super) fn on_rtt(&mut self, now: Instant, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.recent.on_sample(now, rtt);
        }
    }

    #[inline]
    pub(super) fn set_srtt(&mut self, srtt: Duration) {
        self.smoothed = Some(srtt);
        self.srtt = Some(self.recent.bound(srtt));
    }

    #[inline]
    pub(super) fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.on_rtt(now, acked.rtt);
        self.set_srtt(acked.srtt);
        self.min_rtt = Some(acked.min_rtt);
    }

    pub(super) fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        self.smoothed.get_or_insert(srtt);
        self.srtt.get_or_insert(srtt);
        self.fallback.law_mut().on_handshake_rtt(now, srtt);
    }

    pub(super) fn on_mtu(&mut self, mtu: u16) {
        self.fallback.on_mtu(mtu);
        self.mtu = u64::from(mtu.max(1));
        self.hidden.set_mtu(self.mtu);
    }
}
