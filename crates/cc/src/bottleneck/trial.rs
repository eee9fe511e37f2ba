//! Trials, which find out whether loss falls if the sender sends less.
//!
//! Random loss takes the same share at any rate, whereas an overflowing queue or policer drops the
//! excess. Therefore the sender reduces its rate in at most two steps and compares the loss. Each
//! step sets the pace only once. If the pace followed the delivery rate in each round trip, it
//! would also shrink under random loss, by this loss each time.

use super::losses::{LossRecord, SLACK_PPM, Sample, is_too_much, packets_for};
use super::{HiddenHop, window_of};
use crate::base::arith::mul_div;
use crate::base::{Duration, Instant};

/// Share of the previous rate that remains in the first step, and of the first step's in the
/// second.
const FIRST: (u64, u64) = (85, 100);
const SECOND: (u64, u64) = (80, 100);
/// Round trips after which a new pace has taken effect on the path.
const SETTLE_ROUNDS: u32 = 2;
/// Standard deviations for the verdict of the first step, including a fall to a quarter.
const SURE: u64 = 3;
/// Standard deviations for the verdict of the second step.
const LIKELY: u64 = 2;
/// Standard deviations for a fall to half, regardless of the remaining loss.
const CERTAIN: u64 = 5;
/// Loss that is neither chance nor a burst. If a third of this loss disappears, it was caused by
/// the rate, although other senders may still send too much.
const FLOOD_PPM: u64 = 300_000;
const FLOOD_DISPERSION: u64 = 40;
const FLOOD_LEFT: (u64, u64) = (2, 3);
/// Minimum and maximum number of packets in a step, multiplied by the dispersion of losses.
const LEAST_PACKETS: u64 = 48;
const MOST_PACKETS: u64 = 2400;
const SECOND_LEAST_PACKETS: u64 = 480;
/// Losses expected in the first step at the triggering loss.
const EXPECTED_LOSSES: u64 = 24;
/// A step ends after this many round trips, regardless of the number of packets.
const MOST_ROUNDS: u32 = 40;

/// Verdict of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Loss depends on the rate, so a hop without feedback is overloaded.
    Hidden,
    /// The loss that triggered the trial was chance.
    FalseAlarm,
    /// Loss doesn't depend on the rate, and has this value in 10^-6.
    Random(u64),
}

/// A running trial, in its first step while `first` is `None`. [`settle`](Self::settle) begins to
/// count packets, and [`judge`](Self::judge) moves to the second step or ends the trial.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// Loss at the rate before the trial, of the packets that triggered it and those in flight at
    /// that time. The former are biased upwards, because they were selected for their high loss
    /// from many records.
    trigger: Sample,
    /// Last packet sent at the previous rate.
    last_before: u64,
    /// Loss of the first step, after it has ended.
    first: Option<Sample>,
    pace: u64,
    /// Minimum pace, regardless of arrivals.
    least: u64,
    settled_at: Instant,
    ends: Instant,
    /// Packets count from this number on. `None` while the pace hasn't taken effect yet.
    from: Option<u64>,
    wanted: u64,
}

impl Trial {
    /// Begins a trial after packet `last_sent`. Of `sent` bytes per second, `delivered` arrive,
    /// with the losses in `trigger`. The pace is at least `least` bytes per second.
    pub(crate) fn new(
        now: Instant,
        last_sent: u64,
        trigger: Sample,
        sent: u64,
        delivered: u64,
        least: u64,
        srtt: Duration,
    ) -> Self {
        let pace = delivered.min(mul_div(sent, FIRST.0, FIRST.1)).max(least);
        let wanted = mul_div(EXPECTED_LOSSES, 1_000_000, trigger.ppm().max(1))
            .clamp(LEAST_PACKETS, MOST_PACKETS);
        let wanted = mul_div(wanted, trigger.dispersion, 16);
        Self {
            trigger,
            last_before: last_sent,
            first: None,
            pace,
            least,
            settled_at: now + srtt * SETTLE_ROUNDS,
            ends: now + srtt * MOST_ROUNDS,
            from: None,
            wanted,
        }
    }

    /// Returns the pace in bytes per second.
    pub(crate) const fn pace(&self) -> u64 {
        self.pace
    }

    pub(crate) fn trigger_ppm(&self) -> u64 {
        self.trigger.ppm()
    }

    /// Returns the dispersion of losses so far, in sixteenths.
    pub(crate) fn dispersion(&self) -> u64 {
        let first = self.first.map_or(0, |first| first.dispersion);
        self.trigger.dispersion.max(first)
    }

    /// Returns true if the outcome of packet `number` counts.
    pub(crate) fn counts(&self, number: u64) -> bool {
        match self.from {
            Some(from) => number >= from,
            None => self.first.is_none() && number <= self.last_before,
        }
    }

    /// Begins counting packets after `last_sent` in a fresh record, once the pace has taken effect.
    /// In the first step, the pace also falls to `delivered` bytes per second, because the pace set
    /// during a start is only a guess.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        last_sent: u64,
        delivered: u64,
        record: &mut LossRecord,
    ) {
        if self.from.is_some() || now < self.settled_at {
            return;
        }
        self.from = Some(last_sent + 1);
        if self.first.is_none() {
            if delivered > 0 {
                self.pace = self.pace.min(delivered).max(self.least);
            }
            if let Some(before) = record.all() {
                self.trigger = self.trigger.and(&before);
            }
        }
        record.clear();
    }

    /// Judges the outcomes of packets that count. Loss up to `limit`, in 10^-6, is tolerated, and
    /// loss above `most` is never random. Returns `None` if the trial continues, possibly with
    /// another pace and a fresh record.
    pub(crate) fn judge(
        &mut self,
        now: Instant,
        record: &mut LossRecord,
        limit: u64,
        most: u64,
        srtt: Duration,
    ) -> Option<Verdict> {
        let late = now >= self.ends;
        let too_much = || {
            let seen = record.all().filter(|seen| seen.packets >= LEAST_PACKETS);
            is_too_much(&self.trigger, most) || seen.is_some_and(|seen| is_too_much(&seen, most))
        };
        // Such loss can't be random. The trial only continued to measure the rate that the path
        // carries, which is known by now.
        if self.from.is_some() && too_much() {
            return Some(Verdict::Hidden);
        }
        if self.from.is_none() || (record.packets() < self.wanted && !late) {
            return None;
        }
        let Some(seen) = record.all() else {
            // Too few packets are sent for a result.
            let least = self
                .trigger
                .ppm()
                .saturating_sub(SURE * self.trigger.sigma_ppm());
            return Some(if least > most + SLACK_PPM {
                Verdict::Hidden
            } else {
                Verdict::FalseAlarm
            });
        };
        let Some(first) = self.first else {
            return self.judge_first(now, seen, record, limit, srtt);
        };
        // At a hidden hop, loss would fall from p to p_h in the second step. The midpoint decides.
        let both = first.and(&seen);
        let p = first.ppm();
        let middle = (p + hidden_ppm(p)) / 2;
        let pooled = both.ppm();
        let went =
            (seen.ppm() < middle && first.is_above(&seen, LIKELY)) || self.leaves_little(&both);
        // Loss of about a tenth in few packets indicates that other senders send too much.
        let few = pooled > limit && both.packets < packets_for(pooled.saturating_sub(SLACK_PPM));
        Some(if went || few || pooled > most + SLACK_PPM {
            Verdict::Hidden
        } else {
            Verdict::Random(pooled)
        })
    }

    /// Returns true if certainly at most half of the triggering loss remains.
    fn leaves_little(&self, seen: &Sample) -> bool {
        let part =
            |n: u64, z| self.trigger.ppm() >= n * seen.ppm() && self.trigger.is_above(seen, z);
        part(2, CERTAIN) || part(4, SURE)
    }

    fn judge_first(
        &mut self,
        now: Instant,
        seen: Sample,
        record: &mut LossRecord,
        limit: u64,
        srtt: Duration,
    ) -> Option<Verdict> {
        let flood = self.trigger.ppm() >= FLOOD_PPM
            && self.trigger.dispersion < FLOOD_DISPERSION
            && seen.ppm() <= mul_div(self.trigger.ppm(), FLOOD_LEFT.0, FLOOD_LEFT.1);
        if self.leaves_little(&seen) || flood {
            return Some(Verdict::Hidden);
        }
        if seen.ppm() <= limit {
            return Some(if self.trigger.is_above(&seen, SURE) {
                Verdict::Hidden
            } else {
                Verdict::FalseAlarm
            });
        }
        self.wanted = second_packets(&seen);
        self.first = Some(seen);
        self.pace = mul_div(self.pace, SECOND.0, SECOND.1).max(self.least);
        self.settled_at = now + srtt * SETTLE_ROUNDS;
        self.ends = now + srtt * MOST_ROUNDS;
        self.from = None;
        record.clear();
        None
    }
}

/// Returns the loss in 10^-6 to which p would fall at a hidden hop in the second step: p_h = max(0,
/// 1 − (1 − p) / f).
fn hidden_ppm(p: u64) -> u64 {
    1_000_000u64.saturating_sub(mul_div(1_000_000u64.saturating_sub(p), SECOND.1, SECOND.0))
}

/// Returns the number of packets that distinguish p from p_h by 2.5 standard deviations each: 2 ·
/// 2.5² · p(1 − p) / (½(p − p_h))².
fn second_packets(first: &Sample) -> u64 {
    let p = first.ppm().min(1_000_000);
    let half = (p.saturating_sub(hidden_ppm(p)) / 2).max(1);
    let n = mul_div(p * (1_000_000 - p) / half, 25, 2 * half);
    mul_div(
        n.clamp(SECOND_LEAST_PACKETS, MOST_PACKETS)
            .max(packets_for(p)),
        first.dispersion.max(16),
        16,
    )
}

// Limit of the window to a few times the arrivals of a round trip.
//
// Routers may grant all of a fast link at once. However, the bottleneck may be a hop without
// feedback, and its losses only become known a round trip later.

/// The window is at most a few times the arrivals in a round trip. However, it may always have this
/// many packets if TTLs show a hop without feedback or if undeclared loss was attested.
const FIRST_WINDOW: u64 = 40;
/// Packets in an initial window.
const INITIAL_WINDOW: u64 = 10;
/// If a trial has attested loss that no router declares, the window grows by at most this part per
/// round trip, because other senders may still be in a trial.
const ATTESTED_STEP: u64 = 4;

/// If packets sent at once have shown the capacity of the narrowest hop, the window only grows as
/// in slow start beyond this multiple of the capacity. It's more than 1 because other traffic may
/// have shared the hop during the measurement.
const BEYOND_TRAIN: u64 = 2;
const SLOW_START: u64 = 2;

/// While there is a queue, the window exceeds the arrivals per round trip by at most this part. A
/// queue makes round trips longer, so more packets arrive in each, although the path doesn't have
/// more capacity.
const QUEUEING_STEP: u64 = 4;

/// A granted window is at most this share of the rate shown by packets sent at once, because pacing
/// at the full rate would fill the queue of a hop without feedback. A port grants at most 85 % of
/// its own rate.
const SURE_OF_TRAIN: (u64, u64) = (7, 8);

impl HiddenHop {
    /// Limits the next round trip's window by the arrivals of a round trip.
    pub(super) fn limit_step(&mut self, srtt: Duration) {
        let arrived = self.arrivals.proven(srtt);
        let least = FIRST_WINDOW * self.mtu;
        let random = self.tolerance.undeclared_ppm();
        self.step_cap = if random > 0 {
            // The bytes sent for these arrivals, plus a quarter.
            let sent = mul_div(arrived, 1_000_000, 1_000_000 - random.min(900_000));
            sent.saturating_add(sent / ATTESTED_STEP).max(least)
        } else if self.partly {
            arrived.saturating_mul(self.step.partly).max(least)
        } else if let Some(step) = self.step.unknown {
            // A hop that doesn't show in TTLs may be the bottleneck.
            let most = if self.trains.overflowed() {
                let slowly = arrived.saturating_mul(SLOW_START);
                slowly.max(INITIAL_WINDOW * self.mtu)
            } else {
                arrived
                    .saturating_mul(step)
                    .max(step * INITIAL_WINDOW * self.mtu)
            };
            let most = match self.trains.narrowest() {
                Some(rate) => {
                    let slowly = arrived
                        .max(INITIAL_WINDOW * self.mtu)
                        .saturating_mul(SLOW_START);
                    most.min(slowly.max(window_of(rate, srtt).saturating_mul(BEYOND_TRAIN)))
                }
                None => most,
            };
            let most = most.max(window_of(self.trains.rate(), srtt));
            if self.delay.is_queueing() {
                let more = arrived.saturating_add(arrived / QUEUEING_STEP);
                most.min(more.max(self.step_cap))
            } else {
                most
            }
        } else if self.granted > 0 {
            0
        } else {
            u64::MAX
        };
        self.step_cap = self.step_cap.max(self.granted_window(srtt));
    }

    /// Allows the window of `window` bytes that every hop with feedback has granted. With 0, only
    /// arrivals count, because they show the path's capacity by now.
    pub(crate) fn allow(&mut self, window: u64, srtt: Duration) {
        self.granted = window;
        self.limit_step(srtt);
    }

    /// Handles arrivals that confirm `window` bytes of the grant.
    pub(crate) fn confirm(&mut self, window: u64, srtt: Duration) {
        self.allow(self.granted.max(window), srtt);
    }

    /// Returns the window in bytes that the path carries according to packets sent at once.
    pub(crate) fn shown_window(&self, srtt: Duration) -> Option<u64> {
        Some(window_of(self.trains.rate(), srtt)).filter(|&window| window > 0)
    }

    /// Returns the granted window in bytes, limited by the capacity that packets sent at once show.
    pub(crate) fn granted_window(&self, srtt: Duration) -> u64 {
        let shown = match self.trains.narrowest() {
            // The first packets were sent at once, and most haven't arrived yet.
            None if self.trains.is_unsure() => 0,
            None => u64::MAX,
            Some(rate) => mul_div(window_of(rate, srtt), SURE_OF_TRAIN.0, SURE_OF_TRAIN.1),
        };
        self.granted.min(shown.max(INITIAL_WINDOW * self.mtu))
    }
}
