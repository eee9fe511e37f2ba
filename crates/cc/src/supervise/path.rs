//! The state of a path that does not depend on the routers' protocol.

use super::fallback::{Fallback, FallbackLaw};
use super::mode::ModeSelector;
use super::recent_rtt::RecentRtt;
use crate::base::{Duration, Instant};
use crate::bottleneck::{HiddenHop, Step};
use crate::law::{Acked, Limits, PacketState, Sent};
use crate::signals::Carrier;

/// Round trip assumed while none is measured (the simulator of the VCP papers' typical RTT).
pub(crate) const TYPICAL_RTT: Duration = Duration::from_millis(100);

/// What a path is known to be, whichever law controls the window.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// Largest datagram, bytes of UDP payload.
    pub(crate) mtu: u64,
    /// Standard control in the routers' place.
    pub(crate) fallback: Fallback,
    /// Whether routers answer.
    pub(crate) mode: ModeSelector,
    /// Losses and delays as evidence of hops without feedback.
    pub(crate) hidden: HiddenHop,
    /// The smoothed RTT, no longer than recent samples.
    pub(crate) srtt: Option<Duration>,
    /// The smoothed RTT as the transport has it.
    pub(crate) smoothed: Option<Duration>,
    recent: RecentRtt,
    pub(crate) min_rtt: Option<Duration>,
    /// Largest packet number sent.
    pub(crate) last_sent: u64,
    /// The latest bounds of the sender other than the window.
    pub(crate) limits: Limits,
    /// Feedback came with the acknowledgement that is being processed.
    pub(super) fed: bool,
}

impl Path {
    /// A path that begins at `now` and carries datagrams of `mtu` bytes; `initial` of them first,
    /// or RFC 9002's initial window. `step`: how fast the law's window may grow.
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

    /// The smoothed RTT, or a typical one.
    #[inline]
    pub(crate) fn rtt(&self) -> Duration {
        self.srtt.unwrap_or(TYPICAL_RTT)
    }

    /// True while routers answer and no hop without feedback is the narrow one.
    #[inline]
    pub(crate) const fn answered(&self) -> bool {
        self.mode.routers() && !self.hidden.rules()
    }

    /// Another law goes on from here, whose window may grow by `step`. Feedback for the law before
    /// is not feedback for it.
    pub(crate) const fn exchange(&mut self, step: Step) {
        self.hidden.set_step(step);
        self.fed = false;
    }

    /// Feedback came that counts as an answer, whatever its protocol.
    pub(crate) const fn note_feedback(&mut self) {
        self.fed = true;
    }

    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.last_sent = self.last_sent.max(sent.packet_number);
        self.hidden.on_sent(sent.packet_number);
        self.fallback.on_sent(now, sent)
    }

    /// A round trip took `rtt`.
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
