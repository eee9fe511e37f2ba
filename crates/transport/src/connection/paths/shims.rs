//! The shim in front of the next datagram, which is the controller's request or its question for a
//! starting rate; and the known state of a path, for questions before the handshake is complete.

use pathmark_cc::{KnownPath, Limits, Request};

use super::feedback::ShimUse;
use super::path::Path;
use super::{MIN_UNVALIDATED, Paths};
use crate::wire::Writer;
use crate::{Duration, Instant};

/// A connection's measurements of its path, for later connections between the same addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownPath {
    /// The highest rate that it carried within a round trip, if this is worth a question.
    pub path: Option<KnownPath>,
    /// Whether routers of this path were asked for the rate that was known before.
    pub asked: bool,
}

impl Paths {
    /// Sets the state of the path known from an earlier connection.
    pub(in crate::connection) const fn set_known(&mut self, known: Option<KnownPath>) {
        self.known = known;
    }

    /// Returns the known state of the path, for questions. A configured rate takes precedence.
    pub(in crate::connection) fn known(&self) -> Option<KnownPath> {
        let configured = self.config.known_rate;
        let configured = configured.map(|rate| KnownPath { rate, rtt: None });
        configured.or(self.known)
    }

    /// Returns the connection's measurements of its path, once. An address that isn't validated is
    /// never reported, because the peer may have forged it.
    pub(in crate::connection) fn poll_shown(&mut self) -> Option<ShownPath> {
        if core::mem::replace(&mut self.shown, true) {
            return None;
        }
        let path = &self.path;
        path.is_validated().then(|| ShownPath {
            path: path.route.arrivals.known(),
            asked: path.route.asked,
        })
    }
}

impl Path {
    /// Returns true if the next packet should carry the controller's request in a shim. `probe` is
    /// the index of a probe, of which only one of two has a shim.
    pub(in crate::connection) fn wants_shim(
        &mut self,
        now: Instant,
        probe: Option<u8>,
        srtt: Duration,
    ) -> bool {
        if !self.feedback.has_shim() || !self.route.plain.wants_shim(now, probe) {
            return false;
        }
        let every = self.route.controller.signal_every();
        every <= 1 || self.route.cadence.due(now, every, srtt)
    }

    /// Writes the shim at the front of a datagram, if there's room for it. `min_rtt` is the minimum
    /// RTT, which the handshake has measured before the controller gets its first packet. `next` is
    /// the number of the next packet.
    pub(in crate::connection) fn write_request(
        &mut self,
        now: Instant,
        limits: &Limits,
        min_rtt: Option<Duration>,
        next: u64,
        w: &mut Writer<'_>,
    ) -> ShimUse {
        self.route.controller.on_limits(now, limits);
        let mut request = self.route.controller.request();
        request.min_rtt = request.min_rtt.or(min_rtt);
        request.ipv6 = self.address.is_ipv6();
        if let Some(wanted) = request.signal {
            self.feedback.choose(wanted, next);
        }
        let len = self.feedback.shim_len(&request);
        // So few bytes may be permitted to an address that isn't validated that the shim would
        // leave no room.
        if w.remaining() < len + MIN_UNVALIDATED {
            return ShimUse::Nothing;
        }
        let Ok(room) = w.take(len) else {
            return ShimUse::Nothing;
        };
        self.feedback.fill(&request, room);
        ShimUse::Request(len)
    }

    /// Returns true if the controller has a question for a starting rate and the path carries
    /// questions. Routers aren't asked for a path to an address that isn't validated, because the
    /// peer may have forged it.
    pub(in crate::connection) fn may_ask(&mut self, now: Instant) -> bool {
        self.feedback.question_len() > 0
            && self.is_validated()
            && self.route.controller.asks()
            && self.route.plain.wants_shim(now, None)
    }

    /// Writes a shim with the controller's question, if there is one.
    pub(in crate::connection) fn write_question(
        &mut self,
        now: Instant,
        random: u64,
        limits: &Limits,
        w: &mut Writer<'_>,
    ) -> Option<ShimUse> {
        let mut request = Request::default();
        request.quick_start = Some(self.route.controller.ask(now, random, limits)?);
        self.fill_question(&request, w)
    }

    /// Like [`write_question`](Self::write_question), but before the handshake is complete, for the
    /// known rate of the path.
    pub(in crate::connection) fn write_question_ahead(
        &mut self,
        now: Instant,
        random: u64,
        known: &KnownPath,
        w: &mut Writer<'_>,
    ) -> Option<ShimUse> {
        let mut request = Request::default();
        request.quick_start = Some(self.route.controller.ask_ahead(now, random, known)?);
        self.fill_question(&request, w)
    }

    fn fill_question(&mut self, request: &Request, w: &mut Writer<'_>) -> Option<ShimUse> {
        let len = self.feedback.question_len();
        self.feedback.fill_question(request, w.take(len).ok()?);
        Some(ShimUse::Question(len))
    }
}
