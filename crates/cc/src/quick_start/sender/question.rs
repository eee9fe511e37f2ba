//! A question in flight, and what its answer proves.

use crate::base::{Duration, Instant};
use crate::law::Acked;
use crate::signals::{QuickStartFeedback, QuickStartRequest};

/// A question that left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) request: QuickStartRequest,
    pub(super) number: u64,
    pub(super) at: Instant,
    /// Its packet was acknowledged.
    pub(super) arrived: bool,
    /// It left before the handshake was complete.
    pub(super) ahead: bool,
}

/// The result of an answer (RFC 4782 §4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// It does not answer this question. The right one may yet arrive.
    Stale,
    /// It arrives too late.
    Late,
    Denied,
    /// More than was requested.
    Above,
    /// No router answered, or the receiver cannot determine whether every hop took part.
    Partial,
    /// A wrong nonce.
    Forged,
    /// The approved rate, in bytes of IP packets per second.
    Approved(u64),
    /// The same, where TTLs show a hop that did not take part.
    ApprovedByRouters(u64),
}

impl Question {
    /// True if the time for an answer, `patience`, is over.
    pub(super) fn is_over(&self, now: Instant, patience: Duration) -> bool {
        now > self.at + patience
    }

    /// Checks `answer`, which came with the acknowledgement `acked`; `earlier` is the nonce of the
    /// question before.
    pub(super) fn judge(
        &self,
        now: Instant,
        answer: &QuickStartFeedback,
        acked: &Acked,
        patience: Duration,
        earlier: Option<u64>,
    ) -> Proof {
        let request = &self.request;
        // Counters that count no further request, come before the packet that asked has arrived, or
        // show the request before, answer an earlier one.
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
        // The wire rounds what is asked for up by 1/2048 at most.
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

/// The low `bits` of a nonce.
fn kept(bits: u32) -> u64 {
    1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1)
}
