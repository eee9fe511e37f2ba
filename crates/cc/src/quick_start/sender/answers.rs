//! The sender's handling of answers to its questions.

use super::flight::Flight;
use super::{HEADERS, QuickStart, State};
use crate::base::ablate::{Mechanism, without};
use crate::base::arith::{mul_div, nanos, rate};
use crate::base::{Duration, Instant};
use crate::law::{Acked, Limits};
use crate::metrics::QuickStartOutcome;
use crate::quick_start::startable::Startable;
use crate::quick_start::{
    ANSWER_RTTS, DENIED_AGAIN, FIRST_LOST, LATEST_START, REPEAT_TIME, REPEATS, UNSEEN_HOP,
};
use crate::signals::{QuickStartFeedback, QuickStartRequest};

impl<C: Startable> QuickStart<C> {
    /// Ends a question without a grant.
    pub(super) fn deny(&mut self, outcome: QuickStartOutcome) {
        self.metrics.denied += 1;
        self.metrics.outcome = outcome;
        self.state = State::Over;
    }

    /// Allows another question, because the packet with the question was lost. The number of
    /// repetitions is limited, because a hop may drop every packet with a shim that it doesn't
    /// know.
    pub(super) fn ask_again(&mut self, now: Instant) {
        self.unanswered = None;
        let srtt = self.srtt.unwrap_or_default();
        let time = self.patience(srtt).saturating_mul(REPEAT_TIME);
        let in_time = self.first_asked.is_some_and(|first| now <= first + time);
        if self.repeats < REPEATS && in_time {
            self.repeats += 1;
            self.metrics.repeated += 1;
            self.state = State::Ready;
        }
    }

    /// Accepts an answer if it is proven (RFC 4782 §4.4).
    pub(super) fn on_answer(&mut self, now: Instant, answer: &QuickStartFeedback, acked: &Acked) {
        if let ConfirmQuestion::Asked(question) = self.confirm {
            return self.on_second_answer(now, &question, answer, acked);
        }
        let State::Asked(question) = self.state else {
            self.metrics.late += 1;
            return;
        };
        let patience = self.patience(acked.srtt);
        let (count, outcome) = match question.judge(now, answer, acked, patience, self.earlier) {
            Proof::Approved(rate) => return self.begin(now, rate, 1, &question, acked),
            Proof::ApprovedByRouters(rate) if self.shares => {
                self.metrics.partial += 1;
                return self.begin(now, rate, UNSEEN_HOP, &question, acked);
            }
            Proof::Stale => {
                self.metrics.late += 1;
                return;
            }
            Proof::Denied => {
                self.deny(QuickStartOutcome::Denied);
                if question.ahead {
                    return self.forget_question();
                }
                return self.ask_for_share();
            }
            Proof::Forged => {
                self.metrics.forged += 1;
                self.deny(QuickStartOutcome::Refused);
                self.state = State::Never;
                return;
            }
            Proof::Late => (&mut self.metrics.late, QuickStartOutcome::Refused),
            Proof::Above => (&mut self.metrics.above, QuickStartOutcome::Refused),
            Proof::Partial | Proof::ApprovedByRouters(_) => {
                (&mut self.metrics.partial, QuickStartOutcome::Partial)
            }
        };
        *count += 1;
        self.deny(outcome);
    }

    /// Allows another question, because a flow that was granted everything may return a part.
    fn ask_for_share(&mut self) {
        if self.shares && self.again < DENIED_AGAIN {
            self.again += 1;
            self.state = State::Ready;
            self.first_asked = None;
        }
    }

    /// Begins a flight after an approval of `granted` bytes of IP packets per second. The flight's
    /// rate is this divided by `part`.
    fn begin(&mut self, now: Instant, granted: u64, part: u64, question: &Question, acked: &Acked) {
        self.metrics.approved += 1;
        let rate = self.of_payload(granted);
        let whole = mul_div(rate, nanos(acked.min_rtt), 1_000_000_000);
        let too_little = whole <= self.law.window();
        if question.ahead && too_little {
            // By now, the amount of data to send is known.
            self.metrics.outcome = QuickStartOutcome::Unused;
            return self.forget_question();
        }
        let may_start = self.law.may_start();
        if too_little || !may_start || self.loses_before() {
            self.metrics.outcome = QuickStartOutcome::Unused;
            self.state = State::Over;
            if too_little && may_start {
                // Another flow's grant left only this much.
                self.ask_for_share();
            }
            return;
        }
        self.metrics.granted = granted;
        self.metrics.outcome = QuickStartOutcome::Used;
        // Part of a small grant may be less than the window without a grant.
        let window = (whole / part).max(self.law.window());
        let pace = mul_div(rate, window, whole);
        // A rate that is dealt out again is a share of everything, including earlier grants in
        // headers.
        let steered = if self.repeats > 0 || self.again > 0 {
            self.law.begin_again_with(now, window)
        } else {
            // If the question was sent during the handshake, the flight's first packet must carry
            // the law's header instead, because the start at the port begins with it.
            if self.shares && !question.ahead {
                self.confirm = ConfirmQuestion::Due;
            }
            self.law.begin_with(now, window)
        };
        self.state = State::Flight(Flight {
            pace,
            window,
            granted: whole,
            steered,
            until: now + acked.srtt.min(LATEST_START),
            packets: None,
            started: now,
            bytes: 0,
            lost: 0,
        });
    }

    /// Returns true if at least one in four of the bytes before the flight is lost beyond the
    /// expected loss.
    pub(super) fn loses_before(&self) -> bool {
        let (arrived, lost) = self.before;
        let unexpected = self.unexpected(lost, arrived);
        let sent = arrived.saturating_add(lost);
        lost >= FIRST_LOST.0 * self.mtu && unexpected >= sent / FIRST_LOST.1
    }

    /// Returns how many of `lost` bytes exceed the expected loss, if `delivered` bytes were
    /// delivered.
    pub(super) fn unexpected(&self, lost: u64, delivered: u64) -> u64 {
        let sent = lost.saturating_add(delivered);
        lost.saturating_sub(mul_div(sent, self.law.expected_loss_ppm(), 1_000_000))
    }

    /// Handles an answer while the second question is in flight.
    fn on_second_answer(
        &mut self,
        now: Instant,
        question: &Question,
        answer: &QuickStartFeedback,
        acked: &Acked,
    ) {
        let patience = self.patience(acked.srtt);
        let proof = question.judge(now, answer, acked, patience, self.earlier);
        let count = match proof {
            Proof::Approved(rate) | Proof::ApprovedByRouters(rate) => {
                self.confirm = ConfirmQuestion::No;
                if rate < question.request.rate && self.is_underway() {
                    self.metrics.lowered += 1;
                    self.metrics.granted = rate;
                    self.metrics.outcome = QuickStartOutcome::Lowered;
                    let window =
                        mul_div(self.of_payload(rate), nanos(acked.min_rtt), 1_000_000_000);
                    let window = window.max(self.initial);
                    if let State::Flight(flight) = &mut self.state {
                        flight.pace = mul_div(flight.pace, window, flight.window.max(1));
                        flight.window = flight.window.min(window);
                        flight.granted = flight.granted.min(window);
                    }
                    self.law.give_back(now, window);
                }
                return;
            }
            Proof::Stale => {
                self.metrics.late += 1;
                return;
            }
            Proof::Denied => {
                self.confirm = ConfirmQuestion::No;
                return;
            }
            Proof::Late => &mut self.metrics.late,
            Proof::Above => &mut self.metrics.above,
            Proof::Partial => &mut self.metrics.partial,
            Proof::Forged => {
                self.barred = true;
                &mut self.metrics.forged
            }
        };
        *count += 1;
        self.confirm = ConfirmQuestion::No;
    }

    /// Returns true while the law follows the grant.
    const fn is_underway(&self) -> bool {
        matches!(
            self.state,
            State::Flight(_) | State::Landing(_) | State::Over
        )
    }

    /// Returns the rate to ask for with the sender's `limits`, or `None` if its window is
    /// sufficient.
    pub(super) fn usable_rate(&self, limits: &Limits) -> Option<u64> {
        let usable = self.law.usable(limits);
        if usable <= self.law.window() {
            return None;
        }
        // At most the rate that can be used within a round trip (RFC 4782 §4.1).
        let most = match (usable, self.srtt) {
            (u64::MAX, _) | (_, None) => self.wanted,
            (usable, Some(srtt)) => rate(usable, srtt, self.mtu + HEADERS, self.mtu),
        };
        Some(self.wanted.min(most))
    }

    /// Returns how long an answer may take.
    pub(super) fn patience(&self, srtt: Duration) -> Duration {
        let known = self.srtt.map_or(srtt, |known| known.max(srtt));
        known.saturating_mul(ANSWER_RTTS)
    }
}

// Second questions, which ask whether the flow may keep its grant.
//
// A port grants all that is free to the first flow that asks, even if several flows begin
// together. If its law would take long to give back the excess, the sender therefore asks again
// with the first packet of its flight, a round trip later, when the port knows which other flows
// have asked. Routers lower the rate or leave it unchanged. Without an answer, the flow keeps it.

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

// A question in flight, and the proof in its answer.

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
