//! The packets sent because of a grant, from the first packet to the last acknowledgement.

use super::confirm::ConfirmQuestion;
use super::{QuickStart, State};
use crate::base::{Instant, window};
use crate::law::Limit;
use crate::metrics::QuickStartOutcome;
use crate::quick_start::startable::Startable;

/// A flight that loses one packet in `GIVEN_UP` beyond the expected loss, and at least this number
/// of packets, is given up also by laws that do not react to losses.
const GIVEN_UP: u64 = 8;
/// … by this many standard deviations, where some loss is expected.
const SIGMAS: u64 = 3;

/// A granted flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// Bytes per second and bytes in flight, of UDP payload.
    pub(super) pace: u64,
    pub(super) window: u64,
    /// What routers granted, in bytes: more than the window where a hop did not take part.
    pub(super) granted: u64,
    /// The law has made the grant its own window.
    pub(super) steered: bool,
    /// It must have begun by then.
    pub(super) until: Instant,
    /// Its packets so far.
    pub(super) packets: Option<(u64, u64)>,
    pub(super) started: Instant,
    pub(super) bytes: u64,
    pub(super) lost: u64,
}

/// A flight of which the first packet was acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landing {
    pub(super) packets: (u64, u64),
    pub(super) sent: (Instant, Instant),
    /// A packet behind it was acknowledged: losses of its last packets show until one beyond this
    /// number is.
    pub(super) until: Option<u64>,
    pub(super) delivered: u64,
    /// Bytes that were used, and those granted that deliveries of the flight have yet to confirm.
    pub(super) used: u64,
    pub(super) unconfirmed: u64,
    pub(super) steered: bool,
    pub(super) lost: u64,
}

/// A flight with losses. Until it is settled its deliveries count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Falling {
    pub(super) last_sent: u64,
    pub(super) delivered: u64,
}

impl<C: Startable> QuickStart<C> {
    /// The first packet of a flight was acknowledged: from now on the law continues with the window
    /// that was used.
    pub(super) fn land(&mut self, now: Instant, flight: &Flight, delivered: u64) {
        let Some(packets) = flight.packets else {
            return;
        };
        let used = flight.window.min(flight.bytes).max(self.initial);
        // A steered law has gone on from there already, and the peer's flow control may yet grow.
        let unwanted = self.last_limit == Limit::Application && used < flight.window / 2;
        // Routers whose first feedback comes only now steer from here on.
        let late = !flight.steered && self.law.begin_with(now, used);
        let steered = flight.steered || late;
        if !steered || unwanted {
            // A share of all leaves no more than its part of what ports never grant.
            let shown = self.law.measured_window().filter(|_| self.again == 0);
            let granted = flight.window;
            let threshold = self.after.threshold(used, granted, shown);
            // The peer's flow control, which grows by what arrives, may have held the flight back.
            // Then the window is what was granted, and slow start is over.
            let held = threshold.is_some_and(|threshold| threshold > used)
                && matches!(self.last_limit, Limit::Peer | Limit::Buffer)
                && !unwanted;
            match threshold {
                Some(_) if held => self.law.start_with(now, granted, Some(granted)),
                _ => self.law.start_with(now, used, threshold),
            }
        } else {
            // One more round trip where the peer's flow control has to grow for it.
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

    /// Routers whose first feedback comes with the answer, or behind it, steer the flight from here
    /// on.
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

    /// The granted rate is not available: as if it had never been (RFC 4782 §4.6).
    pub(super) fn revoke(&mut self, now: Instant, last_sent: u64, delivered: u64) {
        self.metrics.revoked += 1;
        self.metrics.outcome = QuickStartOutcome::Revoked;
        self.confirm = ConfirmQuestion::No;
        self.state = State::Falling(Falling {
            last_sent,
            delivered,
        });
        let threshold = (delivered / 2).max(window::loss_based_floor(self.mtu));
        self.law.give_up(now, self.initial, threshold, last_sent);
    }

    /// `lost` bytes more of the flight are lost, and `delivered` are not: true if routers go on
    /// steering it.
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
        // Where loss is expected, chance brings more of it.
        let chance = match self.law.expected_loss_ppm() {
            0 => 0,
            _ => SIGMAS * (sum / self.mtu).isqrt() * self.mtu,
        };
        steered && (few || self.unexpected(sum, delivered) < most.saturating_add(chance))
    }

    /// Bytes of the flight that arrived, if packet `number` or what was sent at `sent_at` is of it.
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
