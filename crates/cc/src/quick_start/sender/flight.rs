//! Packets sent because of a grant, from the first packet to the last acknowledgement.

use super::question::ConfirmQuestion;
use super::{QuickStart, State};
use crate::base::arith::{mul_div, nanos};
use crate::base::{Duration, Instant, arith};
use crate::law::Limit;
use crate::metrics::QuickStartOutcome;
use crate::quick_start::startable::Startable;
use crate::signals::{KnownPath, QuickStartPurpose, QuickStartRequest};

/// A flight is given up if it loses this number of packets, and one in `GIVEN_UP` beyond the
/// expected loss, even if the law doesn't react to losses.
const GIVEN_UP: u64 = 8;
/// If some loss is expected, it must be exceeded by this many standard deviations.
const SIGMAS: u64 = 3;

#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// Pace in bytes per second and window in bytes, both counted in UDP payload.
    pub(super) pace: u64,
    pub(super) window: u64,
    /// Granted bytes, which exceed the window if a hop didn't take part.
    pub(super) granted: u64,
    /// True if the law has made the grant its own window.
    pub(super) steered: bool,
    /// Time by which it must have begun.
    pub(super) until: Instant,
    /// Numbers of its first and its latest packet.
    pub(super) packets: Option<(u64, u64)>,
    pub(super) started: Instant,
    pub(super) bytes: u64,
    pub(super) lost: u64,
}

/// A flight whose first packet was acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landing {
    pub(super) packets: (u64, u64),
    pub(super) sent: (Instant, Instant),
    /// Set when a packet after the flight was acknowledged. Losses of the flight's last packets may
    /// still be reported until a packet beyond this number is acknowledged.
    pub(super) until: Option<u64>,
    pub(super) delivered: u64,
    /// Bytes used, and granted bytes that the flight's deliveries have yet to confirm.
    pub(super) used: u64,
    pub(super) unconfirmed: u64,
    pub(super) steered: bool,
    pub(super) lost: u64,
}

/// A flight with losses, whose deliveries count until it is settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Falling {
    pub(super) last_sent: u64,
    pub(super) delivered: u64,
}

impl<C: Startable> QuickStart<C> {
    /// Handles the acknowledgement of a flight's first packet. From now on, the law continues with
    /// the window that was used.
    pub(super) fn land(&mut self, now: Instant, flight: &Flight, delivered: u64) {
        let Some(packets) = flight.packets else {
            return;
        };
        let used = flight.window.min(flight.bytes).max(self.initial);
        // A steered law has already continued from there, and the peer's flow control may still
        // grow.
        let unwanted = self.last_limit == Limit::Application && used < flight.window / 2;
        // Routers whose first feedback arrives only now are in control from here on.
        let late = !flight.steered && self.law.begin_with(now, used);
        let steered = flight.steered || late;
        if !steered || unwanted {
            // After a repeated question, the grant is a share, which only leaves its own part of
            // the capacity that ports never grant.
            let shown = self.law.measured_window().filter(|_| self.again == 0);
            let granted = flight.window;
            let threshold = self.after.threshold(used, granted, shown);
            // The peer's flow control, which grows with arrivals, may have limited the flight. Then
            // the window is the grant, and slow start is over.
            let held = threshold.is_some_and(|threshold| threshold > used)
                && matches!(self.last_limit, Limit::Peer | Limit::Buffer)
                && !unwanted;
            match threshold {
                Some(_) if held => self.law.start_with(now, granted, Some(granted)),
                _ => self.law.start_with(now, used, threshold),
            }
        } else {
            // Wait one more round trip if the peer's flow control must grow.
            let all = used >= flight.window / 4 * 3;
            self.law.wait_for_measure(now, if all { 1 } else { 2 });
        }
        let unconfirmed = if steered && !unwanted {
            flight.granted.saturating_sub(flight.window)
        } else {
            0
        };
        self.state = State::Landing(Landing {
            packets,
            sent: (flight.started, self.last_sent.1),
            until: None,
            delivered,
            used,
            unconfirmed,
            steered,
            lost: flight.lost,
        });
    }

    /// Hands the flight to routers whose first feedback arrives with the answer or after it.
    pub(super) fn steer_late(&mut self, now: Instant) {
        let State::Flight(flight) = self.state else {
            return;
        };
        if flight.steered || !self.law.begin_with(now, flight.window) {
            return;
        }
        self.state = State::Flight(Flight {
            steered: true,
            ..flight
        });
    }

    /// Revokes the grant, because the granted rate isn't available, as if it had never existed (RFC
    /// 4782 §4.6).
    pub(super) fn revoke(&mut self, now: Instant, last_sent: u64, delivered: u64) {
        self.metrics.revoked += 1;
        self.metrics.outcome = QuickStartOutcome::Revoked;
        self.confirm = ConfirmQuestion::No;
        self.state = State::Falling(Falling {
            last_sent,
            delivered,
        });
        let threshold = (delivered / 2).max(arith::loss_based_floor(self.mtu));
        self.law.give_up(now, self.initial, threshold, last_sent);
    }

    /// Handles the loss of another `lost` bytes of the flight, of which `delivered` bytes have
    /// arrived. Returns true if routers remain in control.
    pub(super) fn is_steered_through(&mut self, lost: u64, delivered: u64) -> bool {
        let (steered, sum) = match &mut self.state {
            State::Flight(flight) => (flight.steered, &mut flight.lost),
            State::Landing(landing) => (landing.steered, &mut landing.lost),
            _ => return false,
        };
        *sum = sum.saturating_add(lost);
        let sum = *sum;
        let few = sum < GIVEN_UP * self.mtu;
        let most = delivered.saturating_add(sum) / GIVEN_UP;
        // If loss is expected, it may be higher by chance.
        let chance = match self.law.expected_loss_ppm() {
            0 => 0,
            _ => SIGMAS * (sum / self.mtu).isqrt() * self.mtu,
        };
        steered && (few || self.unexpected(sum, delivered) < most.saturating_add(chance))
    }

    /// Returns the bytes of the flight that have arrived, if packet `number`, or a packet sent at
    /// `sent_at`, belongs to the flight.
    pub(super) fn of_flight(&self, number: Option<u64>, sent_at: Instant) -> Option<u64> {
        match &self.state {
            State::Flight(flight) => {
                let (first, _) = flight.packets?;
                let is_of = number.map_or(sent_at >= flight.started, |number| number >= first);
                is_of.then_some(0)
            }
            State::Landing(landing) => {
                let (first, last) = landing.packets;
                let (begin, end) = landing.sent;
                let is_of = number.map_or((begin..=end).contains(&sent_at), |number| {
                    (first..=last).contains(&number)
                });
                is_of.then_some(landing.delivered)
            }
            _ => None,
        }
    }
}

// Questions sent before the handshake is complete, for a known rate of the path.
//
// If such a question isn't successful, the sender asks again with its first flight, as if it
// hadn't asked before.

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
