//! A bottleneck that no router announces.
//!
//! Marks and grants describe the routers that write them. If packets vanish or queue somewhere
//! else, the narrow hop is another one, and a law that follows the routers alone would drive it
//! into overload. What losses may mean is asked in this order:
//!
//! ```text
//!   step.rs        no more at once than a few times what has arrived
//!   losing.rs      a round trip that loses much: no growth, and no more than arrived
//!   following.rs   losses that follow delay: a queue overflows                               ─► CUBIC
//!   leaning.rs     losses that lean to long delays, beside random ones: never attested,
//!                  and where they are many …                                                  ─► CUBIC
//!   tolerance.rs   losses up to what routers declare, or a trial has attested, are random    ─► routers
//!   growth.rs      … or declared, beyond a tenth, and the same while more and more arrives    ─► attested
//!   trial.rs       more than that, or less if it comes with the rate (phases.rs): send less,
//!                  and see whether the loss goes                                              ─► CUBIC, or attested
//!                  … unless a queue stands beside it that no router announces               ─► CUBIC
//!   delay.rs       a queue that stands for longer than routers take to say so, and goes
//!                  when we send less (delay_trial.rs)                                         ─► CUBIC
//! ```
//!
//! While CUBIC rules every loss counts, as it does for the others at that hop, and the routers'
//! word stays an upper bound.
//!
//! Where TTLs show from the start that some hop writes nothing, and the law grows many times at
//! once, CUBIC rules until a router has said that its own hop is full: before, nothing says that
//! the narrow one is a router's. It ends as well once CUBIC's own cuts show that losses are random
//! (doubt.rs).

mod arrivals;
mod decide;
mod delay;
mod delay_trial;
mod doubt;
mod following;
mod growth;
mod leaning;
mod look;
mod losing;
mod losses;
mod phases;
mod ruled;
mod silence;
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
use delay_trial::DelayTrial;
use following::Following;
use growth::Growth;
use losing::Losing;
use losses::LossRecord;
use phases::Phases;
use ruled::Ruled;
use silence::Silence;
use tolerance::Tolerance;
use train::Trains;
use trial::Trial;

/// How many times what has arrived in a round trip a law may send in the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Where TTLs show a hop that writes nothing.
    pub(crate) partly: u64,
    /// Elsewhere, unless packets sent at once show that the path carries more. `None`: whatever
    /// routers allow.
    pub(crate) unknown: Option<u64>,
}

/// What the watch says.
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
    /// What the path has delivered per round trip of late, in bytes: slow start ends there.
    pub(crate) proven: u64,
}

#[derive(Clone, Debug)]
enum State {
    /// Routers rule; no trial before the time given.
    Routers(Instant),
    /// A trial runs.
    Trial(Trial),
    DelayTrial(DelayTrial),
    Cubic(Ruled),
}

/// Watches losses, delays and what routers say.
#[derive(Clone, Debug)]
pub(crate) struct HiddenHop {
    state: State,
    delay: DelayWatch,
    following: Following,
    record: LossRecord,
    phases: Phases,
    growth: Growth,
    tolerance: Tolerance,
    /// TTLs show a hop that writes nothing.
    partly: bool,
    /// It is not known yet whether the narrow hop is a router's. `None`: nothing is known.
    doubted: Option<bool>,
    losing: Losing,
    silence: Silence,
    mtu: u64,
    step: Step,
    trains: Trains,
    last_sent: u64,
    arrivals: Arrivals,
    /// The window before the trial, in bytes.
    before: u64,
    /// The window under trial, in bytes.
    trial_cap: u64,
    /// Where TTLs show a hop that writes nothing: no more at once than a few times what has arrived
    /// in a round trip, in bytes.
    step_cap: u64,
    /// Every hop of the path has granted a window of so many bytes.
    granted: u64,
    /// The last time that a router said HIGH or OVER, or took something back.
    raised: Option<Instant>,
    /// The last time that a router's word left room for a queue of its own.
    queued: Option<Instant>,
    began: Instant,
    over: Option<Instant>,
    alarms: u32,
    relapses: u32,
    /// A trial found a hidden hop by bursty losses: until then a second one is believed.
    suspected_until: Option<Instant>,
    /// So often CUBIC's own cuts have attested; each asks for twice the packets of the one before.
    attested_by_cuts: u32,
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
            following: Following::new(now),
            record: LossRecord::default(),
            phases: Phases::default(),
            growth: Growth::default(),
            tolerance: Tolerance::default(),
            partly: false,
            doubted: None,
            losing: Losing::default(),
            silence: Silence::default(),
            mtu,
            last_sent: 0,
            arrivals: Arrivals::new(now),
            before: 0,
            trial_cap: u64::MAX,
            step_cap: u64::MAX,
            granted: 0,
            raised: None,
            queued: None,
            began: now,
            over: None,
            alarms: 0,
            relapses: 0,
            suspected_until: None,
            attested_by_cuts: 0,
        }
    }

    /// Another law goes on.
    pub(crate) const fn set_step(&mut self, step: Step) {
        self.step = step;
    }

    /// Routers rule anew: what was learned about losses stays.
    pub(crate) fn restart(&mut self, now: Instant) {
        if !matches!(self.state, State::Routers(_)) {
            self.state = State::Routers(now);
            self.record.clear();
        }
        self.began = now;
        self.raised = None;
        self.queued = None;
        self.trial_cap = u64::MAX;
        self.losing.clear();
    }

    /// The sender was idle: what arrived before that holds no window.
    pub(crate) fn on_idle(&mut self) {
        self.losing.clear();
        self.silence.on_idle();
    }

    /// True while CUBIC rules because of it.
    #[inline]
    pub(crate) const fn rules(&self) -> bool {
        matches!(self.state, State::Cubic(_))
    }

    /// No larger window, in bytes: while a trial runs, and where it would be many times what has
    /// proved to arrive.
    #[inline]
    pub(crate) fn cap(&self) -> u64 {
        self.trial_cap.min(self.step_cap).min(self.losing.cap())
    }

    /// While a trial runs: no higher pace, in bytes per second.
    #[inline]
    pub(crate) fn pace(&self) -> Option<u64> {
        match &self.state {
            State::Trial(trial) => Some(trial.pace()),
            State::DelayTrial(trial) => Some(trial.pace()),
            _ => None,
        }
    }

    /// True while a trial runs or a queue stands that is not a router's own to announce, as far as
    /// one can see yet: no growth then.
    #[inline]
    pub(crate) const fn is_braked(&self) -> bool {
        self.delay.is_queueing() || matches!(self.state, State::Trial(_) | State::DelayTrial(_))
    }

    /// True while so much is lost, or was of late, that a window of `window` bytes must not grow,
    /// whatever routers say: also one that is larger than what may be sent where loss is attested.
    /// Routers see what is sent and would go on giving.
    #[inline]
    pub(crate) fn holds(&self, window: u64) -> bool {
        let attested = self.tolerance.undeclared_ppm() > 0;
        self.losing.now() || window >= self.losing.cap() || (attested && window >= self.step_cap)
    }

    /// True while routers must not be asked for more: a trial runs, or CUBIC rules.
    #[inline]
    pub(crate) const fn asks_nothing(&self) -> bool {
        !matches!(self.state, State::Routers(_))
    }

    /// The queue on the way back, which is part of every round trip of this sender's without being
    /// its doing.
    #[inline]
    pub(crate) const fn behind(&self) -> Duration {
        self.delay.behind()
    }

    /// Delay ahead that stands whatever is sent: the route is that much longer than it once was.
    #[inline]
    pub(crate) const fn ahead(&self) -> Duration {
        self.delay.accepted()
    }

    /// Routers declare that so much is lost to corruption, in 10^-6.
    #[inline]
    pub(crate) fn declare(&mut self, ppm: u64, srtt: Duration) {
        if ppm == self.tolerance.declared_ppm() {
            return;
        }
        self.tolerance.declare(ppm);
        // The first losses may have come before the first word.
        if self.trains.on_declared(self.tolerance.expected_ppm()) {
            self.limit_step(srtt);
        }
    }

    /// Loss that comes as no surprise, in 10^-6: declared, or attested.
    pub(crate) fn expected_loss_ppm(&self) -> u64 {
        self.tolerance.expected_ppm()
    }

    /// Whether TTLs show a hop that writes nothing; `None`: they tell nothing.
    #[inline]
    pub(crate) fn set_partly(&mut self, told: Option<bool>, srtt: Duration) {
        let partly = told == Some(true);
        if partly != self.partly {
            self.partly = partly;
            self.limit_step(srtt);
        }
        if self.doubted.is_none() {
            self.doubted = told;
        }
    }

    /// True if TTLs show a hop that writes nothing.
    pub(crate) const fn is_shown(&self) -> bool {
        self.partly
    }

    /// For laws whose window may grow many times at once. True if TTLs have shown such a hop from
    /// the start and no router has been full yet, so that CUBIC goes on ruling from now on.
    #[inline]
    pub(crate) fn doubts(&mut self, now: Instant) -> bool {
        let begins = self.doubted == Some(true) && matches!(self.state, State::Routers(_));
        if begins {
            self.state = State::Cubic(Ruled::from_start(now));
        }
        begins
    }

    /// What a law goes on with that does not [doubt](Self::doubts): routers rule where nothing but
    /// a doubt has spoken against them. `None` while a hop that says nothing is the narrow one.
    pub(crate) fn without_doubt(&self, now: Instant) -> Option<Self> {
        match &self.state {
            State::Cubic(ruled) if !ruled.is_doubt() => None,
            State::Cubic(_) => Some(Self {
                state: State::Routers(now),
                began: now,
                ..self.clone()
            }),
            _ => Some(self.clone()),
        }
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

    /// A router said HIGH or OVER, or took something back; `queues` if it says so where a queue of
    /// its own stands: HIGH alone tells of none.
    #[inline]
    pub(crate) fn on_raised(&mut self, now: Instant, queues: bool) {
        self.raised = Some(now);
        if queues {
            self.queued = Some(now);
        }
    }

    /// A router said OVER, or left less than CUBIC has: its own hop is the narrow one.
    #[inline]
    pub(crate) fn on_over(&mut self, now: Instant) {
        self.over = Some(now);
    }

    /// An acknowledgement came before any router was heard: the first packets show what the path
    /// carries all the same.
    #[inline]
    pub(crate) fn on_first_ack(&mut self, acked: &Acked) {
        if self.trains.on_ack(acked) {
            self.limit_step(acked.srtt);
        }
    }

    /// Packets were lost, also before any router was heard.
    pub(crate) fn on_first_loss(&mut self, lost: &Lost) {
        let expected = self.tolerance.expected_ppm();
        if self.trains.on_loss(lost.packets, expected) {
            self.limit_step(lost.srtt);
        }
    }

    /// An acknowledgement came while the window was `window` bytes. Routers take `patience` to say
    /// that a queue is theirs.
    #[inline]
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        acked: &Acked,
        patience: Duration,
        window: u64,
    ) -> Finding {
        let packets = window / self.mtu.max(1);
        self.silence
            .on_ack(now, acked.srtt, self.last_sent, packets);
        let (delay, round_over) = self.delay.on_ack(now, acked);
        let turned = self.arrivals.on_ack(now, acked);
        let told = self.trains.on_ack(acked);
        if turned || told {
            self.limit_step(acked.srtt);
        }
        if turned {
            self.trains.turn();
            let arrived = window_of(self.arrivals.delivered(), acked.srtt);
            self.losing
                .turn(self.tolerance.expected_ppm(), arrived, window, self.mtu);
            self.look_at_growth(now, acked.srtt);
            self.compare_phases(now, acked.srtt, window);
        }
        // What is lost at such times does not count.
        let counts =
            !self.announced(now, patience, acked.srtt) && !self.silence.covers(acked.largest);
        if counts {
            self.phases.on_acked(acked.packets);
            self.growth.on_acked(acked.packets);
        }
        self.losing.on_acked(acked.packets, acked.window_limited);
        if let Some(delay) = delay {
            self.following
                .on_delay(now, acked.largest, acked.packets, delay, acked.srtt, counts);
            if let State::DelayTrial(trial) = &mut self.state {
                trial.on_delay(now, delay);
            }
        }
        let complete = counts && self.counts(acked.largest) && self.record.on_acked(acked.packets);
        if !complete && !round_over {
            return Finding::Clear;
        }
        self.look(now, acked, patience, window)
    }

    /// Packets were lost while the window was `window` bytes; what was delivered before `now` has
    /// been told. A router whose own queue overflows says OVER, for up to `patience`: losses about
    /// that time are no hidden hop's, and no reason for CUBIC to go on ruling for one.
    pub(crate) fn on_loss(
        &mut self,
        now: Instant,
        lost: &Lost,
        patience: Duration,
        window: u64,
    ) -> Finding {
        if self.silence.covers(lost.largest) {
            return Finding::Clear;
        }
        self.losing
            .on_lost(lost.packets, self.tolerance.expected_ppm());
        self.on_first_loss(lost);
        if self.announced(now, patience, lost.srtt) {
            return Finding::Clear;
        }
        if self.counts(lost.largest) {
            self.record.on_lost(lost.packets);
        }
        self.phases.on_lost(lost.packets);
        self.growth.on_lost(lost.packets);
        let follows = self
            .following
            .on_loss(lost.largest, self.arrivals.delivered(), self.mtu)
            || self.leaning_is_loss();
        let follows = follows && !self.is_as_declared();
        match &mut self.state {
            State::Cubic(ruled) => {
                ruled.on_loss(now, window);
                Finding::Clear
            }
            State::Routers(_) | State::Trial(_) | State::DelayTrial(_) if follows => {
                let ppm = self.record.all().map_or(0, |all| all.ppm());
                let path = window_of(self.arrivals.now(now, lost.srtt), lost.srtt);
                self.appear(now, ppm, window, path.min(window), lost.srtt)
            }
            State::Routers(calm) => {
                let calm = now < *calm;
                self.on_trigger(now, calm, patience, lost.srtt, window)
            }
            State::DelayTrial(_) => self.on_trigger(now, false, patience, lost.srtt, window),
            State::Trial(_) => Finding::Clear,
        }
    }

    /// True if routers said of late that their own queues overflow.
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
/// trials, so there must be some, also where nothing was delivered over the last round trip.
fn least_pace(srtt: Duration, mtu: u64) -> u64 {
    rate(2 * mtu, srtt, 1, 1).max(1)
}

/// The window under trial: the pace bounds the sender, and the window is a little larger.
fn cap(pace: u64, srtt: Duration, mtu: u64) -> u64 {
    let window = window_of(pace, srtt);
    window.saturating_add(window / 8).saturating_add(2 * mtu)
}
