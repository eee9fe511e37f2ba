//! The model of the path (draft-ietf-ccwg-bbr): maxima over time of bandwidth and aggregation, the
//! minimum RTT, bounds from losses, and whether the pipe is full; and the cycle of states that
//! probe for these.

use super::rate::RateSample;
use super::{
    BETA, CWND_GAIN, DOWN_PACING_GAIN, DRAIN_PACING_GAIN, EXTRA_ACKED_ROUNDS, FULL_GROWTH,
    FULL_ROUNDS, HEADROOM, LOSS_THRESHOLD, MIN_RTT_FILTER, PROBE_RTT_CWND_GAIN, PROBE_RTT_INTERVAL,
    STARTUP_PACING_GAIN, UNIT, UP_CWND_GAIN, UP_PACING_GAIN,
};
use crate::base::arith::{mul_div, ns_since};
use crate::base::{Duration, Instant};

/// The largest value of the current and the previous ProbeBW cycle (`BBR.max_bw_filter`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TwoCycles {
    last: u64,
    running: u64,
}

impl TwoCycles {
    pub(super) fn max(&self) -> u64 {
        self.last.max(self.running)
    }

    pub(super) fn add(&mut self, value: u64) {
        self.running = self.running.max(value);
    }

    /// Ends a cycle, unless it had no values.
    pub(super) fn advance(&mut self) {
        if self.running > 0 {
            self.last = self.running;
            self.running = 0;
        }
    }
}

/// The maximum over a window of round trips, computed from three successive maxima as in Kathleen
/// Nichols' filter (Linux, `lib/win_minmax.c`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Windowed {
    best: [Entry; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    round: u64,
    value: u64,
}

impl Windowed {
    pub(super) fn max(&self) -> u64 {
        let [best, ..] = &self.best;
        best.value
    }

    /// Adds a value of `round` and forgets values that are at least `window` rounds old.
    pub(super) fn add(&mut self, round: u64, value: u64, window: u64) {
        let new = Entry { round, value };
        let [best, second, third] = &mut self.best;
        let age = |entry: &Entry| round.saturating_sub(entry.round);
        if value >= best.value || age(third) >= window {
            self.best = [new; 3];
            return;
        }
        if value >= second.value {
            *second = new;
            *third = new;
        } else if value >= third.value {
            *third = new;
        }
        // Values that are too old are replaced, and each part of the window gets its own entry.
        if age(best) >= window {
            self.best = [*second, *third, new];
            let [best, second, third] = self.best;
            if age(&best) >= window {
                self.best = [second, third, new];
            }
        } else if second.round == best.round && age(second) > window / 4 {
            *second = new;
            *third = new;
        } else if third.round == second.round && age(third) > window / 2 {
            *third = new;
        }
    }
}

// Bounds of rate and window that follow from losses (draft-ietf-ccwg-bbr, "Updating the Model Upon
// Packet Loss").

/// No bound.
pub(super) const NONE: u64 = u64::MAX;

/// The bounds that losses set, in bytes and bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// `BBR.bw_shortterm`.
    pub(super) rate: u64,
    /// `BBR.inflight_shortterm`.
    pub(super) short: u64,
    /// `BBR.inflight_longterm`.
    pub(super) long: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            rate: NONE,
            short: NONE,
            long: NONE,
        }
    }
}

impl Bounds {
    /// `ResetShortTermModel`.
    pub(super) const fn reset_short(&mut self) {
        self.rate = NONE;
        self.short = NONE;
    }

    /// Lowers the short-term bounds after a round trip with loss in which the rate was not raised,
    /// to the latest delivery or 0.7 of the previous bound, whichever is larger.
    pub(super) fn lower(&mut self, max_bw: u64, window: u64, latest: &Latest) {
        let less = |bound: u64, first: u64, delivered: u64| {
            let bound = if bound == NONE { first } else { bound };
            delivered.max(mul_div(bound, BETA, UNIT))
        };
        self.rate = less(self.rate, max_bw, latest.rate);
        self.short = less(self.short, window, latest.delivered);
    }

    /// `InflightWithHeadroom`: the long-term bound minus the part that is left to others.
    pub(super) fn with_headroom(&self, mtu: u64, floor: u64) -> u64 {
        if self.long == NONE {
            return NONE;
        }
        let headroom = mul_div(self.long, HEADROOM, UNIT).max(mtu);
        self.long.saturating_sub(headroom).max(floor)
    }

    /// Raises the bounds to their values before a spurious loss.
    pub(super) fn restore(&mut self, before: &Self) {
        self.rate = self.rate.max(before.rate);
        self.short = self.short.max(before.short);
        self.long = self.long.max(before.long);
    }
}

/// Maxima of the current round trip: `BBR.bw_latest`, `BBR.inflight_latest`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latest {
    pub(super) rate: u64,
    pub(super) delivered: u64,
}

impl Latest {
    pub(super) fn add(&mut self, sample: &RateSample) {
        self.rate = self.rate.max(sample.rate);
        self.delivered = self.delivered.max(sample.delivered);
    }
}

/// `IsInflightTooHigh`: the losses exceed the accepted share.
pub(super) fn too_high(sample: &RateSample) -> bool {
    sample.lost > mul_div(sample.tx_in_flight, LOSS_THRESHOLD, UNIT)
}

/// Finds the first of `packets` packets, lost together, at which losses cross the threshold.
/// `oldest` and `newest` are the samples of the first and the last packet, between which packets
/// are assumed to be evenly spread.
pub(super) fn crossing(
    oldest: &RateSample,
    newest: &RateSample,
    packets: u64,
) -> Option<RateSample> {
    let steps = packets.saturating_sub(1).max(1);
    let between = |from: u64, to: u64, step: u64| {
        let part = mul_div(from.abs_diff(to), step, steps);
        if to >= from {
            from.saturating_add(part)
        } else {
            from - part
        }
    };
    let at = |step| RateSample {
        lost: between(oldest.lost, newest.lost, step),
        tx_in_flight: between(oldest.tx_in_flight, newest.tx_in_flight, step),
        ..*newest
    };
    if too_high(&at(0)) {
        return Some(at(0));
    }
    // Both values change evenly, so losses remain too high after the crossing.
    let (mut few, mut many) = (0, steps);
    if !too_high(&at(many)) {
        return None;
    }
    while many - few > 1 {
        let middle = few + (many - few) / 2;
        if too_high(&at(middle)) {
            many = middle;
        } else {
            few = middle;
        }
    }
    Some(at(many))
}

/// `InflightAtLoss`: the bytes in flight at which losses crossed the threshold with a packet of
/// `bytes` bytes.
pub(super) fn in_flight_at_loss(sample: &RateSample, bytes: u64) -> u64 {
    let before = sample.tx_in_flight.saturating_sub(bytes);
    let lost_before = sample.lost.saturating_sub(bytes);
    // (LossThresh · before − lost before) / (1 − LossThresh), in hundredths.
    let accepted = mul_div(before, LOSS_THRESHOLD, 1);
    let lost = lost_before.saturating_mul(UNIT);
    before.saturating_add(accepted.saturating_sub(lost) / (UNIT - LOSS_THRESHOLD))
}

// States and their gains (draft-ietf-ccwg-bbr, "Summary of Control Behavior in the State
// Machine").

/// `BBR.state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// `BBR.pacing_gain`, in hundredths.
    pub(super) const fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => STARTUP_PACING_GAIN,
            Self::Drain => DRAIN_PACING_GAIN,
            Self::Down => DOWN_PACING_GAIN,
            Self::Up => UP_PACING_GAIN,
            Self::Cruise | Self::Refill | Self::ProbeRtt => UNIT,
        }
    }

    /// `BBR.cwnd_gain`, in hundredths.
    pub(super) const fn cwnd_gain(self) -> u64 {
        match self {
            Self::Up => UP_CWND_GAIN,
            Self::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => CWND_GAIN,
        }
    }

    pub(super) const fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// `IsProbingBW`: the rate is being raised, so losses affect only the long-term bound.
    pub(super) const fn accelerates(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// `BBR.ack_phase`: the part of a probe to which acknowledgements belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPhase {
    /// No probe.
    Init,
    /// The pipe is being filled.
    Refilling,
    /// The probe has begun.
    Starting,
    /// The acknowledgements are for packets of the probe.
    Feedback,
    /// The probe is over, but acknowledgements for its packets still arrive.
    Stopping,
}

// Acknowledgements in excess of those that the path's rate explains (draft-ietf-ccwg-bbr,
// "BBR.extra_acked").

/// `BBR.extra_acked`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aggregation {
    since: Instant,
    delivered: u64,
    extra: Windowed,
}

impl Aggregation {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            delivered: 0,
            extra: Windowed::default(),
        }
    }

    /// Bytes that the window needs in addition to the bandwidth-delay product.
    pub(super) fn extra(&self) -> u64 {
        self.extra.max()
    }

    /// Starts a new measurement, so that idleness does not count as aggregation.
    pub(super) const fn restart(&mut self, now: Instant) {
        self.since = now;
        self.delivered = 0;
    }

    /// Records that `acked` bytes were acknowledged in `round` on a path with `bw` bytes per
    /// second; `steady` is true after Startup.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        acked: u64,
        bw: u64,
        window: u64,
        round: u64,
        steady: bool,
    ) {
        let mut expected = mul_div(bw, ns_since(now, self.since), 1_000_000_000);
        if self.delivered <= expected {
            self.restart(now);
            expected = 0;
        }
        self.delivered = self.delivered.saturating_add(acked);
        let extra = self.delivered.saturating_sub(expected).min(window);
        let rounds = if steady { EXTRA_ACKED_ROUNDS } else { 1 };
        self.extra.add(round, extra, rounds);
    }
}

// Detects when the rate stops growing (draft-ietf-ccwg-bbr, "Exiting Acceleration Based on
// Bandwidth Plateau").

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    /// `BBR.full_bw_reached`: the pipe was full once.
    pub(super) reached: bool,
    /// `BBR.full_bw_now`: the pipe is full, since the estimator was last reset.
    pub(super) now: bool,
    baseline: u64,
    rounds: u32,
}

impl FullPipe {
    /// Starts a new search for a plateau, from a rate of `baseline`.
    pub(super) const fn reset(&mut self, baseline: u64) {
        self.now = false;
        self.baseline = baseline;
        self.rounds = 0;
    }

    /// True if the rate did not grow in the last round trip, and is about `rate`.
    pub(super) const fn stands_at(&self, rate: u64) -> bool {
        self.rounds > 0 && self.baseline >= rate / 4 * 3
    }

    /// Records the end of a round trip in which the application was not the limit.
    pub(super) fn on_round(&mut self, rate: u64) {
        if self.now {
            return;
        }
        let grown = u128::from(rate) * u128::from(UNIT)
            >= u128::from(self.baseline) * u128::from(FULL_GROWTH);
        if grown {
            self.reset(rate);
            return;
        }
        self.rounds += 1;
        self.now = self.rounds >= FULL_ROUNDS;
        self.reached |= self.now;
    }
}

// The path's minimum RTT and when it is measured again (draft-ietf-ccwg-bbr, "ProbeRTT Logic").

/// `BBR.min_rtt` over ten seconds, computed from minima over five seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    least: Option<(Duration, Instant)>,
    /// `BBR.probe_rtt_min_delay` and its timestamp.
    recent: Option<Duration>,
    recent_at: Instant,
    expired: bool,
}

impl MinRtt {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            least: None,
            recent: None,
            recent_at: now,
            expired: false,
        }
    }

    /// `BBR.min_rtt`, if it is known.
    pub(super) fn get(&self) -> Option<Duration> {
        self.least.map(|(rtt, _)| rtt)
    }

    /// True if no RTT as short was seen for five seconds, so that ProbeRTT is due.
    pub(super) const fn expired(&self) -> bool {
        self.expired
    }

    /// Starts with the handshake's RTT if no packet has been measured.
    pub(super) fn start(&mut self, now: Instant, rtt: Duration) {
        self.least.get_or_insert((rtt, now));
    }

    pub(super) fn on_ack(&mut self, now: Instant, rtt: Option<Duration>) {
        self.expired = now > self.recent_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = rtt
            && (self.expired || self.recent.is_none_or(|recent| rtt < recent))
        {
            self.recent = Some(rtt);
            self.recent_at = now;
        }
        let Some(recent) = self.recent else { return };
        let replace = self
            .least
            .is_none_or(|(least, at)| recent < least || now > at + MIN_RTT_FILTER);
        if replace {
            self.least = Some((recent, self.recent_at));
        }
    }

    /// Records the end of a probe: the next probe is due five seconds after `now`.
    pub(super) const fn schedule(&mut self, now: Instant) {
        self.recent_at = now;
    }
}
