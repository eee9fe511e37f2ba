//! What stands in front of the next datagram: the controller's request, or its question for a
//! starting rate.

use pathmark_cc::Request;

use super::Connection;
use super::feedback::ShimUse;
use super::transmit::MIN_UNVALIDATED;
use crate::Instant;
use crate::wire::{SpaceId, Writer};

impl Connection {
    /// Keeps room for the shim at the front of a datagram, if it is to have one, and fills it.
    pub(super) fn reserve_shim(
        &mut self,
        now: Instant,
        probe: Option<u8>,
        w: &mut Writer<'_>,
    ) -> ShimUse {
        if !self.feedback.has_shim()
            || !self.is_complete()
            || !self.route.plain.wants_shim(now, probe)
            || !self.wants_signal(now)
        {
            return ShimUse::Nothing;
        }
        let limits = self.streams.limits(self.recovery.bytes_in_flight());
        self.route.controller.on_limits(now, &limits);
        let mut request = self.route.controller.request();
        // The controller gets 1-RTT packets alone; the handshake has measured the path before
        // the first of them.
        request.min_rtt = request.min_rtt.or_else(|| self.recovery.rtt().min());
        request.ipv6 = self.address.is_ipv6();
        if let Some(wanted) = request.signal {
            let next = self.recovery.space(SpaceId::Data).sent().next_number();
            self.feedback.choose(wanted, next);
        }
        let len = self.feedback.shim_len(&request);
        // An address that is not validated may get so little that the shim would leave no room.
        if w.remaining() < len + MIN_UNVALIDATED {
            return ShimUse::Nothing;
        }
        let Ok(room) = w.take(len) else {
            return ShimUse::Nothing;
        };
        self.feedback.fill(&request, room);
        ShimUse::Request(len)
    }

    /// The same for a question for a starting rate, if the controller has one. No probe asks.
    pub(super) fn reserve_question(
        &mut self,
        now: Instant,
        probe: Option<u8>,
        w: &mut Writer<'_>,
    ) -> Option<ShimUse> {
        let len = self.feedback.question_len();
        if len == 0
            || probe.is_some()
            || !self.is_complete()
            || !self.address.limit.is_validated()
            || !self.route.controller.asks()
            || !self.route.plain.wants_shim(now, None)
        {
            return None;
        }
        let limits = self.streams.limits(self.recovery.bytes_in_flight());
        let random = self.random.next_u64();
        let question = self.route.controller.ask(now, random, &limits)?;
        let mut request = Request::default();
        request.quick_start = Some(question);
        self.feedback.fill_question(&request, w.take(len).ok()?);
        Some(ShimUse::Question(len))
    }

    /// The controller's request is to ride on the next packet.
    fn wants_signal(&self, now: Instant) -> bool {
        let every = self.route.controller.signal_every();
        every <= 1 || {
            let srtt = self.recovery.rtt().srtt_or_initial();
            self.route.cadence.due(now, every, srtt)
        }
    }
}
