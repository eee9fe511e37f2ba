//! The sender's handling of answers to its questions.

use super::flight::Flight;
use super::question::{ConfirmQuestion, Proof, Question};
use super::{HEADERS, QuickStart, State};
use crate::base::arith::{mul_div, nanos, rate};
use crate::base::{Duration, Instant};
use crate::law::{Acked, Limits};
use crate::metrics::QuickStartOutcome;
use crate::quick_start::startable::Startable;
use crate::quick_start::{
    ANSWER_RTTS, DENIED_AGAIN, FIRST_LOST, LATEST_START, REPEAT_TIME, REPEATS, UNSEEN_HOP,
};
use crate::signals::QuickStartFeedback;

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
