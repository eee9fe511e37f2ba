//! Detection of a bottleneck that no router announces.
//!
//! Marks and grants only describe the routers that write them. If packets are lost or queued
//! somewhere else, the bottleneck is another hop, which a law that only follows routers would
//! overload. This module calls it a hidden hop, and examines losses in the following order
//! (`docs/laws/silent-hops.md` lists the bounds):
//!
//! ```text
//!   trial.rs              the window is at most a few times the arrivals
//!   high_loss.rs          heavy loss in a round trip: no growth, and the window is the arrivals
//!   delay.rs              losses correlated with long delays, even among random ones: never attested,
//!                         and above 1 % with 5 standard deviations …               ─► CUBIC
//!   losses.rs             losses that routers declare or a trial attested are random ─► routers
//!   trial.rs              more than that: send less, and see whether the loss falls
//!                                                                      ─► CUBIC, or attested
//! ```
//!
//! While CUBIC controls the window, every loss counts, as it does for the other flows at this hop,
//! and the routers' feedback remains an upper bound.
//!
//! If TTLs show a hop without feedback, starts become more careful: the window is at most a few
//! times the arrivals. However, TTLs never select the law, because most such hops are wide.

mod arrivals;
mod decide;
mod delay;
mod high_loss;
mod losses;
mod train;
mod trial;

#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod tests;

use crate::base::arith::{mul_div, nanos, rate};
use crate::base::{Duration, Instant};
use crate::law::{Acked, Lost};
use arrivals::Arrivals;
use decide::Ruled;
use delay::{DelayWatch, Following};
use high_loss::HighLossCap;
use losses::{LossRecord, Tolerance};
use train::Trains;
use trial::Trial;

/// Factors that bound the window by the arrivals of a round trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Factor if TTLs show a hop that writes no feedback.
    pub(crate) partly: u64,
    /// Factor otherwise, unless packets sent at once show that the path carries more. With `None`,
    /// only routers limit the window.
    pub(crate) unknown: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    Clear,
    Appeared(TakeOver),
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakeOver {
    /// CUBIC's window in bytes.
    pub(crate) window: u64,
    /// Bytes delivered per round trip in recent round trips, at which slow start ends.
    pub(crate) proven: u64,
}

#[derive(Clone, Debug)]
enum State {
    /// Routers control the window, and no trial may begin before this time.
    Routers(Instant),
    Trial(Trial),
    Cubic(Ruled),
}

/// Looks for a hidden hop, based on losses, delays and the routers' feedback.
///
/// Its `State` is under the control of routers, in a trial, or under the control of CUBIC.
/// [`on_loss`](Self::on_loss) starts trials and CUBIC; [`on_ack`](Self::on_ack) ends them.
#[derive(Clone, Debug)]
pub(crate) struct HiddenHop {
    state: State,
    delay: DelayWatch,
    following: Following,
    record: LossRecord,
    tolerance: Tolerance,
    partly: bool,
    losing: HighLossCap,
    mtu: u64,
    step: Step,
    trains: Trains,
    last_sent: u64,
    arrivals: Arrivals,
    /// The window before the trial in bytes.
    before: u64,
    /// Upper bound of the window during a trial in bytes.
    trial_cap: u64,
    /// Upper bound of the window in bytes, based on arrivals (`trial.rs`).
    step_cap: u64,
    /// The window in bytes that every hop with feedback has granted.
    granted: u64,
    began: Instant,
    over: Option<Instant>,
    alarms: u32,
    relapses: u32,
    /// Set after a trial with bursty losses found a hidden hop. A second one before this time
    /// confirms it.
    suspected_until: Option<Instant>,
}

impl HiddenHop {
    /// Creates the state for a new path with datagrams of `mtu` bytes. `step` bounds the window by
    /// the arrivals.
    pub(crate) fn new(now: Instant, mtu: u64, step: Step) -> Self {
        Self {
            step,
            trains: Trains::default(),
            state: State::Routers(now),
            delay: DelayWatch::new(now),
            following: Following::new(),
            record: LossRecord::default(),
            tolerance: Tolerance::default(),
            partly: false,
            losing: HighLossCap::default(),
            mtu,
            last_sent: 0,
            arrivals: Arrivals::new(now),
            before: 0,
            trial_cap: u64::MAX,
            step_cap: u64::MAX,
            granted: 0,
            began: now,
            over: None,
            alarms: 0,
            relapses: 0,
            suspected_until: None,
        }
    }

    pub(crate) const fn set_step(&mut self, step: Step) {
        self.step = step;
    }

    /// Returns control to routers and ends any trial, but keeps the knowledge about losses.
    pub(crate) fn restart(&mut self, now: Instant) {
        if !matches!(self.state, State::Routers(_)) {
            self.state = State::Routers(now);
            self.record.clear();
        }
        self.began = now;
        self.trial_cap = u64::MAX;
        self.losing.clear();
    }

    /// Handles an idle period, because earlier arrivals must not bound the window.
    pub(crate) fn on_idle(&mut self) {
        self.losing.clear();
    }

    /// Returns true while CUBIC controls the window because of a hidden hop.
    #[inline]
    pub(crate) const fn rules(&self) -> bool {
        matches!(self.state, State::Cubic(_))
    }

    /// Returns the upper bound of the window in bytes, given by a trial, by arrivals and by
    /// recent heavy loss.
    #[inline]
    pub(crate) fn cap(&self) -> u64 {
        self.trial_cap.min(self.step_cap).min(self.losing.cap())
    }

    /// Returns the upper bound of the pace in bytes per second during a trial.
    #[inline]
    pub(crate) fn pace(&self) -> Option<u64> {
        match &self.state {
            State::Trial(trial) => Some(trial.pace()),
            _ => None,
        }
    }

    /// Returns true if the window must not grow, either because a trial is running or because there
    /// is a queue that might not belong to any router.
    #[inline]
    pub(crate) const fn is_braked(&self) -> bool {
        self.delay.is_queueing() || matches!(self.state, State::Trial(_))
    }

    /// Returns true if a window of `window` bytes must not grow regardless of grants, because this
    /// or a recent round trip lost too much. This includes windows above the bound that applies to
    /// attested loss, because routers only see sent packets, and would therefore continue to grant.
    #[inline]
    pub(crate) fn holds(&self, window: u64) -> bool {
        let attested = self.tolerance.undeclared_ppm() > 0;
        self.losing.now() || window >= self.losing.cap() || (attested && window >= self.step_cap)
    }

    /// Returns true if requests must not ask for more, because a trial is running or CUBIC is in
    /// control.
    #[inline]
    pub(crate) const fn asks_nothing(&self) -> bool {
        !matches!(self.state, State::Routers(_))
    }

    /// Returns the queueing delay on the way back. It is part of every RTT, although this sender
    /// doesn't cause it.
    #[inline]
    pub(crate) const fn behind(&self) -> Duration {
        self.delay.behind()
    }

    /// Sets the share of packets in 10^-6 that is lost to corruption according to routers.
    #[inline]
    pub(crate) fn declare(&mut self, ppm: u64, srtt: Duration) {
        if ppm == self.tolerance.declared_ppm() {
            return;
        }
        self.tolerance.declare(ppm);
        // The first losses may have been reported before the first feedback.
        if self.trains.on_declared(self.tolerance.expected_ppm()) {
            self.limit_step(srtt);
        }
    }

    /// Returns the expected loss in 10^-6, which is either declared or attested.
    pub(crate) fn expected_loss_ppm(&self) -> u64 {
        self.tolerance.expected_ppm()
    }

    /// Sets whether TTLs show a hop that writes no feedback, or `None` if they can't be compared.
    #[inline]
    pub(crate) fn set_partly(&mut self, shown: Option<bool>, srtt: Duration) {
        let partly = shown == Some(true);
        if partly != self.partly {
            self.partly = partly;
            self.limit_step(srtt);
        }
    }

    pub(crate) const fn is_shown(&self) -> bool {
        self.partly
    }

    pub(crate) fn set_mtu(&mut self, mtu: u64) {
        self.mtu = mtu;
    }

    #[inline]
    pub(crate) fn on_sent(&mut self, number: u64) {
        self.last_sent = self.last_sent.max(number);
    }

    /// Handles an OVER, or feedback that leaves less than CUBIC's window: the router's own hop is
    /// the bottleneck.
    #[inline]
    pub(crate) fn on_over(&mut self, now: Instant) {
        self.over = Some(now);
    }

    /// Handles an acknowledgement before any router's feedback. Its packets already show the path's
    /// capacity.
    #[inline]
    pub(crate) fn on_first_ack(&mut self, acked: &Acked) {
        if self.trains.on_ack(acked) {
            self.limit_step(acked.srtt);
        }
    }

    /// Handles losses, including those before any router's feedback.
    pub(crate) fn on_first_loss(&mut self, lost: &Lost) {
        let expected = self.tolerance.expected_ppm();
        if self.trains.on_loss(lost.packets, expected) {
            self.limit_step(lost.srtt);
        }
    }

    /// Handles an acknowledgement at a window of `window` bytes. Routers announce their own queue
    /// within `patience`.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        acked: &Acked,
        patience: Duration,
        window: u64,
    ) -> Finding {
        let (delay, round_over) = self.delay.on_ack(now, acked);
        let turned = self.arrivals.on_ack(now, acked);
        let measured = self.trains.on_ack(acked);
        if turned || measured {
            self.limit_step(acked.srtt);
        }
        if turned {
            self.trains.turn();
            let arrived = window_of(self.arrivals.delivered(), acked.srtt);
            self.losing
                .turn(self.tolerance.expected_ppm(), arrived, window, self.mtu);
        }
        // Losses at such times don't count, so acknowledgements don't either.
        let counts = !self.announced(now, patience, acked.srtt);
        self.losing.on_acked(acked.packets, acked.window_limited);
        if let Some(delay) = delay {
            self.following
                .on_delay(acked.largest, acked.packets, delay, counts);
        }
        let complete = counts && self.counts(acked.largest) && self.record.on_acked(acked.packets);
        if !complete && !round_over {
            return Finding::Clear;
        }
        self.look(now, acked, window)
    }

    /// Handles losses at a window of `window` bytes; deliveries before `now` are already counted. A
    /// router whose own queue overflows sends OVER within `patience`. Losses around that time
    /// aren't caused by a hidden hop, and are no reason for CUBIC to stay in control.
    pub(crate) fn on_loss(
        &mut self,
        now: Instant,
        lost: &Lost,
        patience: Duration,
        window: u64,
    ) -> Finding {
        self.losing
            .on_lost(lost.packets, self.tolerance.expected_ppm());
        self.on_first_loss(lost);
        if self.announced(now, patience, lost.srtt) {
            return Finding::Clear;
        }
        if self.counts(lost.largest) {
            self.record.on_lost(lost.packets);
        }
        self.following.on_loss(lost.largest);
        let follows = self.leaning_is_loss() && !self.is_as_declared();
        match &mut self.state {
            State::Cubic(ruled) => {
                ruled.on_loss(now, window);
                Finding::Clear
            }
            State::Routers(_) | State::Trial(_) if follows => {
                let ppm = self.record.all().map_or(0, |all| all.ppm());
                let path = window_of(self.arrivals.now(now, lost.srtt), lost.srtt);
                self.appear(now, ppm, window, path.min(window), lost.srtt)
            }
            State::Routers(calm) => {
                let calm = now < *calm;
                self.on_trigger(now, calm, lost.srtt, window)
            }
            State::Trial(_) => Finding::Clear,
        }
    }

    /// Returns true if a router sent OVER within the last `patience` plus one round trip, and no
    /// trial is running.
    fn announced(&self, now: Instant, patience: Duration, srtt: Duration) -> bool {
        self.over.is_some_and(|at| now - at <= patience + srtt)
            && matches!(self.state, State::Routers(_) | State::Cubic(_))
    }

    /// Returns true if the outcome of packet `number` belongs to the record.
    fn counts(&self, number: u64) -> bool {
        match &self.state {
            State::Trial(trial) => trial.counts(number),
            _ => true,
        }
    }
}

/// Returns the bytes sent per round trip at `pace` bytes per second.
fn window_of(pace: u64, srtt: Duration) -> u64 {
    mul_div(pace, nanos(srtt), 1_000_000_000)
}

/// Returns the lowest pace of a trial in bytes per second, which is two packets per round trip.
/// Because trials are ended by acknowledgements, some packets must be sent even if nothing was
/// delivered in the last round trip.
fn least_pace(srtt: Duration, mtu: u64) -> u64 {
    rate(2 * mtu, srtt, 1, 1).max(1)
}

/// Returns the window during a trial, which is slightly larger than the pace needs, so that the
/// pace limits the sender.
fn cap(pace: u64, srtt: Duration, mtu: u64) -> u64 {
    let window = window_of(pace, srtt);
    window.saturating_add(window / 8).saturating_add(2 * mtu)
}
