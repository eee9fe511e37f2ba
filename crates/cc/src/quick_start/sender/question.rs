//! Questions in flight: the proof in their answers, and second questions, which ask whether the
//! flow may keep its grant.
//!
//! A port grants all that is free to the first flow that asks, even if several flows begin
//! together. If its law would take long to give back the excess, the sender therefore asks again
//! with the first packet of its flight, a round trip later, when the port knows which other flows
//! have asked. Routers lower the rate or leave it unchanged. Without an answer, the flow keeps it.

use crate::base::ablate::{Mechanism, without};
use crate::base::{Duration, Instant};
use crate::law::Acked;
use crate::signals::{QuickStartFeedback, QuickStartRequest};

#[derive(Clone, Copy, Debug)]
pub(super) enum ConfirmQuestion {
    No,
    /// The next packet of the flight may ask.
    Due,
    Asking(QuickStartRequest),
    Asked(Question),
}

impl ConfirmQuestion {
    /// Returns true if the next packet may ask.
    pub(super) fn asks(&self) -> bool {
        matches!(self, Self::Due | Self::Asking(_)) && !without(Mechanism::Keep)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) request: QuickStartRequest,
    pub(super) number: u64,
    pub(super) at: Instant,
    pub(super) arrived: bool,
    pub(super) ahead: bool,
}

/// Result of checking an answer (RFC 4782 §4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// It doesn't answer this question. The right answer may still arrive.
    Stale,
    Late,
    Denied,
    Above,
    /// No router answered, or the receiver can't determine whether every hop took part.
    Partial,
    Forged,
    /// The approved rate in bytes of IP packets per second.
    Approved(u64),
    /// The same, but TTLs show a hop that didn't take part.
    ApprovedByRouters(u64),
}

impl Question {
    /// Returns true if the time for an answer, `patience`, is over.
    pub(super) fn is_over(&self, now: Instant, patience: Duration) -> bool {
        now > self.at + patience
    }

    /// Checks `answer`, which arrived with the acknowledgement `acked`. `earlier` is the previous
    /// question's nonce.
    pub(super) fn judge(
        &self,
        now: Instant,
        answer: &QuickStartFeedback,
        acked: &Acked,
        patience: Duration,
        earlier: Option<u64>,
    ) -> Proof {
        let request = &self.request;
        // These answer an earlier question: counters that don't include another request, that
        // arrive before the asking packet, or that show the previous request.
        let arrived = self.arrived || acked.largest >= self.number;
        let differs = |nonce| (answer.nonce ^ nonce) & kept(answer.nonce_bits) != 0;
        let forged = differs(request.nonce);
        if answer.packets == 0 || !arrived || (forged && earlier.is_some_and(|n| !differs(n))) {
            return Proof::Stale;
        }
        if self.is_over(now, patience) {
            return Proof::Late;
        }
        if answer.rate == 0 {
            return Proof::Denied;
        }
        // The wire format rounds the requested rate up by at most 1/2048.
        if answer.rate > request.rate.saturating_add(request.rate / 1024 + 1) {
            return Proof::Above;
        }
        let Some(ttl_difference) = answer.ttl_difference.filter(|_| answer.answered) else {
            return Proof::Partial;
        };
        if forged {
            return Proof::Forged;
        }
        let rate = answer.rate.min(request.rate);
        if ttl_difference == request.ttl_difference {
            Proof::Approved(rate)
        } else {
            Proof::ApprovedByRouters(rate)
        }
    }
}

/// Returns a mask of the low `bits` of a nonce.
fn kept(bits: u32) -> u64 {
    1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1)
}
