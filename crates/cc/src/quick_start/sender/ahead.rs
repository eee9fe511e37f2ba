//! Questions sent before the handshake is complete, for a known rate of the path.
//!
//! If such a question isn't successful, the sender asks again with its first flight, as if it
//! hadn't asked before.

use super::{QuickStart, State};
use crate::base::arith::{mul_div, nanos};
use crate::base::{Duration, Instant};
use crate::quick_start::startable::Startable;
use crate::signals::{KnownPath, QuickStartPurpose, QuickStartRequest};

impl<C: Startable> QuickStart<C> {
    /// Creates a question for `rate`. `random` must not be used for anything else.
    pub(super) fn request_for(&mut self, rate: u64, random: u64) -> QuickStartRequest {
        let [difference, _, nonce @ ..] = random.to_be_bytes();
        let nonce = nonce
            .iter()
            .fold(0, |nonce, &byte| nonce << 8 | u64::from(byte));
        self.earlier = self.nonce.replace(nonce);
        QuickStartRequest {
            rate,
            purpose: QuickStartPurpose::Start,
            ttl_difference: difference,
            nonce,
            rtt: self.srtt,
        }
    }

    /// Returns the question for a known rate, if this is worth asking for.
    pub(super) fn question_ahead(
        &mut self,
        random: u64,
        known: &KnownPath,
    ) -> Option<QuickStartRequest> {
        let rate = known.rate.min(self.wanted);
        let first = self.srtt.is_none() && self.first_asked.is_none();
        let ready = matches!(self.state, State::Ready | State::Asking(_));
        // A rate that the first window carries anyway isn't worth a question.
        let small = known.rtt.is_some_and(|rtt| {
            mul_div(self.of_payload(rate), nanos(rtt), 1_000_000_000) <= self.law.window()
        });
        if rate == 0 || small || !first || !ready || self.barred || !self.law.may_start() {
            return None;
        }
        self.ahead = true;
        let mut request = self.request_for(rate, random);
        request.rtt = known.rtt;
        self.state = State::Asking(request);
        Some(request)
    }

    /// Handles the completion of the handshake. If the answer should have arrived by now, the
    /// question hasn't reached the peer, or arrived before the handshake's packets and couldn't be
    /// processed.
    pub(super) fn settle_ahead(&mut self, now: Instant, srtt: Duration) {
        if let State::Asked(question) = self.state
            && question.ahead
            && question.is_over(now, self.patience(srtt))
        {
            self.forget_question();
        }
    }

    /// Discards an unsuccessful question from before the completion of the handshake, so that the
    /// first flight may ask.
    pub(super) fn forget_question(&mut self) {
        self.first_asked = None;
        self.state = State::Ready;
    }
}
