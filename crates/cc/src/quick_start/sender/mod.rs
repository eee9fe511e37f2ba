//! The sender's part, which wraps any law that can start with a granted window.
//!
//! ```text
//!   Ready ──ask──► Asked ──approved──► Flight ──first ACK of it──► Landing ──last ACK of it──► Over
//!     ▲              └──denied, lost, forged, no answer──► Over       │
//!     │                 lost, in the beginning──► Ready              │
//!     └────── after a pause ──────────────────────────────────────────┘   a loss: as if never granted
//! ```

mod answers;
mod flight;
mod question;

use super::startable::{AfterGrant, Startable};
use crate::base::arith::mul_div;
use crate::base::{Duration, Instant};
use crate::law::{Acked, Controller, Limit, Limits, Lost, PacketState, Sent};
use crate::metrics::{Metrics, QuickStartMetrics, QuickStartOutcome};
use crate::signals::{Ecn, Feedback, KnownPath, QuickStartPurpose, QuickStartRequest, Request};
use flight::{Falling, Flight, Landing};
use question::{ConfirmQuestion, Question};

/// Bytes of IPv4 and UDP headers around a datagram, which count in requested rates, but not in
/// windows.
pub(super) const HEADERS: u64 = 28;

#[derive(Clone, Copy, Debug)]
enum State {
    /// May ask.
    Ready,
    Asking(QuickStartRequest),
    Asked(Question),
    Flight(Flight),
    Landing(Landing),
    Falling(Falling),
    /// No question until after a pause.
    Over,
    /// No further questions.
    Never,
}

/// Starts the law `C` with a rate granted by routers.
///
/// An approved rate begins a flight. When its first packet is acknowledged, the law continues with
/// the window that was used; a loss in the flight usually revokes the grant.
#[derive(Debug)]
pub struct QuickStart<C> {
    pub(super) law: C,
    /// Name for reports, or `None` for the law's own.
    pub(super) name: Option<&'static str>,
    pub(super) mtu: u64,
    /// Initial window, to which the law returns after a loss.
    pub(super) initial: u64,
    /// Maximum rate to ask for, in bytes of IP packets per second.
    pub(super) wanted: u64,
    pub(super) after: AfterGrant,
    /// True if it asks again, to keep its grant and for the rate that others give back.
    pub(super) shares: bool,
    pub(super) srtt: Option<Duration>,
    state: State,
    confirm: ConfirmQuestion,
    /// Nonces of the latest and of the previous question.
    pub(super) nonce: Option<u64>,
    pub(super) earlier: Option<u64>,
    /// Bytes that arrived and that were lost between the question and the flight.
    pub(super) before: (u64, u64),
    /// How often a denied question has been repeated.
    pub(super) again: u32,
    /// Time of the first question.
    pub(super) first_asked: Option<Instant>,
    /// Packet with a question that wasn't answered in time, until it's known whether it was lost.
    pub(super) unanswered: Option<u64>,
    pub(super) repeats: u32,
    /// True if the current question is sent before the handshake is complete.
    pub(super) ahead: bool,
    /// True after a forged answer, which ends questions.
    pub(super) barred: bool,
    pub(super) last_sent: (u64, Instant),
    pub(super) last_limit: Limit,
    pub(super) metrics: QuickStartMetrics,
}

impl<C: Startable> QuickStart<C> {
    /// Wraps `law`, which is reported as `name` if this is given, for datagrams of `mtu` bytes. It
    /// asks for up to `wanted` bytes of IP packets per second, or with `None` for as much as it can
    /// use with an unlimited window.
    pub fn new(
        name: Option<&'static str>,
        mtu: u16,
        wanted: Option<u64>,
        after: AfterGrant,
        law: C,
    ) -> Self {
        Self {
            initial: law.window(),
            law,
            name,
            mtu: u64::from(mtu.max(1)),
            wanted: wanted.unwrap_or(u64::MAX),
            after,
            shares: true,
            srtt: None,
            state: State::Ready,
            confirm: ConfirmQuestion::No,
            nonce: None,
            earlier: None,
            before: (0, 0),
            again: 0,
            first_asked: None,
            unanswered: None,
            repeats: 0,
            ahead: false,
            barred: false,
            last_sent: (0, Instant::ZERO),
            last_limit: Limit::Window,
            metrics: QuickStartMetrics::default(),
        }
    }

    /// Limits the law to a single question as in RFC 4782, so that it keeps its grant and accepts a
    /// denial.
    #[must_use]
    pub fn asking_once(self) -> Self {
        Self {
            shares: false,
            ..self
        }
    }

    /// Returns the granted bytes per round trip, limited by the measured capacity of the path. If
    /// the question was sent during the handshake, there are no earlier packets with which it could
    /// be measured.
    fn carried(&self, flight: &Flight) -> u64 {
        if self.ahead {
            return flight.window;
        }
        flight.window.min(self.law.verified_grant())
    }

    /// Converts a rate of IP packets to one of UDP payload.
    pub(super) fn of_payload(&self, rate: u64) -> u64 {
        mul_div(rate, self.mtu, self.mtu + HEADERS)
    }
}

// A missing method would silently use the trait's default.
#[deny(clippy::missing_trait_methods)]
impl<C: Startable> Controller for QuickStart<C> {
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.last_sent = (sent.packet_number, now);
        self.last_limit = sent.limit;
        let mut reported = *sent;
        // The shim of this packet carries the question instead of the law's request.
        if let ConfirmQuestion::Asking(request) = self.confirm {
            reported.signal = false;
            self.confirm = if sent.signal {
                ConfirmQuestion::Asked(Question {
                    request,
                    number: sent.packet_number,
                    at: now,
                    arrived: false,
                    ahead: false,
                })
            } else {
                ConfirmQuestion::Due
            };
        }
        match &mut self.state {
            State::Asking(request) if sent.signal => {
                reported.signal = false;
                if self.first_asked.is_none() {
                    self.before = (0, 0);
                }
                self.first_asked.get_or_insert(now);
                self.metrics.asked += 1;
                self.metrics.wanted = request.rate;
                self.metrics.granted = 0;
                self.metrics.outcome = QuickStartOutcome::Waiting;
                self.state = State::Asked(Question {
                    request: *request,
                    number: sent.packet_number,
                    at: now,
                    arrived: false,
                    ahead: self.ahead,
                });
            }
            State::Asking(_) => self.state = State::Ready,
            State::Flight(flight) => {
                if let Some((_, last)) = &mut flight.packets {
                    *last = sent.packet_number;
                    flight.bytes = flight.bytes.saturating_add(sent.bytes);
                } else if now > flight.until {
                    // An earlier approval doesn't show the capacity that is free now.
                    self.metrics.granted = 0;
                    self.metrics.late += 1;
                    self.metrics.outcome = QuickStartOutcome::Unused;
                    if flight.steered {
                        self.law.start_with(now, self.initial, None);
                    }
                    self.law.not_begun();
                    self.confirm = ConfirmQuestion::No;
                    self.state = State::Over;
                } else {
                    flight.packets = Some((sent.packet_number, sent.packet_number));
                    flight.started = now;
                    flight.bytes = sent.bytes;
                }
            }
            _ => {}
        }
        self.law.on_sent(now, &reported)
    }

    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.srtt = Some(acked.srtt);
        if let ConfirmQuestion::Asked(mut question) = self.confirm {
            question.arrived |= acked.largest >= question.number;
            let over = question.is_over(now, self.patience(acked.srtt));
            self.confirm = if over {
                ConfirmQuestion::No
            } else {
                ConfirmQuestion::Asked(question)
            };
        }
        self.before.0 = self.before.0.saturating_add(acked.bytes);
        match &mut self.state {
            State::Asked(question) => {
                question.arrived |= acked.largest >= question.number;
                let question = *question;
                if question.is_over(now, self.patience(acked.srtt)) {
                    self.deny(QuickStartOutcome::Unanswered);
                    self.ask_again(now);
                }
            }
            // Acknowledgements arrive again.
            State::Over if self.unanswered.is_some() => self.ask_again(now),
            State::Flight(flight) => {
                let flight = *flight;
                if flight
                    .packets
                    .is_some_and(|(first, _)| acked.largest >= first)
                {
                    self.land(now, &flight, acked.bytes);
                }
            }
            State::Landing(landing) => match landing.until {
                Some(until) if acked.largest > until => self.state = State::Over,
                Some(_) => {}
                None => {
                    landing.delivered = landing.delivered.saturating_add(acked.bytes);
                    if acked.largest > landing.packets.1 {
                        landing.until = Some(self.last_sent.0);
                    }
                    // Arrivals of the flight confirm as many bytes of the rest of the grant.
                    let confirmed = landing.delivered.min(landing.unconfirmed);
                    if confirmed > 0 {
                        self.law.confirm(landing.used + confirmed);
                    }
                }
            },
            State::Falling(falling) => {
                if acked.largest > falling.last_sent {
                    self.state = State::Never;
                } else {
                    falling.delivered = falling.delivered.saturating_add(acked.bytes);
                    self.law.raise_threshold(falling.delivered / 2);
                }
            }
            _ => {}
        }
        self.law.on_ack(now, acked);
    }

    fn on_feedback(&mut self, now: Instant, feedback: &Feedback, acked: &Acked) {
        match feedback {
            Feedback::QuickStart(answer) => self.on_answer(now, answer, acked),
            _ => {
                self.law.on_feedback(now, feedback, acked);
                self.steer_late(now);
            }
        }
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        let repeats = matches!(self.state, State::Ready) && self.first_asked.is_some();
        if repeats || matches!(self.state, State::Asked(_) | State::Flight(_)) {
            self.before.1 = self.before.1.saturating_add(lost.bytes);
            if matches!(self.state, State::Flight(_)) && self.loses_before() {
                let delivered = self.before.0;
                self.revoke(now, lost.last_sent, delivered);
                return self.law.on_loss(now, lost);
            }
        }
        if let Some(delivered) = self.of_flight(Some(lost.largest), lost.sent_at)
            && !self.is_steered_through(lost.bytes, delivered)
        {
            self.revoke(now, lost.last_sent, delivered);
        }
        // The loss that ended a grant is also passed to the law, which doesn't cut twice.
        self.law.on_loss(now, lost);
    }

    fn on_congestion_experienced(&mut self, now: Instant, sent_at: Instant, last_sent: u64) {
        match self.of_flight(None, sent_at) {
            Some(delivered) if !self.is_steered_through(0, delivered) => {
                self.revoke(now, last_sent, delivered);
            }
            _ => self.law.on_congestion_experienced(now, sent_at, last_sent),
        }
    }

    fn on_probe_timeout(&mut self, now: Instant) {
        // No acknowledgement arrived in time, so the path's capacity is unknown. This isn't
        // necessarily a loss.
        match self.state {
            // This is the handshake's timeout. There can't be an answer before its completion.
            State::Asked(question) if question.ahead && self.srtt.is_none() => {}
            State::Asked(question) => {
                self.deny(QuickStartOutcome::Unanswered);
                self.unanswered = Some(question.number);
            }
            State::Flight(_) => {
                self.metrics.revoked += 1;
                self.metrics.outcome = QuickStartOutcome::Revoked;
                self.law.not_begun();
                self.state = State::Over;
            }
            _ => {}
        }
        self.confirm = ConfirmQuestion::No;
        self.law.on_probe_timeout(now);
    }

    fn on_persistent_congestion(&mut self, now: Instant) {
        self.state = State::Never;
        self.confirm = ConfirmQuestion::No;
        self.law.not_begun();
        self.law.on_persistent_congestion(now);
    }

    fn on_spurious_loss(&mut self, now: Instant) {
        self.law.on_spurious_loss(now);
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) {
        // At most one question per round trip is allowed, and the capacity used before the pause
        // may be taken by now.
        if let (State::Over | State::Landing(_), Some(srtt)) = (self.state, self.srtt)
            && idle > srtt
        {
            self.state = State::Ready;
            self.confirm = ConfirmQuestion::No;
            self.again = 0;
            self.first_asked = None;
            self.unanswered = None;
            self.repeats = 0;
        }
        self.law.on_restart(now, idle);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu.max(1));
        self.law.on_mtu(mtu);
    }

    fn window(&self) -> u64 {
        match &self.state {
            State::Flight(flight) if !flight.steered => self.carried(flight).max(self.law.window()),
            _ => self.law.window(),
        }
    }

    fn pacing_rate(&self) -> Option<u64> {
        match &self.state {
            State::Flight(flight) if !flight.steered => {
                let carried = self.carried(flight);
                Some(mul_div(flight.pace, carried, flight.window.max(1)))
            }
            _ => self.law.pacing_rate(),
        }
    }

    fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        self.srtt = Some(srtt);
        self.settle_ahead(now, srtt);
        self.law.on_handshake_rtt(now, srtt);
    }

    fn on_limits(&mut self, now: Instant, limits: &Limits) {
        self.law.on_limits(now, limits);
    }

    fn request(&self) -> Request {
        self.law.request()
    }

    fn signal_every(&self) -> u32 {
        self.law.signal_every()
    }

    fn ecn(&self) -> Ecn {
        self.law.ecn()
    }

    fn longest_batch(&self) -> Duration {
        self.law.longest_batch()
    }

    fn asks(&self) -> bool {
        let ready = matches!(self.state, State::Ready | State::Asking(_)) && self.law.may_start();
        (ready || self.confirm.asks()) && !self.barred
    }

    fn ask(&mut self, _now: Instant, random: u64, limits: &Limits) -> Option<QuickStartRequest> {
        let keeps = self.confirm.asks();
        let rate = if keeps {
            self.metrics.granted
        } else {
            let Some(rate) = self.usable_rate(limits) else {
                // The packet that was about to ask wasn't sent and doesn't ask either.
                if let State::Asking(_) = self.state {
                    self.state = State::Ready;
                }
                return None;
            };
            rate
        };
        self.ahead = false;
        let request = self.request_for(rate, random);
        if keeps {
            let request = QuickStartRequest {
                purpose: QuickStartPurpose::Keep,
                ..request
            };
            self.confirm = ConfirmQuestion::Asking(request);
            return Some(request);
        }
        self.state = State::Asking(request);
        Some(request)
    }

    fn ask_ahead(
        &mut self,
        _now: Instant,
        random: u64,
        known: &KnownPath,
    ) -> Option<QuickStartRequest> {
        self.question_ahead(random, known)
    }

    fn on_question_lost(&mut self, now: Instant, number: u64) {
        match (self.state, self.confirm) {
            (State::Asked(question), _)
                if question.number == number && question.ahead && self.srtt.is_none() =>
            {
                self.forget_question();
            }
            (State::Asked(question), _) if question.number == number => {
                self.deny(QuickStartOutcome::Denied);
                self.ask_again(now);
            }
            // The time for its answer was over before its loss was detected.
            (State::Over, _) if self.unanswered == Some(number) => self.ask_again(now),
            (_, ConfirmQuestion::Asked(question)) if question.number == number => {
                self.confirm = ConfirmQuestion::No;
            }
            _ => {}
        }
    }

    fn metrics(&self) -> Metrics {
        let law = self.law.metrics();
        Metrics {
            ruling: self.name.unwrap_or(law.ruling),
            window: self.window(),
            quick_start: Some(self.metrics),
            ..law
        }
    }
}
