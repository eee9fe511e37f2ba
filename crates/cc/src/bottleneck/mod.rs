//! A bottleneck that no router announces.
//!
//! Marks and grants describe the routers that write them. If packets are lost or queue somewhere
//! else, the narrow hop is another one, and a law that follows the routers alone would overload it.
//! Losses are examined in this order (`docs/laws/silent-hops.md` has the bounds):
//!
//! ```text
//!   step.rs               the window is at most a few times what has arrived
//!   high_loss.rs          a round trip with heavy loss: no growth, and a window of what arrived
//!   delay_correlation.rs  losses correlated with long delays, among random ones: never attested,
//!                         and above 1 % with 5 standard deviations …               ─► CUBIC
//!   tolerance.rs          losses that routers declare or a trial attested are random ─► routers
//!   trial.rs              more than that: send less, and see whether the loss goes
//!                                                                      ─► CUBIC, or attested
//! ```
//!
//! While CUBIC rules, every loss counts, as it does for the other flows at that hop, and the
//! routers' feedback stays an upper bound.
//!
//! TTLs that show a hop without feedback make a start more careful: the window is at most a few
//! times what has arrived. They never choose the law, because most such hops are wide.

mod arrivals;
mod decide;
mod delay;
mod delay_correlation;
mod following;
mod high_loss;
mod losses;
mod ruled;
mod step;
mod tolerance;
mod train;
mod trial;
mod trigger;

#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod tests;

use crate::base::arith::{mul_div, nanos, rate};
use crate::base::{Duration, Instant};
use crate::law::{Acked, Lost};

use arrivals::Arrivals;
use delay::DelayWatch;
use following::Following;
use high_loss::HighLossCap;
use losses::LossRecord;
use ruled::Ruled;
use tolerance::Tolerance;
use train::Trains;
use trial::Trial;

/// How many times what has arrived in a round trip a law may send in the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Where TTLs show a hop that writes no feedback.
    pub(crate) partly: u64,
    /// Elsewhere, unless packets sent at once show that the path carries more. `None`: only routers
    /// limit the window.
    pub(crate) unknown: Option<u64>,
}

/// The result of one look at the watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Nothing changes.
    Clear,
    /// CUBIC has to take over.
    Appeared(TakeOver),
    /// Routers rule again.
    Gone,
}

/// What CUBIC begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakeOver {
    /// Its window, in bytes.
    pub(crate) window: u64,
    /// Bytes delivered per round trip in the last few round trips: slow start ends there.
    pub(crate) proven: u64,
}

#[derive(Clone, Debug)]
enum State {
    /// Routers rule; no trial before the time given.
    Routers(Instant),
    /// A trial runs.
    Trial(Trial),
    Cubic(Ruled),
}

/// Watches losses, delays and the routers' feedback.
#[derive(Clone, Debug)]
pub(crate) struct HiddenHop {
    state: State,
    delay: DelayWatch,
    following: Following,
    record: LossRecord,
    tolerance: Tolerance,
    /// TTLs show a hop that writes no feedback.
    partly: bool,
    losing: HighLossCap,
    mtu: u64,
    step: Step,
    trains: Trains,
    last_sent: u64,
    arrivals: Arrivals,
    /// The window before the trial, in bytes.
    before: u64,
    /// The window under trial, in bytes.
    trial_cap: u64,
    /// Where TTLs show a hop that writes no feedback: the window is at most this, in bytes, a few
    /// times what has arrived in a round trip.
    step_cap: u64,
    /// The window that every hop of the path has granted, in bytes.
    granted: u64,
    began: Instant,
    over: Option<Instant>,
    alarms: u32,
    relapses: u32,
    /// A trial with bursty losses found a hidden hop: a second one before this time confirms it.
    suspected_until: Option<Instant>,
}

impl HiddenHop {
    /// A path of which nothing is known, of datagrams of `mtu` bytes, for a law that may have
    /// `step` times the window at once that has proved to arrive.
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

    /// Another law goes on.
    pub(crate) const fn set_step(&mut self, step: Step) {
        self.step = step;
    }

    /// Routers rule again, from an empty trial state: what was learned about losses stays.
    pub(crate) fn restart(&mut self, now: Instant) {
        if !matches!(self.state, State::Routers(_)) {
            self.state = State::Routers(now);
            self.record.clear();
        }
        self.began = now;
        self.trial_cap = u64::MAX;
        self.losing.clear();
    }

    /// The sender was idle: what arrived before that holds no window.
    pub(crate) fn on_idle(&mut self) {
        self.losing.clear();
    }

    /// True while CUBIC rules because of it.
    #[inline]
    pub(crate) const fn rules(&self) -> bool {
        matches!(self.state, State::Cubic(_))
    }

    /// Upper bound of the window in bytes: while a trial runs, and where the window would be many
    /// times what has arrived.
    #[inline]
    pub(crate) fn cap(&self) -> u64 {
        self.trial_cap.min(self.step_cap).min(self.losing.cap())
    }

    /// Upper bound of the pace while a trial runs, in bytes per second.
    #[inline]
    pub(crate) fn pace(&self) -> Option<u64> {
        match &self.state {
            State::Trial(trial) => Some(trial.pace()),
            _ => None,
        }
    }

    /// True while a trial runs or a queue stands that no router is known to own: no growth then.
    #[inline]
    pub(crate) const fn is_braked(&self) -> bool {
        self.delay.is_queueing() || matches!(self.state, State::Trial(_))
    }

    /// True while this or a recent round trip lost too much for a window of `window` bytes to grow,
    /// whatever routers grant. It covers a window above what may be sent where loss is attested,
    /// too: routers see only what is sent and would go on granting.
    #[inline]
    pub(crate) fn holds(&self, window: u64) -> bool {
        let attested = self.tolerance.undeclared_ppm() > 0;
        self.losing.now() || window >= self.losing.cap() || (attested && window >= self.step_cap)
    }

    /// True while requests must not ask for more: a trial runs, or CUBIC rules.
    #[inline]
    pub(crate) const fn asks_nothing(&self) -> bool {
        !matches!(self.state, State::Routers(_))
    }

    /// The queue on the way back: it is part of every round trip, and this sender does not cause
    /// it.
    #[inline]
    pub(crate) const fn behind(&self) -> Duration {
        self.delay.behind()
    }

    /// Sets the loss to corruption that routers declare, in 10^-6.
    #[inline]
    pub(crate) fn declare(&mut self, ppm: u64, srtt: Duration) {
        if ppm == self.tolerance.declared_ppm() {
            return;
        }
        self.tolerance.declare(ppm);
        // The first losses may have come before the first feedback.
        if self.trains.on_declared(self.tolerance.expected_ppm()) {
            self.limit_step(srtt);
        }
    }

    /// Expected loss, in 10^-6: declared, or attested.
    pub(crate) fn expected_loss_ppm(&self) -> u64 {
        self.tolerance.expected_ppm()
    }

    /// Whether TTLs show a hop that writes no feedback; `None`: the TTLs cannot be compared.
    #[inline]
    pub(crate) fn set_partly(&mut self, shown: Option<bool>, srtt: Duration) {
        let partly = shown == Some(true);
        if partly != self.partly {
            self.partly = partly;
            self.limit_step(srtt);
        }
    }

    /// True if TTLs show a hop that writes no feedback.
    pub(crate) const fn is_shown(&self) -> bool {
        self.partly
    }

    /// The largest datagram changed.
    pub(crate) fn set_mtu(&mut self, mtu: u64) {
        self.mtu = mtu;
    }

    /// Packet `number` was sent.
    #[inline]
    pub(crate) fn on_sent(&mut self, number: u64) {
        self.last_sent = self.last_sent.max(number);
    }

    /// A router sent OVER, or left less than CUBIC has: its own hop is the narrow one.
    #[inline]
    pub(crate) fn on_over(&mut self, now: Instant) {
        self.over = Some(now);
    }

    /// An acknowledgement came before any router's feedback: the first packets still show what the
    /// path carries.
    #[inline]
    pub(crate) fn on_first_ack(&mut self, acked: &Acked) {
        if self.trains.on_ack(acked) {
            self.limit_step(acked.srtt);
        }
    }

    /// Packets were lost, also before any router's feedback.
    pub(crate) fn on_first_loss(&mut self, lost: &Lost) {
        let expected = self.tolerance.expected_ppm();
        if self.trains.on_loss(lost.packets, expected) {
            self.limit_step(lost.srtt);
        }
    }

    /// An acknowledgement came while the window was `window` bytes. A router announces its own
    /// queue within `patience`.
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
        // What is lost at such times does not count.
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

    /// Packets were lost while the window was `window` bytes; deliveries before `now` are already
    /// counted. A router whose own queue overflows sends OVER for up to `patience`: losses about
    /// that time are not a hidden hop's, and give CUBIC no reason to go on ruling.
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

    /// True if a router sent OVER within the last `patience` and one round trip.
    fn announced(&self, now: Instant, patience: Duration, srtt: Duration) -> bool {
        self.over.is_some_and(|at| now - at <= patience + srtt)
            && matches!(self.state, State::Routers(_) | State::Cubic(_))
    }

    /// True if what becomes of packet `number` is part of the record.
    fn counts(&self, number: u64) -> bool {
        match &self.state {
            State::Trial(trial) => trial.counts(number),
            _ => true,
        }
    }
}

/// Bytes that `pace` bytes per second are in a round trip.
fn window_of(pace: u64, srtt: Duration) -> u64 {
    mul_div(pace, nanos(srtt), 1_000_000_000)
}

/// The least pace of a trial, bytes per second: two packets per round trip. Acknowledgements end
/// trials, so some packets must be sent, also where nothing was delivered over the last round trip.
fn least_pace(srtt: Duration, mtu: u64) -> u64 {
    rate(2 * mtu, srtt, 1, 1).max(1)
}

/// The window under trial: the pace bounds the sender, and the window is a little larger.
fn cap(pace: u64, srtt: Duration, mtu: u64) -> u64 {
    let window = window_of(pace, srtt);
    window.saturating_add(window / 8).saturating_add(2 * mtu)
}
