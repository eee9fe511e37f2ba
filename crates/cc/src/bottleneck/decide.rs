//! Decisions about who controls the window: when trials begin, the consequences of their verdicts,
//! and when CUBIC takes over or returns control.

use super::losses::{MOST_PPM, SLACK_PPM, Sample};
use super::trial::{Trial, Verdict};
use super::{Finding, HiddenHop, State, TakeOver, cap, high_loss, least_pace, losses, window_of};
use crate::base::ablate::{Mechanism, without};
use crate::base::arith::{mul_div, rate};
use crate::base::{Duration, Instant};
use crate::law::Acked;

/// Packets after which lower loss than tolerated reduces the tolerance.
const LOWER_PACKETS: u64 = 2048;
/// If losses are bursty, or some loss is known to be random, two trials within this many round
/// trips must find a hidden hop.
const TWICE_ROUNDS: u32 = 60;
/// Round trips without a trial after a false alarm, doubled for each further one.
const CALM_ROUNDS: u32 = 10;
const ATTESTED_ROUNDS: u32 = 40;
const MOST_DOUBLINGS: u32 = 5;
/// If losses correlate with long delays, and at least this share of packets, in 10^-6, is lost, a
/// queue overflows, and no trial is needed.
const LEANING_PPM: u64 = 10_000;
/// If loss is declared, a trial waits this many round trips for growth, while the window has fewer
/// packets than [`GROWTH_WINDOW`], arrivals grow, or the window is at least twice the arrivals.
pub(super) const WAIT_ROUNDS: u32 = 32;
const GROWTH_WINDOW: u64 = 1024;
/// CUBIC starts with at most this share of the previous window, as after any loss (RFC 9438 §4.6).
const CUT: (u64, u64) = (7, 10);
/// Standard deviations by which loss may exceed the declared loss by chance.
const LIKELY: u64 = 2;

impl HiddenHop {
    /// Returns true if at least 1 % is lost, and losses correlate with long delays beyond doubt.
    /// Then a queue overflows, even if some of the losses are random. A trial isn't required to
    /// confirm this, because one sender among many can't change the queue.
    pub(super) fn leaning_is_loss(&self) -> bool {
        let lost = self.record.recent().map_or(0, |seen| seen.ppm());
        lost >= LEANING_PPM && self.following.leans()
    }

    /// Returns true if the loss does not exceed the declared loss, and the window may soon grow.
    /// Waiting is then better, because a trial with few packets takes dozens of round trips without
    /// growth.
    fn waits_for_growth(&self, now: Instant, srtt: Duration, window: u64) -> bool {
        let declared = self.tolerance.declared_ppm();
        let arrived = window_of(self.arrivals.delivered(), srtt);
        let grows =
            window < GROWTH_WINDOW * self.mtu || self.arrivals.is_growing() || window / 2 > arrived;
        declared > 0
            && grows
            && !losses::surely_above(&self.record, declared + SLACK_PPM)
            && now < self.began + srtt.saturating_mul(WAIT_ROUNDS)
            && !without(Mechanism::Wait)
    }

    /// Returns true if the loss does not exceed the loss that routers declare. A queue's losses
    /// would be additional, so delays before losses aren't evidence of a queue.
    pub(super) fn is_as_declared(&self) -> bool {
        let declared = self.tolerance.declared_ppm();
        declared > 0
            && self
                .record
                .recent()
                .is_none_or(|seen| seen.ppm() < declared + LEANING_PPM + LIKELY * seen.sigma_ppm())
    }

    #[cold]
    pub(super) fn look(&mut self, now: Instant, acked: &Acked, window: u64) -> Finding {
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
            State::Routers(_) => Finding::Clear,
            State::Trial(trial) => {
                let delivered = self.arrivals.delivered();
                trial.settle(now, self.last_sent, delivered, &mut self.record);
                let limit = tolerated + SLACK_PPM;
                let most = self.tolerance.most_ppm();
                let verdict = trial.judge(now, &mut self.record, limit, most, srtt);
                let (ppm, dispersion) = (trial.trigger_ppm(), trial.dispersion());
                let pace = trial.pace();
                self.trial_cap = cap(pace, srtt, self.mtu);
                match verdict {
                    None => Finding::Clear,
                    Some(Verdict::Hidden)
                        if (losses::may_be_bursts(ppm, dispersion, limit)
                            || (tolerated > 0 && losses::is_moderate(ppm, limit)))
                            && self.suspected_until.is_none_or(|until| now > until)
                            && !without(Mechanism::Twice) =>
                    {
                        self.suspected_until = Some(now + srtt * TWICE_ROUNDS);
                        self.trial_cap = u64::MAX;
                        self.record.clear();
                        self.state = State::Routers(now);
                        Finding::Clear
                    }
                    Some(verdict) => self.end_trial(now, verdict, ppm, pace, srtt),
                }
            }
            State::Cubic(ruled) => {
                let calm = !self.delay.is_delayed();
                if !ruled.is_gone(now, srtt, window, self.over, calm) {
                    return Finding::Clear;
                }
                self.relapses = self.relapses.saturating_add(1);
                self.following.forget();
                self.record.clear();
                self.state = State::Routers(now);
                self.began = now;
                Finding::Gone
            }
        }
    }

    /// Checks whether losses are worth a trial. Soon after a false alarm (`calm`), fewer are.
    pub(super) fn on_trigger(
        &mut self,
        now: Instant,
        calm: bool,
        srtt: Duration,
        window: u64,
    ) -> Finding {
        match self.trigger(calm) {
            // No trial could attest this much.
            Some(Trigger::Flood(seen)) => {
                let path = window_of(self.arrivals.now(now, srtt), srtt).min(window);
                // Earlier arrivals belong to a different path.
                self.arrivals.forget_most();
                self.appear(now, seen.ppm(), window, path, srtt)
            }
            Some(Trigger::Above(seen)) if without(Mechanism::LossTrial) => {
                let path = window_of(self.arrivals.now(now, srtt), srtt).min(window);
                self.appear(now, seen.ppm(), window, path, srtt)
            }
            Some(Trigger::Above(_)) if self.waits_for_growth(now, srtt, window) => Finding::Clear,
            Some(Trigger::Above(seen)) => {
                self.begin_trial(now, seen, srtt, window);
                Finding::Clear
            }
            None => Finding::Clear,
        }
    }

    /// Returns the sending rate and the arrival rate in bytes per second at a window of `window`
    /// bytes and the loss in `seen`.
    fn rates(&self, now: Instant, seen: &Sample, srtt: Duration, window: u64) -> (u64, u64) {
        let arrived = 1_000_000u64.saturating_sub(seen.ppm()).max(1);
        // During a start, the last round trip delivered much less than the path can carry.
        // Therefore use at least half of the rate that follows from window and loss.
        let half = rate(mul_div(window, arrived, 1_000_000), srtt, 1, 2);
        let arriving = self.arrivals.now(now, srtt).max(half);
        (mul_div(arriving, 1_000_000, arrived), arriving)
    }

    fn begin_trial(&mut self, now: Instant, trigger: Sample, srtt: Duration, window: u64) {
        let (sent, arriving) = self.rates(now, &trigger, srtt, window);
        let least = least_pace(srtt, self.mtu);
        let trial = Trial::new(now, self.last_sent, trigger, sent, arriving, least, srtt);
        self.trial_cap = cap(trial.pace(), srtt, self.mtu);
        self.before = window;
        self.state = State::Trial(trial);
        self.record.clear();
    }

    fn end_trial(
        &mut self,
        now: Instant,
        verdict: Verdict,
        trigger_ppm: u64,
        pace: u64,
        srtt: Duration,
    ) -> Finding {
        self.trial_cap = u64::MAX;
        self.record.clear();
        match verdict {
            Verdict::Hidden => {
                let arriving = self.arrivals.now(now, srtt).min(pace);
                self.appear(
                    now,
                    trigger_ppm,
                    self.before,
                    window_of(arriving, srtt),
                    srtt,
                )
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

    pub(super) fn appear(
        &mut self,
        now: Instant,
        ppm: u64,
        before: u64,
        window: u64,
        srtt: Duration,
    ) -> Finding {
        // Arrivals per round trip include those from the overflowing queue.
        let most = mul_div(before, CUT.0, CUT.1);
        let window = window.min(most).max(2 * self.mtu);
        // A start can end before a full round trip at the path's capacity has arrived.
        let taken = mul_div(before, 1_000_000 - ppm.min(1_000_000), 2_000_000);
        let proven = self.arrivals.proven(srtt).max(taken).min(most).max(window);
        self.tolerance.forget();
        self.losing.clear();
        self.record.clear();
        self.trial_cap = u64::MAX;
        self.state = State::Cubic(Ruled::new(now, proven, self.relapses));
        Finding::Appeared(TakeOver { window, proven })
    }

    /// Returns loss beyond the tolerated loss if it is worth a trial. It must be much higher soon
    /// after a false alarm or attestation (`calm`), or while arrivals grow.
    fn trigger(&self, calm: bool) -> Option<Trigger> {
        // An overflowing hop wouldn't deliver more.
        let tolerated = if self.arrivals.is_growing() {
            self.tolerance.expected_ppm()
        } else {
            self.tolerance.ppm()
        };
        if let Some(seen) = losses::flood(&self.record, self.tolerance.expected_ppm()) {
            return Some(Trigger::Flood(seen));
        }
        // At such high loss, a short record exceeds it by 2 % by chance.
        let slack = if calm || self.arrivals.is_growing() || tolerated > MOST_PPM {
            high_loss::MUCH_PPM
        } else {
            SLACK_PPM
        };
        losses::above(&self.record, tolerated + slack, self.arrivals.are_few()).map(Trigger::Above)
    }
}

#[derive(Clone, Copy, Debug)]
enum Trigger {
    /// More than chance and bursts could explain, and than a trial could attest.
    Flood(Sample),
    Above(Sample),
}

// Control by CUBIC because of a hidden hop, and its end.

/// CUBIC returns control after its window has exceeded `LEAVE_SHARE` of the largest one at which a
/// packet was lost for this many round trips. Each relapse doubles this time, up to
/// `RULED_MOST_DOUBLINGS` times.
const LEAVE_ROUNDS: u32 = 20;
const LEAVE_SHARE: (u64, u64) = (5, 4);
const RULED_MOST_DOUBLINGS: u32 = 5;
/// It also returns control when a router sends OVER after this many round trips without loss.
const LOSSLESS_ROUNDS: u32 = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Ruled {
    /// The largest window at which a packet was lost, in bytes.
    largest: u64,
    /// Time since which the window has been well above this.
    above: Option<Instant>,
    last_loss: Instant,
    /// How often the times are doubled.
    doublings: u32,
}

impl Ruled {
    /// Starts with a largest window of `largest` bytes, after CUBIC has returned control `relapses`
    /// times.
    pub(super) fn new(now: Instant, largest: u64, relapses: u32) -> Self {
        Self {
            largest,
            above: None,
            last_loss: now,
            doublings: relapses.min(RULED_MOST_DOUBLINGS),
        }
    }

    /// Handles losses at a window of `window` bytes.
    pub(super) fn on_loss(&mut self, now: Instant, window: u64) {
        self.last_loss = now;
        self.largest = self.largest.max(window);
        self.above = None;
    }

    /// Returns true if the hop has disappeared, or is no longer the bottleneck. CUBIC's window is
    /// `window` bytes, a router last reported at `over` that its own hop is full, and `calm` is
    /// true without a queue. Called at least once per round trip.
    pub(super) fn is_gone(
        &mut self,
        now: Instant,
        srtt: Duration,
        window: u64,
        over: Option<Instant>,
        calm: bool,
    ) -> bool {
        if window > mul_div(self.largest, LEAVE_SHARE.0, LEAVE_SHARE.1) {
            self.above.get_or_insert(now);
        } else {
            self.above = None;
        }
        let long = |rounds: u32| srtt.saturating_mul(rounds << self.doublings);
        let room = self
            .above
            .is_some_and(|since| now - since >= long(LEAVE_ROUNDS));
        let lossless = now - self.last_loss >= long(LOSSLESS_ROUNDS);
        (calm && room) || (lossless && over.is_some_and(|at| now - at <= srtt))
    }
}
