//! A trial: does the loss go when the sender sends less?
//!
//! Random loss takes the same share at any rate; a queue or policer that overflows drops the
//! excess. So the sender sends less, in at most two steps, and compares. The pace of a step is set
//! once: a pace that follows the delivered rate round by round would shrink under random loss as
//! well, by its share each time.

use super::losses::{LossRecord, SLACK_PPM, Sample};
use super::tolerance::packets_for;
use super::trigger::is_too_much;
use crate::base::arith::mul_div;
use crate::base::{Duration, Instant};

/// What of the rate before remains in the first step, and of that in the second.
const FIRST: (u64, u64) = (85, 100);
const SECOND: (u64, u64) = (80, 100);
/// Round trips after which the path shows a new pace.
const SETTLE_ROUNDS: u32 = 2;
/// Standard deviations for the verdict of the first step …
const SURE: u64 = 3;
/// … for that of the second …
const LIKELY: u64 = 2;
/// … and for one that the loss is half or less of what it was, whatever is left of it; for a
/// quarter those of the first step do.
const CERTAIN: u64 = 5;
/// Loss that is neither chance nor a burst. Where a third of it went, it came from the rate; others
/// may still send too much.
const FLOOD_PPM: u64 = 300_000;
const FLOOD_DISPERSION: u64 = 40;
const FLOOD_LEFT: (u64, u64) = (2, 3);
/// Least and greatest number of packets of a step, times the dispersion of losses …
const LEAST_PACKETS: u64 = 48;
const MOST_PACKETS: u64 = 2400;
const SECOND_LEAST_PACKETS: u64 = 480;
/// … and the losses that are expected in it, at the share of the trigger.
const EXPECTED_LOSSES: u64 = 24;
/// A step ends after this many round trips with the packets it has.
const MOST_ROUNDS: u32 = 40;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Loss went with the rate: a hop without feedback is overloaded.
    Hidden,
    /// The loss that began the trial was chance.
    FalseAlarm,
    /// The loss at any rate, in 10^-6.
    Random(u64),
}

/// A running trial.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// The loss at the rate before the trial: of the packets that began it, and of those in flight
    /// then. The former are the first of many records with a high count: their mean is too high.
    trigger: Sample,
    /// The last packet sent at that rate.
    last_before: u64,
    /// Of the first step, once it is over.
    first: Option<Sample>,
    pace: u64,
    /// No lower pace, whatever arrives.
    least: u64,
    settled_at: Instant,
    ends: Instant,
    /// Packets from here on count. `None`: the path does not show the pace yet.
    from: Option<u64>,
    wanted: u64,
}

impl Trial {
    /// A trial begins after packet `last_sent`: of `sent` bytes per second `delivered` arrive, with
    /// losses as in `trigger`. At least `least` bytes per second will be sent.
    pub(crate) fn new(
        now: Instant,
        last_sent: u64,
        trigger: Sample,
        (sent, delivered): (u64, u64),
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

    /// Bytes per second that may be sent.
    pub(crate) const fn pace(&self) -> u64 {
        self.pace
    }

    /// The loss that began it, in 10^-6.
    pub(crate) fn trigger_ppm(&self) -> u64 {
        self.trigger.ppm()
    }

    /// How bursty the losses have been so far, in sixteenths.
    pub(crate) fn dispersion(&self) -> u64 {
        let first = self.first.map_or(0, |first| first.dispersion);
        self.trigger.dispersion.max(first)
    }

    /// True if what becomes of packet `number` counts.
    pub(crate) fn counts(&self, number: u64) -> bool {
        match self.from {
            Some(from) => number >= from,
            None => self.first.is_none() && number <= self.last_before,
        }
    }

    /// Time goes on: packets after `last_sent` may count from now on, in a fresh record. The pace
    /// in a start is a guess, and falls to the `delivered` bytes per second.
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

    /// Looks at the fates of the packets that count; loss up to `limit`, in 10^-6, is no worse than
    /// it was before, and more than `most` is never random. `None`: it goes on, maybe with another
    /// pace and a fresh record.
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
        // Only the rate that the path carries is left to measure, and that shows by now.
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
        // What the first step lost, if it was too much for a hidden hop, as it would be now.
        let both = first.and(&seen);
        let p = first.ppm();
        let middle = (p + hidden_ppm(p)) / 2;
        let pooled = both.ppm();
        let went =
            (seen.ppm() < middle && first.is_above(&seen, LIKELY)) || self.leaves_little(&both);
        // Loss of about a tenth in few packets means that others send too much.
        let few = pooled > limit && both.packets < packets_for(pooled.saturating_sub(SLACK_PPM));
        Some(if went || few || pooled > most + SLACK_PPM {
            Verdict::Hidden
        } else {
            Verdict::Random(pooled)
        })
    }

    /// Of the loss that began the trial, half or less is left, for certain.
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

/// The loss at a hidden hop, in 10^-6, once the rate was lowered by the second step: p_h = max(0, 1
/// − (1 − p) / f).
fn hidden_ppm(p: u64) -> u64 {
    1_000_000u64.saturating_sub(mul_div(1_000_000u64.saturating_sub(p), SECOND.1, SECOND.0))
}

/// Packets that distinguish p from p_h with 2.5 standard deviations each: 2 · 2.5² · p(1 − p) /
/// (½(p − p_h))².
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
