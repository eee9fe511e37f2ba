//! A bottleneck that no router announces.
//!
//! Marks and grants describe the routers that write them. If packets vanish or queue somewhere
//! else, the narrow hop is another one, and a law that follows the routers alone would drive it
//! into overload. What losses may mean is asked in this order:
//!
//! ```text
//!   losing.rs      a round trip that loses much: no growth, and no more than arrived
//!   following.rs   losses that follow delay: a queue overflows                               ─► CUBIC
//!   tolerance.rs   losses up to what routers declare, or a trial has attested, are random    ─► routers
//!   trial.rs       more than that, or less if it comes with the rate (phases.rs): send less,
//!                  and see whether the loss goes                                              ─► CUBIC, or attested
//!                  … unless a queue stands beside it that no router announces               ─► CUBIC
//!   delay.rs       a queue that stands for longer than routers take to say so, and goes
//!                  when we send less (delay_trial.rs)                                         ─► CUBIC
//! ```
//!
//! While CUBIC rules every loss counts, as it does for the others at that hop, and the routers'
//! word stays an upper bound.

mod arrivals;
mod delay;
mod delay_trial;
mod following;
mod losing;
mod losses;
mod phases;
mod ruled;
mod tolerance;
mod train;
mod trial;
mod trigger;

#[cfg(test)]
mod tests;

use crate::arith::{mul_div, nanos, rate};
use crate::{Acked, Duration, Instant, Lost};

use arrivals::Arrivals;
use delay::DelayWatch;
use delay_trial::{DelayTrial, DelayVerdict};
use following::Following;
use losing::Losing;
use losses::{LossRecord, Sample};
use phases::Phases;
use ruled::{Look, Outcome, Ruled};
use tolerance::Tolerance;
use train::Trains;
use trial::{SLACK_PPM, Trial, Verdict};

/// Packets after which fewer losses than are tolerated lower what is tolerated.
const LOWER_PACKETS: u64 = 2048;
/// Where losses are bursty, or some loss is known to be random, a trial has to find a hidden hop
/// twice within so many round trips.
const TWICE_ROUNDS: u32 = 60;
/// No trial for so many round trips after a false alarm; each further one doubles that.
const CALM_ROUNDS: u32 = 10;
/// … and after an attestation.
const ATTESTED_ROUNDS: u32 = 40;
const MOST_DOUBLINGS: u32 = 5;

/// What a trial of delay accepted holds for so many round trips.
const HOLDS_ROUNDS: u32 = 300;
/// Where TTLs show a hop that writes nothing, the window is at most a few times what has arrived in
/// a round trip, or so many packets.
const FIRST_WINDOW: u64 = 40;
/// Packets of a first window.
const INITIAL_WINDOW: u64 = 10;
/// Where a trial has attested loss, the window grows by this part per round trip at most: others
/// may still be trying.
const ATTESTED_STEP: u64 = 4;

/// A granted window is at most this part of what packets sent at once show: what is paced to all of
/// it fills the queue of a hop that says nothing. Of a port's own rate 85 % are granted at most.
const SURE_OF_TRAIN: (u64, u64) = (7, 8);

/// Windows below this many packets tell nothing about the rate.
const LEAST_WINDOW: u64 = 20;

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
    tolerance: Tolerance,
    /// TTLs show a hop that writes nothing.
    partly: bool,
    losing: Losing,
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
            tolerance: Tolerance::default(),
            partly: false,
            losing: Losing::default(),
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
    /// whatever routers say.
    #[inline]
    pub(crate) fn holds(&self, window: u64) -> bool {
        self.losing.now() || window >= self.losing.cap()
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
    pub(crate) fn declare(&mut self, ppm: u64) {
        self.tolerance.declare(ppm);
    }

    /// Whether TTLs show a hop that writes nothing.
    #[inline]
    pub(crate) fn set_partly(&mut self, partly: bool, srtt: Duration) {
        if partly != self.partly {
            self.partly = partly;
            self.limit_step(srtt);
        }
    }

    /// Bounds the next round trip's window by what has arrived in one.
    fn limit_step(&mut self, srtt: Duration) {
        let arrived = self.arrivals.proven(srtt);
        let least = FIRST_WINDOW * self.mtu;
        let random = self.tolerance.attested_ppm();
        self.step_cap = if random > 0 {
            // What was sent for it, and a quarter.
            let sent = mul_div(arrived, 1_000_000, 1_000_000 - random.min(900_000));
            sent.saturating_add(sent / ATTESTED_STEP).max(least)
        } else if self.partly {
            arrived.saturating_mul(self.step.partly).max(least)
        } else if let Some(step) = self.step.unknown {
            // A hop that shows nowhere may be the narrow one.
            arrived
                .saturating_mul(step)
                .max(step * INITIAL_WINDOW * self.mtu)
                .max(window_of(self.trains.rate(), srtt))
        } else if self.granted > 0 {
            0
        } else {
            u64::MAX
        };
        self.step_cap = self.step_cap.max(self.granted_window(srtt));
    }

    /// Every hop that shows has granted a window of `window` bytes; 0: what it carries shows by
    /// now.
    pub(crate) fn allow(&mut self, window: u64, srtt: Duration) {
        self.granted = window;
        self.limit_step(srtt);
    }

    /// What was granted, in bytes, as far as packets that were sent at once show that the path
    /// carries it.
    pub(crate) fn granted_window(&self, srtt: Duration) -> u64 {
        let shown = match self.trains.rate() {
            0 => u64::MAX,
            rate => mul_div(window_of(rate, srtt), SURE_OF_TRAIN.0, SURE_OF_TRAIN.1),
        };
        self.granted.min(shown.max(INITIAL_WINDOW * self.mtu))
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
        let turned = self.arrivals.on_ack(now, acked);
        let told = self.trains.on_ack(acked);
        if turned || told {
            self.limit_step(acked.srtt);
        }
        if turned {
            self.trains.turn();
            let arrived = window_of(self.arrivals.delivered(), acked.srtt);
            self.losing
                .turn(self.tolerance.ppm(), arrived, window, self.mtu);
            self.compare_phases(now, acked.srtt, window);
        }
        self.phases.on_acked(acked.packets);
        self.losing.on_acked(acked.packets, acked.window_limited);
        let (delay, round_over) = self.delay.on_ack(now, acked);
        if let Some(delay) = delay {
            self.following
                .on_delay(now, acked.largest, acked.packets, delay, acked.srtt);
            if let State::DelayTrial(trial) = &mut self.state {
                trial.on_delay(now, delay);
            }
        }
        let complete = self.counts(acked.largest) && self.record.on_acked(acked.packets);
        if !complete && !round_over {
            return Finding::Clear;
        }
        self.look(now, acked, patience, window)
    }

    /// Packets were lost while the window was `window` bytes; what was delivered before `now` has
    /// been told. A router whose own queue overflows says OVER, for up to `patience`: losses about
    /// that time are no hidden hop's.
    pub(crate) fn on_loss(
        &mut self,
        now: Instant,
        lost: &Lost,
        patience: Duration,
        window: u64,
    ) -> Finding {
        self.losing.on_lost(lost.packets, self.tolerance.ppm());
        let told = patience + lost.srtt;
        let announced = self.over.is_some_and(|at| now - at <= told);
        if announced && matches!(self.state, State::Routers(_)) {
            return Finding::Clear;
        }
        if self.counts(lost.largest) {
            self.record.on_lost(lost.packets);
        }
        self.phases.on_lost(lost.packets);
        let follows = self
            .following
            .on_loss(lost.largest, self.arrivals.delivered(), self.mtu);
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

    /// A round trip is over: losses too few for a trial may come with the rate.
    fn compare_phases(&mut self, now: Instant, srtt: Duration, window: u64) {
        let dispersion = self.record.all().map_or(0, |all| all.dispersion);
        let found = self.phases.turn(dispersion, self.partly);
        if let State::Routers(calm) = &self.state
            && now >= *calm
            && let Some(trigger) = found
        {
            self.begin_trial(now, trigger, srtt, window);
        }
    }

    /// True if a queue stands ahead for longer than routers take to say that it is theirs.
    ///
    /// Where packets are lost as well, it overflows. Several senders at one hop cannot tell that by
    /// trials: what one leaves the others take up.
    fn overflows(&self, now: Instant, patience: Duration, srtt: Duration) -> bool {
        let told = self.queued.unwrap_or(self.began).max(self.began);
        let stands = |since: Instant| now - since.max(told) > patience + srtt + srtt;
        self.delay.queued_since().is_some_and(stands)
    }

    /// True if what becomes of packet `number` is part of the record.
    fn counts(&self, number: u64) -> bool {
        match &self.state {
            State::Trial(trial) => trial.counts(number),
            _ => true,
        }
    }

    #[cold]
    fn look(&mut self, now: Instant, acked: &Acked, patience: Duration, window: u64) -> Finding {
        let srtt = acked.srtt;
        self.tolerance.age(now);
        let tolerated = self.tolerance.ppm();
        if tolerated > 0
            && self.record.packets() >= LOWER_PACKETS
            && let Some(seen) = self.record.all()
        {
            self.tolerance.lower(seen.ppm() + 3 * seen.sigma_ppm());
        }
        match &mut self.state {
            State::Routers(_) => {
                let low_since = self.raised.unwrap_or(self.began).max(self.began);
                // A router's own queue shows in its word after this at the latest.
                let patience = patience + srtt + srtt;
                let standing = self
                    .delay
                    .delayed_since()
                    .is_some_and(|since| now - since.max(low_since) > patience);
                if standing {
                    let sent = self.arrivals.delivered();
                    let least = least_pace(srtt, self.mtu);
                    let trial = DelayTrial::new(now, self.delay.mean(), sent, least, srtt);
                    self.trial_cap = cap(trial.pace(), srtt, self.mtu);
                    self.before = window;
                    self.state = State::DelayTrial(trial);
                }
                Finding::Clear
            }
            State::DelayTrial(trial) => {
                let pace = trial.pace();
                self.trial_cap = cap(pace, srtt, self.mtu);
                match trial.judge(now, srtt) {
                    None => Finding::Clear,
                    Some(DelayVerdict::Hidden) => {
                        self.appear(now, 0, self.before, window_of(pace, srtt), srtt)
                    }
                    Some(DelayVerdict::Normal(delay)) => {
                        self.delay
                            .accept(now, delay, srtt.saturating_mul(HOLDS_ROUNDS));
                        self.trial_cap = u64::MAX;
                        self.state = State::Routers(now);
                        Finding::Clear
                    }
                }
            }
            State::Trial(trial) => {
                if trial.settle(now, self.last_sent, self.arrivals.delivered()) {
                    self.record.clear();
                }
                let limit = tolerated + SLACK_PPM;
                let most = self.tolerance.most_ppm();
                let verdict = trial.judge(now, &mut self.record, limit, most, srtt);
                let (ppm, dispersion) = (trial.trigger_ppm(), trial.dispersion());
                let pace = trial.pace();
                self.trial_cap = cap(pace, srtt, self.mtu);
                let overflows = self.overflows(now, patience, srtt);
                match verdict {
                    None => Finding::Clear,
                    Some(Verdict::Random(_)) if overflows => {
                        self.end_trial(now, Verdict::Hidden, ppm, pace, self.before, srtt)
                    }
                    Some(Verdict::Hidden)
                        if (trigger::may_be_bursts(ppm, dispersion, limit)
                            || (tolerated > 0 && trigger::is_moderate(ppm, limit)))
                            && self.suspected_until.is_none_or(|until| now > until) =>
                    {
                        self.suspected_until = Some(now + srtt * TWICE_ROUNDS);
                        self.trial_cap = u64::MAX;
                        self.record.clear();
                        self.state = State::Routers(now);
                        Finding::Clear
                    }
                    Some(verdict) => self.end_trial(now, verdict, ppm, pace, self.before, srtt),
                }
            }
            State::Cubic(_) => {
                let overflows = self.overflows(now, patience, srtt);
                self.look_while_cubic(now, srtt, window, overflows)
            }
        }
    }

    /// Losses may be worth a trial; soon after a false alarm (`calm`) fewer are.
    fn on_trigger(
        &mut self,
        now: Instant,
        calm: bool,
        patience: Duration,
        srtt: Duration,
        window: u64,
    ) -> Finding {
        match self.trigger(calm) {
            // More than any trial could attest.
            Some(Trigger::Flood(seen)) => {
                let path = window_of(self.arrivals.now(now, srtt), srtt).min(window);
                // What arrived before was another path.
                self.arrivals.forget_most();
                self.appear(now, seen.ppm(), window, path, srtt)
            }
            Some(Trigger::Above(seen)) if self.overflows(now, patience, srtt) => {
                let path = window_of(self.arrivals.now(now, srtt), srtt).min(window);
                self.appear(now, seen.ppm(), window, path, srtt)
            }
            Some(Trigger::Above(seen)) => {
                self.begin_trial(now, seen, srtt, window);
                Finding::Clear
            }
            None => Finding::Clear,
        }
    }

    /// Bytes per second that are sent and that arrive at a window of `window` bytes while losses
    /// are as `seen`.
    fn rates(&self, now: Instant, seen: &Sample, srtt: Duration, window: u64) -> (u64, u64) {
        let arrived = 1_000_000u64.saturating_sub(seen.ppm()).max(1);
        // In a start, what arrived over the last round trip is much less than the path takes: half
        // of what the window and the loss say.
        let half = rate(mul_div(window, arrived, 1_000_000), srtt, 1, 2);
        let arriving = self.arrivals.now(now, srtt).max(half);
        (mul_div(arriving, 1_000_000, arrived), arriving)
    }

    fn begin_trial(&mut self, now: Instant, trigger: Sample, srtt: Duration, window: u64) {
        let (sent, arriving) = self.rates(now, &trigger, srtt, window);
        let least = least_pace(srtt, self.mtu);
        let trial = Trial::new(now, trigger, (sent, arriving), least, srtt);
        self.trial_cap = cap(trial.pace(), srtt, self.mtu);
        self.before = window;
        self.state = State::Trial(trial);
        self.phases.clear();
        self.record.clear();
    }

    fn end_trial(
        &mut self,
        now: Instant,
        verdict: Verdict,
        trigger_ppm: u64,
        pace: u64,
        before: u64,
        srtt: Duration,
    ) -> Finding {
        self.trial_cap = u64::MAX;
        self.record.clear();
        match verdict {
            Verdict::Hidden => {
                let arriving = self.arrivals.now(now, srtt).min(pace);
                self.appear(now, trigger_ppm, before, window_of(arriving, srtt), srtt)
            }
            Verdict::FalseAlarm => {
                let calm = srtt.saturating_mul(CALM_ROUNDS << self.alarms.min(MOST_DOUBLINGS));
                self.alarms = self.alarms.saturating_add(1);
                self.state = State::Routers(now + calm);
                Finding::Clear
            }
            Verdict::Random(ppm) => {
                self.tolerance.attest(now, ppm, srtt, self.last_sent);
                self.limit_step(srtt);
                self.alarms = 0;
                let calm = srtt.saturating_mul(ATTESTED_ROUNDS);
                self.state = State::Routers(now + calm);
                Finding::Clear
            }
        }
    }

    fn appear(
        &mut self,
        now: Instant,
        ppm: u64,
        before: u64,
        window: u64,
        srtt: Duration,
    ) -> Finding {
        let window = window.max(2 * self.mtu);
        // A start may end before a round trip of what the path takes has arrived.
        let taken = mul_div(before, 1_000_000 - ppm.min(1_000_000), 2_000_000);
        let proven = self
            .arrivals
            .proven(srtt)
            .max(taken)
            .min(before)
            .max(window);
        self.tolerance.forget();
        self.delay.forget();
        self.phases.clear();
        self.losing.clear();
        self.record.clear();
        self.trial_cap = u64::MAX;
        // Small windows tell nothing about the rate.
        let told = if before < LEAST_WINDOW * self.mtu {
            0
        } else {
            before
        };
        self.state = State::Cubic(Ruled::new(now, told, ppm, proven));
        Finding::Appeared(TakeOver { window, proven })
    }

    fn look_while_cubic(
        &mut self,
        now: Instant,
        srtt: Duration,
        window: u64,
        overflows: bool,
    ) -> Finding {
        let State::Cubic(ruled) = &mut self.state else {
            return Finding::Clear;
        };
        let look = Look {
            now,
            srtt,
            window,
            over: self.over,
            calm: self.delay.delayed_since().is_none(),
            overflows,
            relapses: self.relapses,
            attested: self.attested_by_cuts,
            most_ppm: self.tolerance.most_ppm(),
        };
        match ruled.look(&look, &mut self.record) {
            Outcome::Stays => Finding::Clear,
            Outcome::Gone => self.leave(now),
            Outcome::Random(ppm) => {
                self.attested_by_cuts += 1;
                self.tolerance.attest(now, ppm, srtt, self.last_sent);
                self.leave(now)
            }
        }
    }

    fn leave(&mut self, now: Instant) -> Finding {
        self.relapses = self.relapses.saturating_add(1);
        self.record.clear();
        self.state = State::Routers(now);
        self.began = now;
        Finding::Gone
    }

    /// Loss beyond what is tolerated that is worth a trial: much more, soon after one (`calm`) or
    /// while more arrives than before.
    fn trigger(&self, calm: bool) -> Option<Trigger> {
        let tolerated = self.tolerance.ppm();
        if let Some(seen) = trigger::flood(&self.record, tolerated) {
            return Some(Trigger::Flood(seen));
        }
        let slack = if calm || self.arrivals.is_growing() {
            losing::MUCH_PPM
        } else {
            SLACK_PPM
        };
        trigger::above(&self.record, tolerated + slack, self.arrivals.are_few()).map(Trigger::Above)
    }
}

/// Losses beyond what is tolerated.
#[derive(Clone, Copy, Debug)]
enum Trigger {
    /// More than chance and bursts explain, and than a trial could attest.
    Flood(Sample),
    /// To be tried.
    Above(Sample),
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
