//! Start rules: how a loss-based window grows before its first cut.

#[cfg(test)]
mod tests;

use super::loss_based::{Growth, StartRule};
use crate::base::arith::{Carry, mul_div, rate};
use crate::base::{Duration, Instant};
use crate::law::Acked;

/// Slow start that ends only with a loss, or HyStart++, which can end earlier.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one per connection, where it is used"
)]
pub(crate) enum Ending {
    Loss(SlowStart),
    Early(HyStart),
}

impl Ending {
    pub(crate) fn new(early: bool) -> Self {
        if early {
            Self::Early(HyStart::default())
        } else {
            Self::Loss(SlowStart)
        }
    }
}

impl StartRule for Ending {
    fn on_ack(&mut self, acked: &Acked, last_sent: u64) -> Growth {
        match self {
            Self::Loss(rule) => rule.on_ack(acked, last_sent),
            Self::Early(rule) => rule.on_ack(acked, last_sent),
        }
    }
}

/// Slow start as in RFC 9002 §7.3.1: the window grows by the acknowledged bytes, until a loss.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlowStart;

impl StartRule for SlowStart {
    fn on_ack(&mut self, acked: &Acked, _last_sent: u64) -> Growth {
        Growth::plain(acked.bytes)
    }
}

// HyStart++ (RFC 9406): slow start that ends when the RTT rises, before the queue overflows.
//
// A rise of the round's minimum RTT leads to *conservative slow start*, which grows at a quarter
// of the speed for five rounds. If the RTT falls again during this time, the rise was jitter, and
// slow start resumes. Otherwise congestion avoidance begins.
//
// The RFC assumes an acknowledgement for every other packet, and rounds whose first packets
// already meet the queue. This implementation therefore also handles three other cases:
//
// - *Few acknowledgements.* This transport requests 16 acknowledgements per window, or 8 per round
//   trip. Four samples that stand for 16 packets count like the RFC's eight samples, which stand
//   for 16 packets.
// - *A rise within a round.* The round's minimum RTT is that of its first packets, so a queue that
//   grows behind them is noticed only a round later, when the window has doubled again. Therefore
//   each group of samples is compared with the longest RTT of the previous round. Exceeding it by
//   the threshold is a rise. Exceeding it by a quarter of the minimum RTT, or two thresholds,
//   indicates a queue with certainty and immediately ends slow start. Jitter lengthens the longest
//   RTT of the previous round as well.
// - *A rise without a queue of this sender.* If the RTT stays long, but half as much again is
//   delivered per time as at the beginning of conservative slow start, the path is not full.

/// RFC 9406 §4.3: the smallest and the largest rise that counts, and between them the share of the
/// last round's minimum RTT.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
/// RFC 9406 §4.3: a round with fewer samples is not judged.
const N_RTT_SAMPLE: u32 = 8;
/// RFC 9406 §4.3: slowness and length of conservative slow start.
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// Number of packets that `N_RTT_SAMPLE` samples stand for if every other packet is acknowledged
/// (RFC 9000 §13.2.2).
const PACKETS_OF_SAMPLES: u64 = 2 * N_RTT_SAMPLE as u64;
/// Minimum number of samples in a group, however many packets they stand for.
const LEAST_SAMPLES: u32 = 4;
/// A queue is certain above this part of the minimum RTT, or this number of thresholds.
const CERTAIN_DIVISOR: u32 = 4;
const CERTAIN_THRESHOLDS: u32 = 2;

/// Growth of the delivery rate since the first whole round of conservative slow start that shows
/// that a path is not full.
const RATE_GROWTH: (u64, u64) = (3, 2);

#[derive(Clone, Copy, Debug)]
struct Conservative {
    /// The minimum RTT of the samples that led to it.
    baseline: Duration,
    /// Number of completed rounds.
    rounds: u32,
    /// Delivery rate of its first whole round, in bytes per second.
    rate: Option<u64>,
    /// Acknowledged bytes that have not made up a whole byte of growth yet.
    carried: u64,
}

/// The range of RTTs in a round.
#[derive(Clone, Copy, Debug)]
struct Span {
    min: Duration,
    max: Duration,
}

impl Span {
    fn with(span: Option<Self>, rtt: Duration) -> Self {
        span.map_or(Self { min: rtt, max: rtt }, |span| Self {
            min: span.min.min(rtt),
            max: span.max.max(rtt),
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Delivered {
    since: Option<Instant>,
    bytes: u64,
}

impl Delivered {
    /// Ends the round at `now` and begins the next. Returns the rate of the round in bytes per
    /// second, if it is known.
    fn end(&mut self, now: Option<Instant>) -> Option<u64> {
        let ended = core::mem::replace(
            self,
            Self {
                since: now,
                bytes: 0,
            },
        );
        let time = now?.saturating_since(ended.since?);
        (time > Duration::ZERO).then(|| rate(ended.bytes, time, 1, 1))
    }
}

/// Successive samples of one round.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    samples: u32,
    packets: u64,
    min: Option<Duration>,
}

impl Group {
    /// Adds a sample that stands for `packets`. Returns the group's minimum RTT once it has enough
    /// samples.
    fn add(&mut self, rtt: Duration, packets: u64) -> Option<Duration> {
        self.samples = self.samples.saturating_add(1);
        self.packets = self.packets.saturating_add(packets);
        let min = self.min.map_or(rtt, |min| min.min(rtt));
        self.min = Some(min);
        let enough = self.samples >= N_RTT_SAMPLE
            || (self.samples >= LEAST_SAMPLES && self.packets >= PACKETS_OF_SAMPLES);
        if enough {
            *self = Self::default();
        }
        enough.then_some(min)
    }
}

/// HyStart++ as a start rule. Growth per acknowledgement is not limited (L = ∞), because the
/// transport paces.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyStart {
    /// The round ends when a packet after this one is acknowledged.
    round_end: Option<u64>,
    /// RTTs of the last round before conservative slow start if it has begun, otherwise of the last
    /// round.
    last: Option<Span>,
    current: Option<Span>,
    /// True if this round's samples stand for enough packets to be judged by their minimum.
    enough: bool,
    samples: Group,
    group: Group,
    delivered: Delivered,
    conservative: Option<Conservative>,
}

/// How much the minimum RTT must rise over `last_min` to count (RFC 9406 §4.2).
pub(crate) fn rtt_threshold(last_min: Duration) -> Duration {
    (last_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

impl HyStart {
    /// Follows rounds. Returns true if conservative slow start is over.
    fn follow_rounds(&mut self, acked: &Acked, last_sent: u64) -> bool {
        let ends = self.round_end.is_none_or(|end| acked.largest > end);
        let mut spent = false;
        if ends {
            let began = self.round_end.replace(last_sent).is_some();
            let rate = self.delivered.end(acked.rtt.map(|rtt| acked.sent_at + rtt));
            if began {
                spent = self.end_round(rate);
            }
        }
        self.delivered.bytes = self.delivered.bytes.saturating_add(acked.bytes);
        spent
    }

    /// Ends a round with delivery rate `rate`. Returns the same as
    /// [`follow_rounds`](Self::follow_rounds).
    fn end_round(&mut self, rate: Option<u64>) -> bool {
        let ended = self.current.take();
        self.enough = false;
        self.samples = Group::default();
        self.group = Group::default();
        if let Some(css) = &mut self.conservative {
            css.rounds += 1;
            if css.rounds == 2 {
                css.rate = rate;
            }
            let grows = css
                .rate
                .zip(rate)
                .is_some_and(|(first, rate)| rate >= mul_div(first, RATE_GROWTH.0, RATE_GROWTH.1));
            if !grows {
                return css.rounds >= CSS_ROUNDS;
            }
            // The delivery rate grows with the sending rate, so the rise of the RTT is not due to
            // our queue.
            self.conservative = None;
        }
        self.last = ended;
        false
    }

    /// Evaluates a sample that stands for `packets`. Returns true if there certainly is a queue.
    fn watch(&mut self, rtt: Duration, packets: u64) -> bool {
        let current = Span::with(self.current, rtt);
        self.current = Some(current);
        self.enough |= self.samples.add(rtt, packets).is_some();
        let group = self.group.add(rtt, packets);
        if !self.enough {
            return false;
        }
        if let Some(css) = self.conservative
            && current.min < css.baseline
        {
            self.conservative = None;
        }
        let Some(last) = self.last else { return false };
        let threshold = rtt_threshold(last.min);
        if let Some(least) = group {
            let certain = (last.min / CERTAIN_DIVISOR).max(threshold * CERTAIN_THRESHOLDS);
            if least >= last.max.saturating_add(certain) {
                return true;
            }
            if least >= last.max.saturating_add(threshold) {
                self.conserve(least);
            }
        }
        if current.min >= last.min.saturating_add(threshold) {
            self.conserve(current.min);
        }
        false
    }

    /// Begins conservative slow start; from now on, RTTs are compared with `baseline`.
    fn conserve(&mut self, baseline: Duration) {
        if self.conservative.is_some() {
            return;
        }
        self.conservative = Some(Conservative {
            baseline,
            rounds: 0,
            rate: None,
            carried: 0,
        });
        self.current = None;
        self.enough = false;
        self.samples = Group::default();
    }
}

impl StartRule for HyStart {
    fn on_ack(&mut self, acked: &Acked, last_sent: u64) -> Growth {
        let spent = self.follow_rounds(acked, last_sent);
        let queue = acked.rtt.is_some_and(|rtt| self.watch(rtt, acked.packets));
        if spent || queue {
            return Growth {
                bytes: 0,
                leave: true,
            };
        }
        match &mut self.conservative {
            Some(css) => {
                let due = css.carried.saturating_add(acked.bytes);
                css.carried = due % CSS_GROWTH_DIVISOR;
                Growth::plain(due / CSS_GROWTH_DIVISOR)
            }
            None => Growth::plain(acked.bytes),
        }
    }
}

// Limited Slow-Start (RFC 3742): above `max_ssthresh`, the window grows by about half of
// `max_ssthresh` per round trip, instead of by everything that was acknowledged.

/// `max_ssthresh` in packets if none is configured: the value of RFC 3742's tests.
pub(crate) const MAX_SSTHRESH: u32 = 100;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limited {
    rule: Ending,
    /// `max_ssthresh` in packets; `None`: growth is not limited.
    most: Option<u32>,
    growth: Carry,
}

impl Limited {
    pub(crate) fn new(rule: Ending, most: Option<u32>) -> Self {
        Self {
            rule,
            most,
            growth: Carry::default(),
        }
    }
}

impl StartRule for Limited {
    fn on_ack(&mut self, acked: &Acked, last_sent: u64) -> Growth {
        self.rule.on_ack(acked, last_sent)
    }

    /// Returns 1/K of the growth, with K = int(cwnd / (0.5 max_ssthresh)).
    fn limited(&mut self, bytes: u64, window: u64, mtu: u64) -> u64 {
        let Some(most) = self.most else {
            return bytes;
        };
        let most = u64::from(most.max(1)).saturating_mul(mtu.max(1));
        if window <= most {
            return bytes;
        }
        let parts = window.saturating_mul(2) / most;
        self.growth.add(u128::from(bytes), u128::from(parts.max(1)))
    }
}

#[cfg(test)]
mod limited_tests {
    use super::*;
    use crate::base::Instant;
    use crate::law::Controller;
    use crate::standard::cubic::Cubic;
    use crate::standard::loss_based::LossBased;
    use crate::testing::{acked, ms, sent};

    const MSS: u64 = 1000;

    fn limited(most: Option<u32>) -> Limited {
        Limited::new(Ending::new(false), most)
    }

    /// RFC 3742, section 2, for `max_ssthresh` of 100 packets: the window in packets, and the
    /// number of acknowledgements of one packet each that make the window one packet larger.
    #[test]
    fn the_rfcs_growth() {
        let slow = [(150, 3), (199, 3), (200, 4), (1000, 20), (4000, 80)];
        let fast = [(2, 1), (100, 1), (101, 2), (149, 2)];
        for (window, acknowledgements) in fast.into_iter().chain(slow) {
            let mut rule = limited(Some(MAX_SSTHRESH));
            let grown = |rule: &mut Limited, acknowledgements: u64| -> u64 {
                let each = (0..acknowledgements).map(|_| rule.limited(MSS, window * MSS, MSS));
                each.sum()
            };
            // The remainder of a division is not lost.
            let all = grown(&mut rule, 60 * acknowledgements);
            assert_eq!(all, 60 * MSS, "{window}");
            assert_eq!(limited(None).limited(MSS, window * MSS, MSS), MSS);
        }
    }

    /// According to the RFC, the start takes up to log2(max_ssthresh) + (cwnd - max_ssthresh) /
    /// (max_ssthresh / 2) round trips. Slow start without a limit takes log2(cwnd).
    #[test]
    fn the_rfcs_round_trips() {
        let rounds = |most: Option<u32>, until: u64| {
            let mut law = LossBased::new(1000, Some(2), Cubic::default(), limited(most));
            let (mut rounds, mut number) = (0u64, 0);
            while law.window() < until * MSS {
                rounds += 1;
                for _ in 0..law.window() / MSS {
                    law.on_sent(Instant::ZERO, &sent(number, MSS));
                    law.on_ack(Instant::ZERO, &acked(number, MSS, ms(100)));
                    number += 1;
                }
            }
            rounds
        };
        assert_eq!(rounds(None, 1024), 9);
        // From 2 packets to 128, followed by (1000 - 128) / 50.
        let limited = rounds(Some(100), 1000);
        assert!((6 + 13..=6 + 18).contains(&limited), "{limited}");
        // Every 5000 additional packets take 100 additional round trips.
        let more = rounds(Some(100), 15_000) - rounds(Some(100), 10_000);
        assert!((98..=100).contains(&more), "{more}");
    }
}
