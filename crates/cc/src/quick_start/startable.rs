//! Laws that can start with a window that routers granted.

use crate::loss_based::{Avoidance, LossBased, StartRule};
use crate::{Controller, Instant, Limits};

/// How a law goes on after a flight that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterGrant {
    /// As it would with that window: in slow start, before anything was lost.
    SlowStart,
    /// In congestion avoidance: the threshold is what was granted and used.
    Avoidance,
}

/// A law that [`QuickStart`](super::QuickStart) can start.
pub trait Startable: Controller {
    /// False where the law knows of a bottleneck that no router announces: what routers grant says
    /// nothing of that one.
    fn may_start(&self) -> bool {
        true
    }

    /// `window` bytes are granted, and sent from now on. True if the law's own window has become
    /// that and routers go on steering it: what they tell of the flight is the law's business then,
    /// and so are single losses. Where no router has been heard so far it is told once more when
    /// the first of the flight has arrived.
    fn begin_with(&mut self, now: Instant, window: u64) -> bool {
        let _ = (now, window);
        false
    }

    /// A granted window that no router steers yet is at most so many bytes: what packets that were
    /// sent before show of the path.
    fn carried(&self) -> u64 {
        u64::MAX
    }

    /// `window` bytes were granted, and are in flight.
    fn start_with(&mut self, now: Instant, window: u64, after: AfterGrant);

    /// The first of a granted flight arrived, and the window is used after `rounds` more round
    /// trips: what routers have measured until then is no sign of room.
    fn wait_for_measure(&mut self, now: Instant, rounds: u32) {
        let _ = (now, rounds);
    }

    /// True if routers may take part of a granted window back for others who asked meanwhile,
    /// because the law itself would take long to. Asked once a flight begins that routers steer.
    fn may_have_to_share(&self) -> bool {
        false
    }

    /// Routers leave `window` bytes of what they granted.
    fn give_back(&mut self, now: Instant, window: u64) {
        let _ = (now, window);
    }

    /// What [`begin_with`](Self::begin_with) was told of is not sent: its time was over before, or
    /// nothing came back.
    fn not_begun(&mut self) {}

    /// Something of a granted window was lost: begins anew with `window` bytes, and slow start ends
    /// at `threshold` bytes. Losses of packets up to `last_sent` are of the same event.
    fn give_up(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64);

    /// The share of packets that is lost at random, in 10^-6, as far as routers declare or the law
    /// has found out.
    fn expected_loss_ppm(&self) -> u64 {
        0
    }

    /// The window that could be made use of within a round trip, in bytes, where the sender is
    /// bound by `limits`.
    fn usable(&self, limits: &Limits) -> u64 {
        limits.least()
    }

    /// More of what was given up arrived: slow start may go on to `threshold` bytes.
    fn raise_threshold(&mut self, threshold: u64);
}

impl<W: Avoidance, S: StartRule> Startable for LossBased<W, S> {
    fn start_with(&mut self, _now: Instant, window: u64, after: AfterGrant) {
        match after {
            AfterGrant::SlowStart => self.raise(window),
            AfterGrant::Avoidance if window > self.window() => self.take_over(window),
            AfterGrant::Avoidance => {}
        }
    }

    fn give_up(&mut self, now: Instant, window: u64, threshold: u64, last_sent: u64) {
        self.fall_back(now, window, threshold, last_sent);
    }

    fn raise_threshold(&mut self, threshold: u64) {
        self.allow(threshold);
    }
}
